//! A sweep full screen: progress, curves of the best trials, their ranking in each environment, scores against training time. The
//! embedding program reads the sweep ([`SweepSource`]); Enter opens the runs of a trial, and Esc leads back from them.

mod plots;
mod ranking;

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use operant_metrics::{Health, RunState, SweepState, SweepTrial};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::input::{Event, Input};
use crate::terminal::{Screen, full_screen, runs_of_sweep, signal_code};
use crate::ui::chart::Paint;
use crate::ui::help::Keys;
use crate::ui::popup::Scroll;
use crate::ui::{header, help, panel};
use crate::{MonitorError, Options, format};
use operant_draw::symbols::{self, Marker, Symbols};
use operant_draw::theme::{Depth, Detected, Theme};

/// How often the sweep is read.
const PERIOD: Duration = Duration::from_millis(500);
/// Rows of the ranking, with its border and header, that are not given to plots.
const LEAST_RANKING: u16 = 7;
/// Rows that a plot needs, with its border.
const LEAST_PLOT: u16 = 7;
/// Columns from which on the plots are next to each other.
const WIDE: u16 = 110;
/// Trials of an environment whose curves are drawn.
const CURVES: usize = 5;

/// Reads a sweep again and again.
pub trait SweepSource {
    /// The sweep as it is now, or why it cannot be read.
    ///
    /// # Errors
    /// A line for the user.
    fn read(&mut self) -> Result<SweepState, String>;
}

/// Shows a sweep until the user quits. Returns the exit code: 0, or 128 and the number of a signal.
///
/// # Errors
/// When the terminal fails; it is restored first.
pub fn watch(source: &mut dyn SweepSource, options: &Options) -> Result<u8, MonitorError> {
    let mut input = Input::new(options.frame_period())?;
    full_screen(&mut input, |screen, input| {
        Ok(show(source, options, false, screen, input)?.expect("there is nothing to go back to"))
    })
}

/// Shows a sweep until the user quits, which gives an exit code, or goes back to the list in which it was opened, if `is_listed`.
pub(crate) fn show(
    source: &mut dyn SweepSource,
    options: &Options,
    is_listed: bool,
    screen: &mut Screen,
    input: &mut Input,
) -> Result<Option<u8>, MonitorError> {
    let symbols = if symbols::locale_is_utf8() { &symbols::UNICODE } else { &symbols::ASCII };
    let theme = Theme::new(options.theme, Detected::from_environment());
    let mut window = Window { is_listed, ..Window::new(source, theme, symbols) };
    loop {
        match window.run(screen, input)? {
            Left::With(code) => return Ok(Some(code)),
            Left::Back => return Ok(None),
            Left::For(runs) => {
                let of_trial = Options { runs, ..options.clone() };
                if let Some(code) = runs_of_sweep(&of_trial, screen, input)? {
                    return Ok(Some(code));
                }
            }
        }
    }
}

/// Why the window was left.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    With(u8),
    /// Go back to the list of runs.
    Back,
    /// Open the monitor on these runs.
    For(Vec<String>),
}

/// Keys of the window.
const KEYS: &Keys = &[
    (
        "sweep",
        &[
            ("arrows", "select a trial; left, right: the environment"),
            ("PgUp  PgDn", "ten trials up, down; Home, End: first, last"),
            ("Enter", "open the runs of the trial; Esc leads back"),
        ],
    ),
    (
        "screen",
        &[
            ("Esc", "back to the list of runs, if it was opened there"),
            ("?", "this help"),
            ("Ctrl-Z", "back to the shell; fg continues"),
            ("q  Ctrl-C", "quit; the sweep continues"),
        ],
    ),
    (
        "columns",
        &[
            ("score", "mean of the middle half of the runs' evaluations"),
            ("95% interval", "of the score, over seeds"),
            ("*", "Pareto front: no trial is both better and faster"),
        ],
    ),
];

struct Window<'a> {
    source: &'a mut dyn SweepSource,
    state: SweepState,
    problem: Option<String>,
    read: Option<Instant>,
    /// The environment shown.
    env: usize,
    /// The selected row of its trials, and the first one shown.
    row: usize,
    first: usize,
    /// The help, while it is shown.
    help: Option<Scroll>,
    /// Whether it was opened in the list of runs.
    is_listed: bool,
    theme: Theme,
    symbols: &'static Symbols,
}

