//! A run as text for people and logs: complete, at most 80 columns wide, and without an escape sequence unless it goes to
//! a terminal.

use operant_metrics::{Core, CoreKind, ENV_GROUP, Health, Level, RunState};

use super::page::{Page, Role, width};
use super::reading::{Figure, Reading, TREND, is_whole};
use crate::date::Date;
use crate::format;
use crate::ui::events::folded;
use crate::verdict;
use operant_draw::style::Style;

/// Columns of the small charts and of the progress bar.
const CHART: usize = TREND;
/// Columns of a metric's name and of its value.
const NAME: usize = 19;
const VALUE: usize = 17;
/// Columns of the bar of a metric of the environment's own, beside its value.
const BAR: usize = 8;
/// Events shown.
const EVENTS: usize = 8;
/// Up to this number of cores are shown as numbers.
const FEW_CORES: usize = 16;

/// The text, with a line break at its end.
pub fn snapshot(reading: &Reading, style: &Style) -> String {
    let mut page = Page::new(style);
    heading(reading, &mut page);
    progress(reading, &mut page);
    chart("return", &reading.returns, reading.figure("episodic_return"), &mut page);
    if let Some(solved_at) = reading.identity.solved_at {
        page.put(Role::Muted, &format!(", solved at {}", format::short(solved_at)));
    }
    page.end();
    chart("speed", &reading.speeds, reading.figure("sps"), &mut page);
    page.end();
    metrics(reading, &mut page);
    cores(reading, &mut page);
    events(reading, &mut page);
    page.finish()
}

/// Which run, and how it is.
fn heading(reading: &Reading, page: &mut Page) {
    let Reading { identity, status, .. } = reading;
    page.put(Role::Strong, &identity.run).put(Role::Plain, "  ");
    page.put(role(status.health), status.health.name()).end();
    let facts = [
        identity.env.clone(),
        identity.algorithm.to_uppercase(),
        format!("on {}", identity.device),
        format!("seed {}", identity.seed),
        format!("pid {}", identity.pid),
        format!("since {}", Date::of_unix_ns(identity.started_unix_ns)),
    ];
    let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    page.wrap(Role::Muted, &facts.join(page.symbols.separator), 0);
    page.wrap(Role::Plain, &sentence(reading), 0);
    page.end();
}

/// The sentence on the run's state.
fn sentence(reading: &Reading) -> String {
    let Reading { identity, status, .. } = reading;
    let said = verdict::of(identity, status, reading.value("env_steps")).line();
    if !said.is_empty() {
        return said;
    }
    let up = format!("up {}", format::clock(status.uptime));
    match status.since_update {
        // Updates arrive many times a second, so an age below one second has no decimals.
        Some(since) if since.as_secs() == 0 => {
            format!("{up}; last update {} ago", format::seconds(since.as_secs_f64()))
        }
        Some(since) => format!("{up}; last update {} ago", format::age(since)),
        None => format!("{up}; no update yet"),
    }
}

fn role(health: Health) -> Role {
    match health {
        Health::Reported(RunState::Running | RunState::Finished) => Role::Good,
        Health::Reported(RunState::Failed) | Health::Killed => Role::Bad,
        Health::Reported(_) | Health::Stalled => Role::Warning,
    }
}

/// How far it is.
fn progress(reading: &Reading, page: &mut Page) {
    let Some(share) = reading.progress() else { return };
    label("progress", page);
    let filled = (share * CHART as f64).floor() as usize;
    let full = page.symbols.bar.last().copied().unwrap_or("#");
    page.put(Role::Plain, &full.repeat(filled));
    page.put(Role::Muted, &page.symbols.trough.repeat(CHART - filled));
    let of = format::steps(reading.identity.total_steps as f64);
    // Rounded down: never "100%" before the last step is taken.
    let percent = (share * 1000.0).floor() / 10.0;
    page.put(Role::Plain, &format!("  {percent}% of {of} steps"));
    if let Some(eta) = reading.eta().filter(|eta| *eta < 1e9) {
        page.put(Role::Muted, &format!(", {} left", format::clock(std::time::Duration::from_secs_f64(eta))));
    }
    page.end();
}

fn label(text: &str, page: &mut Page) {
    page.put(Role::Muted, text).tab(10);
}

/// A metric over the run as a row of small columns, and its last value.
fn chart(name: &str, values: &[f64], figure: Option<&Figure>, page: &mut Page) {
    label(name, page);
    page.put(Role::Plain, &sparkline(values, page.symbols.spark)).tab(10 + CHART);
    let Some(Figure { info, value, history }) = figure else { return };
    if !value.is_finite() {
        page.put(Role::Muted, " none yet");
        return;
    }
    page.put(Role::Strong, &format!(" {}", format::with_unit(*value, &info.unit)));
    page.put(Role::Muted, &format!(", best {}", format::short(history.max)));
}

/// A column for each value, lowest to highest over their own range; a blank where there is no value.
fn sparkline(values: &[f64], spark: &[&str]) -> String {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let least = finite().fold(f64::INFINITY, f64::min);
    let most = finite().fold(f64::NEG_INFINITY, f64::max);
    let heights = spark.len() - 1;
    let height = |value: f64| {
        // A value that never changes is drawn half way up.
        let share = if most > least { (value - least) / (most - least) } else { 0.5 };
        1 + (share * (heights - 1) as f64).round() as usize
    };
    values
        .iter()
        .map(|&value| if value.is_finite() { spark[height(value).min(heights)] } else { spark[0] })
        .collect()
}

