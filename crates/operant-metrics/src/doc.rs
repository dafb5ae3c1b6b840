//! Generates docs/metrics.md from the table.

use std::fmt::Write;

use crate::METRICS;

/// The text of `docs/metrics.md`: one section per group, one row per metric.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Every figure that a training run publishes, once per update. The names below are the columns of `metrics.csv`\n\
         and, behind their group and a slash, the tags in TensorBoard (`losses/policy_loss`), whose step is `env_steps`.\n\
         A *counter* never decreases; a *gauge* with nothing to report (no episode ended, say) is an empty cell in the CSV\n\
         and absent from TensorBoard.\n\n\
         An environment can have metrics of its own, at most 32, measured where an episode ends, such as `success`: they follow\n\
         these, as columns of the CSV, tags `env/success`, curves in the monitor and keys of callbacks. Each is the mean over the\n\
         episodes that ended in the update; `eval_metrics` in `result.json` is the mean over the evaluation. A metric can be the\n\
         score of such rates, exp(mean of ln(1 + rate in percent)) - 1 as in Crafter (Hafner 2021), computed from these means:\n\
         with few episodes it is noisy and biased low. It is empty if one of its rates is. Declare metrics\n\
         [in Rust](environments.md), with `metrics` [of a world in Python](your-own-world.md), or with\n\
         `--set env.metrics=is_success,score` for keys of a Gymnasium environment's `info`.\n\n\
         This file is made from the table in `crates/operant-metrics/src/table.rs` by `cargo xtask metrics-doc`.\n",
    );
    let mut group = "";
    for metric in METRICS {
        if metric.group != group {
            group = metric.group;
            let _ =
                write!(text, "\n## {group}\n\n| name | unit | kind | meaning |\n| --- | --- | --- | --- |\n");
        }
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.unit,
            metric.kind.name(),
            metric.help
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_row_and_every_group_one_section() {
        let text = markdown();
        for metric in METRICS {
            assert_eq!(text.matches(&format!("\n| `{}` |", metric.name)).count(), 1, "{}", metric.name);
            assert_eq!(text.matches(&format!("\n## {}\n", metric.group)).count(), 1, "{}", metric.group);
        }
    }
}
