//! The user's choices for charts: which part of the run, along which axis, on which scale.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::format;

/// How charts are drawn, for all of them at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Which updates.
    pub window: Window,
    /// What lies along the bottom.
    pub axis: Axis,
    /// Logarithmic values.
    pub log: bool,
    /// How much curves are smoothed.
    pub smoothing: Smoothing,
    /// The text that names in the list of metrics must contain.
    pub filter: String,
    /// Whether runs that differ only in their seed are one curve with a band.
    pub grouped: bool,
    /// Whether the scale of a chart reaches to every value. By default a few values far from all others are omitted.
    pub all_values: bool,
    /// The cursor of an expanded chart, in columns from its right edge. Drawing keeps it inside the chart.
    pub cursor: Cell<Option<u16>>,
}

impl View {
    /// Toggles the cursor at the newest values.
    pub fn toggle_cursor(&mut self) {
        self.cursor.set(match self.cursor.get() {
            None => Some(0),
            Some(_) => None,
        });
    }

    /// Moves the cursor by `by` columns, to the past where positive.
    pub fn move_cursor(&mut self, by: i16) {
        self.cursor.set(self.cursor.get().map(|at| at.saturating_add_signed(by)));
    }
}

/// What lies along the bottom of a chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Environment steps.
    #[default]
    Steps,
    /// Wall time of training.
    Time,
    Updates,
}

impl Axis {
    /// The metric along it.
    pub const fn metric(self) -> &'static str {
        match self {
            Axis::Steps => "env_steps",
            Axis::Time => "time",
            Axis::Updates => "update",
        }
    }

    /// What stands behind its last number.
    pub const fn label(self) -> &'static str {
        match self {
            Axis::Steps => "steps",
            Axis::Time => "time",
            Axis::Updates => "updates",
        }
    }

    /// A place along it, in words.
    pub fn text(self, at: f64) -> String {
        match self {
            Axis::Steps => format!("{} steps", format::steps(at)),
            Axis::Time => format::clock(Duration::from_secs_f64(at.clamp(0.0, 1e15))),
            Axis::Updates => format!("update {}", format::count(at.max(0.0) as u64)),
        }
    }

    /// The one after it, for the key that goes round.
    pub const fn next(self) -> Self {
        match self {
            Axis::Steps => Axis::Time,
            Axis::Time => Axis::Updates,
            Axis::Updates => Axis::Steps,
        }
    }
}

/// Exponential smoothing whose memory is a share of what the chart shows, so that it looks the same at every zoom and width.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Smoothing {
    /// None.
    #[default]
    Off,
    /// 1% of the width.
    Light,
    /// 3% of the width.
    Medium,
    /// 10% of the width.
    Strong,
}

impl Smoothing {
    /// The time constant as a share of the width of the chart; 0 for none.
    pub const fn share(self) -> f64 {
        match self {
            Smoothing::Off => 0.0,
            Smoothing::Light => 0.01,
            Smoothing::Medium => 0.03,
            Smoothing::Strong => 0.1,
        }
    }

    /// The next stronger one, or none after the strongest.
    pub const fn next(self) -> Self {
        match self {
            Smoothing::Off => Smoothing::Light,
            Smoothing::Light => Smoothing::Medium,
            Smoothing::Medium => Smoothing::Strong,
            Smoothing::Strong => Smoothing::Off,
        }
    }
}

/// Which updates charts show. Without a span it is the whole run; without an end it follows the newest update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    span: Option<u64>,
    end: Option<u64>,
}

/// The narrowest window, in updates.
const NARROWEST: u64 = 16;

impl Window {
    /// The updates shown of a run whose newest is `last`.
    pub fn updates(self, last: u64) -> RangeInclusive<u64> {
        let Some(span) = self.span else { return 0..=last };
        let end = self.end.unwrap_or(last).min(last).max(span.min(last));
        end.saturating_sub(span)..=end
    }

    /// Whether it is the whole run.
    pub fn is_whole(self) -> bool {
        self.span.is_none()
    }

    /// Whether it follows the newest update.
    pub fn follows(self) -> bool {
        self.end.is_none()
    }