impl<'a> Window<'a> {
    fn new(source: &'a mut dyn SweepSource, theme: Theme, symbols: &'static Symbols) -> Self {
        let state = SweepState::default();
        let (problem, read, help) = (None, None, None);
        Self {
            source,
            state,
            problem,
            read,
            env: 0,
            row: 0,
            first: 0,
            help,
            is_listed: false,
            theme,
            symbols,
        }
    }

    fn run(&mut self, screen: &mut Screen, input: &mut Input) -> Result<Left, MonitorError> {
        let reading = |source| MonitorError::Terminal { doing: "read from", source };
        loop {
            self.refresh();
            let colours = self.theme.depth != Depth::None;
            screen.draw(colours, |frame| self.draw(frame.area(), frame.buffer_mut()))?;
            match input.next_event().map_err(reading)? {
                Event::Key(key) if is(&key, 'z') => screen.suspend()?,
                Event::Key(key) => {
                    if let Some(left) = self.press(key) {
                        return Ok(left);
                    }
                }
                Event::Signal(number) => return Ok(Left::With(signal_code(number))),
                Event::Suspend => screen.suspend()?,
                Event::Continue => screen.retake()?,
                Event::Tick | Event::Mouse(_) | Event::Resize(..) => {}
            }
        }
    }

    /// Reads the sweep if that is due. The same trial stays selected.
    fn refresh(&mut self) {
        if self.read.is_some_and(|read| read.elapsed() < PERIOD) {
            return;
        }
        self.read = Some(Instant::now());
        match self.source.read() {
            Ok(state) => {
                let selected = self.selected().map(|trial| trial.number);
                (self.state, self.problem) = (state, None);
                let trials = self.trials();
                let same = trials.iter().position(|trial| Some(trial.number) == selected);
                self.row = same.unwrap_or(self.row).min(trials.len().saturating_sub(1));
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// The trials of the environment shown, the best first.
    fn trials(&self) -> Vec<&SweepTrial> {
        let env = self.state.environments.get(self.env);
        self.state.trials.iter().filter(|trial| Some(&trial.env) == env).collect()
    }

    fn selected(&self) -> Option<&SweepTrial> {
        self.trials().get(self.row).copied()
    }

    /// Shows another environment.
    fn turn(&mut self, forward: bool) {
        let count = self.state.environments.len().max(1);
        self.env = (self.env + if forward { 1 } else { count - 1 }) % count;
        (self.row, self.first) = (0, 0);
    }

    fn paint(&self) -> Paint<'_> {
        let marker = if self.symbols.unicode { Marker::Braille } else { Marker::Ascii };
        Paint { theme: &self.theme, symbols: self.symbols, marker }
    }

    fn press(&mut self, key: KeyEvent) -> Option<Left> {
        let last = self.trials().len().saturating_sub(1);
        match key.code {
            _ if is(&key, 'c') => return Some(Left::With(0)),
            KeyCode::Char('q') => return Some(Left::With(0)),
            code if self.help.is_some() => self.help = self.help.take().filter(|scroll| scroll.key(code)),
            KeyCode::Char('?') | KeyCode::F(1) => self.help = Some(Scroll::default()),
            KeyCode::Esc | KeyCode::Backspace => return self.is_listed.then_some(Left::Back),
            KeyCode::Up | KeyCode::Char('k') => self.row = self.row.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.row = (self.row + 1).min(last),
            KeyCode::PageUp => self.row = self.row.saturating_sub(10),
            KeyCode::PageDown => self.row = (self.row + 10).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.row = 0,
            KeyCode::End | KeyCode::Char('G') => self.row = last,
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.turn(true),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => self.turn(false),
            KeyCode::Enter => {
                let trial = self.selected()?;
                let runs = trial.runs.iter().filter(|run| run.join("config.toml").is_file());
                let runs: Vec<String> = runs.map(|run| run.to_string_lossy().into_owned()).collect();
                return (!runs.is_empty()).then_some(Left::For(runs));
            }
            _ => {}
        }
        None
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer) {
        if area.height < 3 || area.width < 20 {
            return;
        }
        let row = |y: u16| Rect { y: area.y + y, height: 1, ..area };
        header::both_ends(self.who(), self.clocks(), row(0), 0, buffer);
        self.progress(row(1), buffer);
        let body = Rect { y: area.y + 2, height: area.height - 3, ..area };
        let ranking = self.plots(body, buffer);
        self.ranking(ranking, buffer);
        self.footer(row(area.height - 1), buffer);
        if let Some(scroll) = &self.help {
            let above = Rect { height: area.height - 1, ..area };
            help::draw(self.paint(), KEYS, scroll, above, buffer);
        }
    }

    /// Draws the plots that there is room for, and returns the area that they leave.
    fn plots(&self, body: Rect, buffer: &mut Buffer) -> Rect {
        let room = body.height.saturating_sub(LEAST_RANKING);
        let has_curves = self.trials().iter().any(|trial| trial.curve.len() > 1);
        let has_points = self.trials().iter().filter(|trial| trial.score.is_finite()).count() > 1;
        let least = room.min(LEAST_PLOT);
        if least < LEAST_PLOT || !(has_curves || has_points) {
            return body;
        }
        // Half of the screen, unless the ranking needs less.
        let needed = self.trials().len() as u16 + 3;
        let height =
            (body.height / 2).max(body.height.saturating_sub(needed)).clamp(LEAST_PLOT, room).min(22);
        let area = Rect { height, ..body };
        let left = Rect { y: body.y + height, height: body.height - height, ..body };
        let both = has_curves && has_points;
        match both {
            true if body.width >= WIDE => {
                let width = body.width * 3 / 5;
                self.curves(Rect { width, ..area }, buffer);
                self.front(Rect { x: area.x + width, width: body.width - width, ..area }, buffer);
            }
            _ if has_curves => self.curves(area, buffer),
            _ => self.front(area, buffer),
        }
        left
    }

    /// State and name, then what the sweep does.
    fn who(&self) -> Vec<Span<'static>> {
        let (state, theme) = (&self.state, &self.theme);
        let style = match state.health {
            Health::Reported(RunState::Running | RunState::Finished) => theme.good,
            Health::Reported(RunState::Failed) | Health::Killed => theme.bad,
            _ => theme.warning,
        };
        let light = if state.health.is_alive() { self.symbols.alive } else { self.symbols.ended };
        let mut spans = vec![
            Span::styled(light, style),
            Span::styled(format!(" {}  ", state.health.name()), style.add_modifier(Modifier::BOLD)),
            Span::styled(state.name.clone(), theme.strong),
        ];
        let seeds = format!("{} seed{}", state.seeds, if state.seeds == 1 { "" } else { "s" });
        let facts = [state.environments.join(", "), state.method.clone(), seeds];
        for (at, fact) in facts.into_iter().filter(|fact| !fact.is_empty()).enumerate() {
            let separator = if at == 0 { "  " } else { self.symbols.separator };
            spans.push(Span::styled(format!("{separator}{fact}"), theme.muted));
        }
        spans
    }

    /// Time so far and time to go.
    fn clocks(&self) -> Vec<Span<'static>> {
        let theme = &self.theme;
        let clock = |seconds: f64| format::clock(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let label = if self.state.health.is_alive() { "up " } else { "ran " };
        let mut spans =
            vec![Span::styled(label, theme.muted), Span::styled(clock(self.state.seconds), theme.text)];
        if let Some(left) = self.state.left.filter(|_| self.state.health.is_alive()) {
            spans.push(Span::styled("  eta ", theme.muted));
            spans.push(Span::styled(clock(left), theme.strong));
        }
        spans
    }

    fn progress(&self, area: Rect, buffer: &mut Buffer) {
        let (state, theme) = (&self.state, &self.theme);
        let share = state.done as f64 / state.planned.max(1) as f64;
        let mut spans = vec![
            Span::styled(format!(" {:>5.1}%", share * 100.0), theme.strong),
            Span::styled(format!(" {}/{} runs", state.done, state.planned), theme.muted),
            Span::styled(format!("  {}/{} trials", state.trials_done, state.trials_planned), theme.muted),
        ];
        if state.failed > 0 {
            spans.push(Span::styled(format!("  {} failed", state.failed), theme.bad));
        }
        while spans.len() > 2 && Line::from(spans.clone()).width() + 12 > usize::from(area.width) {
            spans.remove(2);
        }
        let line = Line::from(spans);
        let bar = Rect { width: area.width.saturating_sub(line.width() as u16), ..area };
        header::draw_bar(self.paint(), share, bar, buffer);
        buffer.set_line(bar.right(), area.y, &line, area.right() - bar.right());
    }

    /// The border of a panel with its title, and a note at the right if it fits; returns the area inside.
    fn frame(&self, title: &str, note: &str, area: Rect, buffer: &mut Buffer) -> Rect {
        let area = area.intersection(buffer.area);
        if area.width < 8 || area.height < 3 {
            return area;
        }
        self.symbols.border(self.theme.border, area, buffer);
        let title = Line::styled(format!(" {title} "), self.theme.title);
        let (end, _) = buffer.set_line(area.x + 2, area.y, &title, area.width - 4);
        let width = note.chars().count() as u16 + 2;
        if !note.is_empty() && end + width + 2 < area.right() {
            let note = Line::styled(format!(" {note} "), self.theme.muted);
            buffer.set_line(area.right() - width - 2, area.y, &note, width);
        }
        Rect::new(area.x + 1, area.y + 1, area.width - 2, area.height - 2)
    }

    fn footer(&self, area: Rect, buffer: &mut Buffer) {
        let mut spans = Vec::new();
        let (arrows, sides) = if self.symbols.unicode { ("↑↓", "←→") } else { ("j k", "h l") };
        let mut keys = vec![("q", "quit"), ("?", "help"), (arrows, "select"), ("Enter", "open its runs")];
        if self.is_listed {
            keys.insert(1, ("Esc", "back"));
        }
        if self.state.environments.len() > 1 {
            keys.push((sides, "environment"));
        }
        if self.help.is_some() {
            keys = help::HINTS.to_vec();
        }
        for (key, what) in keys {
            spans.push(Span::styled(format!(" {key} "), self.theme.accent));
            spans.push(Span::styled(format!("{what} "), self.theme.muted));
        }
        let line = Line::from(spans);
        buffer.set_line(area.x, area.y, &line, area.width);
        let front = "  * Pareto front of score, time";
        let left = usize::from(area.width).saturating_sub(line.width());
        if front.len() <= left && self.trials().iter().any(|trial| trial.pareto) {
            buffer.set_string(area.x + line.width() as u16, area.y, front, self.theme.muted);
        }
    }
}

/// Whether a key is Ctrl and this letter.
fn is(key: &KeyEvent, letter: char) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headless::fixture::screen;

