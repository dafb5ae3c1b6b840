//! Tests of the chart, on a buffer.

use super::series::{binned, smoothed};
use super::*;
use operant_draw::symbols::{ASCII, UNICODE};

fn points(values: &[f64]) -> Vec<ChartPoint> {
    let point =
        |(i, value): (usize, &f64)| ChartPoint { x: i as f64, value: *value, low: f64::NAN, high: f64::NAN };
    values.iter().enumerate().map(point).collect()
}

fn curve(points: Vec<ChartPoint>) -> Curve {
    Curve { points, number: 0, name: "run".to_string() }
}

fn drawn(chart: &Chart, marker: Marker, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let theme = Theme::dark();
    let symbols = if marker == Marker::Ascii { &ASCII } else { &UNICODE };
    chart.draw(Paint { theme: &theme, symbols, marker }, buffer.area, &mut buffer);
    buffer
}

fn text(buffer: &Buffer) -> Vec<String> {
    let row = |y: u16| -> String { (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..buffer.area.height).map(|y| row(y).trim_end().to_string()).collect()
}

/// Columns of a bare chart in which a line can be seen.
fn columns(chart: &Chart, width: u16) -> Vec<bool> {
    // Too low for labels.
    let buffer = drawn(chart, Marker::Ascii, width, 1);
    (0..width).map(|x| buffer[(x, 0)].symbol() == "*").collect()
}

#[test]
fn a_line_goes_from_corner_to_corner() {
    let chart = Chart { curves: vec![curve(points(&[0.0, 1.0, 2.0, 3.0]))], ..Chart::default() };
    let lines = text(&drawn(&chart, Marker::Ascii, 8, 8));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_chart_with_everything() {
    let band: Vec<ChartPoint> = (0..200)
        .map(|i| {
            let value = 250.0 + 240.0 * (f64::from(i) / 25.0).sin();
            ChartPoint { x: f64::from(i) * 1e4, value, low: value - 40.0, high: value + 40.0 }
        })
        .collect();
    let chart = Chart { curves: vec![curve(band)], threshold: Some(475.0), tip: true, ..Chart::default() };
    insta::assert_snapshot!("braille", text(&drawn(&chart, Marker::Braille, 60, 16)).join("\n"));
    insta::assert_snapshot!("block", text(&drawn(&chart, Marker::Block, 60, 16)).join("\n"));
    insta::assert_snapshot!("ascii", text(&drawn(&chart, Marker::Ascii, 60, 16)).join("\n"));
}

#[test]
fn a_gap_stays_a_gap() {
    let mut values = vec![1.0; 30];
    values[10..20].fill(f64::NAN);
    let chart = Chart { curves: vec![curve(points(&values))], ..Chart::default() };
    let seen = columns(&chart, 30);
    assert!(seen[..9].iter().all(|seen| *seen), "{seen:?}");
    assert!(seen[11..19].iter().all(|seen| !*seen), "{seen:?}");
    assert!(seen[21..].iter().all(|seen| *seen), "{seen:?}");
}

#[test]
fn infinities_are_gaps_and_do_not_stretch_the_scale() {
    let chart = Chart {
        curves: vec![curve(points(&[1.0, 2.0, f64::INFINITY, f64::NEG_INFINITY, 2.0, 1.0]))],
        ..Chart::default()
    };
    let (_, y, _) = chart.scales().expect("there are points");
    assert!(y.at(0.0) > 0.5 && y.at(1.0) < 2.5, "{y:?}");
    let seen = columns(&chart, 12);
    assert!(seen[0] && seen[11] && !seen[5], "{seen:?}");
}

#[test]
fn what_falls_into_one_column_becomes_its_mean_and_its_extremes() {
    let mut many = points(&[1.0, 3.0, f64::NAN, 8.0, 5.0]);
    many[1].low = -2.0;
    let bins = binned(&many, &Scale::exact(0.0, 4.0), 1);
    assert_eq!(bins.len(), 2, "{bins:?}");
    assert_eq!((bins[0].x, bins[0].value, bins[0].low, bins[0].high), (3.0, 4.0, -2.0, 8.0));
    assert_eq!(bins[1].value, 5.0);
    let gaps = binned(&points(&[f64::NAN, f64::NAN]), &Scale::exact(0.0, 9.0), 1);
    assert!(gaps.len() == 1 && gaps[0].value.is_nan());
}

#[test]
fn smoothing_keeps_gaps_and_forgets_slowly() {
    let raw = [(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 5.0), (4.0, 5.0)];
    let smooth: Vec<f64> = smoothed(raw.into_iter(), 2.0).map(|(_, value)| value).collect();
    assert_eq!(smooth[0], 1.0);
    assert!((smooth[1] - 1.0).abs() < 1e-12 && smooth[2].is_nan());
    assert!(smooth[3] > 2.0 && smooth[3] < 5.0 && smooth[4] > smooth[3] && smooth[4] < 5.0, "{smooth:?}");
    // No memory is no smoothing.
    let same: Vec<f64> = smoothed(raw.into_iter(), 0.0).map(|(_, value)| value).collect();
    assert_eq!((same[1], same[3], same[4]), (1.0, 5.0, 5.0));
}

#[test]
fn a_log_scale_leaves_out_what_it_cannot_show_and_says_so_when_that_is_all() {
    let mixed =
        Chart { curves: vec![curve(points(&[-1.0, 0.0, 1.0, 1000.0]))], log: true, ..Chart::default() };
    assert!(mixed.scales().is_some());
    let negative = Chart { curves: vec![curve(points(&[-1.0, -2.0]))], log: true, ..Chart::default() };
    assert!(text(&drawn(&negative, Marker::Braille, 60, 5)).join("").contains("nothing above 0"));
    let empty = Chart { curves: vec![curve(points(&[f64::NAN]))], ..Chart::default() };
    assert!(text(&drawn(&empty, Marker::Braille, 60, 5)).join("").contains("no data yet"));
}

#[test]
fn one_point_and_a_constant_can_be_seen() {
    let one = Chart { curves: vec![curve(points(&[7.0]))], ..Chart::default() };
    assert_eq!(columns(&one, 9).iter().filter(|seen| **seen).count(), 1);
    let constant = Chart { curves: vec![curve(points(&[7.0; 5]))], ..Chart::default() };
    assert!(columns(&constant, 9).iter().all(|seen| *seen));
}

#[test]
fn the_threshold_is_always_in_view() {
    let chart =
        Chart { curves: vec![curve(points(&[10.0, 20.0]))], threshold: Some(475.0), ..Chart::default() };
    let lines = text(&drawn(&chart, Marker::Braille, 40, 10));
    assert!(lines.iter().any(|line| line.starts_with("475 ")), "{lines:#?}");
}

#[test]
fn a_threshold_far_away_leaves_the_curve_its_room_and_is_pointed_at() {
    let values = points(&[10.0, 20.0, 500.0]);
    for (threshold, log, symbols, row, label) in [
        (1e9, false, Marker::Braille, 0, "1.00G↑"),
        (1e9, false, Marker::Ascii, 0, "1.00G^"),
        (-1e9, false, Marker::Braille, 8, "-1.00G↓"),
        (1e30, true, Marker::Braille, 0, "1e30↑"),
    ] {
        let chart = Chart {
            curves: vec![curve(values.clone())],
            threshold: Some(threshold),
            log,
            ..Chart::default()
        };
        let (_, y, _) = chart.scales().expect("there are points");
        assert!(y.share(500.0) > 0.8 && y.share(10.0) < 0.2, "{threshold}: {y:?}");
        let lines = text(&drawn(&chart, symbols, 40, 10));
        assert!(lines[row].starts_with(label), "{lines:#?}");
    }
    // On a log scale there is room for both.
    let chart = Chart { curves: vec![curve(values)], threshold: Some(1e9), log: true, ..Chart::default() };
    let (_, y, _) = chart.scales().expect("there are points");
    assert!(y.share(1e9) < 1.0);
}

#[test]
fn a_band_of_points_far_apart_is_filled_between_them() {
    let ends = [0.0, 10.0].map(|x| ChartPoint { x, value: 5.0, low: 0.0, high: 10.0 });
    let chart = Chart { curves: vec![curve(ends.to_vec())], ..Chart::default() };
    let buffer = drawn(&chart, Marker::Braille, 10, 1);
    let tint = Theme::dark().tint(0);
    let filled = (0..10).filter(|x| Some(buffer[(*x, 0)].bg) == tint).count();
    assert_eq!(filled, 10);
}

#[test]
fn every_line_may_have_a_band() {
    let banded = |number: usize, value: f64| {
        let points = [0.0, 10.0].map(|x| ChartPoint { x, value, low: value - 2.0, high: value + 2.0 });
        Curve { number, ..curve(points.to_vec()) }
    };
    let chart = Chart { curves: vec![banded(0, 2.0), banded(1, 8.0)], fill: Fill::Bands, ..Chart::default() };
    let buffer = drawn(&chart, Marker::Braille, 40, 30);
    let theme = Theme::dark();
    let rows = |number: usize| (0..30).filter(|y| Some(buffer[(20, *y)].bg) == theme.tint(number)).count();
    assert!((8..=12).contains(&rows(0)) && (8..=12).contains(&rows(1)), "{} {}", rows(0), rows(1));
    // A line over several runs is named though it is alone.
    let alone = Chart { curves: vec![banded(0, 2.0)], ..chart };
    assert_eq!(text(&drawn(&alone, Marker::Braille, 40, 10))[0], "━━ run 2");
}

#[test]
fn several_curves_have_a_legend_that_hides_none_of_them() {
    let other = Curve { number: 1, name: "other".to_string(), ..curve(points(&[2.0, 1.0])) };
    let chart = Chart { curves: vec![curve(points(&[1.0, 2.0])), other], ..Chart::default() };
    let lines = text(&drawn(&chart, Marker::Braille, 60, 10));
    assert_eq!(lines[0], "━━ run 2  ━━ other 1");
    let bare = Chart { curves: chart.curves[..1].to_vec(), ..chart.clone() };
    let alone = text(&drawn(&bare, Marker::Braille, 60, 9));
    assert!(alone[0].ends_with('⠖'), "{alone:#?}");
    assert_eq!(lines[1].chars().last(), alone[0].chars().last(), "{lines:#?} {alone:#?}");
}

#[test]
fn without_colours_lines_end_in_the_number_of_their_name() {
    let other = Curve { number: 1, name: "other".to_string(), ..curve(points(&[2.0, 1.0])) };
    let chart = Chart { curves: vec![curve(points(&[1.0, 2.0])), other], ..Chart::default() };
    let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 10));
    let theme = Theme::none();
    let paint = Paint { theme: &theme, symbols: &UNICODE, marker: Marker::Braille };
    chart.draw(paint, buffer.area, &mut buffer);
    for lines in [text(&buffer), text(&drawn(&chart, Marker::Ascii, 40, 10))] {
        assert_eq!(lines[0], "1: run 2  2: other 1");
        assert!(lines[1].ends_with('1') && lines[8].ends_with('2'), "{lines:#?}");
    }
}

