//! What tuning found, for a person.

use comfy_table::{CellAlignment, ContentArrangement, Table};
use operant_bench::bench::verdict::Verdict;
use operant_bench::measure::Spread;
use operant_bench::tune::choice::shown;
use operant_bench::tune::{Goal, Report, TrialOutcome, TriedSettings};

use crate::commands::bench::show::STYLE;

/// Everything: what was tried, and what it comes to.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n", table(report));
    for note in &report.notes {
        text.push_str(&format!("{note}\n"));
    }
    text.push_str(&format!("{}\n", outcome(report)));
    if let Some(gain) = report.machine_gain {
        let share = 100.0 / gain;
        text.push_str(&format!(
            "the machine's automatic settings reach {share:.1}% of the best that was found, learning unchanged\n"
        ));
    }
    text
}

/// What was found, in a line.
pub fn outcome(report: &Report) -> String {
    let Report { goal, gain, automatic, best, verdict, .. } = report;
    let of = |spread: &Spread| {
        let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| goal.shown(value));
        format!("{median} ({min} .. {max})")
    };
    match verdict {
        Verdict::Faster => format!(
            "{} x in {goal} over the automatic settings: {}, which had {}: {}",
            factor(*gain),
            of(best),
            of(automatic),
            shown(&report.choice)
        ),
        _ => format!("nothing better than the automatic settings was found: {goal} {}", of(automatic)),
    }
}

fn factor(Spread { median, min, max }: Spread) -> String {
    format!("{median:.2} ({min:.2} .. {max:.2})")
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["settings", "measured", "min .. max", "rounds", "times better", "outcome"]);
    for tried in &report.tried {
        table.add_row(row(report, tried));
    }
    for number in 1..5 {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(report: &Report, tried: &TriedSettings) -> Vec<String> {
    // Settings of the machine are judged by their speed, whatever the goal.
    let goal = if tried.is_speed { Goal::Sps } else { report.goal };
    let known = |text: String| if tried.values.is_empty() { "-".to_owned() } else { text };
    let values = Spread::of(tried.values.clone());
    let ratio = if tried.outcome == TrialOutcome::Reference {
        "1".to_owned()
    } else {
        factor(Spread::of(tried.ratios.clone()))
    };
    let mut outcome = tried.outcome.problem().unwrap_or_else(|| tried.outcome.word().to_owned());
    if tried.solved > 0 {
        let plural = if tried.solved == 1 { "" } else { "s" };
        outcome.push_str(&format!("; solved under {} seed{plural}", tried.solved));
    }
    vec![
        shown(&tried.choice),
        known(goal.shown(values.median) + if goal == Goal::Sps { "/s" } else { "" }),
        known(format!("{} .. {}", goal.shown(values.min), goal.shown(values.max))),
        tried.values.len().to_string(),
        known(ratio),
        outcome,
    ]
}
