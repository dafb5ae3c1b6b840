//! Plots of a report: scores with intervals, curves with bands, scores against seconds; as SVG text, or pixels for PNG.

use std::ops::Range;

use operant_draw::chart::{Axis, Chart, Look, Mark, tick_label};
use operant_draw::theme::Rgb;

use crate::report::{EnvReport, SeedGroup};
use crate::stats::Estimate;

/// Colours that stay distinct for people with colour blindness, after Okabe and Ito.
const COLOURS: [Rgb; 8] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (90, 90, 90),
    (160, 120, 60),
];

const LOOK: Look =
    Look { size: (840, 440), margins: (12, 28), labels: (48, 68), font: 14, fine_lines: false, legend: true };

/// The sizes of a figure in a page, for wide screens and for phones; the legend is text of the page.
const WIDE: Look = Look { size: (960, 380), legend: false, ..LOOK };
const NARROW: Look = Look { size: (380, 300), margins: (8, 16), labels: (48, 60), legend: false, ..LOOK };

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

    pub fn title(self) -> &'static str {
        match self {
            Plot::Scores => "Score: interquartile mean over seeds, 95% interval",
            Plot::Steps => {
                "Training return over environment steps: interquartile mean over seeds, 95% interval"
            }
            Plot::Seconds => {
                "Training return over training time: interquartile mean over seeds, 95% interval"
            }
            Plot::Pareto => "Score against training time; the line is the Pareto front",
        }
    }

    /// The plot as SVG; None if there is nothing to draw.
    pub fn svg(self, part: &EnvReport) -> Option<String> {
        self.draw(part, LOOK, |chart| chart.svg())
    }

    /// The plot as PNG; None if there is nothing to draw.
    pub fn png(self, part: &EnvReport) -> Option<Vec<u8>> {
        self.draw(part, LOOK, |chart| chart.png())
    }

    /// The plot for a page, for wide screens and for phones.
    pub(crate) fn figure(self, part: &EnvReport) -> Option<[String; 2]> {
        let draw = |look| self.draw(part, look, |chart| chart.svg());
        Some([draw(WIDE)?, draw(NARROW)?])
    }

    /// The colours of lines with their names.
    pub(crate) fn legend(self, part: &EnvReport) -> Vec<(Rgb, String)> {
        let drawn = |of: fn(&SeedGroup) -> &Vec<(f64, Estimate)>| {
            let groups = curved(part, of);
            groups.into_iter().map(|(group, colour)| (colour, group.name.clone())).collect()
        };
        match self {
            Plot::Steps => drawn(|group| &group.by_steps),
            Plot::Seconds => drawn(|group| &group.by_seconds),
            Plot::Scores | Plot::Pareto => Vec::new(),
        }
    }

    /// It is drawn in memory, where nothing fails.
    fn draw<T>(self, part: &EnvReport, look: Look, draw: fn(&Chart) -> Result<T, String>) -> Option<T> {
        match self {
            Plot::Scores => scores(part, look, draw),
            Plot::Steps => {
                draw(&curves(part, look, |group| &group.by_steps, (1.0, "environment steps"))?).ok()
            }
            Plot::Seconds => {
                let unit = time_unit(part.groups.iter().flat_map(|group| &group.by_seconds).map(|(x, _)| *x));
                draw(&curves(part, look, |group| &group.by_seconds, unit)?).ok()
            }
            Plot::Pareto => draw(&pareto(part, look)?).ok(),
        }
    }
}

/// Seconds of the unit in which times of up to the longest of these have few digits, and the title of their axis.
fn time_unit(seconds: impl Iterator<Item = f64>) -> (f64, &'static str) {
    match seconds.fold(0.0, f64::max) {
        ..300.0 => (1.0, "training time in seconds"),
        ..18_000.0 => (60.0, "training time in minutes"),
        _ => (3_600.0, "training time in hours"),
    }
}

/// The best configurations that have a curve, with their colours.
fn curved(part: &EnvReport, of: impl Fn(&SeedGroup) -> &Vec<(f64, Estimate)>) -> Vec<(&SeedGroup, Rgb)> {
    part.groups.iter().filter(|group| of(group).len() > 1).zip(COLOURS).collect()
}

