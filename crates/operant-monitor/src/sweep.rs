//! A sweep full screen: progress, the table of its trials by score, scores against training time. The embedding program reads the
//! sweep ([`SweepSource`]); Enter opens the runs of a trial in the monitor.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use operant_metrics::SweepState;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker as Dots;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;
use ratatui::widgets::canvas::{Canvas, Points};

use crate::input::{Event, Input};
use crate::terminal::{Screen, full_screen, signal_code};
use crate::ui::panel;
use crate::ui::table::{self, CellLayout};
use crate::{MonitorError, Options, format};
use operant_draw::symbols::{self, Symbols};
use operant_draw::theme::{Depth, Detected, Theme};

/// How often the sweep is read.
const PERIOD: Duration = Duration::from_millis(500);
/// Rows of the plot, with its border; it is omitted where the table would have fewer than [`LEAST_ROWS`].
const PLOT_ROWS: u16 = 9;
const LEAST_ROWS: u16 = 6;

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
    let symbols = if symbols::locale_is_utf8() { &symbols::UNICODE } else { &symbols::ASCII };
    let mut window = Window::new(source, Theme::new(options.theme, Detected::from_environment()), symbols);
    loop {
        match window.show(options)? {
            Left::With(code) => return Ok(code),
            Left::For(runs) => {
                let of_trial = Options { runs, ..options.clone() };
                let code = crate::terminal::run(&of_trial)?;
                if code > 128 {
                    return Ok(code);
                }
            }
        }
    }
}

/// Why the window was left.
enum Left {
    With(u8),
    /// Open the monitor on these runs.
    For(Vec<String>),
}

impl From<u8> for Left {
    fn from(code: u8) -> Self {
        Left::With(code)
    }
}

struct Window<'a> {
    source: &'a mut dyn SweepSource,
    state: SweepState,
    problem: Option<String>,
    read: Option<Instant>,
    /// The selected row, and the first one shown.
    row: usize,
    first: usize,
    theme: Theme,
    symbols: &'static Symbols,
}

impl<'a> Window<'a> {
    fn new(source: &'a mut dyn SweepSource, theme: Theme, symbols: &'static Symbols) -> Self {
        let state = SweepState::default();
        Self { source, state, problem: None, read: None, row: 0, first: 0, theme, symbols }
    }

