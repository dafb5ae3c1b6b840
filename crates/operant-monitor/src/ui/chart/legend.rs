//! The legend: the names of several curves above a chart with a value of each, and the numbers at their ends where
//! colour does not distinguish them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Chart, Curve, Fill, Paint};
use crate::format;
use crate::ui::text;
use operant_draw::symbols::Marker;
use operant_draw::theme::ThemeName;

/// The minimum length of a name that is cut, so that names remain distinct.
const LEAST: usize = 8;
/// The sample before a name and the space after it; the two spaces after an entry.
const SAMPLE: usize = 3;
const GAP: usize = 2;

impl Chart<'_> {
    /// Whether lines end in a number, since neither colour nor dots distinguish them.
    pub(super) fn is_numbered(&self, paint: Paint) -> bool {
        let alike = paint.theme.name == ThemeName::None || paint.marker == Marker::Ascii;
        self.curves.len() > 1 && alike
    }

    /// Whether the legend names the lines: several, or one over several runs.
    fn has_names(&self) -> bool {
        self.curves.len() > 1 || self.fill == Fill::Bands
    }

    /// Rows that the legend takes of `area`.
    pub(super) fn legend_rows(&self, area: Rect) -> u16 {
        let reads = self.cursor.is_some_and(|cursor| cursor.get().is_some());
        if area.height < 5 || area.width < 24 || !(self.legend && self.has_names() || reads) {
            return 0;
        }
        match self.values {
            true => {
                let (_, _, abreast) = self.entries(&[], usize::from(area.width));
                (self.curves.len().div_ceil(abreast) as u16).clamp(1, (area.height / 3).max(1))
            }
            false => 1,
        }
    }

    /// The width of the names and of the values, and how many entries stand side by side: names are cut only where
    /// fewer rows are left than the entries need.
    fn entries(&self, values: &[String], width: usize) -> (usize, usize, usize) {
        let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let name = longest(&mut self.curves.iter().map(|curve| curve.name.chars().count())).min(40);
        let value = longest(&mut values.iter().map(|value| value.chars().count())).max(8);
        let entry = |name: usize| SAMPLE + name + 1 + value + GAP;
        let abreast = (width / entry(name).max(1)).max(1);
        let name = name.min(width.saturating_sub(SAMPLE + 1 + value).max(LEAST));
        (name, value, abreast)
    }

    /// Names the curves in `area`, with the values at `at` or else the newest.
    pub(super) fn draw_legend(&self, paint: Paint, at: Option<f64>, area: Rect, buffer: &mut Buffer) {
        let readings: Vec<Reading> = self.curves.iter().map(|curve| Reading::of(curve, at)).collect();
        if let ([reading], Some(at)) = (&readings[..], at) {
            return self.draw_reading(paint, at, reading, area, buffer);
        }
        if self.values {
            return self.draw_entries(paint, &readings, area, buffer);
        }
        // On one row; the longest names are cut, and if that is not enough, the last entries are replaced by their number.
        let beside = SAMPLE + GAP;
        let room = usize::from(area.width);
        let width = |most: usize| -> usize {
            self.curves.iter().map(|curve| curve.name.chars().count().min(most) + beside).sum()
        };
        let longest = self.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
        let most = (LEAST..=longest).rev().find(|most| width(*most) <= room).unwrap_or(LEAST);
        let with_values: Vec<String> = readings
            .iter()
            .zip(&self.curves)
            .map(|(reading, curve)| format!("{} {}", curve.name, self.value(paint, reading.value)))
            .collect();
        let total: usize = with_values.iter().map(|text| text.chars().count() + beside).sum();
        let names = if total <= room { with_values } else { self.names(most, paint) };
        let mut x = area.x;
        for (i, (curve, name)) in self.curves.iter().zip(&names).enumerate() {
            let left = usize::from(area.right() - x);
            let more = format!("+{}", self.curves.len() - i);
            let last = i + 1 == self.curves.len();
            if SAMPLE + name.chars().count() + if last { 0 } else { GAP + more.len() } > left {
                buffer.set_stringn(x, area.y, more, left, paint.theme.muted);
                break;
            }
            let sample = self.sample(paint, curve.number);
            let (end, _) = buffer.set_stringn(x, area.y, sample, left, paint.theme.curve(curve.number));
            let left = usize::from(area.right() - end);
            (x, _) = buffer.set_stringn(end, area.y, format!(" {name}  "), left, paint.theme.text);
        }
    }

    /// The names in at most `most` characters each, no two alike.
    fn names(&self, most: usize, paint: Paint) -> Vec<String> {
        let names: Vec<&str> = self.curves.iter().map(|curve| curve.name.as_str()).collect();
        text::distinct(&names, most, paint.symbols.ellipsis)
    }

    fn sample(&self, paint: Paint, number: usize) -> String {
        match (self.is_numbered(paint), paint.symbols.unicode) {
            (true, _) => format!("{}:", digit(number)),
            (false, true) => "━━".to_string(),
            (false, false) => "**".to_string(),
        }
    }

    fn value(&self, paint: Paint, value: f64) -> String {
        match value.is_finite() {
            true => format::with_unit(value, self.unit),
            false => paint.symbols.missing.to_string(),
        }
    }

    /// Names and values in columns.
    fn draw_entries(&self, paint: Paint, readings: &[Reading], area: Rect, buffer: &mut Buffer) {
        let values: Vec<String> = readings.iter().map(|reading| self.value(paint, reading.value)).collect();
        let (name, value, abreast) = self.entries(&values, usize::from(area.width));
        let names = self.names(name, paint);
        let room = abreast * usize::from(area.height);
        let shown = if self.curves.len() > room { room - 1 } else { self.curves.len() };
        let place = |i: usize| {
            let x = area.x + (i % abreast * (SAMPLE + name + 1 + value + GAP)) as u16;
            (x, area.y + (i / abreast) as u16)
        };
        for (i, curve) in self.curves.iter().enumerate().take(shown) {
            let (x, y) = place(i);
            let left = |x: u16| usize::from(area.right().saturating_sub(x));
            let sample = self.sample(paint, curve.number);
            let (x, _) = buffer.set_stringn(x, y, sample, left(x), paint.theme.curve(curve.number));
            let text = format!(" {:<name$} ", names[i]);
            let (x, _) = buffer.set_stringn(x, y, text, left(x), paint.theme.text);
            buffer.set_stringn(x, y, format!("{:>value$}", values[i]), left(x), paint.theme.strong);
        }
        if shown < self.curves.len() {
            let (x, y) = place(shown);
            let more = format!("+{} more", self.curves.len() - shown);
            buffer.set_stringn(x, y, more, usize::from(area.right() - x), paint.theme.muted);
        }
    }

    /// The values of a single curve at the cursor.
    fn draw_reading(&self, paint: Paint, at: f64, reading: &Reading, area: Rect, buffer: &mut Buffer) {
        let mut pieces = vec![
            (format!("{}  ", self.axis.text(reading.x.unwrap_or(at))), paint.theme.muted),
            (self.value(paint, reading.value), paint.theme.strong),
        ];
        if reading.low < reading.high {
            let [low, high] = [reading.low, reading.high].map(|value| self.value(paint, value));
            pieces.push((format!("  from {low} to {high}"), paint.theme.muted));
        }
        let mut x = area.x;
        for (text, style) in pieces {
            (x, _) = buffer.set_stringn(x, area.y, text, usize::from(area.right() - x), style);
        }
    }
}

