//! From rings to curves: a metric of the run shown and of those drawn with it, over the part that the view shows.

use std::rc::Rc;

use operant_metrics::{MetricKind, SeriesPoint, aligned};

use super::chart::{Chart, ChartPoint, Curve, Fill};
use super::panel::Context;
use crate::data::RunView;
use crate::format;
use crate::view::Window;

/// Metrics that give a curve its band, other than its own minimum and maximum values.
pub struct Band {
    /// The lower end.
    pub low: &'static str,
    /// The upper end.
    pub high: &'static str,
}

/// A chart of `metric` for `columns` cells of width, with the options of the view.
pub fn chart<'a>(context: &Context<'a>, metric: &str, band: Option<&Band>, columns: u16) -> Chart<'a> {
    // A ring returns at least a quarter of the requested points, which is one point for each column of dots.
    let points = usize::from(columns).max(1) * context.marker.dots().0 * 4;
    let view = context.view;
    let shown = points_of(context.run, context, metric, band, points);
    let ends = match (shown.first(), shown.last()) {
        (Some(first), Some(last)) if !view.window.is_whole() => Some((first.x, last.x)),
        _ => None,
    };
    let of_run = |&(number, run): &(usize, &RunView)| match ends {
        _ if number == 0 => shown.clone(),
        Some(ends) => window_of(run, context, metric, ends, points),
        None => points_of(run, context, metric, None, points),
    };
    let groups = groups(context);
    let is_grouped = groups.iter().any(|group| group.len() > 1);
    let curve = |group: &Vec<(usize, &RunView)>| {
        let (number, name) = (group[0].0, group[0].1.name().to_string());
        let mut members: Vec<_> = group.iter().map(of_run).collect();
        match (is_grouped, members.len()) {
            (false, _) => Curve { points: members.swap_remove(0), number, name },
            (true, 1) => Curve { points: over_runs(&members, points / 4), number, name },
            (true, runs) => Curve {
                points: over_runs(&members, points / 4),
                number,
                name: format!("{name} ({runs} runs)"),
            },
        }
    };
    Chart {
        curves: groups.iter().map(curve).collect(),
        x: ends,
        axis: view.axis,
        unit: context.run.unit(metric),
        log: view.log,
        smoothing: view.smoothing.share(),
        fill: if is_grouped { Fill::Bands } else { Fill::Band },
        tip: view.window.follows() && context.run.status.health.is_alive(),
        values: context.expanded,
        robust: !view.all_values,
        cursor: Some(&view.cursor).filter(|_| context.expanded),
        ..Chart::default()
    }
}

/// The runs of a chart, each with the number of its curve: those that differ only in their seed together, if the view groups them.
fn groups<'a>(context: &Context<'a>) -> Vec<Vec<(usize, &'a RunView)>> {
    let mut groups: Vec<Vec<(usize, &RunView)>> = Vec::new();
    for member in std::iter::once(context.run).chain(context.others.iter().copied()).enumerate() {
        let is_same = |group: &&mut Vec<(usize, &RunView)>| group[0].1.differs_in_seed_only(member.1);
        match groups.iter_mut().find(is_same).filter(|_| context.view.grouped) {
            Some(group) => group.push(member),
            None => groups.push(vec![member]),
        }
    }
    groups
}

/// The mean of the runs of a group at this many places, with a band from the least to the largest value.
fn over_runs(runs: &[Vec<ChartPoint>], places: usize) -> Vec<ChartPoint> {
    let reported = |run: &Vec<ChartPoint>| -> Vec<(f64, f64)> {
        run.iter().filter(|point| point.value.is_finite()).map(|point| (point.x, point.value)).collect()
    };
    let curves: Vec<_> = runs.iter().map(reported).collect();
    let point = |(x, values): (f64, Vec<f64>)| {
        // `min` and `max` of numbers pass over a NaN.
        let [low, high] = [f64::min, f64::max].map(|end| values.iter().copied().fold(f64::NAN, end));
        ChartPoint { x, value: values.iter().sum::<f64>() / values.len() as f64, low, high }
    };
    aligned(&curves, places).into_iter().map(point).collect()
}

