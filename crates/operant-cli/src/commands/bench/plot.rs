//! Plots rows: steps per second over the swept variable, or one column per row if nothing was swept.

use std::path::Path;

use operant_bench::bench::row::Row;
use operant_draw::chart::{self, Chart, Look, Mark};
use operant_draw::theme::Rgb;
use operant_run::{Error, Result, dir};

const LOOK: Look =
    Look { size: (960, 600), margins: (16, 16), labels: (52, 84), font: 16, fine_lines: true, legend: true };

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Envs,
    Threads,
    /// The number of the row.
    Rows,
}

/// Rows that differ only in the axis.
struct Series<'a> {
    name: String,
    points: Vec<(f64, &'a Row)>,
}

/// Draws rows into an SVG file.
pub fn draw(path: &Path, rows: &[Row]) -> Result<()> {
    let svg = svg(rows).map_err(|problem| Error::new(operant_run::ErrorKind::Disk, problem))?;
    dir::write_output(path, svg).map_err(|error| Error::disk("the plot cannot be written", path, &error))
}

fn axis(rows: &[Row]) -> Axis {
    let sweeps = |of: fn(&Row) -> usize| rows.iter().any(|row| of(row) != of(&rows[0]));
    if sweeps(|row| row.envs) {
        Axis::Envs
    } else if sweeps(|row| row.threads.unwrap_or(0)) {
        Axis::Threads
    } else {
        Axis::Rows
    }
}

fn series(rows: &[Row], axis: Axis) -> Vec<Series<'_>> {
    let mut all: Vec<Series> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let mut name = match axis {
            // Colours distinguish benches.
            Axis::Rows => row.bench.to_string(),
            _ => format!("{} {} {}", row.bench, row.env, row.device),
        };
        if axis != Axis::Rows && row.precision != "f32" {
            name.push_str(&format!(" {}", row.precision));
        }
        if let (Axis::Envs, Some(threads)) = (axis, row.threads) {
            name.push_str(&format!(", {threads} threads"));
        }
        let x = match axis {
            Axis::Envs => row.envs as f64,
            Axis::Threads => row.threads.unwrap_or(1) as f64,
            Axis::Rows => number as f64 + 1.0,
        };
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((x, row)),
            None => all.push(Series { name, points: vec![(x, row)] }),
        }
    }
    for series in &mut all {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    all
}

/// The plot as SVG text, or an error message. It is drawn in memory, so errors are unlikely.
fn svg(rows: &[Row]) -> std::result::Result<String, String> {
    let axis = axis(rows);
    let all = series(rows, axis);
    let xs = || all.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x));
    let (least, most) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let bottom = rows.iter().map(|row| row.sps.min).fold(f64::INFINITY, f64::min);
    let top = rows.iter().map(|row| row.sps.max).fold(0.0, f64::max);
    let named = |x: &f64| {
        let row = (x.fract() == 0.0).then(|| rows.get((*x as usize).wrapping_sub(1))).flatten();
        row.map_or_else(String::new, |row| format!("{} {} {}", row.bench, row.env, row.device))
    };
    let y = chart::Axis {
        range: bottom * 0.7..top * 1.4,
        log: true,
        title: "environment steps per second: median, minimum, maximum",
        label: &|y| operant_run::progress::short(*y),
        names: None,
    };
    let swept = |title| chart::Axis {
        range: least / 1.2..most * 1.2,
        title,
        label: &|x| format!("{x:.0}"),
        ..y.clone()
    };
    let x = match axis {
        Axis::Envs => swept("environments"),
        Axis::Threads => swept("threads"),
        Axis::Rows => {
            let names = Some(rows.len());
            chart::Axis { range: 0.5..most + 0.5, log: false, title: "", label: &named, names }
        }
    };
    let marks = all.iter().enumerate().flat_map(|(number, series)| marks(number, series)).collect();
    Chart { look: LOOK, axes: [x, y], marks }.svg()
}

/// A line through the medians, with bars from the minimum to the maximum.
fn marks(number: usize, series: &Series<'_>) -> Vec<(Rgb, Mark)> {
    let line = series.points.iter().map(|(x, row)| (*x, row.sps.median)).collect();
    let bars = series.points.iter().map(|(x, row)| Mark::Bar(*x, [row.sps.min, row.sps.median, row.sps.max]));
    let all = [Mark::Line(line, 2, Some(series.name.clone()))].into_iter().chain(bars);
    all.map(|mark| (chart::colour(number), mark)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_bench::bench::Bench;
    use operant_bench::bench::row::made_up as row;

    fn rows(envs: &[usize], threads: &[usize]) -> Vec<Row> {
        let mut rows = Vec::new();
        for &envs in envs {
            for &threads in threads {
                for bench in Bench::ALL {
                    let sps = 1e6 * (threads * envs) as f64;
                    let row = row(bench, [sps, 0.9 * sps, 1.2 * sps]);
                    rows.push(Row { envs, threads: Some(threads), ..row });
                }
            }
        }
        rows
    }

    #[test]
    fn the_axis_is_the_swept_variable() {
        assert_eq!(axis(&rows(&[64], &[2])), Axis::Rows);
        assert_eq!(axis(&rows(&[64], &[1, 2])), Axis::Threads);
        assert_eq!(axis(&rows(&[64, 128], &[1, 2])), Axis::Envs);
        let all = rows(&[64, 128, 32], &[1, 2]);
        let series = series(&all, Axis::Envs);
        assert_eq!(series.len(), 6);
        let xs: Vec<f64> = series[0].points.iter().map(|(x, _)| *x).collect();
        assert_eq!(xs, [32.0, 64.0, 128.0]);
    }

    #[test]
    fn every_plot_is_an_image_with_its_names() {
        for (envs, threads, words) in [
            (&[64][..], &[2][..], ["train", "rollout cartpole cpu"]),
            (&[64], &[1, 2], ["threads", "env cartpole cpu"]),
            (&[64, 1024], &[1], ["environments", "train cartpole cpu, 1 threads"]),
        ] {
            let drawn = svg(&rows(envs, threads)).expect("drawn");
            assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
            for word in words {
                assert!(drawn.contains(word), "no {word} in {drawn}");
            }
        }
    }
}
