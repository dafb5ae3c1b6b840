//! The panel, drawn.

use operant_metrics::Level;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::draw;
use crate::data::RunView;
use crate::headless::fixture::{event, run, screen};
use crate::ui::panel::Context;
use crate::view::View;
use operant_draw::theme::Theme;

fn drawn(count: usize, selected: usize, size: (u16, u16), theme: &Theme) -> Buffer {
    let (_dir, _ring, reader) = run(1);
    draw_events(&mut RunView::of_source("first-try", reader), count, selected, size, theme)
}

fn draw_events(
    run: &mut RunView,
    count: usize,
    selected: usize,
    (width, height): (u16, u16),
    theme: &Theme,
) -> Buffer {
    run.events = [
        (Level::Info, "training on cpu with 2 threads"),
        (Level::Info, "checkpoint saved at 102 400 steps"),
        (Level::Warning, "a minibatch of update 12 was skipped: its loss was not finite"),
        (Level::Info, "SIGUSR1 received: saving a checkpoint"),
        (Level::Error, "cannot write checkpoints/204800: no space left on device"),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, (level, text))| event(i as u64, level, text))
    .take(count)
    .collect();
    let view = View::default();
    let mut context = Context::still(run, &view, theme);
    context.selected = selected;
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(&context, area, &mut buffer);
    buffer
}

fn shown(count: usize, selected: usize, size: (u16, u16)) -> String {
    screen(&drawn(count, selected, size, &Theme::dark()))
}

#[test]
fn the_newest_is_at_the_bottom() {
    insta::assert_snapshot!(shown(5, 0, (60, 7)));
}

#[test]
fn few_events_begin_at_the_top() {
    insta::assert_snapshot!(shown(2, 0, (60, 7)));
}

#[test]
fn narrow_panels_wrap_and_leave_the_time_out() {
    insta::assert_snapshot!(shown(5, 0, (30, 12)));
}

#[test]
fn it_scrolls_up_to_the_oldest() {
    insta::assert_snapshot!(shown(5, 2, (60, 5)));
    assert_eq!(shown(5, 4, (60, 5)), shown(5, 99, (60, 5)));
    assert!(shown(5, 99, (60, 5)).contains("training on cpu"));
}

#[test]
fn levels_have_their_colours() {
    let theme = Theme::dark();
    let buffer = drawn(5, 0, (80, 7), &theme);
    let colour_of = |word: &str| {
        let rows: Vec<String> = screen(&buffer).lines().map(str::to_owned).collect();
        let y = rows.iter().position(|row| row.contains(word)).unwrap();
        let x =
            rows[y].chars().collect::<String>().find(word).map(|at| rows[y][..at].chars().count()).unwrap();
        Some(buffer[(x as u16, y as u16)].fg)
    };
    assert_eq!(colour_of("checkpoint saved"), theme.text.fg);
    assert_eq!(colour_of("a minibatch"), theme.warning.fg);
    assert_eq!(colour_of("cannot write"), theme.bad.fg);
}

#[test]
fn without_events_it_says_so() {
    insta::assert_snapshot!(shown(0, 0, (40, 5)));
}

#[test]
fn any_area_will_do() {
    let (_dir, _ring, reader) = run(1);
    let mut run = RunView::of_source("first-try", reader);
    for size in (0..50).flat_map(|width| (0..9).map(move |height| (width, height))) {
        for (count, selected) in [(0, 0), (5, 0), (5, 3)] {
            draw_events(&mut run, count, selected, size, &Theme::none());
        }
    }
}