#[test]
fn names_that_do_not_fit_the_legend_are_cut_and_then_counted() {
    let chart = |names: &[&str]| Chart {
        curves: names
            .iter()
            .enumerate()
            .map(|(number, name)| Curve { number, name: name.to_string(), ..curve(points(&[1.0, 2.0])) })
            .collect(),
        ..Chart::default()
    };
    let legend = |names: &[&str], width| text(&drawn(&chart(names), Marker::Braille, width, 10)).remove(0);
    let two = ["cartpole-wide-7", "cartpole-wide-8"];
    assert_eq!(legend(&two, 40), "━━ cartpole-wide-7  ━━ cartpole-wide-8");
    assert_eq!(legend(&two, 32), "━━ cartp…ide-7  ━━ cartp…ide-8");
    let many = ["one", "two", "three", "four", "five"];
    assert_eq!(legend(&many, 30), "━━ one  ━━ two  ━━ three  +2");
}

#[test]
fn no_size_and_no_values_make_it_panic() {
    let wild = [0.0, -0.0, 1e308, -1e308, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, 5e-324, 1.0];
    let banded: Vec<ChartPoint> = (0..40)
        .map(|i| ChartPoint {
            x: wild[i % 9] * f64::from(i as u32 % 3),
            value: wild[(i * 5) % 9],
            low: wild[(i * 7) % 9],
            high: wild[(i * 2) % 9],
        })
        .collect();
    for marker in [Marker::Braille, Marker::Block, Marker::Ascii] {
        for (log, fill) in
            [(false, Fill::Band), (true, Fill::Below), (false, Fill::None), (true, Fill::Bands)]
        {
            for width in 0..50 {
                for height in 0..20 {
                    let chart = Chart {
                        curves: vec![curve(banded.clone()), curve(points(&wild))],
                        threshold: Some(wild[usize::from(width) % 9]),
                        log,
                        fill,
                        smoothing: 0.03,
                        tip: true,
                        ..Chart::default()
                    };
                    drawn(&chart, marker, width, height);
                }
            }
        }
    }
}