/// The value of a curve at a position.
struct Reading {
    /// Where the point is that was read.
    x: Option<f64>,
    value: f64,
    low: f64,
    high: f64,
}

impl Reading {
    /// The value of the point nearest to `at`, if the curve reaches that far; without a position, of the last point.
    fn of(curve: &Curve, at: Option<f64>) -> Self {
        let finite = || curve.points.iter().filter(|point| point.value.is_finite());
        let (first, last) = (finite().next(), finite().next_back());
        let reaches = |at: f64| {
            let ends = first.zip(last).filter(|(first, last)| {
                let slack = (last.x - first.x) / 100.0;
                (first.x - slack..=last.x + slack).contains(&at)
            });
            ends.is_some()
        };
        let point = match at {
            Some(at) if reaches(at) => finite().min_by(|a, b| (a.x - at).abs().total_cmp(&(b.x - at).abs())),
            Some(_) => None,
            None => last,
        };
        match point {
            Some(point) => Reading { x: Some(point.x), value: point.value, low: point.low, high: point.high },
            None => Reading { x: None, value: f64::NAN, low: f64::NAN, high: f64::NAN },
        }
    }
}

/// The digit at the end of a line that has a number; from the tenth on they repeat.
pub(super) fn digit(number: usize) -> char {
    char::from(b'1' + (number % 9) as u8)
}
