//! `operant compare`: which of two sweeps or runs is better, and what differs between them.

use operant_env::Registry;
use operant_run::Error;
use operant_sweep::Report;
use operant_sweep::html::number;
use operant_sweep::report::{Comparison, compare};
use operant_sweep::stats::Estimate;

use super::{place, report, sweep};
use crate::output;

/// Compare two sweeps, or two runs: scores, and what differs
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A sweep or a run
    a: String,
    /// Another one
    b: String,
    /// Print one JSON object per environment
    #[arg(long)]
    json: bool,
    /// Directory that holds sweeps and runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant compare rates-before rates-after
  operant compare run-a run-b

The best setting of each is compared, environment by environment: interquartile
means, and the probability that a run of A scores higher than a run of B, each
with its 95% interval over seeds.";

/// Prints the comparison, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = place::run_dir(registry, args.run_dir.as_deref())?;
    let paths = sweep::named(&parent, &[args.a.clone(), args.b.clone()])?;
    let [a, b] = [report::of(&paths[..1])?, report::of(&paths[1..])?];
    let found = compare(&a, &b);
    if found.is_empty() {
        let names = |report: &Report| {
            report.environments.iter().map(|part| part.env.clone()).collect::<Vec<_>>().join(", ")
        };
        let what = format!("nothing to compare: A is of {}, and B is of {}", names(&a), names(&b));
        return Err(Error::usage(what).remedy("give two of the same environment").into());
    }
    if args.json {
        let lines = found.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>()?;
        output::print(&(lines.join("\n") + "\n"))?;
    } else {
        output::print(&found.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(0)
}

fn text(of: &Comparison) -> String {
    let interval = |e: &Estimate| format!("{} ({} to {})", number(e.value), number(e.low), number(e.high));
    let mut text = format!("{}\n", of.env);
    for (name, side) in [("A", &of.a), ("B", &of.b)] {
        text.push_str(&format!(
            "  {name}  {}  {}, {} seeds\n",
            interval(&side.score),
            side.label,
            side.seeds
        ));
    }
    let better = &of.improvement;
    text.push_str(&format!(
        "  a run of A scores higher than one of B with probability {:.2} ({:.2} to {:.2})\n",
        better.value, better.low, better.high
    ));
    for (key, a, b) in &of.differences {
        text.push_str(&format!("  {key}: {a} -> {b}\n"));
    }
    text
}
