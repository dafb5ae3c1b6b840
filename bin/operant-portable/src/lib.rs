//! The whole of operant as one function. `cargo xtask release` compiles it for each level of x86-64 and gives each copy its own name.

#[cfg(feature = "level")]
mod level {
    use std::ffi::OsString;

    /// The `operant` command with this process's arguments; returns the exit code.
    #[expect(unsafe_code, reason = "the one function of this name in each copy, which the linker renames")]
    #[unsafe(no_mangle)]
    pub extern "C" fn operant_level_main() -> u8 {
        // Each copy has a standard library of its own, which takes the arguments when the process starts.
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        let program = std::env::current_exe().map_or_else(|_| "operant".into(), OsString::from);
        operant_cli::main_of(vec![program], arguments, &operant_cli::builtin())
    }
}