/// The row that has the text of the threshold, and the rows that have dots of the curve in the last column.
fn rows_of(chart: &Chart, height: u16) -> (usize, Vec<usize>) {
    let buffer = drawn(chart, Marker::Braille, 50, height);
    let label = text(&buffer).iter().position(|line| line.starts_with("475")).expect("a label");
    let good = Theme::dark().good.fg;
    let curve = |y: &usize| {
        let cell = &buffer[(49, *y as u16)];
        cell.symbol() != " " && Some(cell.fg) != good && cell.symbol() != "┈"
    };
    (label, (0..usize::from(height) - 1).filter(curve).collect())
}

#[test]
fn a_curve_above_the_threshold_is_not_drawn_on_its_line() {
    for height in 6..24 {
        for (value, above) in [(500.0, true), (480.0, true), (460.0, false)] {
            let values: Vec<f64> = (0..100).map(|i| if i < 20 { f64::from(i) } else { value }).collect();
            let chart =
                Chart { curves: vec![curve(points(&values))], threshold: Some(475.0), ..Chart::default() };
            let (label, rows) = rows_of(&chart, height);
            assert!(!rows.is_empty(), "{value} at {height}");
            for row in rows {
                assert!(
                    if above { row < label } else { row > label },
                    "{value} on {row}, 475 on {label} of {height}"
                );
            }
        }
    }
}

