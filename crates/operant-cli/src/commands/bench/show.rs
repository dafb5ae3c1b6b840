//! Rows and profiles for a person.

use operant_bench::bench::plan::BenchPlan;
use operant_bench::bench::row::Row;
use operant_bench::measure::Spread;
use operant_bench::profile::{Operation, Profile};
use operant_metrics::printable;
use operant_run::progress::short;

use crate::table::{self, Column};

/// Above this share of the median the middle half of repetitions is far apart.
const BUSY: f64 = 0.1;

/// Everything, painted: the table, the limits that its fractions are of, and the profiles.
pub fn text(plan: &BenchPlan, rows: &[Row]) -> String {
    let mut text = table(rows);
    for line in limits(plan, rows) {
        text.push_str(&table::lines(&printable(&line)));
    }
    for row in rows {
        if let Some(profile) = &row.profile {
            text.push_str(&self::profile(row, profile));
        }
    }
    text
}

fn table(rows: &[Row]) -> String {
    let mut columns = vec![
        Column::left("bench", 0),
        Column::left("environment", 0),
        Column::left("device", 2),
        Column::right("envs", 0),
        Column::right("threads", 1),
        Column::right("steps/s", 0),
        Column::right("min .. max", 4),
        Column::right("reps", 7),
        Column::right("a core", 6),
        Column::right("FLOP/step", 8),
        Column::right("of peak", 3),
        Column::right("B/step", 9),
        Column::right("of memory", 5),
    ];
    if rows.iter().any(|row| row.comparison.is_some()) {
        columns.extend([Column::right("was", 1), Column::left("verdict", 0)]);
    }
    let rows: Vec<table::Row> =
        rows.iter().map(|row| table::Row { cells: cells(row), ..table::Row::default() }).collect();
    table::text(&columns, "", &rows)
}

fn cells(row: &Row) -> Vec<String> {
    let device = match row.precision {
        "f32" => row.device.clone(),
        precision => format!("{} {precision}", row.device),
    };
    let mut cells = vec![
        row.bench.to_string(),
        row.env.clone(),
        device,
        row.envs.to_string(),
        row.threads.map_or_else(|| "-".to_owned(), |threads| threads.to_string()),
        short(row.sps.median),
        format!("{} .. {}", short(row.sps.min), short(row.sps.max)),
        row.reps.to_string(),
        row.sps_per_core().map_or_else(|| "-".to_owned(), short),
        row.flops_per_step.map_or_else(|| "-".to_owned(), short),
        row.fraction_of_peak().map_or_else(|| "-".to_owned(), percent),
        few(row.bytes_per_step),
        percent(row.fraction_of_bandwidth()),
    ];
    if let Some(comparison) = &row.comparison {
        let was = comparison.before.map_or_else(|| "-".to_owned(), |[median, ..]| short(median));
        cells.push(was);
        cells.push(match comparison.before {
            Some(_) => {
                format!("{} ({:+.1}%)", comparison.verdict.name(), 100.0 * (comparison.ratio - 1.0))
            }
            None => comparison.verdict.name().to_owned(),
        });
    }
    cells
}

/// One line for each device, number of threads and precision that limits were measured for: over all rows.
fn limits(plan: &BenchPlan, rows: &[Row]) -> Vec<String> {
    let mut seen: Vec<(&str, Option<usize>, &str)> = Vec::new();
    let mut lines = Vec::new();
    for row in rows {
        let key = (row.device.as_str(), row.threads, row.precision);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let alike = rows.iter().filter(|row| (row.device.as_str(), row.threads, row.precision) == key);
        let peaks: Vec<Spread> =
            alike.filter(|row| row.flops_per_step.is_some()).map(|row| row.peak_flops).collect();
        let place = plan.devices.iter().find(|place| place.name() == row.device);
        let about = place.map_or("", |place| place.about());
        let threads = match row.threads {
            Some(1) => ", 1 thread".to_owned(),
            Some(threads) => format!(", {threads} threads"),
            None => String::new(),
        };
        let flops = together(&peaks).map_or_else(String::new, |peak| {
            format!("{} FLOP/s of multiply-adds in {}, ", spread(peak), row.precision)
        });
        lines.push(format!(
            "{} ({about}{threads}): {flops}{} B/s of memory, measured together with the rows",
            row.device,
            spread(row.bandwidth)
        ));
    }
    let busy = rows.iter().map(|row| row.middle_half).filter(|half| half.is_finite()).fold(0.0, f64::max);
    if busy > BUSY {
        lines.push(format!(
            "repetitions differ by up to {}, the least and the greatest aside: does anything else run here?",
            percent(busy)
        ));
    }
    lines
}

/// The median of medians, with the extremes of all; None of none.
fn together(spreads: &[Spread]) -> Option<Spread> {
    let median = Spread::of(spreads.iter().map(|spread| spread.median).collect()).median;
    let min = spreads.iter().map(|spread| spread.min).reduce(f64::min)?;
    let max = spreads.iter().map(|spread| spread.max).reduce(f64::max)?;
    Some(Spread { median, min, max })
}

