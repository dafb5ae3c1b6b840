//! The utilization of the machine: GPU, cores, memory, bus. The last sample, updated a few times a second.

mod cores;
mod history;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use self::cores::Cores;
use super::panel::{self, Context};
use crate::format;

/// Age at which a sample is stale.
const STALE: std::time::Duration = std::time::Duration::from_secs(2);
/// Columns of a row's label, and of the percentage after it.
const LABEL: usize = 4;
const PERCENT: usize = 5;

/// Minimum rows of the curves in an expanded panel.
const LEAST_HISTORY: u16 = 6;

/// One row of the panel.
enum Row {
    /// A share, as a number and as a bar.
    Share {
        label: &'static str,
        share: f64,
    },
    Figures(Vec<Figure>),
}

/// A figure with its label.
struct Figure {
    label: &'static str,
    text: String,
}

/// Draws the panel into `area`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let run = context.run;
    let age = run.sample.as_ref().map(|sample| sample.age);
    let note = match age {
        Some(age) if age > STALE => Line::styled(format!("{} ago", format::age(age)), context.theme.warning),
        // The values of its last update; single cores are not recorded.
        None if run.is_recorded() => Line::styled("last update", context.theme.muted),
        _ => Line::default(),
    };
    let inside = panel::frame_with(context, "utilization", note, area, buffer);
    if inside.is_empty() {
        return;
    }
    let (inside, below) = match context.expanded && inside.height >= 2 * LEAST_HISTORY {
        true => {
            let above = Rect { height: inside.height / 2, ..inside };
            (above, Rect { y: above.bottom(), height: inside.height - above.height, ..inside })
        }
        false => (inside, Rect::default()),
    };
    if !below.is_empty() {
        history::draw(context, below, buffer);
    }
    let (rows, cores) = plan(context, inside);
    if rows.is_empty() && cores.is_none() {
        let why = if run.is_recorded() { "nothing was sampled" } else { "nothing sampled yet" };
        return panel::empty(context, why, inside, buffer);
    }
    let mut y = inside.y;
    for row in &rows {
        draw_row(context, row, Rect { y, height: 1, ..inside }, buffer);
        y += 1;
    }
    if let Some(cores) = cores {
        cores.draw(context, Rect { y, height: inside.bottom() - y, ..inside }, buffer);
    }
}

/// The rows that fit, in the order in which they are drawn, and the cores if a row is left for them.
fn plan<'a>(context: &Context<'a>, area: Rect) -> (Vec<Row>, Option<Cores<'a>>) {
    let run = context.run;
    let value = |name: &str| run.value(name);
    let height = usize::from(area.height);
    let gpu = value("gpu_utilization");
    let has_gpu = gpu.is_finite() || value("gpu_memory").is_finite();
    let cpu = value("cpu_utilization");
    let cores = run.sample.as_ref().map(|sample| Cores::of(&sample.cores)).filter(|cores| !cores.is_empty());

    // Each with its position on the screen; the most important rows are taken first.
    let mut chosen: Vec<(usize, Row)> = Vec::new();
    let mut take = |place: usize, row: Option<Row>| {
        if let Some(row) = row.filter(|_| chosen.len() < height) {
            chosen.push((place, row));
        }
    };
    take(0, has_gpu.then_some(Row::Share { label: "GPU", share: gpu }));
    take(2, cpu.is_finite().then_some(Row::Share { label: "CPU", share: cpu }));
    take(6, figures(memory(context)));
    take(1, figures(gpu_figures(context)));
    if cores.as_ref().is_some_and(Cores::has_two_kinds) {
        let [performance, efficiency, balance] =
            ["cpu_performance", "cpu_efficiency", "cpu_balance"].map(value);
        let balance = finite("balance", balance, format::short(balance));
        // Two rows and the balance, or all in one.
        if height >= 8 {
            take(3, Some(Row::Share { label: "P", share: performance }));
            take(4, Some(Row::Share { label: "E", share: efficiency }));
            take(4, figures([balance]));
        } else {
            let kinds = [
                finite("P", performance, format::percent(performance)),
                finite("E", efficiency, format::percent(efficiency)),
                balance,
            ];
            take(3, figures(kinds));
        }
    }
    let balance = value("core_balance");
    let two_kinds = cores.as_ref().is_some_and(Cores::has_two_kinds);
    let balance = (!two_kinds).then(|| finite("balance", balance, format::short(balance))).flatten();
    take(5, figures(processes(context).into_iter().chain([balance])));
    let left = height > chosen.len();
    chosen.sort_by_key(|(place, _)| *place);
    (chosen.into_iter().map(|(_, row)| row).collect(), cores.filter(|_| left))
}

