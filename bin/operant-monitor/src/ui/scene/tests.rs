//! The panel, drawn.

use std::time::Duration;

use operant_metrics::{Episode, Frame, Point, Primitive};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::draw;
use crate::data::{RunView, Stage};
use crate::headless::fixture::{run, screen};
use crate::symbols::{ASCII, Marker};
use crate::theme::Theme;
use crate::ui::panel::Context;
use crate::view::View;

fn line(points: &[Point], tone: u8) -> Primitive {
    Primitive::Line { points: points.to_vec(), tone }
}

fn block(low: Point, high: Point, tone: u8) -> Primitive {
    Primitive::Rectangle { low, high, tone }
}

/// A cart on its track with its pole at some angle, as the environment draws it.
fn cart(x: f32, angle: f32) -> Frame {
    vec![
        line(&[[-2.4, 0.0], [2.4, 0.0]], 0),
        block([x - 0.25, 0.0], [x + 0.25, 0.2], 1),
        line(&[[x, 0.2], [x + angle.sin(), 0.2 + angle.cos()]], 2),
        Primitive::Circle { center: [x, 0.2], radius: 0.04, tone: 3 },
    ]
}

fn cartpole() -> Episode {
    Episode {
        fps: 50.0,
        episodic_return: 3.0,
        low: [-2.6, -0.4],
        high: [2.6, 1.6],
        frames: vec![cart(-1.0, 0.0), cart(0.0, 0.3), cart(1.0, -0.6)],
        ..Episode::default()
    }
}

/// Breakout as MinAtar plays it: three rows of bricks, a ball with its trail, a paddle; one square drawn smaller.
fn breakout() -> Episode {
    let square = |x: f32, y: f32, tone| block([x + 0.05, 9.05 - y], [x + 0.95, 9.95 - y], tone);
    let mut frame: Frame = (1..4).flat_map(|y| (0..10).map(move |x| square(x as f32, y as f32, 1))).collect();
    frame.remove(14);
    frame.extend([square(4.0, 5.0, 4), square(5.0, 6.0, 2), square(5.0, 9.0, 3)]);
    Episode {
        fps: 10.0,
        episodic_return: 1.0,
        low: [0.0, 0.0],
        high: [10.0, 10.0],
        frames: vec![frame],
        ..Episode::default()
    }
}

/// The panel at a time, `change` having been at the context.
fn drawn(
    episode: Option<&Episode>,
    milliseconds: u64,
    size: (u16, u16),
    theme: &Theme,
    change: impl Fn(&mut Context),
) -> Buffer {
    let (_dir, mut ring, reader) = run(3);
    if let Some(episode) = episode {
        ring.writer.show(episode);
    }
    let mut run = RunView::of_source("first-try", reader);
    run.play(Duration::ZERO);
    run.play(Duration::from_millis(milliseconds));
    let view = View::default();
    let mut context = Context::still(&run, &view, theme);
    change(&mut context);
    let area = Rect::new(0, 0, size.0, size.1);
    let mut buffer = Buffer::empty(area);
    draw(&context, area, &mut buffer);
    buffer
}

fn shown(episode: &Episode, milliseconds: u64, size: (u16, u16), marker: Marker) -> String {
    screen(&drawn(Some(episode), milliseconds, size, &Theme::dark(), |context| context.marker = marker))
}

#[test]
fn cartpole_in_braille_plays() {
    let first = shown(&cartpole(), 0, (56, 14), Marker::Braille);
    let last = shown(&cartpole(), 40, (56, 14), Marker::Braille);
    assert_ne!(first, last);
    insta::assert_snapshot!(first + &last);
}

#[test]
fn cartpole_in_blocks() {
    insta::assert_snapshot!(shown(&cartpole(), 20, (56, 14), Marker::Block));
}

#[test]
fn cartpole_in_ascii() {
    let buffer = drawn(Some(&cartpole()), 20, (56, 14), &Theme::none(), |context| context.symbols = &ASCII);
    let text = screen(&buffer);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_board_has_whole_cells() {
    insta::assert_snapshot!(shown(&breakout(), 0, (44, 14), Marker::Braille));
}

#[test]
fn a_board_in_little_room_still_has_squares_of_one_size() {
    insta::assert_snapshot!(shown(&breakout(), 0, (24, 8), Marker::Braille));
}

#[test]
fn a_board_in_ascii_tells_its_tones_apart() {
    insta::assert_snapshot!(shown(&breakout(), 0, (24, 12), Marker::Ascii));
}

#[test]
fn tones_have_their_colours() {
    let theme = Theme::dark();
    let buffer = drawn(Some(&breakout()), 0, (44, 14), &theme, |_| {});
    let count = |tone: u8| {
        let colour = theme.tone(tone).fg;
        buffer.content.iter().filter(|cell| cell.symbol() == "█" && Some(cell.fg) == colour.or(None)).count()
    };
    // A square is two cells: 29 bricks, one ball, one paddle, one trail.
    assert_eq!([1, 2, 3, 4].map(count), [58, 2, 2, 2]);
}

#[test]
fn without_colour_nothing_is_coloured() {
    for marker in [Marker::Braille, Marker::Block, Marker::Ascii] {
        for episode in [cartpole(), breakout()] {
            let buffer =
                drawn(Some(&episode), 0, (40, 12), &Theme::none(), |context| context.marker = marker);
            use ratatui::style::Color::Reset;
            assert!(buffer.content.iter().all(|cell| cell.fg == Reset && cell.bg == Reset), "{marker:?}");
        }
    }
}

#[test]
fn without_an_episode_it_says_so() {
    insta::assert_snapshot!(screen(&drawn(None, 0, (40, 5), &Theme::dark(), |_| {})));
}

#[test]
fn any_area_will_do() {
    let wild = Episode {
        low: [f32::NAN, 0.0],
        high: [f32::INFINITY, -1.0],
        frames: vec![vec![line(&[[f32::NAN; 2], [1e38, -1e38]], 200)]],
        ..cartpole()
    };
    let (_dir, _ring, reader) = run(1);
    let mut run = RunView::of_source("first-try", reader);
    let (theme, view) = (Theme::dark(), View::default());
    for episode in [cartpole(), breakout(), wild] {
        run.stage = Stage::of_episode(episode);
        for marker in [Marker::Braille, Marker::Block, Marker::Ascii] {
            let context = Context { marker, ..Context::still(&run, &view, &theme) };
            for (width, height) in (0..24).flat_map(|width| (0..14).map(move |height| (width, height))) {
                draws_inside(&context, Rect::new(7, 3, width, height));
            }
        }
    }
}

/// Draws into a part of a larger buffer, and looks whether it stayed there.
fn draws_inside(context: &Context, area: Rect) {
    let mut buffer = Buffer::filled(Rect::new(0, 0, 40, 20), ratatui::buffer::Cell::new("~"));
    draw(context, area, &mut buffer);
    for (i, cell) in buffer.content.iter().enumerate() {
        let at = buffer.pos_of(i);
        assert!(area.contains(at.into()) || cell.symbol() == "~", "{area:?}: drew at {at:?}");
    }
}