/// The range of numbers, widened by a part; None of none.
fn range(numbers: impl Iterator<Item = f64>, margin: f64) -> Option<Range<f64>> {
    let (low, high) = numbers
        .filter(|x| x.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let width = if high > low { high - low } else { low.abs().max(1.0) * 0.1 };
    (low <= high).then_some(low - margin * width..high + margin * width)
}

fn scores<T>(part: &EnvReport, look: Look, draw: fn(&Chart) -> Result<T, String>) -> Option<T> {
    let shown: Vec<(&SeedGroup, Estimate)> =
        part.groups.iter().filter_map(|group| Some((group, group.score?))).take(COLOURS.len()).collect();
    let range = range(shown.iter().flat_map(|(_, score)| [score.low, score.high]), 0.05)?;
    let count = shown.len() as f64;
    let name = |y: &f64| {
        let place = count - y.round();
        let fits = (y - y.round()).abs() < 1e-6 && place >= 0.0;
        fits.then(|| shown.get(place as usize))
            .flatten()
            .map_or_else(String::new, |(group, _)| group.name.clone())
    };
    let marks = shown.iter().enumerate().flat_map(|(place, (_, score))| {
        let (y, colour) = (count - place as f64, COLOURS[place]);
        let interval = Mark::Line(vec![(score.low, y), (score.high, y)], 3, None);
        [(colour, interval), (colour, Mark::Dot((score.value, y), 5))]
    });
    let y = Axis { names: Some(shown.len()), label: &name, ..axis(0.5..count + 0.5, "") };
    let widest = shown.iter().map(|(group, _)| group.name.chars().count()).max().unwrap_or(0) as u32;
    let look = Look { labels: (look.labels.0, (widest * 8 + 16).clamp(60, look.size.0 / 2)), ..look };
    let axes = [axis(range, "mean return of the last evaluation"), y];
    draw(&Chart { look, axes, marks: marks.collect() }).ok()
}

fn label(number: &f64) -> String {
    tick_label(*number)
}

fn axis<'a>(range: Range<f64>, title: &'a str) -> Axis<'a> {
    Axis { range, log: false, title, label: &label, names: None }
}

/// Curves with their intervals; `unit` divides the places, and names their axis.
fn curves<'a>(
    part: &'a EnvReport,
    look: Look,
    of: impl Fn(&SeedGroup) -> &Vec<(f64, Estimate)>,
    (unit, title): (f64, &'a str),
) -> Option<Chart<'a>> {
    let shown = curved(part, &of);
    let all = || shown.iter().flat_map(|(group, _)| of(group));
    let ys = all().flat_map(|(_, band)| [band.low, band.high]);
    let end = all().map(|(x, _)| *x / unit).fold(0.0, f64::max);
    let y = range(ys, 0.05)?;
    let marks = shown.iter().flat_map(|(group, colour)| {
        let band: Vec<(f64, Estimate)> = of(group).iter().map(|(x, band)| (*x / unit, *band)).collect();
        let low = band.iter().rev().map(|(x, band)| (*x, band.low));
        let outline = band.iter().map(|(x, band)| (*x, band.high)).chain(low).collect();
        let middle = band.iter().map(|(x, band)| (*x, band.value)).collect();
        [(*colour, Mark::Band(outline)), (*colour, Mark::Line(middle, 2, Some(group.name.clone())))]
    });
    let axes = [axis(0.0..end, title), axis(y, "training return")];
    Some(Chart { look, axes, marks: marks.collect() })
}

fn pareto(part: &EnvReport, look: Look) -> Option<Chart<'_>> {
    let (unit, title) = time_unit(part.groups.iter().map(|group| group.train_s).filter(|x| x.is_finite()));
    let points: Vec<(f64, f64, bool)> = part
        .groups
        .iter()
        .filter_map(|group| Some((group.train_s / unit, group.score?.value, group.pareto)))
        .filter(|(time, ..)| time.is_finite())
        .collect();
    if points.len() < 2 {
        return None;
    }
    let (xs, ys) = (points.iter().map(|point| point.0), points.iter().map(|point| point.1));
    let (x, y) = (range(xs, 0.08)?, range(ys, 0.08)?);
    let mut front: Vec<(f64, f64)> =
        points.iter().filter(|point| point.2).map(|(x, y, _)| (*x, *y)).collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    let dots = points
        .iter()
        .map(|(x, y, pareto)| (if *pareto { COLOURS[0] } else { (170, 170, 170) }, Mark::Dot((*x, *y), 4)));
    let marks = [(COLOURS[0], Mark::Line(front, 1, None))].into_iter().chain(dots).collect();
    let axes = [axis(x, title), axis(y, "score")];
    Some(Chart { look, axes, marks })
}
