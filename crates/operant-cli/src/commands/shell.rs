//! `operant completions` and `operant man`: completions and manual pages, generated from the command line's definition.

use clap::Command;
use clap_complete::Shell;

use crate::output;

/// Print the completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

const COMPLETIONS_HELP: &str = "\
Examples:
  operant completions bash > ~/.local/share/bash-completion/completions/operant
  operant completions zsh > ~/.zfunc/_operant
  operant completions fish > ~/.config/fish/completions/operant.fish";

/// Print the manual page, or write one for each command
#[derive(Debug, clap::Args)]
#[command(after_help = MAN_HELP)]
pub struct Man {
    /// Directory to write operant.1, operant-train.1 and so on to
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

const MAN_HELP: &str = "\
Examples:
  operant man | man -l -
  operant man --dir ~/.local/share/man/man1";

/// Prints the completions.
pub fn completions(args: &Completions, mut command: Command) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "operant", &mut text);
    output::print(&String::from_utf8(text)?)?;
    Ok(0)
}

/// Prints the page, or writes all of them.
pub fn man(args: &Man, command: Command) -> anyhow::Result<u8> {
    if let Some(dir) = &args.dir {
        clap_mangen::generate_to(command, dir).map_err(|error| {
            operant_run::Error::usage(format!("the pages cannot be written: {error}"))
                .at(dir.display().to_string())
                .remedy("name a directory that exists and can be written")
        })?;
        return Ok(0);
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    output::print(&String::from_utf8(text)?)?;
    Ok(0)
}