    struct Fixed(SweepState);

    impl SweepSource for Fixed {
        fn read(&mut self) -> Result<SweepState, String> {
            Ok(self.0.clone())
        }
    }

    fn state(trials: usize) -> SweepState {
        let trial = |number: usize| SweepTrial {
            number,
            env: "cartpole".to_owned(),
            settings: vec![
                ("learning_rate".to_owned(), format!("{:.4}", 1e-4 * (number + 1) as f64)),
                ("gamma".to_owned(), "0.99".to_owned()),
            ],
            objective: 500.0 - 17.0 * number as f64,
            score: 500.0 - 17.0 * number as f64,
            interval: Some([490.0 - 20.0 * number as f64, 506.0 - 15.0 * number as f64]),
            curve: (1..=20)
                .map(|k| {
                    let (at, share) = (10_000.0 * f64::from(k), f64::from(k) / 20.0);
                    let mean = (500.0 - 17.0 * number as f64) * share.powf(1.0 + 0.3 * number as f64);
                    (at, [0.9 * mean, mean, (1.1 * mean).min(500.0)])
                })
                .collect(),
            done: 4 - number % 2,
            seeds: 4,
            failed: number % 3 / 2,
            solved: 2,
            seconds: 1.0 + ((number * 7) % 5) as f64,
            steps: 200_192.0,
            pareto: number == 0,
            runs: Vec::new(),
        };
        SweepState {
            name: "rates".to_owned(),
            environments: vec!["cartpole".to_owned()],
            done: 30,
            planned: 48,
            failed: 4,
            seconds: 83.0,
            health: Health::Reported(RunState::Running),
            method: "random".to_owned(),
            objective: "eval_return".to_owned(),
            seeds: 4,
            trials_done: 7,
            trials_planned: 12,
            left: Some(50.0),
            trials: (0..trials).map(trial).collect(),
            ..SweepState::default()
        }
    }

