//! The head of the screen: which run, in what state, how far, how fast.

use std::time::Duration;

use operant_metrics::{Health, RunState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::chart::Paint;
use super::panel::{self, Context};
use super::text;
use crate::format;
use crate::verdict::Tone;
use operant_draw::theme::Theme;

/// How a tone looks.
pub fn tone_style(theme: &Theme, tone: Tone) -> Style {
    match tone {
        Tone::Good => theme.good,
        Tone::Warning => theme.warning,
        Tone::Bad => theme.bad,
    }
}

/// Draws the header into `area`; at 5 rows with a frame.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let theme = context.theme;
    let inner = match area.height {
        0..=4 => area,
        _ => {
            let version = match context.run.identity().version.as_str() {
                "" => Line::default(),
                version => Line::styled(format!("operant {version}"), theme.muted),
            };
            panel::frame_with(context, "run", version, area, buffer)
        }
    };
    match inner.height {
        0 => {}
        1 => both_ends(who(context), short_progress(context), inner, 0, buffer),
        2 => {
            both_ends(who(context), short_progress(context), inner, 0, buffer);
            progress(context, inner, 1, buffer);
        }
        _ => {
            both_ends(who(context), clocks(context), inner, 0, buffer);
            progress(context, inner, 1, buffer);
            figures(context, inner, 2, buffer);
        }
    }
}

/// State and name, then as many details as fit.
fn who(context: &Context) -> Vec<Span<'static>> {
    let (theme, run) = (context.theme, context.run);
    let verdict = run.verdict();
    let style = tone_style(theme, verdict.tone);
    let light = if run.status.health.is_alive() { context.symbols.alive } else { context.symbols.ended };
    // The mark of a training run blinks once a second.
    let beats =
        run.status.health == Health::Reported(RunState::Running) && context.now.subsec_millis() >= 500;
    let light_style = if beats { style.add_modifier(Modifier::DIM) } else { style };
    let identity = run.identity();
    let mut spans = vec![
        Span::styled(light, light_style),
        Span::styled(format!(" {}  ", verdict.word), style.add_modifier(Modifier::BOLD)),
        Span::styled(run.name().to_string(), theme.strong),
    ];
    let algorithm = identity.algorithm.to_uppercase();
    let facts = [identity.env.clone(), algorithm, identity.device.clone(), format!("seed {}", identity.seed)];
    for fact in facts.into_iter().filter(|fact| !fact.is_empty()) {
        let separator = if spans.len() == 3 { "  " } else { context.symbols.separator };
        spans.push(Span::styled(format!("{separator}{fact}"), theme.muted));
    }
    spans
}

/// Time so far and time to go.
fn clocks(context: &Context) -> Vec<Span<'static>> {
    let theme = context.theme;
    let mut spans = vec![
        Span::styled(if context.run.status.health.is_alive() { "up " } else { "ran " }, theme.muted),
        Span::styled(format::clock(context.run.status.uptime), theme.text),
    ];
    if let Some(left) = time_left(context) {
        spans.push(Span::styled("  eta ", theme.muted));
        spans.push(Span::styled(format::clock(left), theme.strong));
    }
    spans
}

/// Time until the last step at the average speed, while there is progress.
fn time_left(context: &Context) -> Option<Duration> {
    let run = context.run;
    if !matches!(run.status.health, Health::Reported(RunState::Running | RunState::Stopping)) {
        return None;
    }
    let left = run.identity().total_steps as f64 - run.value("env_steps");
    let seconds = left / run.value("sps_average");
    (0.0..1e10).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Percent with one decimal, so that the progress of a long run is visible.
fn percent(share: f64) -> String {
    if share.is_nan() { String::new() } else { format!("{:.1}%", share * 100.0) }
}

fn short_progress(context: &Context) -> Vec<Span<'static>> {
    let sps = format::short(context.run.value("sps"));
    let mut spans = vec![Span::styled(percent(context.run.done()), context.theme.strong)];
    if !sps.is_empty() {
        spans.push(Span::styled(format!(" {sps}/s"), context.theme.muted));
    }
    spans
}

