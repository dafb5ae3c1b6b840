//! The command line of operant, which a program runs by calling [`main`]: one file per subcommand in `commands/`, one
//! error reporter, one exit point.

#![forbid(unsafe_code)]

mod bar;
mod colour;
mod commands;
mod complete;
mod daemon;
mod hints;
mod output;
mod report;
mod table;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, Parser, Subcommand};
use operant_env::Registry;
use operant_learn::cpu::isa;
use operant_run::invocation;

/// Environments, lanes and spaces, for crates with their own environment.
pub use operant_env as env;
pub use operant_env::builtin;

/// Sweeps on a Ray cluster, for the Python package.
pub use commands::ray;

/// Trains reinforcement-learning agents with PPO, PQN, SAC, TD3 or DQN, on CPUs and NVIDIA GPUs.
#[derive(Debug, Parser)]
#[command(name = "operant", version, max_term_width = 100, styles = colour::STYLES, after_help = AFTER_HELP)]
struct Cli {
    /// When to colour the output [default: auto, which follows NO_COLOR and CLICOLOR_FORCE]
    #[arg(long, global = true, value_name = "WHEN", hide_default_value = true, default_value_t)]
    color: colour::When,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  operant train cartpole          learn CartPole-v1 in about a second
  operant train pendulum --json   one JSON object with the result on stdout
  operant train cartpole --detach the same as a daemon
  operant sweep cartpole --seeds 10 --set learning_rate=1e-3,1e-2
                                  many runs; operant report SWEEP compares them
  operant monitor                 watch the runs that train now
  operant runs                    list runs; operant show RUN shows one
  operant note RUN TEXT           write a note about it; tag RUN TAG tags it
  operant stop RUN                end it with a checkpoint; pause RUN pauses it
  operant resume RUN              continue it, paused or ended
  operant eval RUN                play a run's latest checkpoint greedily
  operant play RUN                watch its agent; --record FILE writes a film
  operant export RUN --onnx FILE  write its policy for other programs
  operant config cartpole         the settings of a run and their origins
  operant info                    what this machine has, and what is missing
  operant bench                   how fast it is, in a minute
  operant tune cartpole           find faster settings for this machine
  operant new mine                a crate with an environment of your own

Exit codes:
  0    finished                       75        stopped by a signal with a
  1    failed                                   checkpoint saved
  2    bad usage or configuration     130, 143  ended at once by a second
  70   a bug in operant                         SIGINT, SIGTERM";

#[derive(Debug, Subcommand)]
enum Command {
    Train(commands::train::Args),
    Sweep(commands::sweep::Args),
    Report(commands::report::Args),
    Compare(commands::compare::Args),
    League(commands::league::Args),
    Monitor(commands::monitor::Args),
    Runs(commands::runs::Args),
    Show(commands::show::Args),
    Note(commands::note::Args),
    Tag(commands::tag::Args),
    Pause(commands::pause::Args),
    Resume(commands::resume::Args),
    Stop(commands::stop::Args),
    Checkpoint(commands::checkpoint::Args),
    Rm(commands::rm::Args),
    Eval(commands::eval::Args),
    Play(commands::play::Args),
    Export(commands::export::Args),
    Envs(commands::envs::Args),
    Config(commands::config::Args),
    Info(commands::info::Args),
    Replay(commands::replay::Args),
    Selftest(commands::selftest::Args),
    Bench(commands::bench::Args),
    Tune(commands::tune::Args),
    Emit(commands::emit::Args),
    New(commands::new::Args),
    Completions(commands::shell::Completions),
    Man(commands::shell::Man),
}

/// Runs the command of this process's arguments with these environments, and returns the exit code.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     operant_cli::main(operant_cli::builtin()) // .with(MyEnv)
/// }
/// ```
pub fn main(registry: Registry) -> ExitCode {
    ExitCode::from(run(&registry, std::env::args_os().collect()))
}

/// As [`main`], in a process that is not the program's own, such as Python's: `program` are the words that start this command, and
/// `arguments` those after them. Returns the exit code.
pub fn main_of(program: Vec<OsString>, arguments: Vec<OsString>, registry: &Registry) -> u8 {
    let words = std::iter::once("operant".into()).chain(arguments.iter().cloned()).collect();
    invocation::declare(program, arguments);
    let code = run(registry, words);
    // Rust does this itself only at the end of its own programs.
    let _ = std::io::stdout().flush();
    code
}

/// Runs the command of these words, the program's name first, and returns the exit code.
fn run(registry: &Registry, words: Vec<OsString>) -> u8 {
    let started = Instant::now();
    if let Some(code) = complete::answer(registry, &words) {
        return code;
    }
    if daemon::is_daemon() {
        daemon::leave_session();
    }
    colour::choose(&words);
    report::install_panic_hook();
    output::started_by(words.first().map_or(OsStr::new("operant"), OsString::as_os_str));
    if let Some(warning) = speed_warning(isa::SET.fused) {
        output::warn(warning);
    }
    let of_command =
        |word: &OsString| Cli::command().find_subcommand(word).map(|it| it.get_name().to_owned());
    let command = words.iter().skip(1).find_map(of_command).unwrap_or_default();
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors of clap too, with code 0. A closed pipe is not a failure.
            let takes_config =
                |it: &clap::Command| it.get_arguments().any(|arg| arg.get_long() == Some("config"));
            let has_settings = Cli::command().find_subcommand(&command).is_some_and(takes_config);
            let error = hints::explain(error, has_settings);
            if output::is_operant() || !error.use_stderr() {
                let _ = error.print();
            } else {
                output::note_painted(error.render().ansi().to_string().trim_end());
            }
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let outcome = match cli.command {
        Command::Train(args) => commands::train::run(&args, registry, started),
        Command::Sweep(args) => commands::sweep::run(&args, registry),
        Command::Report(args) => commands::report::run(&args, registry),
        Command::Compare(args) => commands::compare::run(&args, registry),
        Command::League(args) => commands::league::run(&args, registry),
        Command::Monitor(args) => commands::monitor::run(&args, registry),
        Command::Runs(args) => commands::runs::run(&args, registry),
        Command::Show(args) => commands::show::run(&args, registry),
        Command::Note(args) => commands::note::run(&args, registry),
        Command::Tag(args) => commands::tag::run(&args, registry),
        Command::Pause(args) => commands::pause::run(&args, registry),
        Command::Resume(args) => commands::resume::run(&args, registry, started),
        Command::Stop(args) => commands::stop::run(&args, registry),
        Command::Rm(args) => commands::rm::run(&args, registry),
        Command::Checkpoint(args) => commands::checkpoint::run(&args, registry),
        Command::Eval(args) => commands::eval::run(&args, registry),
        Command::Play(args) => commands::play::run(&args, registry),
        Command::Export(args) => commands::export::run(&args, registry),
        Command::Envs(args) => commands::envs::run(&args, registry),
        Command::Config(args) => commands::config::run(&args, registry),
        Command::Info(args) => commands::info::run(&args, registry),
        Command::Replay(args) => commands::replay::run(&args, registry),
        Command::Selftest(args) => commands::selftest::run(&args, registry),
        Command::Bench(args) => commands::bench::run(&args, registry),
        Command::Tune(args) => commands::tune::run(&args, registry),
        Command::New(args) => commands::new::run(&args),
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man(args) => commands::shell::man(&args, Cli::command()),
        Command::Emit(args) => commands::emit::run(&args, registry),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => report::report(&error),
    }
}

/// The warning of a build in which every fused multiply-add is a function call.
fn speed_warning(has_fused: bool) -> Option<&'static str> {
    // The portable program has taken the best level that the processor has.
    let is_of_a_level = option_env!("OPERANT_LEVEL").is_some();
    (!has_fused).then_some(if is_of_a_level {
        "this processor has no fused multiply-adds of vectors: training gives the same bits and is far slower"
    } else {
        "this program was built without fused multiply-adds of vectors: training gives the same bits and is about 85 times slower\n  \
         remedy: build it with RUSTFLAGS=\"-C target-cpu=native\", or with the .cargo/config.toml that `operant new` writes"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_80_columns() {
        let cli = Cli::command();
        let commands = std::iter::once(&cli).chain(cli.get_subcommands());
        for command in commands {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn a_build_without_fused_multiply_adds_warns_with_a_remedy() {
        assert_eq!(speed_warning(true), None);
        let warning = speed_warning(false).expect("a warning");
        assert!(warning.contains("85 times slower") && warning.contains("target-cpu=native"), "{warning}");
    }
}
