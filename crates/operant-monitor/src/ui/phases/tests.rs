//! The panel, drawn.

use operant_metrics::SeriesPoint;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Phase, apportion, draw, mean};
use crate::data::RunView;
use crate::headless::fixture::{record, run, screen};
use crate::ui::panel::Context;
use crate::view::View;
use operant_draw::symbols::ASCII;
use operant_draw::theme::Theme;

fn drawn(updates: u64, view: &View, (width, height): (u16, u16), change: impl Fn(&mut Context)) -> String {
    let (_dir, _ring, reader) = run(updates);
    let run = RunView::of_source("first-try", reader);
    let theme = Theme::dark();
    let mut context = Context::still(&run, view, &theme);
    change(&mut context);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(&context, area, &mut buffer);
    screen(&buffer)
}

#[test]
fn every_phase_has_its_share_and_its_time() {
    insta::assert_snapshot!(drawn(300, &View::default(), (60, 10), |_| {}));
}

#[test]
fn in_less_room_the_longest_phases_are_named() {
    let sizes = [(40, 8), (40, 5), (30, 4), (24, 3), (12, 3)];
    insta::assert_snapshot!(sizes.map(|size| drawn(300, &View::default(), size, |_| {})).join("\n"));
}

#[test]
fn without_colour_the_fills_differ() {
    let theme = Theme::none();
    let (_dir, _ring, reader) = run(30);
    let run = RunView::of_source("first-try", reader);
    let view = View::default();
    let area = Rect::new(0, 0, 50, 9);
    let mut buffer = Buffer::empty(area);
    draw(&Context::still(&run, &view, &theme), area, &mut buffer);
    let plain = screen(&buffer);
    let ascii = drawn(30, &view, (50, 9), |context| context.symbols = &ASCII);
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!(plain + &ascii);
}

#[test]
fn before_the_first_update_it_says_so() {
    insta::assert_snapshot!(drawn(0, &View::default(), (40, 5), |_| {}));
}

#[test]
fn the_mean_is_over_the_visible_window() {
    let (_dir, mut ring, reader) = run(0);
    for update in 1..=200 {
        let mut record = record(update);
        record.time_rollout = if update <= 150 { 0.001 } else { 0.003 };
        ring.writer.publish(&record);
    }
    let run = RunView::of_source("first-try", reader);
    let theme = Theme::dark();
    let rollout = |view: &View| super::phases(&Context::still(&run, view, &theme))[0].clone();
    let mut view = View::default();
    let whole = rollout(&view);
    assert_eq!(whole.name, "rollout");
    assert!((whole.seconds - 0.0015).abs() < 2e-5, "{whole:?}");
    view.window.zoom_in(1.0, 200);
    view.window.zoom_in(1.0, 200);
    let recent = rollout(&view);
    assert!((recent.seconds - 0.003).abs() < 1e-4, "{recent:?}");
}

#[test]
fn points_count_for_the_updates_they_stand_for() {
    let point =
        |update: u64, mean: f64| SeriesPoint { x: 0.0, update, min: mean, max: mean, mean, last: mean };
    assert_eq!(mean(&[]), 0.0);
    assert_eq!(mean(&[point(1, f64::NAN)]), 0.0);
    assert_eq!(mean(&[point(16, 1.0), point(32, 1.0), point(33, 18.0)]), (16.0 + 16.0 + 18.0) / 33.0);
    assert_eq!(mean(&[point(1, 2.0), point(2, f64::NAN), point(3, 4.0)]), 3.0);
}

#[test]
fn the_bar_is_always_full() {
    let phases = |shares: &[f64]| -> Vec<Phase> {
        shares.iter().map(|&share| Phase { name: String::new(), seconds: share, share }).collect()
    };
    for width in 0..200 {
        for shares in [&[0.4, 0.3, 0.2, 0.06, 0.04][..], &[1.0, 0.0], &[0.2; 5], &[1.0 / 3.0; 3]] {
            let cells = apportion(&phases(shares), width);
            assert_eq!(cells.iter().sum::<u16>(), width, "{shares:?}");
        }
    }
    assert_eq!(apportion(&phases(&[0.5, 0.26, 0.24]), 4), [2, 1, 1]);
}

#[test]
fn any_area_will_do() {
    let (theme, view) = (Theme::dark(), View::default());
    for updates in [0, 3] {
        let (_dir, _ring, reader) = run(updates);
        let run = RunView::of_source("first-try", reader);
        let context = Context::still(&run, &view, &theme);
        for (width, height) in (0..40).flat_map(|width| (0..10).map(move |height| (width, height))) {
            let area = Rect::new(0, 0, width, height);
            draw(&context, area, &mut Buffer::empty(area));
        }
    }
}
