//! `operant new`: writes a crate with an example environment, ready to train.

use std::fs;
use std::path::{Path, PathBuf};

use operant_run::{Error, path_text};

use crate::output;

/// Write a crate with an environment of your own, and the operant command that trains it
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Directory to create; its last part is the crate's name
    dir: PathBuf,
    /// Directory of operant's sources [default: the one that this program was built from]
    #[arg(long, value_name = "DIR")]
    operant: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  operant new mine && cd mine
  cargo test                             the rules of its environment, mine
  cargo run --release -- train mine

The environment is named after the directory. src/NAME.rs has it, written once:
the same source runs as scalar code, as SIMD code for 16 environments, and as a
CUDA kernel. docs/environments.md explains it. The first build compiles operant
too, which takes some minutes.";

/// Every file of the crate, with its text. `{name}` is the crate's name, `{env}` its environment's, `{type}` its type, `{path}` this library.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("new/template/manifest.toml")),
    (".cargo/config.toml", include_str!("new/template/cargo_config.toml")),
    (".gitignore", include_str!("new/template/gitignore")),
    ("README.md", include_str!("new/template/readme.md")),
    ("preset.toml", include_str!("new/template/preset.toml")),
    ("src/main.rs", include_str!("new/template/main.rs")),
    ("src/{env}.rs", include_str!("new/template/environment.rs")),
];

/// Writes the crate.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let name = crate_name(&args.dir)?;
    let env = env_name(&name, &args.dir)?;
    let library = library(args.operant.as_deref())?;
    if args.dir.exists() {
        return Err(Error::usage("the directory already exists")
            .at(args.dir.display().to_string())
            .remedy("name a directory that does not exist")
            .into());
    }
    // Debug formatting escapes quotes and backslashes in a path as TOML does.
    let path = toml_edit::Value::from(library.display().to_string()).to_string();
    let type_name = type_name(&env);
    let filled = |text: &str| {
        let text = text.replace("{name}", &name).replace("{path}", path.trim());
        text.replace("{env}", &env).replace("{type}", &type_name)
    };
    for (file, text) in FILES {
        let (file, text) = (args.dir.join(filled(file)), filled(text));
        let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, text));
        written.map_err(|error| Error::disk("cannot write", &file, &error))?;
    }
    let shown = path_text::quoted(&args.dir.to_string_lossy());
    output::print(&format!(
        "{name}: an environment, {env}, and the operant command with it\n  test   cd {shown} && cargo test\n  \
         train  cargo run --release -- train {env}\n  the first build compiles operant too: some minutes\n"
    ))?;
    Ok(0)
}

/// Names that cargo refuses for a program, and those of Rust's own crates.
const RESERVED: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if \
    impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe \
    unsized use virtual where while yield alloc core proc_macro proc-macro std test build deps examples incremental main";

/// The directory's last part, if it is a valid package name.
fn crate_name(dir: &Path) -> Result<String, Error> {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    // This library and its crates, which the new one depends on.
    let is_own =
        name.strip_prefix("operant").is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']));
    if is_own || RESERVED.split_whitespace().any(|word| word == name) {
        return Err(Error::usage(format!(
            "\"{name}\" cannot be the name of a crate: Rust, cargo or operant uses it"
        ))
        .at(dir.display().to_string())
        .remedy(format!("give another name, such as my-{name}")));
    }
    if starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Ok(name.to_owned());
    }
    Err(Error::usage(format!("\"{name}\" is not a valid crate name"))
        .at(dir.display().to_string())
        .remedy("give a directory whose last part is of letters, digits, - and _, a letter first"))
}

/// The name of the environment and of its module: the crate's in small letters, with `_` for `-`.
fn env_name(name: &str, dir: &Path) -> Result<String, Error> {
    let env = name.to_lowercase().replace('-', "_");
    if let Ok(known) = operant_env::builtin().find(&env) {
        return Err(Error::usage(format!("{} is an environment of operant already", known.spec().name))
            .at(dir.display().to_string())
            .remedy(format!("give another name, such as my-{name}")));
    }
    Ok(env)
}

