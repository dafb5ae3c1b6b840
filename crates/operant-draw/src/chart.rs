//! Charts of numbers over numbers as SVG or PNG: lines, bands, dots and bars.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::pixels::Picture;
use crate::theme::Rgb;

/// An axis of a chart.
#[derive(Clone)]
pub struct Axis<'a> {
    /// The smallest and the largest number.
    pub range: Range<f64>,
    /// Whether it is logarithmic.
    pub log: bool,
    /// The title of the axis; empty for none.
    pub title: &'a str,
    /// The text of a number.
    pub label: &'a dyn Fn(&f64) -> String,
    /// The number of names, if the axis has names instead of numbers: they are at 1, 2, 3 and so on, without grid lines.
    pub names: Option<usize>,
}

impl Axis<'_> {
    /// Where labels are, unless the axis is logarithmic: at names, or at about `most` round numbers.
    fn labelled(&self, most: usize) -> Vec<f64> {
        match self.names {
            Some(count) => (1..=count).map(|place| place as f64).collect(),
            None => ticks(&self.range, most),
        }
    }
}

/// A linear axis that is labelled at these numbers.
struct Linear(Range<f64>, Vec<f64>);

impl Ranged for Linear {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.0.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.1.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

impl ValueFormatter<f64> for Linear {
    fn format(value: &f64) -> String {
        tick_label(*value)
    }
}

/// Round numbers in a range, about `most` and one more at the most: multiples of 1, 2 or 5 times a power of ten.
pub fn ticks(range: &Range<f64>, most: usize) -> Vec<f64> {
    let (low, high) = (range.start, range.end);
    let width = high - low;
    if !(width > 0.0 && width.is_finite()) {
        return Vec::new();
    }
    let least = width / most.max(1) as f64;
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = step.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power);
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let count = (last - first).max(-1.0) as usize + 1;
    (0..count).map(|place| (first + place as f64) * step).collect()
}

/// A round number without digits that say nothing: `0.25`, `5k`, `200k`, `1.5M`.
pub fn tick_label(number: f64) -> String {
    let (unit, letter) = match number.abs() {
        9.999e8.. => (1e9, "G"),
        9.999e5.. => (1e6, "M"),
        999.9.. => (1e3, "k"),
        _ => (1.0, ""),
    };
    let text = format!("{:.6}", number / unit);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{letter}", if text == "-0" { "0" } else { text })
}

/// Something in a chart.
pub enum Mark {
    /// A line through points, of this width, with its name in the legend.
    Line(Vec<(f64, f64)>, u32, Option<String>),
    /// A translucent area.
    Band(Vec<(f64, f64)>),
    /// A disc of this radius in pixels.
    Dot((f64, f64), u32),
    /// A dot at `x`, with a bar from the smallest to the largest of three numbers.
    Bar(f64, [f64; 3]),
}

/// How a chart looks; sizes are in pixels.
#[derive(Clone, Copy)]
pub struct Look {
    /// Width and height.
    pub size: (u32, u32),
    /// Around the chart, and at its right.
    pub margins: (u32, u32),
    /// Room for the numbers below and at the left.
    pub labels: (u32, u32),
    /// Height of the letters.
    pub font: u32,
    /// Whether there are lines between the numbers too.
    pub fine_lines: bool,
    /// Whether the names of lines are below the chart.
    pub legend: bool,
}

/// Grid lines, axes and words.
const GRID: RGBColor = RGBColor(228, 230, 234);
const AXIS: RGBColor = RGBColor(150, 155, 162);
const WORDS: RGBColor = RGBColor(60, 65, 72);

/// Length of a legend's sample of a line, in pixels.
const SAMPLE: i32 = 20;

pub struct Chart<'a> {
    pub look: Look,
    /// The axes: the horizontal and the vertical one.
    pub axes: [Axis<'a>; 2],
    /// What it shows, in drawing order, with colours.
    pub marks: Vec<(Rgb, Mark)>,
}

/// One of 99 easily distinguished colours.
pub fn colour(number: usize) -> Rgb {
    Palette99::COLORS[number % Palette99::COLORS.len()]
}

