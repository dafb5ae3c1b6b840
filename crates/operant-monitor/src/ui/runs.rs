//! The list of runs: which there are, in what state, and which of them are on the screen.

use operant_metrics::{Health, RunState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::chart::Paint;
use super::header::tone_style;
use super::table::{self, CellLayout, GAP};
use super::{popup, text};
use crate::data::{RunView, Runs, SortBy};
use crate::date::Date;
use crate::format;
use crate::list::RunList;

/// A column of the list: its cells in the order of [`COLUMNS`].
struct Column {
    title: &'static str,
    /// Its width; for names, the maximum width.
    width: u16,
    /// Whether it is right-aligned, as numbers are.
    right: bool,
    /// If not all columns fit, those with the highest rank are omitted first; those with rank 0 are always shown.
    rank: u8,
}

const fn column(title: &'static str, width: u16, right: bool, rank: u8) -> Column {
    Column { title, width, right, rank }
}

const COLUMNS: [Column; 10] = [
    column("", 2, false, 0),
    column("", 2, false, 0),
    column("run", 40, false, 0),
    column("state", 9, false, 0),
    column("env", 24, false, 3),
    column("done", 4, true, 2),
    column("steps", 7, true, 5),
    column("sps", 6, true, 4),
    column("return", 7, true, 1),
    column("start", 11, true, 6),
];

/// The indices of the columns of names and environments.
const NAME: usize = 2;
const ENV: usize = 4;
/// The minimum width of a name; it may be narrower once only the return is left besides it.
const LEAST_NAME: [u16; 2] = [20, 12];

type Cells = [(String, Style); COLUMNS.len()];

/// Draws the list over `screen`.
pub fn draw(paint: Paint, runs: &Runs, list: &RunList, screen: Rect, buffer: &mut Buffer) {
    let theme = paint.theme;
    let listed = list.rows(runs);
    let (count, all) = (listed.len(), runs.all().len());
    let height = (count + runs.broken.len()).clamp(1, 200) as u16 + 3;
    let title = match (count, all) {
        (_, 0 | 1) => "runs".to_string(),
        (count, all) if count < all => format!("{count} of {all} runs"),
        (count, _) => format!("{count} runs"),
    };
    let inner = popup::draw(paint, &title, (116, height), screen, buffer);
    if inner.is_empty() {
        return;
    }
    if count + runs.broken.len() == 0 {
        let none = if all == 0 { "there is no run" } else { "no run has these words" };
        buffer.set_stringn(inner.x, inner.y, none, usize::from(inner.width), theme.muted);
        return;
    }
    let room = list_rows(inner);
    let selected = listed.iter().position(|row| *row >= list.row).unwrap_or(count.saturating_sub(1));
    let first = (selected + 1).saturating_sub(room);
    let views: Vec<&RunView> = listed.iter().map(|row| &runs.all()[*row]).collect();
    let curves = listed.iter().map(|row| runs.curve(*row));
    let rows: Vec<Cells> = views
        .iter()
        .zip(curves)
        .enumerate()
        .map(|(i, (run, curve))| cells(paint, run, list.letter(run), curve, i == selected))
        .collect();
    let order = runs.order();
    let sorted = order.by != SortBy::Name || order.reversed;
    let heads = COLUMNS.each_ref().map(|column| match sorted && column.title == order.by.title() {
        true => (column.title.to_string(), theme.accent.add_modifier(Modifier::UNDERLINED)),
        false => (column.title.to_string(), theme.muted),
    });
    let widths = widths(&rows, inner.width);
    let layouts: [CellLayout; COLUMNS.len()] =
        std::array::from_fn(|i| CellLayout { width: widths[i], right: COLUMNS[i].right });
    table::row(&heads, &layouts, inner, 0, buffer);
    let names: Vec<&str> = views.iter().map(|run| run.name()).collect();
    let names = text::distinct(&names, usize::from(widths[NAME].unwrap_or(0)), paint.symbols.ellipsis);
    for ((i, mut cells), name) in rows.into_iter().enumerate().zip(names).skip(first).take(room) {
        let at = (i - first) as u16 + 1;
        cells[NAME].0 = name;
        let width = widths[ENV].unwrap_or(0);
        cells[ENV].0 = text::cut(&cells[ENV].0, usize::from(width), paint.symbols.ellipsis);
        table::row(&cells, &layouts, inner, at, buffer);
        if i == selected {
            let line = Rect { y: inner.y + at, height: 1, ..inner };
            match theme.selection.bg {
                Some(tint) => buffer.set_style(line, Style::new().bg(tint)),
                None => buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED)),
            }
        }
    }
    let below = count.saturating_sub(first).min(room) as u16 + 1;
    for (i, (name, why)) in runs.broken.iter().enumerate() {
        let at = below + i as u16;
        if at < inner.height {
            let line = format!("  {name}: {why}");
            buffer.set_stringn(inner.x, inner.y + at, line, usize::from(inner.width), theme.bad);
        }
    }
}

