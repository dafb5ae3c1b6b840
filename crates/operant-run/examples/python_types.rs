//! Prints the types of Python's keywords; `cargo xtask config-doc` writes them into the package.

fn main() {
    print!("{}", operant_run::config::python_types());
}
