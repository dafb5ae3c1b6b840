//! The plots of a sweep: curves of the best trials with their intervals over seeds, and scores against training time.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker as Dots;
use ratatui::widgets::Widget as _;
use ratatui::widgets::canvas::{Canvas, Points};

use super::{CURVES, Window};
use crate::format;
use crate::ui::chart::{Chart, ChartPoint, Curve};

impl Window<'_> {
    /// The places of the trials whose curves are drawn: the best ones, and the selected one.
    pub(super) fn drawn(&self) -> Vec<usize> {
        let trials = self.trials();
        let has_curve = |place: &usize| trials.get(*place).is_some_and(|trial| trial.curve.len() > 1);
        let mut places: Vec<usize> = (0..trials.len()).filter(has_curve).take(CURVES).collect();
        if has_curve(&self.row) && !places.contains(&self.row) {
            places.pop();
            places.push(self.row);
        }
        places
    }

    /// Curves of the best trials, and of the selected one with its interval.
    pub(super) fn curves(&self, area: Rect, buffer: &mut Buffer) {
        let inside =
            self.frame("training return by steps", "interval of the selected trial over seeds", area, buffer);
        let trials = self.trials();
        let mut places = self.drawn();
        // The first is drawn on top and has the band.
        places.sort_by_key(|place| *place != self.row);
        let curve = |place: &usize| {
            let trial = trials[*place];
            let point = |(x, [low, value, high]): &(f64, [f64; 3])| ChartPoint {
                x: *x,
                value: *value,
                low: *low,
                high: *high,
            };
            Curve {
                points: trial.curve.iter().map(point).collect(),
                number: place % CURVES,
                name: trial.label(),
            }
        };
        let chart = Chart { curves: places.iter().map(curve).collect(), legend: false, ..Chart::default() };
        chart.draw(self.paint(), inside, buffer);
    }

    /// Seconds and scores of the trials on the Pareto front, or of the other trials.
    fn points(&self, pareto: bool) -> Vec<(f64, f64)> {
        let own = self.trials().into_iter().filter(|trial| trial.pareto == pareto);
        own.map(|trial| (trial.seconds, trial.score))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .collect()
    }

    /// Scores against training time.
    pub(super) fn front(&self, area: Rect, buffer: &mut Buffer) {
        let theme = &self.theme;
        let frame = self.frame("score by training time", "", area, buffer);
        if frame.height < 2 || frame.width < 16 {
            return;
        }
        let (front, rest) = (self.points(true), self.points(false));
        let range = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let all = front.iter().chain(&rest).map(of);
            let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
            let margin = if high > low { 0.05 * (high - low) } else { low.abs().max(1.0) * 0.05 };
            [low - margin, high + margin]
        };
        let (x, y) = (range(&|point| point.0), range(&|point| point.1));
        let selected: Vec<(f64, f64)> = self
            .selected()
            .map(|trial| (trial.seconds, trial.score))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .into_iter()
            .collect();
        let labels = [format::short(y[1]), format::short(y[0])];
        let wide = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) as u16 + 1;
        let inside = Rect::new(frame.x + wide, frame.y, frame.width.saturating_sub(wide), frame.height - 1);
        for (label, row) in labels.iter().zip([inside.y, inside.bottom() - 1]) {
            buffer.set_stringn(frame.x, row, label, usize::from(wide), theme.muted);
        }
        let [left, right] = [format::seconds(x[0].max(0.0)), format::seconds(x[1])];
        let below = inside.bottom();
        buffer.set_stringn(inside.x, below, &left, usize::from(inside.width), theme.muted);
        let at = inside.right().saturating_sub(right.chars().count() as u16);
        buffer.set_stringn(at, below, &right, usize::from(inside.width), theme.muted);
        let colour = |style: Style| style.fg.unwrap_or(ratatui::style::Color::Reset);
        let marker = if self.symbols.unicode { Dots::Braille } else { Dots::Dot };
        Canvas::default()
            .marker(marker)
            .x_bounds(x)
            .y_bounds(y)
            .paint(|canvas| {
                canvas.draw(&Points { coords: &rest, color: colour(theme.muted) });
                canvas.draw(&Points { coords: &front, color: colour(theme.accent) });
                canvas.draw(&Points { coords: &selected, color: colour(theme.strong) });
            })
            .render(inside, buffer);
    }
}