    /// Halves the width. The update at the share `at` (0 left, 1 right) of the width keeps its position.
    pub fn zoom_in(&mut self, at: f64, last: u64) {
        let shown = self.updates(last);
        let width = shown.end() - shown.start();
        let span = (width / 2).max(NARROWEST);
        if span < width {
            self.place(span, at, &shown, last);
        }
    }

    /// Twice as wide, up to the whole run.
    pub fn zoom_out(&mut self, at: f64, last: u64) {
        let shown = self.updates(last);
        let span = (shown.end() - shown.start()).max(1).saturating_mul(2);
        match self.span {
            None => {}
            Some(_) if span >= last => *self = Window::default(),
            Some(_) => self.place(span, at, &shown, last),
        }
    }

    /// Moves by the share `by` of its width: to the past where negative. It follows the newest update again when it
    /// arrives there.
    pub fn pan(&mut self, by: f64, last: u64) {
        let Some(span) = self.span else { return };
        let end = *self.updates(last).end() as f64 + by * span as f64;
        self.put_end(end, span, last);
    }

    /// Follows the newest update again.
    pub fn follow(&mut self) {
        self.end = None;
    }

    /// The whole run again.
    pub fn reset(&mut self) {
        *self = Window::default();
    }

    fn place(&mut self, span: u64, at: f64, shown: &RangeInclusive<u64>, last: u64) {
        let at = if at.is_finite() { at.clamp(0.0, 1.0) } else { 1.0 };
        let fixed = *shown.start() as f64 + at * (shown.end() - shown.start()) as f64;
        self.span = Some(span);
        self.put_end(fixed + (1.0 - at) * span as f64, span, last);
    }

    fn put_end(&mut self, end: f64, span: u64, last: u64) {
        let end = (end.round().max(0.0) as u64).max(span.min(last));
        self.end = (end < last).then_some(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zooming_in_at_the_right_edge_follows_the_run() {
        let mut window = Window::default();
        window.zoom_in(1.0, 1000);
        assert_eq!(window.updates(1000), 500..=1000);
        assert_eq!(window.updates(1200), 700..=1200);
        assert!(window.follows());
        window.zoom_out(1.0, 1000);
        assert!(window.is_whole());
    }

    #[test]
    fn zooming_keeps_what_is_under_the_pointer() {
        let mut window = Window::default();
        window.zoom_in(0.5, 1000);
        assert_eq!(window.updates(1000), 250..=750);
        assert!(!window.follows());
        window.zoom_in(0.0, 1000);
        assert_eq!(window.updates(1000), 250..=500);
        assert_eq!(window.updates(5000), 250..=500);
    }

    #[test]
    fn it_is_never_narrower_than_some_updates_nor_wider_than_the_run() {
        let mut window = Window::default();
        for _ in 0..50 {
            window.zoom_in(0.3, 100_000);
        }
        let shown = window.updates(100_000);
        assert_eq!(shown.end() - shown.start(), NARROWEST);
        for _ in 0..50 {
            window.zoom_out(0.3, 100_000);
        }
        assert!(window.is_whole());
        let mut window = Window::default();
        window.zoom_in(1.0, 3);
        assert_eq!(window.updates(3), 0..=3);
        window.zoom_in(1.0, 0);
        assert_eq!(window.updates(0), 0..=0);
    }

    #[test]
    fn panning_stops_at_both_ends() {
        let mut window = Window::default();
        window.zoom_in(1.0, 1000);
        window.pan(-0.5, 1000);
        assert_eq!(window.updates(1000), 250..=750);
        window.pan(-50.0, 1000);
        assert_eq!(window.updates(1000), 0..=500);
        window.pan(50.0, 1000);
        assert_eq!(window.updates(1000), 500..=1000);
        assert!(window.follows());
    }

    #[test]
    fn a_run_that_began_anew_is_shown_whole_if_it_is_shorter_than_the_window() {
        let mut window = Window::default();
        window.zoom_in(0.0, 1000);
        assert_eq!(window.updates(10), 0..=10);
    }
}
