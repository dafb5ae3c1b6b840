//! Prints the text of docs/worlds.md; `cargo xtask worlds-doc` puts it there.

fn main() {
    print!("{}", operant_env::markdown(&operant_env::builtin()));
}
