//! Plays an environment full screen at its own frame rate: the window of `operant play`.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use operant_metrics::{Frame, Point};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::MonitorError;
use crate::input::{Event, Input};
use crate::terminal::{Screen, full_screen, signal_code};
use operant_draw::cells::{Brush, Picture};
use operant_draw::symbols::{self, Marker, Symbols};
use operant_draw::theme::{Depth, Detected, Theme, ThemeName};

/// How long the last frame of an episode is shown.
const LAST_FRAME: Duration = Duration::from_millis(800);
/// Allowed frames per second.
const FPS: std::ops::RangeInclusive<f32> = 1.0..=60.0;

/// A key that selects an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Left,
    Right,
    Up,
    Down,
    /// The key of the action with this number, below [`Key::NUMBERS`].
    Number(u8),
}

/// The keys of numbers: digits, then the letters that control nothing.
const NUMBERS: &str = "0123456789abcdefghijklmoprstuvwxyz";

impl Key {
    /// How many numbers have a key.
    pub const NUMBERS: usize = NUMBERS.len();

    pub fn label(self, unicode: bool) -> String {
        match self {
            Key::Number(number) => NUMBERS.chars().nth(number.into()).unwrap_or('?').to_string(),
            Key::Left if unicode => "←".to_owned(),
            Key::Right if unicode => "→".to_owned(),
            Key::Up if unicode => "↑".to_owned(),
            Key::Down if unicode => "↓".to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn of(code: KeyCode) -> Option<Self> {
        Some(match code {
            KeyCode::Left => Key::Left,
            KeyCode::Right => Key::Right,
            KeyCode::Up => Key::Up,
            KeyCode::Down => Key::Down,
            KeyCode::Char(key) => Key::Number(NUMBERS.find(key)? as u8),
            _ => return None,
        })
    }
}

/// The result of a step, or of starting an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The episode continues.
    Running,
    /// The episode has ended; its last frame is shown.
    Ended,
    /// There are no more episodes.
    Over,
}

/// The source of the frames that the window shows.
pub trait Show {
    fn fps(&self) -> f32;
    /// The title of the window: environment and agent.
    fn title(&self) -> String;
    /// Episode, step, return.
    fn note(&self) -> String;
    /// Keys with their actions, as texts; none if the keyboard selects no actions.
    fn keys(&self, unicode: bool) -> Vec<String>;
    /// Whether every step waits for a key.
    fn waits_for_keys(&self) -> bool;
    /// Lower left and upper right corners of the view.
    fn view(&self) -> (Point, Point);
    /// The picture.
    fn frame(&self) -> &Frame;
    /// Takes one step with the last key that was pressed since the previous step.
    fn step(&mut self, key: Option<Key>) -> Progress;
    /// Begins the next episode.
    fn next(&mut self) -> Progress;
}

/// The state of the window.
struct Window<'a> {
    show: &'a mut dyn Show,
    picture: Picture,
    theme: Theme,
    symbols: &'static Symbols,
    progress: Progress,
    paused: bool,
    key: Option<Key>,
    /// Number of ticks for which the last frame of an episode has been shown.
    lingered: f32,
    leave: Option<u8>,
    suspend: bool,
}

/// Runs the window until everything was shown or the user quits. Returns the exit code: 0, or 128 plus the
/// number of a signal.
///
/// # Errors
/// When the terminal fails. The terminal is restored first.
pub fn play(show: &mut dyn Show) -> Result<u8, MonitorError> {
    let unicode = symbols::locale_is_utf8();
    let mut input = Input::new(Duration::from_secs_f32(1.0 / fps(show)))?;
    let mut window = Window::new(
        show,
        Theme::new(ThemeName::Auto, Detected::from_environment()),
        if unicode { &symbols::UNICODE } else { &symbols::ASCII },
    );
    full_screen(&mut input, |screen, input| window.run(screen, input))
}

/// The frame rate within the allowed range; 30 if it is not a positive finite number.
fn fps(show: &dyn Show) -> f32 {
    let fps = show.fps();
    if fps.is_finite() && fps > 0.0 { fps.clamp(*FPS.start(), *FPS.end()) } else { 30.0 }
}

impl<'a> Window<'a> {
    fn new(show: &'a mut dyn Show, theme: Theme, symbols: &'static Symbols) -> Self {
        let (low, high) = show.view();
        let picture = Picture::new(low, high, std::slice::from_ref(show.frame()));
        Window {
            show,
            picture,
            theme,
            symbols,
            progress: Progress::Running,
            paused: false,
            key: None,
            lingered: 0.0,
            leave: None,
            suspend: false,
        }
    }

