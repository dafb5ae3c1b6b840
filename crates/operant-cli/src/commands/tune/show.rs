//! What tuning found, for a person.

use operant_bench::bench::verdict::Verdict;
use operant_bench::measure::Spread;
use operant_bench::tune::choice::shown;
use operant_bench::tune::{Goal, Report, TrialOutcome, TriedSettings};
use operant_metrics::printable;

use crate::table::{self, Column};

/// Everything: what was tried, painted, and what it comes to.
pub fn text(report: &Report) -> String {
    table(report) + &printable(&conclusion(report))
}

fn conclusion(report: &Report) -> String {
    let mut text = String::new();
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

fn table(report: &Report) -> String {
    let columns = [
        Column::left("settings", 0),
        Column::right("measured", 0),
        Column::right("min .. max", 2),
        Column::right("rounds", 1),
        Column::right("times better", 0),
    ];
    let rows: Vec<table::Row> = report.tried.iter().map(|tried| row(report, tried)).collect();
    table::text(&columns, "outcome", &rows)
}

fn row(report: &Report, tried: &TriedSettings) -> table::Row {
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
    let cells = vec![
        shown(&tried.choice),
        known(goal.shown(values.median) + if goal == Goal::Sps { "/s" } else { "" }),
        known(format!("{} .. {}", goal.shown(values.min), goal.shown(values.max))),
        tried.values.len().to_string(),
        known(ratio),
    ];
    table::Row { cells, note: outcome, ..table::Row::default() }
}