fn profile(row: &Row, profile: &Profile) -> String {
    let threads = row.threads.map_or_else(String::new, |threads| format!(", {threads} threads"));
    let about = format!(
        "where the time of training goes: {} on {}, {}, {} environments{threads}: {} per update",
        row.env,
        row.device,
        row.precision,
        row.envs,
        duration(profile.period)
    );
    let mut text = format!("\n{}", table::lines(&printable(&about)));
    let phases = profile.phases;
    let phase = |name: &str, seconds: f64| match seconds.is_nan() {
        true => format!("{name} inside the rollout"),
        false => format!("{name} {} ({})", duration(seconds), percent(seconds / profile.period)),
    };
    text.push_str(&table::lines(&format!(
        "phases: {}, {}, {}",
        phase("rollout", phases.rollout),
        phase("gae", phases.gae),
        phase("update", phases.update)
    )));
    text.push_str(&operations(profile));
    let (bottleneck, share) = profile.bottleneck();
    text.push_str(&table::lines(&format!(
        "bottleneck: {}, {} of the time; {}",
        bottleneck.name(),
        percent(share),
        bottleneck.advice()
    )));
    for way in profile.ways() {
        text.push_str(&table::lines(&format!("  {}", way.meaning())));
    }
    for note in &profile.notes {
        text.push_str(&table::lines(&printable(&format!("  {note}"))));
    }
    text
}

fn operations(profile: &Profile) -> String {
    let total = profile.total();
    let columns = [
        Column::left("phase", 0),
        Column::left("operation", 0),
        Column::right("time", 0),
        Column::right("share", 0),
        Column::right("calls", 3),
        Column::right("bytes", 2),
        Column::left("kind", 0),
        Column::left("how", 1),
    ];
    let known = |x: f64, shown: String| if x.is_nan() { "-".to_owned() } else { shown };
    let row = |operation: &Operation| table::Row {
        cells: vec![
            operation.phase.name().to_owned(),
            operation.name.to_owned(),
            duration(operation.seconds),
            percent(operation.seconds / total),
            known(operation.calls, short(operation.calls)),
            known(operation.bytes, short(operation.bytes)),
            operation.kind.name().to_owned(),
            operation.how.name().to_owned(),
        ],
        ..table::Row::default()
    };
    table::text(&columns, "", &profile.operations.iter().map(row).collect::<Vec<_>>())
}

fn spread(spread: Spread) -> String {
    format!("{} ({} .. {})", short(spread.median), short(spread.min), short(spread.max))
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// A small number with the digits that it needs.
fn few(x: f64) -> String {
    if x < 10.0 { format!("{x:.1}") } else { format!("{x:.0}") }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_bench::bench::Bench;
    use operant_bench::bench::row::made_up as row;
    use operant_bench::bench::verdict::{Comparison, Verdict};
    use operant_bench::measure::Phases;
    use operant_bench::profile::{Operation, OperationKind, Phase, TimingMethod};

    #[test]
    fn a_table_has_a_line_a_row_and_the_verdict_where_there_is_one() {
        let env = row(Bench::Env, [2.5e8, 2.4e8, 2.6e8]);
        let text = table(std::slice::from_ref(&env)).to_string();
        assert!(text.contains("250.00M") && text.contains("125.00M") && !text.contains("verdict"), "{text}");
        let comparison = Comparison { verdict: Verdict::Faster, before: Some([2e8; 3]), ratio: 1.25 };
        let text = table(&[Row { comparison: Some(comparison), ..env }]).to_string();
        assert!(text.contains("faster (+25.0%)") && text.contains("200.00M"), "{text}");
        let comparison = Comparison { verdict: Verdict::New, before: None, ratio: f64::NAN };
        let text = table(&[Row { comparison: Some(comparison), ..row(Bench::Train, [1e6; 3]) }]).to_string();
        assert!(text.contains("new") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn a_profile_names_the_bottleneck_and_how_each_figure_came_about() {
        let operation = |kind, seconds, how| Operation {
            phase: Phase::Update,
            name: "work",
            kind,
            seconds,
            calls: f64::NAN,
            bytes: 1e6,
            how,
        };
        let made_up = Profile {
            period: 0.01,
            phases: Phases { rollout: 0.004, gae: f64::NAN, update: 0.006 },
            operations: vec![
                operation(OperationKind::Policy, 0.007, TimingMethod::Timers),
                operation(OperationKind::Synchronisation, 0.003, TimingMethod::Left),
            ],
            notes: vec!["a note".to_owned()],
        };
        let text = profile(&row(Bench::Train, [1e6; 3]), &made_up);
        for part in [
            "bottleneck: policy, 70.0% of the time",
            "rollout 4.00 ms (40.0%), gae inside the rollout, update 6.00 ms (60.0%)",
            "timers: ",
            "left: ",
            "a note",
            "1.00M",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }
}
