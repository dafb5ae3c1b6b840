//! The cost of the metrics ring: publishing a record, compared with a plain copy of its words; attaching to a run of a million
//! updates; a monitor that shows a live run; and in steps per second of `operant train cartpole`, without a ring, with one, and with eight
//! monitors. `cargo bench -p benches --bench ring [-- publish | attach | live | train]`
//!
//! Times are medians of repetitions that alternate, with their extremes. Nothing is asserted about them.

use std::process::ExitCode;

use anyhow::{Result, bail};

#[path = "ring/attach.rs"]
mod attach;
#[path = "ring/cores.rs"]
mod cores;
#[path = "ring/live.rs"]
mod live;
#[path = "ring/monitors.rs"]
mod monitors;
#[path = "ring/publish.rs"]
mod publish;
#[path = "../../crates/operant-monitor/examples/synthetic/mod.rs"]
mod synthetic;
#[path = "ring/training.rs"]
mod training;

fn main() -> ExitCode {
    // This program again, as the process in which readers poll.
    if let Some(result) = publish::poll_if_asked() {
        return exit_code(result);
    }
    // Cargo adds `--bench`.
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    exit_code(run(&asked))
}

fn exit_code(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and prints.
type Part = fn() -> Result<()>;

/// The measurements, in order, each with its name.
const PARTS: [(&str, Part); 4] =
    [("publish", publish::run), ("attach", attach::run), ("live", live::run), ("train", training::run)];

fn run(asked: &[String]) -> Result<()> {
    if let Some(unknown) = asked.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        bail!(
            "there is no part `{unknown}`; use: cargo bench -p benches --bench ring [-- publish | attach | live | train]"
        );
    }
    println!("{} cores; medians of repetitions (min .. max)", cores::allowed()?.len());
    for (name, part) in PARTS {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            part()?;
        }
    }
    Ok(())
}