    fn run(&mut self, screen: &mut Screen, input: &mut Input) -> Result<u8, MonitorError> {
        let reading = |source| MonitorError::Terminal { doing: "read from", source };
        loop {
            match input.next_event().map_err(reading)? {
                Event::Key(key) => self.press(key),
                Event::Tick => self.tick(),
                Event::Signal(number) => self.leave = Some(signal_code(number)),
                Event::Suspend => self.suspend = true,
                Event::Continue => screen.retake()?,
                Event::Mouse(_) | Event::Resize(..) => {}
            }
            if let Some(code) = self.leave {
                return Ok(code);
            }
            if std::mem::take(&mut self.suspend) {
                screen.suspend()?;
            }
            if !input.is_pending() {
                let colours = self.theme.depth != Depth::None;
                screen.draw(colours, |frame| self.draw(frame.area(), frame.buffer_mut()))?;
            }
        }
    }

    fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => self.leave = Some(0),
                KeyCode::Char('z') => self.suspend = true,
                _ => {}
            }
            return;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => self.leave = Some(0),
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('n') => self.next(),
            code => {
                let Some(key) = Key::of(code).filter(|_| !self.paused) else { return };
                self.key = Some(key);
                // Step immediately: ticks do not advance the episode here.
                if self.show.waits_for_keys() {
                    self.advance();
                }
            }
        }
    }

    fn tick(&mut self) {
        match self.progress {
            _ if self.paused => {}
            Progress::Ended => {
                self.lingered += 1.0;
                if !self.show.waits_for_keys() && self.lingered >= LAST_FRAME.as_secs_f32() * fps(self.show) {
                    self.next();
                }
            }
            _ if self.show.waits_for_keys() => {}
            _ => self.advance(),
        }
    }

    fn advance(&mut self) {
        if self.progress == Progress::Ended {
            self.key = None;
            return self.next();
        }
        let progress = self.show.step(self.key.take());
        self.shown(progress);
    }

    fn next(&mut self) {
        let progress = self.show.next();
        self.shown(progress);
    }

    fn shown(&mut self, progress: Progress) {
        (self.progress, self.lingered) = (progress, 0.0);
        if progress == Progress::Over {
            self.leave = Some(0);
        }
        let (low, high) = self.show.view();
        if self.picture.view() == (low, high) {
            self.picture.expect(self.show.frame());
        } else {
            self.picture = Picture::new(low, high, std::slice::from_ref(self.show.frame()));
        }
    }

    fn draw(&self, area: Rect, buffer: &mut Buffer) {
        if area.height < 2 {
            return;
        }
        let (theme, symbols) = (&self.theme, self.symbols);
        let mut hints = self.hints(area.width);
        // At most a third of the window.
        hints.truncate(usize::from((area.height / 3).max(1)));
        let hint_rows = hints.len() as u16;
        for (row, line) in (area.bottom() - hint_rows..).zip(&hints) {
            buffer.set_line(area.x, row, line, area.width);
        }
        let area = Rect { height: area.height - hint_rows, ..area };
        let mut inside = area;
        if area.width >= 12 && area.height >= 5 {
            symbols.border(theme.border, inside, buffer);
            let room = usize::from(area.width) - 6;
            let note = format!(" {} ", self.show.note());
            let title = format!(" {} ", self.show.title());
            let start = area.right() - 2 - (note.chars().count().min(room)) as u16;
            let left = usize::from(start.saturating_sub(area.x + 2));
            buffer.set_stringn(area.x + 2, area.y, title, left, theme.title);
            buffer.set_stringn(start, area.y, note, room, theme.strong);
            inside = Rect::new(area.x + 1, area.y + 1, area.width - 2, area.height - 2);
        }
        let brush = Brush::new(theme, symbols, Marker::Braille);
        self.picture.paint(self.show.frame(), &brush, inside, buffer);
    }

    /// The keys and what they do, in lines of at most `width` columns.
    fn hints(&self, width: u16) -> Vec<Line<'static>> {
        let (theme, mut lines) = (&self.theme, vec![Line::default()]);
        let mut hint = |spans: Vec<Span<'static>>| {
            let room = usize::from(width).saturating_sub(spans.iter().map(Span::width).sum());
            match lines.last_mut().filter(|line| line.width() <= room) {
                Some(line) => line.spans.extend(spans),
                None => lines.push(Line::from(spans)),
            }
        };
        let is_over = self.progress == Progress::Ended && self.show.waits_for_keys();
        let pause = if self.paused { "continue" } else { "pause" };
        let own = [("q", "quit"), ("space", pause), ("n", "next"), ("any action", "next episode")];
        for (key, what) in own.into_iter().take(if is_over { 4 } else { 3 }) {
            hint(vec![
                Span::styled(format!(" {key} "), theme.accent),
                Span::styled(format!("{what} "), theme.muted),
            ]);
        }
        for keys in self.show.keys(self.symbols.unicode).into_iter().filter(|_| !is_over) {
            hint(vec![Span::styled(format!(" {keys} "), theme.text)]);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use operant_metrics::Shape;

    use super::*;
    use crate::headless::fixture::screen;

    /// Episodes of three steps on a board of five squares; the key moves the agent.
    struct Walk {
        frame: Frame,
        at: f32,
        step: u32,
        episode: u32,
        by_keys: bool,
    }

    impl Walk {
        fn new(by_keys: bool) -> Self {
            let mut walk = Walk { frame: Frame::new(), at: 0.0, step: 0, episode: 1, by_keys };
            walk.picture();
            walk
        }

        fn picture(&mut self) {
            let wall = Shape::Rectangle { low: [0.0, 0.0], high: [5.0, 1.0], tone: 10 };
            let at = self.at + 0.5;
            let agent = vec![[at - 0.3, 1.2], [at + 0.4, 1.5], [at - 0.3, 1.8]];
            let label = Shape::Text { center: [4.5, 2.5], text: "go".into(), tone: 2 };
            self.frame = vec![wall, Shape::Polygon { points: agent, tone: 5 }, label];
        }
    }

    impl Show for Walk {
        fn fps(&self) -> f32 {
            f32::NAN
        }
        fn title(&self) -> String {
            "walk".into()
        }
        fn note(&self) -> String {
            format!("episode {} step {}", self.episode, self.step)
        }
        fn keys(&self, unicode: bool) -> Vec<String> {
            let keys = [format!("{} back", Key::Left.label(unicode)), "0 on".to_owned()];
            keys.into_iter().filter(|_| self.by_keys).collect()
        }
        fn waits_for_keys(&self) -> bool {
            self.by_keys
        }
        fn view(&self) -> (Point, Point) {
            ([0.0, 0.0], [5.0, 3.0])
        }
        fn frame(&self) -> &Frame {
            &self.frame
        }
        fn step(&mut self, key: Option<Key>) -> Progress {
            self.step += 1;
            self.at += if key == Some(Key::Left) { -1.0 } else { 1.0 };
            self.picture();
            if self.step == 3 { Progress::Ended } else { Progress::Running }
        }
        fn next(&mut self) -> Progress {
            (self.at, self.step, self.episode) = (0.0, 0, self.episode + 1);
            self.picture();
            if self.episode > 2 { Progress::Over } else { Progress::Running }
        }
    }

    fn window(show: &mut Walk) -> Window<'_> {
        Window::new(show, Theme::dark(), &symbols::UNICODE)
    }

    fn shown(window: &Window, size: (u16, u16)) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
        window.draw(buffer.area, &mut buffer);
        screen(&buffer)
    }

    fn press(window: &mut Window, code: KeyCode) {
        window.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn it_plays_pauses_and_goes_to_the_next_episode() {
        let mut walk = Walk::new(false);
        let mut window = window(&mut walk);
        window.tick();
        assert!(shown(&window, (60, 12)).contains("episode 1 step 1"));
        press(&mut window, KeyCode::Char(' '));
        window.tick();
        assert!(shown(&window, (60, 12)).contains("step 1"), "paused");
        press(&mut window, KeyCode::Char(' '));
        (0..2).for_each(|_| window.tick());
        assert_eq!(window.progress, Progress::Ended);
        // 0.8 s at 30 frames a second.
        (0..23).for_each(|_| window.tick());
        assert!(shown(&window, (60, 12)).contains("episode 1 step 3"), "the last frame stays");
        window.tick();
        assert!(shown(&window, (60, 12)).contains("episode 2 step 0"));
        press(&mut window, KeyCode::Char('n'));
        assert_eq!(window.leave, Some(0), "there are two");
    }

    #[test]
    fn keys_are_actions() {
        let mut walk = Walk::new(true);
        let mut window = window(&mut walk);
        (0..9).for_each(|_| window.tick());
        assert!(shown(&window, (60, 12)).contains("step 0"), "it waits");
        press(&mut window, KeyCode::Right);
        press(&mut window, KeyCode::Char('7'));
        press(&mut window, KeyCode::Left);
        let text = shown(&window, (60, 12));
        assert!(text.contains("step 3") && text.contains("any action"), "{text}");
        press(&mut window, KeyCode::Left);
        let text = shown(&window, (60, 12));
        assert!(text.contains("episode 2 step 0") && text.contains("← back  0 on"), "{text}");
    }

    #[test]
    fn the_window_at_several_sizes() {
        let mut walk = Walk::new(true);
        let window = window(&mut walk);
        insta::assert_snapshot!(shown(&window, (60, 14)) + &shown(&window, (24, 8)));
        for (width, height) in (0..30).flat_map(|width| (0..12).map(move |height| (width, height))) {
            shown(&window, (width, height));
        }
    }
}