/// Every metric, group by group.
fn metrics(reading: &Reading, page: &mut Page) {
    let mut groups: Vec<&str> = Vec::new();
    for figure in &reading.figures {
        if !groups.contains(&figure.info.group.as_str()) {
            groups.push(&figure.info.group);
        }
    }
    let abreast = if page.left() >= 2 * (NAME + VALUE + 3) { 2 } else { 1 };
    for group in groups {
        let figures: Vec<_> = reading.figures.iter().filter(|figure| figure.info.group == group).collect();
        page.end();
        page.put(Role::Strong, group);
        if figures.iter().all(|figure| !figure.value.is_finite()) {
            page.put(Role::Muted, &format!("  {} nothing reported", page.symbols.missing)).end();
            continue;
        }
        page.end();
        // Down the left column, then down the right one.
        let rows = figures.len().div_ceil(abreast);
        for row in 0..rows {
            for column in 0..abreast {
                if let Some(figure) = figures.get(column * rows + row) {
                    metric(figure, column * (NAME + VALUE + 3), page);
                }
            }
            page.end();
        }
    }
}

fn metric(figure: &Figure, start: usize, page: &mut Page) {
    let is_own = figure.info.group == ENV_GROUP;
    let (own, share) = format::own(&figure.info, figure.value, &figure.history);
    let text = if !figure.value.is_finite() {
        page.symbols.missing.to_owned()
    } else if is_own {
        own
    } else if is_whole(&figure.info) && (0.0..1e13).contains(&figure.value) {
        let unit = if figure.info.unit == "1" { "" } else { figure.info.unit.as_str() };
        format!("{} {unit}", format::count(figure.value as u64)).trim_end().to_owned()
    } else {
        format::with_unit(figure.value, &figure.info.unit)
    };
    let blanks = VALUE.saturating_sub(width(&text));
    page.tab(start + 2).put(Role::Muted, &figure.info.name).tab(start + 2 + NAME + 1);
    if is_own && share.is_finite() {
        let filled = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
        page.put(Role::Plain, &page.symbols.bar.last().copied().unwrap_or("#").repeat(filled));
        page.put(Role::Muted, &page.symbols.trough.repeat(BAR - filled));
    }
    page.tab(start + 2 + NAME + 1 + blanks).put(Role::Plain, &text);
}

/// How busy each core is: numbers for a few, columns for many.
fn cores(reading: &Reading, page: &mut Page) {
    let cores = reading.sample.as_ref().map_or(&[][..], |sample| &sample.cores);
    let kinds = [
        (CoreKind::Performance, "performance cores"),
        (CoreKind::Efficiency, "efficiency cores"),
        (CoreKind::Uniform, "cores"),
    ];
    for (kind, name) in kinds {
        let of_kind: Vec<&Core> = cores.iter().filter(|core| core.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        page.end();
        page.put(Role::Strong, name).put(Role::Muted, &format!("  {}", of_kind.len())).end();
        if of_kind.len() <= FEW_CORES {
            let text: Vec<String> = of_kind.iter().map(|core| one_core(core, page.symbols.missing)).collect();
            page.tab(2);
            // Cores are distinguished by their own separator, and never broken over two lines.
            for (i, core) in text.iter().enumerate() {
                if i > 0 && width(core) + 3 > page.left() {
                    page.end();
                    page.put(Role::Plain, "  ");
                } else if i > 0 {
                    page.put(Role::Plain, "   ");
                } else {
                    page.put(Role::Plain, "  ");
                }
                page.put(Role::Plain, core);
            }
            page.end();
            continue;
        }
        let spark = page.symbols.spark;
        let column = |core: &&Core| {
            let share = f64::from(core.utilization);
            let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
            spark[(share * (spark.len() - 1) as f64).round() as usize]
        };
        for row in of_kind.chunks(64) {
            let first = row.first().map_or(0, |core| core.number);
            page.put(Role::Muted, &format!("  {first:>5} "))
                .put(Role::Plain, &row.iter().map(column).collect::<String>());
            page.end();
        }
    }
}

fn one_core(core: &Core, missing: &str) -> String {
    let share = format::percent(f64::from(core.utilization));
    format!("{:>3} {:>4}", core.number, if share.is_empty() { missing } else { &share })
}

/// The last events, oldest first.
fn events(reading: &Reading, page: &mut Page) {
    let events = folded(&reading.events);
    let events = &events[events.len().saturating_sub(EVENTS)..];
    if !events.is_empty() {
        page.end();
        page.put(Role::Strong, "events").put(Role::Muted, "  UTC").end();
    }
    for folded in events {
        let event = folded.event;
        let role = match event.level {
            Level::Info => Role::Plain,
            Level::Warning => Role::Warning,
            Level::Error => Role::Bad,
        };
        page.put(Role::Plain, "  ").put(Role::Muted, &Date::of_unix_ns(event.unix_ns).time_of_day()).tab(12);
        page.put(role, event.level.name()).tab(21);
        page.wrap(Role::Plain, &folded.text(), 21);
    }
    if reading.skipped > 0 {
        page.end();
        let what = if reading.skipped == 1 { "record was" } else { "records were" };
        page.wrap(
            Role::Muted,
            &format!("{} {what} being written while read, and skipped", reading.skipped),
            0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_draw::symbols::{ASCII, UNICODE};

    #[test]
    fn sparklines_keep_gaps_and_the_range() {
        let spark = UNICODE.spark;
        assert_eq!(sparkline(&[], spark), "");
        assert_eq!(sparkline(&[0.0, f64::NAN, 7.0], spark), "▁ █");
        assert_eq!(sparkline(&[3.0, 3.0], spark), "▅▅");
        assert_eq!(sparkline(&[f64::NAN; 3], spark), "   ");
        let rising: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(sparkline(&rising, spark), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&rising[..7], ASCII.spark), "_.-=+*#");
    }
}
