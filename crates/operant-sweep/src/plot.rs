//! Plots of a report: scores with intervals, curves with bands, scores against seconds; as SVG text, or pixels for PNG.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters_backend::BackendCoord;

use crate::report::{EnvReport, SeedGroup};
use crate::stats::Estimate;

/// Width and height in pixels.
pub const SIZE: (u32, u32) = (760, 420);

/// Colours that stay distinct for people with colour blindness, after Okabe and Ito.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(160, 120, 60),
];

const FONT: (&str, u32) = ("sans-serif", 14);

/// A plot of an environment's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plot {
    /// Scores of the best settings with their intervals.
    Scores,
    /// Training return over environment steps.
    Steps,
    /// Training return over seconds of training.
    Seconds,
    /// Score against seconds of training, one point for each setting.
    Pareto,
}

impl Plot {
    /// All of them.
    pub const ALL: [Plot; 4] = [Plot::Scores, Plot::Steps, Plot::Seconds, Plot::Pareto];

    /// Its name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Plot::Scores => "scores",
            Plot::Steps => "steps",
            Plot::Seconds => "seconds",
            Plot::Pareto => "pareto",
        }
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Plot::Scores => "Score: interquartile mean over seeds, 95% interval",
            Plot::Steps => "Training return over environment steps",
            Plot::Seconds => "Training return over training time",
            Plot::Pareto => "Score against training time; the line is the Pareto front",
        }
    }

    /// The plot as SVG; None if there is nothing to draw.
    pub fn svg(self, part: &EnvReport) -> Option<String> {
        let mut svg = String::new();
        let drawn = {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(part, &root)
        };
        // It is drawn in memory, where nothing fails.
        drawn.then_some(svg)
    }

    /// The plot as PNG; None if there is nothing to draw.
    pub fn png(self, part: &EnvReport) -> Option<Vec<u8>> {
        let mut picture = crate::picture::Picture::new(SIZE);
        let drawn = {
            let root = (&mut picture).into_drawing_area();
            self.draw(part, &root)
        };
        drawn.then(|| picture.png())
    }

    fn draw<B: DrawingBackend>(self, part: &EnvReport, root: &DrawingArea<B, Shift>) -> bool {
        let drawn = match self {
            Plot::Scores => scores(part, root),
            Plot::Steps => curves(part, root, |group| &group.by_steps, "environment steps"),
            Plot::Seconds => curves(part, root, |group| &group.by_seconds, "training time in seconds"),
            Plot::Pareto => pareto(part, root),
        };
        drawn.unwrap_or(false)
    }
}

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

type Drawn<B> = Result<bool, DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// The range of numbers, widened by a part; None of none.
fn range(numbers: impl Iterator<Item = f64>, margin: f64) -> Option<Range<f64>> {
    let (low, high) = numbers
        .filter(|x| x.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let width = if high > low { high - low } else { low.abs().max(1.0) * 0.1 };
    (low <= high).then_some(low - margin * width..high + margin * width)
}

fn short(number: &f64) -> String {
    if number.abs() >= 1000.0 {
        operant_run::progress::short(*number)
    } else {
        format!("{}", (number * 1e3).round() / 1e3)
    }
}

fn scores<B: DrawingBackend>(part: &EnvReport, root: &DrawingArea<B, Shift>) -> Drawn<B> {
    let shown: Vec<(&SeedGroup, Estimate)> =
        part.groups.iter().filter_map(|group| Some((group, group.score?))).take(COLOURS.len()).collect();
    let Some(x) = range(shown.iter().flat_map(|(_, score)| [score.low, score.high]), 0.05) else {
        return Ok(false);
    };
    root.fill(&WHITE)?;
    let count = shown.len() as f64;
    let name = |y: &f64| {
        let place = count - y.round();
        let fits = (y - y.round()).abs() < 1e-6 && place >= 0.0;
        fits.then(|| shown.get(place as usize)).flatten().map_or_else(String::new, |(group, _)| group.label())
    };
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(230)
        .build_cartesian_2d(x, 0.5..count + 0.5)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .label_style(FONT)
        .light_line_style(WHITE)
        .x_label_formatter(&short)
        .y_label_formatter(&name)
        .y_labels(2 * shown.len() + 1)
        .x_desc("mean return of the last evaluation")
        .draw()?;
    for (place, (_, score)) in shown.iter().enumerate() {
        let (y, colour) = (count - place as f64, COLOURS[place]);
        chart.draw_series([PathElement::new([(score.low, y), (score.high, y)], colour.stroke_width(3))])?;
        chart.draw_series([Circle::new((score.value, y), 5, colour.filled())])?;
    }
    root.present()?;
    Ok(true)
}

/// A chart of two ranges of numbers, with what they are.
fn axes<'a, B: DrawingBackend>(
    root: &'a DrawingArea<B, Shift>,
    (x, y): (Range<f64>, Range<f64>),
    (below, left): (&str, &str),
) -> Result<Chart<'a, B>, DrawingAreaErrorKind<B::ErrorType>> {
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .label_style(FONT)
        .light_line_style(WHITE)
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .x_desc(below)
        .y_desc(left)
        .draw()?;
    Ok(chart)
}