fn finite(label: &'static str, value: f64, text: String) -> Option<Figure> {
    value.is_finite().then_some(Figure { label, text })
}

fn figures(figures: impl IntoIterator<Item = Option<Figure>>) -> Option<Row> {
    let figures: Vec<Figure> = figures.into_iter().flatten().collect();
    (!figures.is_empty()).then_some(Row::Figures(figures))
}

/// A metric as a figure, in its own unit.
fn metric(context: &Context, label: &'static str, name: &str) -> Option<Figure> {
    let value = context.run.value(name);
    finite(label, value, format::with_unit(value, context.run.unit(name)))
}

fn gpu_figures(context: &Context) -> [Option<Figure>; 4] {
    [
        metric(context, "", "gpu_memory"),
        metric(context, "", "gpu_power"),
        metric(context, "", "gpu_temperature"),
        metric(context, "", "gpu_clock"),
    ]
}

/// The process's memory, and what an update sends over the bus: into the device and out of it.
fn memory(context: &Context) -> [Option<Figure>; 2] {
    let [there, back] = ["bytes_h2d", "bytes_d2h"].map(|name| context.run.value(name));
    let text = match (there, back) {
        (0.0, 0.0) => "0 B".to_owned(),
        _ => format!("{} in, {} out", format::bytes(there), format::bytes(back)),
    };
    [metric(context, "RSS", "resident_memory"), finite("bus/update", there + back, text)]
}

/// Other processes: the share of time in exchanges with those of the run, the rollout's share of waiting for those of environments, and
/// how many of these were replaced.
fn processes(context: &Context) -> [Option<Figure>; 3] {
    let [comm, wait, restarts] =
        ["comm_share", "env_wait", "env_restarts"].map(|name| context.run.value(name));
    let restarts = if restarts > 0.0 { restarts } else { f64::NAN };
    [
        finite("comm", comm, format::percent(comm)),
        finite("env wait", wait, format::percent(wait)),
        finite("restarts", restarts, format::short(restarts)),
    ]
}

fn draw_row(context: &Context, row: &Row, area: Rect, buffer: &mut Buffer) {
    let theme = context.theme;
    match row {
        Row::Share { label, share } => {
            let percent = match share.is_finite() {
                true => format::percent(*share),
                false => context.symbols.missing.to_owned(),
            };
            let spans = vec![
                Span::styled(format!("{label:<LABEL$}"), theme.text),
                Span::styled(format!("{percent:>PERCENT$} "), theme.strong),
            ];
            panel::line(&Line::from(spans), area, 0, buffer);
            let used = (LABEL + PERCENT + 1) as u16;
            if area.width > used + 2 {
                let bar = Rect { x: area.x + used, width: area.width - used, ..area };
                panel::bar(context, *share, theme.heat(*share), bar, buffer);
            }
        }
        Row::Figures(figures) => {
            let mut spans: Vec<Span> = Vec::new();
            for figure in figures {
                let mut parts = Vec::new();
                if !spans.is_empty() {
                    parts.push(Span::styled(context.symbols.separator, theme.faint));
                }
                if !figure.label.is_empty() {
                    parts.push(Span::styled(format!("{} ", figure.label), theme.muted));
                }
                parts.push(Span::styled(figure.text.clone(), theme.text));
                // A figure that does not fit is omitted, because a cut one would show another number.
                let width: usize = spans.iter().chain(&parts).map(Span::width).sum();
                if width <= usize::from(area.width) {
                    spans.extend(parts);
                }
            }
            panel::line(&Line::from(spans), area, 0, buffer);
        }
    }
}

#[cfg(test)]
mod tests;