    fn window(source: &mut Fixed) -> Window<'_> {
        let mut window = Window::new(source, Theme::dark(), &symbols::UNICODE);
        window.refresh();
        window
    }

    fn drawn(window: &mut Window<'_>, width: u16, height: u16) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        window.draw(area, &mut buffer);
        screen(&buffer)
    }

    #[test]
    fn a_sweep_at_80_columns() {
        let mut source = Fixed(state(12));
        insta::assert_snapshot!(drawn(&mut window(&mut source), 80, 24));
        source.0.health = Health::Reported(RunState::Finished);
        assert!(drawn(&mut window(&mut source), 80, 24).contains("ran 1:23\n"));
    }

    #[test]
    fn the_selected_trial_stays_in_sight() {
        let mut source = Fixed(state(60));
        let mut window = window(&mut source);
        for _ in 0..45 {
            window.press(KeyEvent::from(KeyCode::Down));
        }
        let text = drawn(&mut window, 100, 16);
        assert!(
            text.lines().any(|line| line.contains(window.symbols.pointer) && line.contains("0.0046")),
            "{text}"
        );
        window.press(KeyEvent::from(KeyCode::Home));
        assert!(drawn(&mut window, 100, 16).contains(" 0.0001 "));
    }

    #[test]
    fn the_help_opens_and_escape_closes_it_and_leads_back() {
        let mut source = Fixed(state(3));
        let mut window = window(&mut source);
        let press = |window: &mut Window<'_>, code| window.press(KeyEvent::from(code));
        assert_eq!(press(&mut window, KeyCode::Char('?')), None);
        insta::assert_snapshot!("help", drawn(&mut window, 80, 24));
        // Of a text that does not fit the last line is shown, and no key more leads back from it.
        let top = drawn(&mut window, 80, 12);
        (0..60).for_each(|_| assert_eq!(press(&mut window, KeyCode::Down), None));
        let end = drawn(&mut window, 80, 12);
        assert!(end.contains("Pareto front: no trial") && end.contains("Esc back  arrows scroll"), "{end}");
        assert_eq!(press(&mut window, KeyCode::Up), None);
        assert_ne!(drawn(&mut window, 80, 12), end);
        assert_eq!(press(&mut window, KeyCode::PageUp), None);
        assert_eq!(press(&mut window, KeyCode::PageUp), None);
        assert_eq!(drawn(&mut window, 80, 12), top);
        assert_eq!(press(&mut window, KeyCode::Esc), None);
        assert!(!drawn(&mut window, 80, 24).contains("this help"));
        assert_eq!(press(&mut window, KeyCode::Esc), None, "there is nothing to go back to");
        window.is_listed = true;
        assert!(drawn(&mut window, 80, 24).contains("Esc back"));
        assert_eq!(press(&mut window, KeyCode::Esc), Some(Left::Back));
        assert_eq!(press(&mut window, KeyCode::Char('q')), Some(Left::With(0)));
    }

    #[test]
    fn each_environment_has_its_ranking() {
        let mut source = Fixed(state(6));
        source.0.environments.push("acrobot".to_owned());
        for trial in source.0.trials.iter_mut().skip(3) {
            trial.env = "acrobot".to_owned();
        }
        let mut window = window(&mut source);
        let text = drawn(&mut window, 80, 24);
        assert!(text.contains("cartpole: 3 trials") && !text.contains("0.0004"), "{text}");
        window.press(KeyEvent::from(KeyCode::Down));
        window.press(KeyEvent::from(KeyCode::Tab));
        let text = drawn(&mut window, 80, 24);
        let first = text.lines().find(|line| line.contains(window.symbols.pointer)).expect("a row");
        assert!(text.contains("acrobot: 3 trials") && first.contains("0.0004"), "{text}");
        window.press(KeyEvent::from(KeyCode::Right));
        assert!(drawn(&mut window, 80, 24).contains("cartpole: 3 trials"));
    }

    #[test]
    fn wide_screens_have_both_plots() {
        let mut source = Fixed(state(12));
        insta::assert_snapshot!(drawn(&mut window(&mut source), 120, 40));
    }

    struct Damaged;

    impl SweepSource for Damaged {
        fn read(&mut self) -> Result<SweepState, String> {
            Err("the table of the sweep cannot be read".to_owned())
        }
    }

    #[test]
    fn why_a_sweep_cannot_be_read_is_said_once() {
        let mut source = Damaged;
        let mut window = Window::new(&mut source, Theme::dark(), &symbols::UNICODE);
        window.refresh();
        let text = drawn(&mut window, 120, 40);
        assert_eq!(text.matches("the table of the sweep cannot be read").count(), 1, "{text}");
        assert!(text.contains(" trials ") && !text.contains(": 0 trials"), "{text}");
    }

    #[test]
    fn any_size_will_do() {
        let mut source = Fixed(state(3));
        let mut window = window(&mut source);
        for (width, height) in (0..60).flat_map(|width| (0..30).map(move |height| (width, height))) {
            drawn(&mut window, width, height);
        }
    }
}
