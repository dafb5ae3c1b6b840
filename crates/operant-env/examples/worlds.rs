//! Writes every file that lists the environments or holds what they emit; `cargo xtask worlds` runs it. `worlds NAME` prints what the
//! environment NAME emits instead.

use std::path::Path;

use operant_env::{AnyEnv, Registry, builtin};

/// The directory of the emitted CUDA.
pub const EMITTED: &str = "kernels/envs";
/// The table of hashes in it.
pub const HASHES: &str = "kernels/envs/hashes.txt";
/// Environments whose text is kept, to be read; of the others the hash is.
const READ: [&str; 6] = ["cartpole", "pendulum", "acrobot", "t_maze", "taxi", "minatar_breakout"];

/// All environments in order of their names, with the CUDA that each emits.
pub fn emitted(registry: &Registry) -> Vec<(String, String)> {
    let text = |env: &dyn AnyEnv| (env.spec().name, env.emit().expect("built-in environments emit CUDA"));
    let mut all: Vec<_> = registry.envs().iter().map(|env| text(&**env)).collect();
    all.sort();
    all
}

/// The row of an environment in the table of hashes, as `b3sum` prints and checks it.
pub fn row(name: &str, text: &str) -> String {
    format!("{}  {name}.cuh\n", blake3::hash(text.as_bytes()))
}

/// Each written file: its path below the workspace's root, and its text.
pub fn files(registry: &Registry) -> Vec<(String, String)> {
    let (read, hashed): (Vec<_>, Vec<_>) =
        emitted(registry).into_iter().partition(|(name, _)| READ.contains(&name.as_str()));
    let mut files: Vec<_> =
        read.into_iter().map(|(name, text)| (format!("{EMITTED}/{name}.cuh"), text)).collect();
    files.push((HASHES.into(), hashed.iter().map(|(name, text)| row(name, text)).collect()));
    files.push(("docs/worlds.md".into(), operant_env::markdown(registry)));
    files.push(("crates/operant-env/tests/support/worlds.rs".into(), tests(registry)));
    files
}

/// The list from which suites generate a test for each world.
fn tests(registry: &Registry) -> String {
    let list = |is_variant: bool| -> String {
        let specs = registry.specs().into_iter().filter(|spec| spec.variant_of.is_some() == is_variant);
        specs.map(|spec| format!("            {}\n", spec.name)).collect()
    };
    TESTS.replace("            WORLDS\n", &list(false)).replace("            VARIANTS\n", &list(true))
}

const TESTS: &str = r#"//! A test for each world, for suites that walk all of them. `cargo xtask worlds` writes this file; do not edit it.

/// Tests with the names of worlds, each with these attributes, that call a function with the name.
macro_rules! world_tests {
    ($(#[$attribute:meta])* $check:path: $($name:ident)*) => {
        world_tests! { @all [$(#[$attribute])*] $check: $($name)* }
    };
    (@all $attributes:tt $check:path: $($name:ident)*) => {$(
        world_tests! { @one $attributes $check: $name }
    )*};
    (@one [$(#[$attribute:meta])*] $check:path: $name:ident) => {
        #[test]
        $(#[$attribute])*
        fn $name() {
            $check(stringify!($name));
        }
    };
}

/// A test for each world with its own rules: `each_world! { #[ignore = "why"] check }`.
#[allow(unused_macros)] // not every suite needs both
macro_rules! each_world {
    ($($test:tt)*) => {
        world_tests! {
            $($test)*:
            WORLDS
        }
    };
}

/// A test for each variant of a world: another size, layout or action set.
#[allow(unused_macros)]
macro_rules! each_variant {
    ($($test:tt)*) => {
        world_tests! {
            $($test)*:
            VARIANTS
        }
    };
}
"#;

fn main() {
    let registry = builtin();
    if let Some(name) = std::env::args().nth(1) {
        let env = registry.find(&name).unwrap_or_else(|error| panic!("{error}"));
        return print!("{}", env.emit().expect("built-in environments emit CUDA"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in files(&registry) {
        if std::fs::read_to_string(root.join(&path)).ok().as_deref() != Some(&text) {
            std::fs::write(root.join(&path), text).unwrap_or_else(|error| panic!("{path}: {error}"));
            eprintln!("wrote {path}");
        }
    }
}
