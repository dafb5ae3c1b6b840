//! The panel, drawn.

use std::time::Duration;

use operant_metrics::{Episode, Frame, Point, Shape};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::draw;
use crate::data::{RunView, Stage};
use crate::headless::fixture::{run, screen};
use crate::ui::panel::Context;
use crate::view::View;
use operant_draw::symbols::{ASCII, Marker};
use operant_draw::theme::Theme;

fn line(points: &[Point], tone: u8) -> Shape {
    Shape::Line { points: points.to_vec(), tone }
}

fn block(low: Point, high: Point, tone: u8) -> Shape {
    Shape::Rectangle { low, high, tone }
}

/// A cart on its track with its pole at some angle, as the environment draws it.
fn cart(x: f32, angle: f32) -> Frame {
    vec![
        line(&[[-2.4, 0.0], [2.4, 0.0]], 0),
        block([x - 0.25, 0.0], [x + 0.25, 0.2], 1),
        line(&[[x, 0.2], [x + angle.sin(), 0.2 + angle.cos()]], 2),
        Shape::Circle { center: [x, 0.2], radius: 0.04, tone: 3 },
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

/// A grid world: walls, a locked door with a keyhole, a key, a ball, a goal with a letter, and an agent facing right.
fn rooms() -> Episode {
    let square = |x: f32, y: f32, tone| block([x + 0.05, y + 0.05], [x + 0.95, y + 0.95], tone);
    let mut frame: Frame = Vec::new();
    for i in 0..7 {
        frame.extend([square(i as f32, 0.0, 10), square(i as f32, 5.0, 10), square(3.0, i as f32 % 6.0, 10)]);
    }
    frame.extend([
        square(3.0, 2.0, 9),
        Shape::Circle { center: [3.7, 2.5], radius: 0.1, tone: 0 },
        block([1.35, 3.2], [1.65, 3.8], 9),
        Shape::Circle { center: [5.5, 4.5], radius: 0.35, tone: 7 },
        square(5.0, 1.0, 6),
        Shape::Text { center: [5.5, 1.5], text: "G".into(), tone: 0 },
        Shape::Polygon { points: vec![[1.2, 1.2], [1.85, 1.5], [1.2, 1.8]], tone: 5 },
        line(&[[4.2, 3.2], [4.8, 3.8]], 8),
    ]);
    Episode { low: [0.0, 0.0], high: [7.0, 6.0], frames: vec![frame], ..cartpole() }
}

/// A board of numbers, as in 2048.
fn numbers() -> Episode {
    let cell = |i: usize| [(i % 4) as f32, (i / 4) as f32];
    let mut frame = Frame::new();
    for (i, text) in [(0, "2"), (1, "1024"), (5, "64"), (15, "2048")] {
        let [x, y] = cell(i);
        frame.push(block([x + 0.05, y + 0.05], [x + 0.95, y + 0.95], 2));
        frame.push(Shape::Text { center: [x + 0.5, y + 0.5], text: text.into(), tone: 0 });
    }
    Episode { low: [0.0, 0.0], high: [4.0, 4.0], frames: vec![frame], ..cartpole() }
}

/// Every shape at positions off the grid, such as a quadrotor with thrust lines.
fn flight() -> Episode {
    let frame = vec![
        line(&[[-1.0, 0.0], [1.0, 0.0]], 0),
        Shape::Polygon { points: vec![[-0.4, 0.5], [0.4, 0.6], [0.4, 0.7], [-0.4, 0.6]], tone: 1 },
        Shape::Circle { center: [-0.4, 0.6], radius: 0.08, tone: 5 },
        block([0.35, 0.2], [0.45, 0.55], 9),
        Shape::Text { center: [0.0, 0.9], text: "1.2 m/s".into(), tone: 3 },
    ];
    Episode { low: [-1.0, -0.1], high: [1.0, 1.0], frames: vec![frame], ..cartpole() }
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
fn a_grid_world_has_marks_on_its_squares() {
    let small = shown(&rooms(), 0, (40, 10), Marker::Braille);
    insta::assert_snapshot!(small + &shown(&rooms(), 0, (40, 16), Marker::Braille));
}

#[test]
fn a_grid_world_in_ascii_and_without_colour() {
    let ascii = shown(&rooms(), 0, (40, 10), Marker::Ascii);
    let bare = drawn(Some(&rooms()), 0, (40, 16), &Theme::none(), |_| {});
    insta::assert_snapshot!(ascii + &screen(&bare));
}

#[test]
fn a_board_of_numbers() {
    insta::assert_snapshot!(shown(&numbers(), 0, (44, 14), Marker::Braille));
}

#[test]
fn every_shape_off_the_grid() {
    let braille = shown(&flight(), 0, (44, 12), Marker::Braille);
    insta::assert_snapshot!(braille + &shown(&flight(), 0, (44, 12), Marker::Ascii));
}

#[test]
fn marks_and_texts_have_the_colour_of_their_square_behind_them() {
    let theme = Theme::dark();
    for size in [(40, 10), (40, 16)] {
        let buffer = drawn(Some(&rooms()), 0, size, &theme, |_| {});
        let letter = buffer.content.iter().find(|cell| cell.symbol() == "G").expect("the goal's letter");
        let ground = theme.tone(6).fg.expect("a colour");
        let readable = theme.on_tone(ground).expect("text on a tone");
        assert_eq!((Some(letter.fg), letter.bg), (readable.fg, ground));
        assert_ne!(letter.fg, letter.bg);
        let has = |tone: u8| buffer.content.iter().any(|cell| Some(cell.fg) == theme.tone(tone).fg);
        assert!((5..=10).all(has), "{size:?}");
    }
}

#[test]
fn tones_have_their_colours() {
    let theme = Theme::dark();
    let buffer = drawn(Some(&breakout()), 0, (44, 14), &theme, |_| {});
    // A square is two cells, with gaps above and at the right: 29 bricks, one ball, one paddle, one trail.
    for symbol in ["▇", "▊"] {
        let count = |tone: u8| {
            let colour = theme.tone(tone).fg;
            buffer.content.iter().filter(|cell| cell.symbol() == symbol && Some(cell.fg) == colour).count()
        };
        assert_eq!([1, 2, 3, 4].map(count), [29, 1, 1, 1], "{symbol}");
    }
}

#[test]
fn without_colour_nothing_is_coloured() {
    for marker in [Marker::Braille, Marker::Block, Marker::Ascii] {
        for episode in [cartpole(), breakout(), rooms(), numbers(), flight()] {
            let buffer =
                drawn(Some(&episode), 0, (40, 12), &Theme::none(), |context| context.marker = marker);
            use ratatui::style::Color::Reset;
            assert!(buffer.content.iter().all(|cell| cell.fg == Reset && cell.bg == Reset), "{marker:?}");
        }
    }
}

#[test]
fn without_an_episode_it_says_so() {
    let (_dir, _ring, reader) = run(0);
    let waiting = RunView::of_source("first-try", reader);
    let (theme, view) = (Theme::dark(), View::default());
    let area = Rect::new(0, 0, 40, 5);
    let mut buffer = Buffer::empty(area);
    draw(&Context::still(&waiting, &view, &theme), area, &mut buffer);
    insta::assert_snapshot!(screen(&buffer));
    // The updates of the fixture have waited for worker processes.
    let gymnasium = screen(&drawn(None, 0, (40, 5), &Theme::dark(), |_| {}));
    assert!(gymnasium.contains("Gymnasium runs have no picture"), "{gymnasium}");
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
    for episode in [cartpole(), breakout(), rooms(), numbers(), flight(), wild] {
        run.stage = Stage::of_episode(episode);
        for marker in [Marker::Braille, Marker::Block, Marker::Ascii] {
            let context = Context { marker, ..Context::still(&run, &view, &theme) };
            for (width, height) in (0..24).flat_map(|width| (0..14).map(move |height| (width, height))) {
                draws_inside(&context, Rect::new(7, 3, width, height));
            }
        }
    }
}

/// Draws into a part of a larger buffer, and checks that nothing else changed.
fn draws_inside(context: &Context, area: Rect) {
    let mut buffer = Buffer::filled(Rect::new(0, 0, 40, 20), ratatui::buffer::Cell::new("~"));
    draw(context, area, &mut buffer);
    for (i, cell) in buffer.content.iter().enumerate() {
        let at = buffer.pos_of(i);
        assert!(area.contains(at.into()) || cell.symbol() == "~", "{area:?}: drew at {at:?}");
    }
}
