//! Plots of a report: scores with intervals, curves with bands, scores against seconds; as SVG text, or pixels for PNG.

use std::ops::Range;

use operant_draw::chart::{Axis, Chart, Look, Mark};
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

const LOOK: Look = Look {
    size: (760, 420),
    margins: (12, 36),
    labels: (44, 64),
    font: 14,
    fine_lines: false,
    legend: (false, 18, 0.2),
};

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
            Plot::Steps => "Training return over environment steps",
            Plot::Seconds => "Training return over training time",
            Plot::Pareto => "Score against training time; the line is the Pareto front",
        }
    }

    /// The plot as SVG; None if there is nothing to draw.
    pub fn svg(self, part: &EnvReport) -> Option<String> {
        self.draw(part, |chart| chart.svg())
    }

    /// The plot as PNG; None if there is nothing to draw.
    pub fn png(self, part: &EnvReport) -> Option<Vec<u8>> {
        self.draw(part, |chart| chart.png())
    }

    /// It is drawn in memory, where nothing fails.
    fn draw<T>(self, part: &EnvReport, draw: fn(&Chart) -> Result<T, String>) -> Option<T> {
        match self {
            Plot::Scores => scores(part, draw),
            Plot::Steps => draw(&curves(part, |group| &group.by_steps, "environment steps")?).ok(),
            Plot::Seconds => draw(&curves(part, |group| &group.by_seconds, "training time in seconds")?).ok(),
            Plot::Pareto => draw(&pareto(part)?).ok(),
        }
    }
}

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

fn scores<T>(part: &EnvReport, draw: fn(&Chart) -> Result<T, String>) -> Option<T> {
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
    let y = Axis { names: Some(2 * shown.len() + 1), label: &name, ..axis(0.5..count + 0.5, "") };
    let look = Look { labels: (44, 230), ..LOOK };
    let axes = [axis(range, "mean return of the last evaluation"), y];
    draw(&Chart { look, axes, marks: marks.collect() }).ok()
}

fn axis<'a>(range: Range<f64>, title: &'a str) -> Axis<'a> {
    Axis { range, log: false, title, label: &short, names: None }
}

fn curves<'a>(
    part: &EnvReport,
    of: impl Fn(&SeedGroup) -> &Vec<(f64, Estimate)>,
    title: &'a str,
) -> Option<Chart<'a>> {
    let shown: Vec<&SeedGroup> =
        part.groups.iter().filter(|group| of(group).len() > 1).take(COLOURS.len()).collect();
    let all = || shown.iter().flat_map(|group| of(group));
    let ys = all().flat_map(|(_, band)| [band.low, band.high]);
    let (x, y) = (range(all().map(|(x, _)| *x), 0.0)?, range(ys, 0.05)?);
    let marks = shown.iter().zip(COLOURS).flat_map(|(group, colour)| {
        let band = of(group);
        let low = band.iter().rev().map(|(x, band)| (*x, band.low));
        let outline = band.iter().map(|(x, band)| (*x, band.high)).chain(low).collect();
        let middle = band.iter().map(|(x, band)| (*x, band.value)).collect();
        [(colour, Mark::Band(outline)), (colour, Mark::Line(middle, 2, Some(group.name.clone())))]
    });
    let axes = [axis(x, title), axis(y, "return: interquartile mean, 95% interval")];
    Some(Chart { look: LOOK, axes, marks: marks.collect() })
}

fn pareto(part: &EnvReport) -> Option<Chart<'_>> {
    let points: Vec<(f64, f64, bool)> = part
        .groups
        .iter()
        .filter_map(|group| Some((group.train_s, group.score?.value, group.pareto)))
        .filter(|(seconds, ..)| seconds.is_finite())
        .collect();
    let (xs, ys) = (points.iter().map(|point| point.0), points.iter().map(|point| point.1));
    let (x, y) = (range(xs, 0.08)?, range(ys, 0.08)?);
    let front = points.iter().filter(|point| point.2).map(|(x, y, _)| (*x, *y)).collect();
    let dots = points
        .iter()
        .map(|(x, y, pareto)| (if *pareto { COLOURS[0] } else { (170, 170, 170) }, Mark::Dot((*x, *y), 4)));
    let marks = [(COLOURS[0], Mark::Line(front, 1, None))].into_iter().chain(dots).collect();
    let axes = [axis(x, "training time in seconds, median over seeds"), axis(y, "score")];
    Some(Chart { look: LOOK, axes, marks })
}