#[test]
fn one_spike_does_not_flatten_a_chart_and_is_marked() {
    let mut values: Vec<f64> = (0..200).map(|i| 1.0 + f64::from(i % 10) / 10.0).collect();
    values[50] = 4e6;
    let chart = Chart { curves: vec![curve(points(&values))], robust: true, ..Chart::default() };
    let (_, y, _) = chart.scales().expect("there are points");
    assert!(y.at(1.0) < 5.0, "{y:?}");
    let lines = text(&drawn(&chart, Marker::Braille, 60, 12));
    assert!(lines[0].contains("↑4.00M"), "{lines:#?}");
    // All values, on request.
    let all = Chart { robust: false, ..chart.clone() };
    assert!(all.scales().expect("there are points").1.at(1.0) > 4e6);
    assert!(!text(&drawn(&all, Marker::Braille, 60, 12)).concat().contains('↑'));
    // The newest values are not a spike.
    let mut now = values.clone();
    (now[50], now[199]) = (1.0, 4e6);
    let chart = Chart { curves: vec![curve(points(&now))], robust: true, ..Chart::default() };
    assert!(chart.scales().expect("there are points").1.at(1.0) > 4e6);
}

#[test]
fn the_cursor_reads_values_and_stays_inside() {
    let cursor = Cell::new(Some(0));
    let values: Vec<f64> = (0..=100).map(f64::from).collect();
    let chart = Chart { curves: vec![curve(points(&values))], cursor: Some(&cursor), ..Chart::default() };
    let shown = text(&drawn(&chart, Marker::Braille, 60, 12));
    assert!(shown[0].contains("100 steps  100"), "{shown:#?}");
    assert!(shown.iter().filter(|line| line.ends_with(['│', '⠁', '⠈', '⣀'])).count() >= 8, "{shown:#?}");
    cursor.set(Some(1000));
    let shown = text(&drawn(&chart, Marker::Braille, 60, 12));
    assert!(shown[0].contains("0 steps  0"), "{shown:#?}");
    assert!(cursor.get().is_some_and(|at| at < 60), "{cursor:?}");
    for (width, height) in (0..30).flat_map(|width| (0..12).map(move |height| (width, height))) {
        drawn(&chart, Marker::Ascii, width, height);
    }
}

#[test]
fn a_legend_has_the_value_of_each_run_and_the_cursors_where_there_is_one() {
    let cursor = Cell::new(None);
    let named = |i: usize| {
        let values: Vec<f64> = (0..=100).map(|x| f64::from(x) * i as f64).collect();
        Curve { points: points(&values), number: i, name: format!("sweep-learning-rate-run-{i}") }
    };
    let curves: Vec<Curve> = (0..32).map(named).collect();
    let chart = Chart { curves, values: true, cursor: Some(&cursor), ..Chart::default() };
    let shown = text(&drawn(&chart, Marker::Braille, 120, 40)).join("\n");
    for i in 0..32 {
        assert!(shown.contains(&format!("run-{i} ")), "run {i} in\n{shown}");
    }
    assert!(shown.contains("3.10k"), "{shown}");
    cursor.set(Some(1000));
    let shown = text(&drawn(&chart, Marker::Braille, 120, 40)).join("\n");
    assert!(!shown.contains("3.10k"), "{shown}");
    // Too few rows for all: the rest is counted.
    assert!(text(&drawn(&chart, Marker::Braille, 60, 12)).join("\n").contains(" more"));
}