/// Rows that the list has for runs.
fn list_rows(inner: Rect) -> usize {
    usize::from(inner.height.saturating_sub(1)).max(1)
}

fn cells(paint: Paint, run: &RunView, letter: &'static str, curve: Option<usize>, selected: bool) -> Cells {
    let theme = paint.theme;
    let verdict = run.verdict();
    let steps = run.value("env_steps");
    let trains = run.status.health == Health::Reported(RunState::Running);
    let (mark, mark_style) = match curve {
        Some(number) => (if paint.symbols.unicode { "━━" } else { "**" }, theme.curve(number)),
        None => ("", theme.text),
    };
    let plain = if selected { theme.strong } else { theme.text };
    [
        (format!("{}{letter}", if selected { paint.symbols.pointer } else { " " }), theme.accent),
        (mark.to_string(), mark_style),
        (run.name().to_string(), plain),
        (verdict.word.to_string(), tone_style(theme, verdict.tone)),
        (environment(run), theme.muted),
        (format::percent(run.done()), theme.text),
        (format::steps(steps), theme.text),
        (if trains { format::short(run.value("sps")) } else { String::new() }, theme.text),
        (mean_return(run), theme.text),
        (started(run.identity().started_unix_ns), theme.muted),
    ]
}

/// The environment, and whether it is a sweep.
pub fn environment(run: &RunView) -> String {
    let env = &run.identity().env;
    if run.is_sweep() { format!("sweep, {env}") } else { env.clone() }
}

/// As `operant runs` shows it: the mean of the last evaluation, or of training with a `~`.
fn mean_return(run: &RunView) -> String {
    let (value, is_evaluated) = run.mean_return();
    let mark = if is_evaluated || value.is_nan() { "" } else { "~" };
    format!("{mark}{}", format::short(value))
}

/// When a run began: `11-21 14:02`, in UTC; empty where that is not known.
fn started(unix_ns: u64) -> String {
    match unix_ns {
        0 => String::new(),
        unix_ns => Date::of_unix_ns(unix_ns).to_string().get(5..16).unwrap_or_default().to_string(),
    }
}

/// The width of each column in a window of this width; `None` for columns that do not fit.
fn widths(rows: &[Cells], room: u16) -> [Option<u16>; COLUMNS.len()] {
    let longest = |i: usize| rows.iter().map(|cells| cells[i].0.chars().count()).max().unwrap_or(0);
    let mut widths: [Option<u16>; COLUMNS.len()] = std::array::from_fn(|i| {
        let Column { title, width, right, .. } = &COLUMNS[i];
        match (*right, longest(i)) {
            // No run has this number (such as the speed if no run trains) or this mark.
            (true, 0) => None,
            (false, 0) if title.is_empty() => None,
            // A changing number must not change the width of its column; names do not change.
            (true, _) => Some(*width),
            (false, longest) => Some((longest.max(title.len()) as u16).min(*width)),
        }
    });
    let without_name = |widths: &[Option<u16>]| -> u16 {
        let others = widths.iter().enumerate().filter(|(i, _)| *i != NAME);
        others.filter_map(|(_, width)| width.map(|width| width + GAP)).sum()
    };
    let name = widths[NAME].unwrap_or(0);
    for rank in (1..=u8::MAX).rev().filter(|rank| COLUMNS.iter().any(|column| column.rank == *rank)) {
        if without_name(&widths) + name.min(LEAST_NAME[usize::from(rank == 1)]) <= room {
            break;
        }
        for (width, _) in widths.iter_mut().zip(&COLUMNS).filter(|(_, column)| column.rank == rank) {
            *width = None;
        }
    }
    widths[NAME] = Some(name.min(room.saturating_sub(without_name(&widths))));
    widths
}