/// The bar and what it means.
fn progress(context: &Context, area: Rect, row: u16, buffer: &mut Buffer) {
    let theme = context.theme;
    let share = context.run.done();
    let steps = format::steps(context.run.value("env_steps"));
    let total = context.run.identity().total_steps;
    let of = match total {
        0 => format!(" {steps} steps"),
        total => format!(" {steps} / {} steps", format::steps(total as f64)),
    };
    let of = if area.width < 50 { of.replace(" steps", "") } else { of };
    let figure = format!(" {:>6}", percent(share));
    let width = area.width.saturating_sub((of.len() + figure.len()) as u16);
    let bar = Rect { y: area.y + row, width, height: 1, ..area };
    draw_bar(context.paint(), share, bar, buffer);
    let line = Line::from(vec![Span::styled(figure, theme.strong), Span::styled(of, theme.muted)]);
    buffer.set_line(bar.right(), bar.y, &line, area.right().saturating_sub(bar.right()));
}

/// The bar of a share from 0 to 1.
pub(crate) fn draw_bar(paint: Paint, share: f64, area: Rect, buffer: &mut Buffer) {
    let (full, half, empty) = match paint.symbols.unicode {
        true => ("━", "╸", "─"),
        false => ("#", "#", "."),
    };
    let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    let halves = (share * f64::from(area.width) * 2.0).round() as u16;
    for column in 0..area.width {
        let (symbol, style) = match halves.saturating_sub(column * 2) {
            0 => (empty, paint.theme.faint),
            1 => (half, paint.theme.ramp(f64::from(column) / f64::from(area.width))),
            _ => (full, paint.theme.ramp(f64::from(column) / f64::from(area.width))),
        };
        buffer[(area.x + column, area.y)].set_symbol(symbol).set_style(style);
    }
}

/// Speed, return and counts, as many as there is room for.
fn figures(context: &Context, area: Rect, row: u16, buffer: &mut Buffer) {
    let (theme, run) = (context.theme, context.run);
    let known = |text: String| if text.is_empty() { context.symbols.missing.to_owned() } else { text };
    let whole = |value: f64| if value >= 0.0 { format::count(value as u64) } else { String::new() };
    // The most important figures come first, because a narrow screen cuts off the rest.
    let figures = [
        ("sps", known(format::short(run.value("sps"))), true),
        ("return", format::short(run.last_reported("episodic_return")), true),
        ("avg", format::short(run.value("sps_average")), false),
        ("best", format::short(run.best("sps")), false),
        ("update", whole(run.value("update")), false),
        ("episodes", whole(run.value("episodes")), false),
        ("length", format::short(run.last_reported("episodic_length")), false),
    ];
    let mut shown: Vec<usize> = Vec::new();
    let mut width = 0;
    for (i, (name, value, _)) in figures.iter().enumerate() {
        let more = name.len() + 1 + value.chars().count() + if shown.is_empty() { 0 } else { 3 };
        if !value.is_empty() && width + more <= usize::from(area.width) {
            width += more;
            shown.push(i);
        }
    }
    // On the screen, the figures of the speed are next to each other.
    shown.sort_by_key(|i| [0, 3, 1, 2, 4, 5, 6][*i]);
    let mut spans = Vec::new();
    for i in shown {
        let (name, value, strong) = &figures[i];
        if !spans.is_empty() {
            spans.push(Span::raw("   "));
        }
        spans.push(Span::styled(format!("{name} "), theme.muted));
        spans.push(Span::styled(value.clone(), if *strong { theme.strong } else { theme.text }));
    }
    panel::line(&Line::from(spans), area, row, buffer);
}

/// A left-aligned and a right-aligned text; the left one is cut if they do not fit.
pub(crate) fn both_ends(left: Vec<Span>, right: Vec<Span>, area: Rect, row: u16, buffer: &mut Buffer) {
    if row >= area.height {
        return;
    }
    let right = Line::from(right);
    let needed =
        Line::from(left.first().cloned().into_iter().chain(left.get(1).cloned()).collect::<Vec<_>>());
    let mut right_width = right.width() as u16;
    // The state comes first of all.
    if right_width + 2 + needed.width() as u16 + 6 > area.width {
        right_width = 0;
    }
    let mut room = usize::from(area.width.saturating_sub(right_width + u16::from(right_width > 0) * 2));
    let mut x = area.x;
    for (i, span) in left.into_iter().enumerate() {
        let length = span.width();
        if length > room {
            // A name may be cut; the details after it are shown in full or omitted.
            if i <= 2 && room > 0 {
                let cut = text::cut(&span.content, room, "~");
                buffer.set_stringn(x, area.y + row, cut, room, span.style);
            }
            break;
        }
        buffer.set_stringn(x, area.y + row, &span.content, length, span.style);
        x += length as u16;
        room -= length;
    }
    if right_width > 0 {
        buffer.set_line(area.right() - right_width, area.y + row, &right, right_width);
    }
}
