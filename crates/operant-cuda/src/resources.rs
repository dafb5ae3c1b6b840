//! The resources of each function of a program and the compiler's warnings, read from its log.

/// The resources of a kernel, as the assembler reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub kernel: String,
    /// Registers per thread, those of called functions included.
    pub registers: u32,
    /// Bytes of stack per thread at the deepest call.
    pub stack: u32,
    /// Bytes of static shared memory per block.
    pub shared: u32,
    /// The kernel itself, then every called function that is not inlined.
    pub functions: Vec<FunctionUse>,
}

/// One function within a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionUse {
    /// Its name, mangled as the compiler does.
    pub name: String,
    /// Bytes of its own stack frame.
    pub frame: u32,
    /// Bytes of spill stores per thread, summed over the code.
    pub spill_stores: u32,
    /// Bytes of spill loads per thread.
    pub spill_loads: u32,
}

/// Reads the log of `--ptxas-options=-v`. Per kernel it has these lines, those of the called functions last:
///
/// ```text
/// ptxas info    : Compiling entry function 'rollout' for 'sm_90'
/// ptxas info    : Function properties for rollout
///     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
/// ptxas info    : Used 165 registers, used 1 barriers, 8 bytes cumulative stack size, 16 bytes smem, 528 bytes cmem[0]
/// ptxas info    : Function properties for _Z7forwardPKf
///     0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
/// ```
pub(crate) fn parse(log: &str) -> Vec<Resources> {
    let mut kernels: Vec<Resources> = Vec::new();
    for line in log.lines() {
        if let Some(name) = quoted_after(line, "Compiling entry function '") {
            kernels.push(Resources { kernel: name.to_owned(), ..Resources::default() });
        }
        let Some(kernel) = kernels.last_mut() else { continue };
        if let Some((_, name)) = line.split_once("Function properties for ") {
            let name = name.trim().trim_matches('\'').to_owned();
            kernel.functions.push(FunctionUse { name, ..FunctionUse::default() });
        } else if line.contains(": Used ") {
            kernel.registers = number_before(line, " registers");
            kernel.stack = number_before(line, " bytes cumulative stack size");
            kernel.shared = number_before(line, " bytes smem");
        } else if line.contains(" bytes stack frame")
            && let Some(function) = kernel.functions.last_mut()
        {
            function.frame = number_before(line, " bytes stack frame");
            function.spill_stores = number_before(line, " bytes spill stores");
            function.spill_loads = number_before(line, " bytes spill loads");
        }
    }
    kernels
}

/// Warnings of the compiler and the assembler in the log.
pub(crate) fn warnings(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains(": warning ") || line.starts_with("ptxas warning")).collect()
}

fn quoted_after<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    line.split_once(start)?.1.split('\'').next()
}

/// The number before `unit`; 0 if the line does not have it.
fn number_before(line: &str, unit: &str) -> u32 {
    let Some((before, _)) = line.split_once(unit) else { return 0 };
    before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
common.cuh(16): warning #1556-D: invalid type of dynamic shared array

ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'rollout' for 'sm_90'
ptxas info    : Function properties for rollout
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 165 registers, used 1 barriers, 72 bytes cumulative stack size, 16 bytes smem, 528 bytes cmem[0]
ptxas info    : Compile time = 11.5 ms
ptxas info    : Function properties for _Z6helperPKf
    64 bytes stack frame, 60 bytes spill stores, 56 bytes spill loads
ptxas info    : Compiling entry function 'gae' for 'sm_90'
ptxas info    : Function properties for gae
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
";

    #[test]
    fn every_function_has_its_own_numbers() {
        let function = |name: &str, frame, spill_stores, spill_loads| FunctionUse {
            name: name.to_owned(),
            frame,
            spill_stores,
            spill_loads,
        };
        let expected = [
            Resources {
                kernel: "rollout".to_owned(),
                registers: 165,
                stack: 72,
                shared: 16,
                functions: vec![function("rollout", 8, 4, 12), function("_Z6helperPKf", 64, 60, 56)],
            },
            Resources {
                kernel: "gae".to_owned(),
                registers: 8,
                functions: vec![function("gae", 0, 0, 0)],
                ..Resources::default()
            },
        ];
        assert_eq!(parse(LOG), expected);
    }

    #[test]
    fn other_text_has_no_kernels() {
        assert_eq!(parse(""), []);
        assert_eq!(parse("warning: 3 registers were Used : Used 4 registers\n"), []);
    }

    #[test]
    fn warnings_are_those_of_the_compiler_and_the_assembler() {
        assert_eq!(warnings(LOG), ["common.cuh(16): warning #1556-D: invalid type of dynamic shared array"]);
        assert_eq!(
            warnings("ptxas warning : too much\nptxas info : no warning\n"),
            ["ptxas warning : too much"]
        );
    }
}
