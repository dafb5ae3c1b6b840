//! `operant completions` and `operant man`: completions in a shell, and manual pages, generated from the command line's definition.

use clap::Command;
use clap_complete::Shell;

use crate::complete::VARIABLE;
use crate::output;

/// Print the line that makes a shell complete environments, runs and settings
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

const COMPLETIONS_HELP: &str = "\
To install, for new shells:
  operant completions bash >> ~/.bashrc
  operant completions zsh >> ~/.zshrc                 below compinit
  operant completions fish > ~/.config/fish/completions/operant.fish

For the current shell only:
  eval \"$(operant completions bash)\"

The shell then runs operant to complete environments, runs, checkpoints,
settings and their values.";

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

/// Prints the line for the shell's start-up file.
pub fn completions(args: &Completions) -> anyhow::Result<u8> {
    output::print(&start_up(args.shell, output::program()))?;
    Ok(0)
}

/// What a start-up file needs, with how to put it there.
fn start_up(shell: Shell, program: &str) -> String {
    let (install, line) = match shell {
        Shell::Bash => (">> ~/.bashrc", format!("source <({VARIABLE}=bash {program})")),
        // Below compinit, which defines compdef.
        Shell::Zsh => (">> ~/.zshrc", format!("source <({VARIABLE}=zsh {program})")),
        Shell::Elvish => {
            (">> ~/.config/elvish/rc.elv", format!("eval (E:{VARIABLE}=elvish {program} | slurp)"))
        }
        Shell::PowerShell => (
            ">> $PROFILE",
            format!(
                "$env:{VARIABLE} = \"powershell\"; {program} | Out-String | Invoke-Expression; Remove-Item Env:\\{VARIABLE}"
            ),
        ),
        _ => ("> ~/.config/fish/completions/PROGRAM.fish", format!("{VARIABLE}=fish {program} | source")),
    };
    let install = install.replace("PROGRAM", program);
    format!(
        "# Completions of {program}. Install them with: {program} completions {shell} {install}\n{line}\n"
    )
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