/// Names that the template's module uses.
const TYPES: &str = "ActionSpace AnyEnv Arithmetic Bundle Case Default Draws Env EnvOption EnvSpec Err Float Lane LaneWidth Mask ObsSpace Ok \
    OptionError OptionValue Result Scene Self State Step Uint Vec";

/// The name of the environment's type: `MyEnv` for `my_env`.
fn type_name(env: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    let name: String = env.split('_').map(word).collect();
    if TYPES.split_whitespace().any(|taken| taken == name) { name + "World" } else { name }
}

/// The directory of this library's sources.
fn library(asked: Option<&Path>) -> Result<PathBuf, Error> {
    let dir = asked.map_or(PathBuf::from(env!("CARGO_MANIFEST_DIR")), |root| root.join("crates/operant-cli"));
    let found = dir.join("Cargo.toml").is_file().then(|| dir.canonicalize().ok()).flatten();
    found.ok_or_else(|| {
        Error::usage("the sources of operant are not found")
            .at(dir.display().to_string())
            .remedy("clone its repository, and give the directory as --operant DIR")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code between lines `// ...`, without indentation, comments and names of the template.
    fn pieces(text: &str) -> Vec<String> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let code = |lines: &[&str]| {
            let lines = lines.iter().filter(|line| !line.starts_with("//"));
            lines.map(|line| format!("{line}\n")).collect::<String>().replace("{type}", "Mine")
        };
        lines.split(|line| line.starts_with("// ...")).map(code).collect()
    }

    #[test]
    fn the_code_of_the_page_is_that_of_compiled_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |file: &&str| fs::read_to_string(root.join(file)).expect(file);
        let files = [
            "crates/operant-cli/src/commands/new/template/environment.rs",
            "crates/operant-env/src/breakout_large.rs",
            "crates/operant-env/src/craftax/blocks.rs",
            "crates/operant-env/src/craftax/generate.rs",
            "crates/operant-env/src/craftax/mod.rs",
            "crates/operant-env/src/snake.rs",
        ];
        let sources: Vec<String> = files.iter().flat_map(|file| pieces(&read(file))).collect();
        let page = read(&"docs/environments.md");
        let blocks: Vec<&str> =
            page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(blocks.len() >= 8, "{blocks:#?}");
        for piece in blocks.into_iter().flat_map(pieces) {
            assert!(
                sources.iter().any(|source| source.contains(&piece)),
                "{files:?} do not contain\n{piece}"
            );
        }
    }

    #[test]
    fn the_environment_is_named_after_the_crate() {
        for (name, env, type_name_of) in [
            ("lamplighter", "lamplighter", "Lamplighter"),
            ("my-Env_2", "my_env_2", "MyEnv2"),
            ("state", "state", "StateWorld"),
        ] {
            let found = env_name(name, Path::new(name)).expect("free");
            assert_eq!((found.as_str(), type_name(&found).as_str()), (env, type_name_of));
        }
        let taken = env_name("cartpole", Path::new("cartpole")).expect_err("built in");
        assert!(taken.what.contains("cartpole is an environment of operant already"), "{taken}");
    }

    #[test]
    fn a_crate_name_is_valid_for_cargo() {
        for good in ["mine", "a/b/my-env_2", "./x"] {
            assert!(crate_name(Path::new(good)).is_ok(), "{good}");
        }
        for bad in ["", "2d", "a b", "a/..", "-x", "größe", "x.y"] {
            let error = crate_name(Path::new(bad)).expect_err(bad);
            assert!(error.remedy.is_some_and(|remedy| remedy.contains("letter first")), "{bad}");
        }
        for taken in [
            "fn",
            "self",
            "std",
            "core",
            "proc_macro",
            "test",
            "build",
            "operant",
            "operant-cli",
            "a/operant_env",
        ] {
            let error = crate_name(Path::new(taken)).expect_err(taken);
            assert!(
                error.remedy.is_some_and(|remedy| remedy.starts_with("give another name, such as my-")),
                "{taken}"
            );
        }
        crate_name(Path::new("operants")).expect("another word");
    }
}