fn curves<B: DrawingBackend>(
    part: &EnvReport,
    root: &DrawingArea<B, Shift>,
    of: impl Fn(&SeedGroup) -> &Vec<(f64, Estimate)>,
    axis: &str,
) -> Drawn<B> {
    let shown: Vec<&SeedGroup> =
        part.groups.iter().filter(|group| of(group).len() > 1).take(COLOURS.len()).collect();
    let all = || shown.iter().flat_map(|group| of(group));
    let ys = all().flat_map(|(_, band)| [band.low, band.high]);
    let (Some(x), Some(y)) = (range(all().map(|(x, _)| *x), 0.0), range(ys, 0.05)) else { return Ok(false) };
    let mut chart = axes(root, (x, y), (axis, "return: interquartile mean, 95% interval"))?;
    for (group, colour) in shown.iter().zip(COLOURS) {
        let band = of(group);
        let low = band.iter().rev().map(|(x, band)| (*x, band.low));
        let outline: Vec<(f64, f64)> = band.iter().map(|(x, band)| (*x, band.high)).chain(low).collect();
        chart.draw_series([Polygon::new(outline, colour.mix(0.15))])?;
        let line = LineSeries::new(band.iter().map(|(x, band)| (*x, band.value)), colour.stroke_width(2));
        chart
            .draw_series(line)?
            .label(group.label())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .label_font(FONT)
        .draw()?;
    root.present()?;
    Ok(true)
}

fn pareto<B: DrawingBackend>(part: &EnvReport, root: &DrawingArea<B, Shift>) -> Drawn<B> {
    let points: Vec<(f64, f64, bool)> = part
        .groups
        .iter()
        .filter_map(|group| Some((group.train_s, group.score?.value, group.pareto)))
        .filter(|(seconds, ..)| seconds.is_finite())
        .collect();
    let (xs, ys) = (points.iter().map(|point| point.0), points.iter().map(|point| point.1));
    let (Some(x), Some(y)) = (range(xs, 0.08), range(ys, 0.08)) else { return Ok(false) };
    let mut chart = axes(root, (x, y), ("training time in seconds, median over seeds", "score"))?;
    let front = points.iter().filter(|point| point.2).map(|(x, y, _)| (*x, *y));
    chart.draw_series(LineSeries::new(front, COLOURS[0].stroke_width(1)))?;
    for (x, y, pareto) in points {
        let colour = if pareto { COLOURS[0] } else { RGBColor(170, 170, 170) };
        chart.draw_series([Circle::new((x, y), 4, colour.filled())])?;
    }
    root.present()?;
    Ok(true)
}

/// A point of a drawing in pixels.
pub(crate) type Pixel = BackendCoord;