    fn show(&mut self, options: &Options) -> Result<Left, MonitorError> {
        let mut input = Input::new(options.frame_period())?;
        full_screen(&mut input, |screen, input| self.run(screen, input))
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
                Event::Signal(number) => return Ok(signal_code(number).into()),
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
                let selected = self.state.trials.get(self.row).map(|trial| trial.number);
                let same = state.trials.iter().position(|trial| Some(trial.number) == selected);
                self.row = same.unwrap_or(self.row).min(state.trials.len().saturating_sub(1));
                (self.state, self.problem) = (state, None);
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    fn press(&mut self, key: KeyEvent) -> Option<Left> {
        let last = self.state.trials.len().saturating_sub(1);
        match key.code {
            _ if is(&key, 'c') => return Some(Left::With(0)),
            KeyCode::Char('q') | KeyCode::Esc => return Some(Left::With(0)),
            KeyCode::Up | KeyCode::Char('k') => self.row = self.row.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.row = (self.row + 1).min(last),
            KeyCode::PageUp => self.row = self.row.saturating_sub(10),
            KeyCode::PageDown => self.row = (self.row + 10).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.row = 0,
            KeyCode::End | KeyCode::Char('G') => self.row = last,
            KeyCode::Enter => {
                let trial = self.state.trials.get(self.row)?;
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
        self.header(row(0), buffer);
        self.progress(row(1), buffer);
        let body = Rect { y: area.y + 2, height: area.height - 3, ..area };
        let has_plot = body.height >= PLOT_ROWS + LEAST_ROWS + 3
            && self.points(false).len() + self.points(true).len() > 1;
        let plot = if has_plot { PLOT_ROWS } else { 0 };
        self.table(Rect { height: body.height - plot, ..body }, buffer);
        if has_plot {
            self.plot(Rect { y: body.bottom() - plot, height: plot, ..body }, buffer);
        }
        self.footer(row(area.height - 1), buffer);
    }

    fn header(&self, area: Rect, buffer: &mut Buffer) {
        let (state, theme) = (&self.state, &self.theme);
        let (light, word, style) = match state.live {
            true => (self.symbols.alive, "running", theme.good),
            false if state.done < state.planned => (self.symbols.ended, "stopped", theme.warning),
            false => (self.symbols.ended, "finished", theme.muted),
        };
        let mut spans = vec![
            Span::styled(format!(" {light} {word} "), style),
            Span::styled(format!(" {} ", state.name), theme.strong),
            Span::styled(format!(" {} ", state.environments.join(", ")), theme.text),
            Span::styled(format!(" {}/{} runs ", state.done, state.planned), theme.text),
        ];
        if state.failed > 0 {
            spans.push(Span::styled(format!(" {} failed ", state.failed), theme.bad));
        }
        spans.push(Span::styled(
            format!(" {} ", format::clock(Duration::try_from_secs_f64(state.seconds).unwrap_or_default())),
            theme.muted,
        ));
        buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
    }

    fn progress(&self, area: Rect, buffer: &mut Buffer) {
        let share = self.state.done as f64 / self.state.planned.max(1) as f64;
        let filled = (share * f64::from(area.width)).round() as u16;
        for column in 0..area.width {
            let cell = &mut buffer[(area.x + column, area.y)];
            match column < filled {
                true => {
                    cell.set_symbol(self.symbols.bar[self.symbols.bar.len() - 1]).set_style(self.theme.accent)
                }
                false => cell.set_symbol(self.symbols.trough).set_style(self.theme.faint),
            };
        }
    }

    fn table(&mut self, area: Rect, buffer: &mut Buffer) {
        self.symbols.border(self.theme.border, area, buffer);
        let title = Line::styled(" trials by score ", self.theme.title);
        buffer.set_line(area.x + 2, area.y, &title, area.width - 4);
        let inside =
            Rect::new(area.x + 2, area.y + 1, area.width.saturating_sub(4), area.height.saturating_sub(2));
        if let Some(problem) = &self.problem {
            return panel::line(&Line::styled(problem.clone(), self.theme.bad), inside, 0, buffer);
        }
        let several = self.state.environments.len() > 1;
        let (theme, symbols) = (&self.theme, self.symbols);
        let rows = usize::from(inside.height.saturating_sub(1));
        self.first = self.first.min(self.row).max((self.row + 1).saturating_sub(rows));
        let none = || symbols.missing.to_owned();
        let number = |x: f64| if x.is_finite() { format::short(x) } else { none() };
        let lines: Vec<[String; 8]> = self
            .state
            .trials
            .iter()
            .map(|trial| {
                let mut values = if trial.values.is_empty() {
                    format!("trial {}", trial.number)
                } else {
                    trial.values.clone()
                };
                if several {
                    values = format!("{}  {values}", trial.env);
                }
                let failed = if trial.failed > 0 { trial.failed.to_string() } else { String::new() };
                let seconds = if trial.seconds.is_finite() { format::seconds(trial.seconds) } else { none() };
                [
                    if trial.pareto { "*".to_owned() } else { String::new() },
                    values,
                    number(trial.score),
                    format!("{}/{}", trial.done, trial.seeds),
                    failed,
                    format!("{}/{}", trial.solved, trial.done),
                    seconds,
                    number(trial.steps),
                ]
            })
            .collect();
        let heads = ["", "configuration", "score", "runs", "failed", "solved", "train time", "steps"];
        let width = |column: usize| {
            let widest = lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
            widest.max(heads[column].len()) as u16
        };
        // If space is short, steps are omitted first and failures last; the configuration takes the rest of the width.
        let mut layouts: Vec<CellLayout> = (0..heads.len())
            .map(|column| CellLayout { width: Some(width(column).max(1)), right: column > 1 })
            .collect();
        let needed = |layouts: &[CellLayout]| -> u16 {
            layouts.iter().filter_map(|layout| layout.width).map(|width| width + table::GAP).sum::<u16>() + 2
        };
        for column in [7, 6, 5, 3, 4] {
            if needed(&layouts) > inside.width {
                layouts[column].width = None;
            }
        }
        let over = needed(&layouts).saturating_sub(inside.width);
        layouts[1].width = layouts[1].width.map(|width| width.saturating_sub(over).max(4));
        let written = |cells: &[String], style: Style, y: u16, buffer: &mut Buffer| {
            let cells: Vec<(String, Style)> = cells.iter().map(|cell| (cell.clone(), style)).collect();
            table::row(
                &cells,
                &layouts,
                Rect { x: inside.x + 2, width: inside.width.saturating_sub(2), ..inside },
                y,
                buffer,
            );
        };
        written(&heads.map(str::to_owned), theme.muted, 0, buffer);
        for (y, (index, cells)) in lines.iter().enumerate().skip(self.first).take(rows).enumerate() {
            let y = y as u16 + 1;
            let style = if index == self.row { theme.strong } else { theme.text };
            if index == self.row {
                buffer.set_string(inside.x, inside.y + y, symbols.pointer, theme.accent);
            }
            written(cells, style, y, buffer);
        }
    }

    /// Seconds and scores of the trials on the Pareto front, or of the other trials.
    fn points(&self, pareto: bool) -> Vec<(f64, f64)> {
        let env = self.state.trials.get(self.row).map(|trial| &trial.env);
        let of_env =
            self.state.trials.iter().filter(|trial| Some(&trial.env) == env && trial.pareto == pareto);
        of_env
            .map(|trial| (trial.seconds, trial.score))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .collect()
    }

    fn plot(&self, area: Rect, buffer: &mut Buffer) {
        let theme = &self.theme;
        self.symbols.border(theme.border, area, buffer);
        let title = Line::styled(" score vs. training time ", theme.title);
        buffer.set_line(area.x + 2, area.y, &title, area.width - 4);
        let (front, rest) = (self.points(true), self.points(false));
        let range = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let all = front.iter().chain(&rest).map(of);
            let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
            let margin = if high > low { 0.05 * (high - low) } else { low.abs().max(1.0) * 0.05 };
            [low - margin, high + margin]
        };
        let (x, y) = (range(&|point| point.0), range(&|point| point.1));
        let selected: Vec<(f64, f64)> = self
            .state
            .trials
            .get(self.row)
            .map(|trial| (trial.seconds, trial.score))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .into_iter()
            .collect();
        let labels = [format::short(y[1]), format::short(y[0])];
        let wide = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) as u16 + 1;
        let inside =
            Rect::new(area.x + 2 + wide, area.y + 1, area.width.saturating_sub(4 + wide), area.height - 3);
        for (label, row) in labels.iter().zip([inside.y, inside.bottom() - 1]) {
            buffer.set_stringn(area.x + 2, row, label, usize::from(wide), theme.muted);
        }
        let [left, right] = [format::seconds(x[0].max(0.0)), format::seconds(x[1])];
        let below = inside.bottom();
        buffer.set_stringn(inside.x, below, &left, usize::from(inside.width), theme.muted);
        let at = inside.right().saturating_sub(right.chars().count() as u16);
        buffer.set_stringn(at, below, &right, usize::from(inside.width), theme.muted);
        let colour = |style: Style| style.fg.unwrap_or(ratatui::style::Color::Reset);
        let marker = if self.symbols.unicode { Dots::Braille } else { Dots::Dot };
        Canvas::default()
            .marker(marker)
            .x_bounds(x)
            .y_bounds(y)
            .paint(|canvas| {
                canvas.draw(&Points { coords: &rest, color: colour(theme.muted) });
                canvas.draw(&Points { coords: &front, color: colour(theme.accent) });
                canvas.draw(&Points { coords: &selected, color: colour(theme.strong) });
            })
            .render(inside, buffer);
    }

    fn footer(&self, area: Rect, buffer: &mut Buffer) {
        let mut spans = Vec::new();
        let arrows = if self.symbols.unicode { "↑↓" } else { "j k" };
        for (key, what) in [("q", "quit"), (arrows, "select"), ("Enter", "open the runs")] {
            spans.push(Span::styled(format!(" {key} "), self.theme.accent));
            spans.push(Span::styled(format!("{what} "), self.theme.muted));
        }
        spans.push(Span::styled("  * Pareto front", self.theme.muted));
        buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
    }
}

/// Whether a key is Ctrl and this letter.
fn is(key: &KeyEvent, letter: char) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(letter)
}

#[cfg(test)]
mod tests {
    use operant_metrics::SweepTrial;

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
            values: format!("learning_rate={:.4} gamma=0.99", 1e-4 * (number + 1) as f64),
            score: 500.0 - 17.0 * number as f64,
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
            live: true,
            trials: (0..trials).map(trial).collect(),
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
        assert!(drawn(&mut window, 100, 16).contains("learning_rate=0.0001 "));
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