/// A chart of several metrics of the run shown, each as a line with its name.
pub fn chart_of<'a>(context: &Context<'a>, metrics: impl Iterator<Item = String>, columns: u16) -> Chart<'a> {
    let points = usize::from(columns).max(1) * context.marker.dots().0 * 4;
    let of_metric = |(number, name): (usize, String)| {
        let points = points_of(context.run, context, &name, None, points);
        Curve { points, number, name }
    };
    let view = context.view;
    Chart {
        curves: metrics.enumerate().map(of_metric).collect(),
        axis: view.axis,
        log: view.log,
        smoothing: view.smoothing.share(),
        fill: Fill::None,
        values: context.expanded,
        robust: !view.all_values,
        cursor: Some(&view.cursor).filter(|_| context.expanded),
        ..Chart::default()
    }
}

/// What the view shows of `metric` in one run.
fn points_of(
    run: &RunView,
    context: &Context,
    metric: &str,
    band: Option<&Band>,
    points: usize,
) -> Vec<ChartPoint> {
    let series = run.series(context.view, metric, points);
    let counter = run
        .position(metric)
        .and_then(|i| run.schema().metrics().get(i))
        .is_some_and(|info| info.kind == MetricKind::Counter);
    match band {
        Some(band) => {
            let low = run.series(context.view, band.low, points);
            let high = run.series(context.view, band.high, points);
            joined(&series, &low, &high)
        }
        None => series.iter().map(|point| plain(point, counter)).collect(),
    }
}

fn plain(point: &SeriesPoint, counter: bool) -> ChartPoint {
    match counter {
        true => ChartPoint { x: point.x, value: point.last, low: f64::NAN, high: f64::NAN },
        false => ChartPoint { x: point.x, value: point.mean, low: point.min, high: point.max },
    }
}

/// Puts the three series of a banded curve together. They were read one after the other from a ring that is being
/// written: points that only one of them has get no band.
fn joined(values: &[SeriesPoint], low: &[SeriesPoint], high: &[SeriesPoint]) -> Vec<ChartPoint> {
    let (mut low, mut high) = (low.iter().peekable(), high.iter().peekable());
    let mut at = |update: u64| {
        while low.next_if(|point| point.update < update).is_some() {}
        while high.next_if(|point| point.update < update).is_some() {}
        let least = low.peek().filter(|point| point.update == update).map_or(f64::NAN, |point| point.min);
        let most = high.peek().filter(|point| point.update == update).map_or(f64::NAN, |point| point.max);
        (least, most)
    };
    let point = |value: &SeriesPoint| {
        let (least, most) = at(value.update);
        ChartPoint { x: value.x, value: value.mean, low: least, high: most }
    };
    values.iter().map(point).collect()
}

/// The curve of another run between two positions of the horizontal axis. Their updates are estimated from the run's mean
/// pace, with a margin; the chart clips the excess.
fn window_of(
    run: &RunView,
    context: &Context,
    metric: &str,
    (left, right): (f64, f64),
    points: usize,
) -> Vec<ChartPoint> {
    let axis = context.view.axis.metric();
    let (Some(x), Some(y)) = (run.position(axis), run.position(metric)) else { return Vec::new() };
    let (end, last) = (run.value(axis), run.last_update);
    if !(end > 0.0 && last > 0) {
        return Vec::new();
    }
    let update = |place: f64| place / end * last as f64;
    let room = (update(right) - update(left)) * 0.25 + 16.0;
    // Casts of values out of range saturate.
    let updates = (update(left) - room).max(0.0) as u64..=((update(right) + room).max(0.0) as u64).min(last);
    let series: Rc<[SeriesPoint]> = run.series_of(x, y, updates, points);
    let inside = |point: &&SeriesPoint| (left..=right).contains(&point.x);
    series.iter().filter(inside).map(|point| plain(point, false)).collect()
}

/// The range that charts show, in words: `last 1 024 updates`, `updates 250 .. 500`. Empty for the whole run.
pub fn window_text(window: Window, last_update: u64) -> String {
    if window.is_whole() {
        return String::new();
    }
    let shown = window.updates(last_update);
    match window.follows() {
        true => format!("last {} updates", format::count(shown.end() - shown.start())),
        false => format!("updates {} .. {}", format::count(*shown.start()), format::count(*shown.end())),
    }
}