impl Chart<'_> {
    /// The chart as SVG, or why it cannot be drawn, which is unlikely in memory.
    pub fn svg(&self) -> Result<String, String> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, self.look.size).into_drawing_area())?;
        Ok(svg)
    }

    /// The chart as PNG, or why it cannot be drawn.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        let mut picture = Picture::new(self.look.size);
        self.draw(&(&mut picture).into_drawing_area())?;
        Ok(picture.png())
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> Result<(), String> {
        let failed = |error| format!("the plot cannot be drawn: {error}");
        root.fill(&WHITE).map_err(failed)?;
        let (chart, legend) = root.split_vertically(self.look.size.1 - self.legend_height());
        let [x, y] = [0, 1].map(|axis| self.axes[axis].range.clone());
        let most = [self.look.size.0 / 90, self.look.size.1 / 55].map(|most| most.max(2) as usize);
        let [at_x, at_y] = [0, 1].map(|axis| self.axes[axis].labelled(most[axis]));
        let drawn = match [0, 1].map(|axis| self.axes[axis].log) {
            [false, false] => self.draw_on(&chart, Linear(x, at_x), Linear(y, at_y)),
            [false, true] => self.draw_on(&chart, Linear(x, at_x), y.log_scale()),
            [true, false] => self.draw_on(&chart, x.log_scale(), Linear(y, at_y)),
            [true, true] => self.draw_on(&chart, x.log_scale(), y.log_scale()),
        };
        drawn.and_then(|()| self.draw_legend(&legend)).and_then(|()| root.present()).map_err(failed)
    }

    /// Names of lines with their colours and widths.
    fn names(&self) -> impl Iterator<Item = (Rgb, u32, &str)> {
        self.marks.iter().filter_map(|(colour, mark)| match mark {
            Mark::Line(_, width, Some(name)) if self.look.legend => Some((*colour, *width, name.as_str())),
            _ => None,
        })
    }

    /// Where each name of the legend begins, in rows from the top.
    fn places(&self) -> Vec<(i32, i32)> {
        // Letters are at most so wide in the fonts of browsers and of pictures.
        let letter = (self.look.font as i32 * 3 / 5).max(8);
        let (left, right) = (self.look.labels.1 as i32, self.look.size.0 as i32);
        let (mut x, mut row) = (left, 0);
        self.names()
            .map(|(_, _, name)| {
                let width = SAMPLE + 8 + name.chars().count() as i32 * letter + 16;
                if x > left && x + width > right {
                    (x, row) = (left, row + 1);
                }
                let place = (x, row);
                x += width;
                place
            })
            .collect()
    }

    fn row_height(&self) -> u32 {
        self.look.font + 8
    }

    fn legend_height(&self) -> u32 {
        let rows = self.places().last().map_or(0, |(_, row)| *row as u32 + 1);
        if rows > 0 { rows * self.row_height() + 8 } else { 0 }
    }

    fn draw_legend<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let style = ("sans-serif", self.look.font).into_font().color(&WORDS);
        for ((x, row), ((r, g, b), width, name)) in self.places().into_iter().zip(self.names()) {
            let y = row * self.row_height() as i32;
            let middle = y + self.look.font as i32 / 2 + 1;
            let sample = RGBColor(r, g, b).stroke_width(width);
            area.draw(&PathElement::new([(x, middle), (x + SAMPLE, middle)], sample))?;
            area.draw_text(name, &style, (x + SAMPLE + 8, y))?;
        }
        Ok(())
    }

    fn draw_on<B: DrawingBackend, X, Y>(
        &self,
        root: &DrawingArea<B, Shift>,
        x: X,
        y: Y,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    {
        let (look, [across, up]) = (&self.look, &self.axes);
        let font = ("sans-serif", look.font);
        let mut chart = ChartBuilder::on(root)
            .margin(look.margins.0)
            .margin_right(look.margins.1)
            .x_label_area_size(look.labels.0)
            .y_label_area_size(look.labels.1)
            .build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        let words = font.into_font().color(&WORDS);
        mesh.label_style(words.clone()).axis_desc_style(words);
        mesh.x_label_formatter(across.label).y_label_formatter(up.label);
        mesh.axis_style(AXIS).bold_line_style(GRID);
        mesh.light_line_style(if look.fine_lines { GRID } else { WHITE });
        if let Some(names) = across.names {
            mesh.disable_x_mesh().x_labels(names);
        }
        if let Some(names) = up.names {
            mesh.disable_y_mesh().y_labels(names);
        }
        if !across.title.is_empty() {
            mesh.x_desc(across.title);
        }
        if !up.title.is_empty() {
            mesh.y_desc(up.title);
        }
        mesh.draw()?;
        for ((r, g, b), mark) in &self.marks {
            let colour = RGBColor(*r, *g, *b);
            match mark {
                Mark::Line(points, width, _) => {
                    let style = colour.stroke_width(*width);
                    chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
                }
                Mark::Band(points) => {
                    chart.draw_series([Polygon::new(points.as_slice(), colour.mix(0.15))])?;
                }
                Mark::Dot(at, radius) => {
                    chart.draw_series([Circle::new(*at, *radius, colour.filled())])?;
                }
                Mark::Bar(x, [low, middle, high]) => {
                    let bar = [(*x, *low), (*x, *high)];
                    chart.draw_series(LineSeries::new(bar, colour.stroke_width(2)))?;
                    chart.draw_series([Circle::new((*x, *middle), 4, colour.filled())])?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_in_their_range() {
        assert_eq!(ticks(&(0.0..2_000_000.0), 6), [0.0, 500e3, 1e6, 1.5e6, 2e6]);
        assert_eq!(ticks(&(61_440.0..19_100_000.0), 8), [5e6, 10e6, 15e6]);
        assert_eq!(ticks(&(-3.0..7.0), 5), [-2.0, 0.0, 2.0, 4.0, 6.0]);
        let narrow = ticks(&(487.3..487.9), 6);
        assert_eq!(narrow.len(), 7, "{narrow:?}");
        assert_eq!(ticks(&(1.0..1.0), 5), [0.0; 0]);
        for most in 2..12 {
            for range in [0.0..1.0, 3.0..1e7, -512.0..-511.5, 0.1..0.7] {
                let count = ticks(&range, most).len();
                assert!((1..=most + 1).contains(&count), "{count} of {most} in {range:?}");
            }
        }
    }

    #[test]
    fn labels_have_the_digits_that_matter() {
        let labels = [0.0, -0.0, 0.25, 0.1 + 0.2, 1500.0, 10_000.0, 200_000.0, 1.5e6, 2e6, -5e6, 3e9];
        let expected = ["0", "0", "0.25", "0.3", "1.5k", "10k", "200k", "1.5M", "2M", "-5M", "3G"];
        assert_eq!(labels.map(tick_label), expected);
    }

    #[test]
    fn a_legend_wraps_below_the_chart() {
        let axis = Axis { range: 0.0..1.0, log: false, title: "", label: &|x| tick_label(*x), names: None };
        let look = Look {
            size: (400, 300),
            margins: (8, 8),
            labels: (30, 40),
            font: 14,
            fine_lines: false,
            legend: true,
        };
        let line =
            |name: &str| ((0, 0, 0), Mark::Line(vec![(0.0, 0.0), (1.0, 1.0)], 2, Some(name.to_owned())));
        let marks = ["learning_rate=0.001", "learning_rate=0.01", "learning_rate=0.1"].map(line).into();
        let chart = Chart { look, axes: [axis.clone(), axis], marks };
        assert_eq!(chart.places().iter().map(|(_, row)| *row).collect::<Vec<_>>(), [0, 1, 2]);
        let svg = chart.svg().expect("drawn");
        assert!(["learning_rate=0.001", "0.2", "0.8"].iter().all(|text| svg.contains(text)), "{svg}");
        assert!(chart.png().expect("drawn").starts_with(b"\x89PNG"));
    }
}
