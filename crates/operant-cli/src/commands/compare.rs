//! `operant compare`: scores of two sweeps or runs, and the settings that differ.

use operant_env::Registry;
use operant_metrics::plain;
use operant_run::Error;
use operant_sweep::Report;
use operant_sweep::html::number;
use operant_sweep::report::{Comparison, Side, compare, counted};

use super::{report, run_args, sweep};
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

The best configurations are compared, one environment at a time: interquartile
means, and the probability that a run of A scores higher than a run of B, each
with its 95% interval over seeds.";

/// Prints the comparison, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let paths = sweep::named(&parent, &[args.a.clone(), args.b.clone()])?;
    let [a, b] = [report::of(&paths[..1])?, report::of(&paths[1..])?];
    let found = compare(&a, &b);
    if found.is_empty() {
        let names = |report: &Report| {
            report.environments.iter().map(|part| part.env.clone()).collect::<Vec<_>>().join(", ")
        };
        let shared =
            a.environments.iter().any(|part| b.environments.iter().any(|other| other.env == part.env));
        let error = match shared {
            true => Error::usage("nothing to compare: A or B has no run with a score")
                .remedy("wait until a run has finished; `operant report` shows why runs failed"),
            false => {
                Error::usage(format!("nothing to compare: A is of {}, and B is of {}", names(&a), names(&b)))
                    .remedy("compare two of the same environment")
            }
        };
        return Err(error.into());
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
    let mut text = format!("{}\n", plain(&of.env));
    for (name, Side { label, score, seeds }) in [("A", &of.a), ("B", &of.b)] {
        let interval = match seeds {
            1 => String::new(),
            _ => format!(" ({} to {})", number(score.low), number(score.high)),
        };
        text.push_str(&format!(
            "  {name}  {}{interval}  {}, {}\n",
            number(score.value),
            plain(label),
            counted(*seeds, "seed")
        ));
    }
    if let Some(better) = &of.improvement {
        text.push_str(&format!(
            "  probability that a run of A scores higher than a run of B: {:.2} ({:.2} to {:.2})\n",
            better.value, better.low, better.high
        ));
    }
    for (key, a, b) in &of.differences {
        text.push_str(&format!("  {}\n", plain(&format!("{key}: {a} -> {b}"))));
    }
    text
}
