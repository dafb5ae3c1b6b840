//! Progress output of a run: a bar on a terminal, a few lines on a pipe, or nothing.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use operant_metrics::printable;

use crate::paint;

/// Progress of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// Environment steps taken.
    pub env_steps: u64,
    /// Environment steps to take.
    pub total: u64,
    /// Environment steps per second of this process's training.
    pub sps: f64,
    /// Mean return of the recent episodes.
    pub episodic_return: Option<f64>,
}

impl Tick {
    fn episodic_return(&self) -> String {
        self.episodic_return.map_or_else(|| "-".to_string(), |mean| format!("{mean:.1}"))
    }
}

/// Shows progress to the user. Called between updates, so it must be quick.
pub trait Progress: Send {
    /// Training has progressed.
    fn tick(&mut self, tick: &Tick);
    /// A message.
    fn note(&mut self, line: &str);
    /// A warning about a problem that does not stop training.
    fn warn(&mut self, line: &str);
    /// Called often while training waits or evaluates: a program checks for its own signals here.
    fn poll(&mut self) {}
    /// Training has ended; only notes and warnings follow.
    fn finish(&mut self) {}
    /// Shows a line from another thread, while an update keeps this one busy.
    fn announcer(&self) -> Announcer {
        Box::new(|line| write_line(&mut anstream::stderr(), &printable(line)))
    }
}

/// See [`Progress::announcer`].
pub type Announcer = Box<dyn Fn(&str) + Send>;

/// Shows warnings only.
#[derive(Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn tick(&mut self, _: &Tick) {}

    fn note(&mut self, _: &str) {}

    fn warn(&mut self, line: &str) {
        write_line(&mut anstream::stderr(), &paint::warning(line));
    }

    fn announcer(&self) -> Announcer {
        Box::new(|_| ())
    }
}

/// Writes notes and warnings but no progress: for the output file of a daemon, which should not grow.
#[derive(Debug, Default)]
pub struct Notes;

impl Progress for Notes {
    fn tick(&mut self, _: &Tick) {}

    fn note(&mut self, line: &str) {
        write_line(&mut anstream::stderr(), &printable(line));
    }

    fn warn(&mut self, line: &str) {
        write_line(&mut anstream::stderr(), &paint::warning(line));
    }
}

/// Writes a plain line every tenth of the run or half minute, at most one in two seconds.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    last: Option<(Instant, u64)>,
}

impl<W: Write + Send> Lines<W> {
    /// Writes to `out`, such as [`anstream::stderr`], which removes colours where none are wanted.
    pub fn new(out: W) -> Self {
        Lines { out, last: None }
    }
}

impl<W: Write + Send> Progress for Lines<W> {
    fn tick(&mut self, tick: &Tick) {
        let tenth = tick.env_steps.saturating_mul(10) / tick.total.max(1);
        let due = match self.last {
            None => tick.env_steps > 0,
            Some((when, last)) => {
                let since = when.elapsed();
                tenth >= 10 || since >= Duration::from_secs(if tenth > last { 2 } else { 30 })
            }
        };
        if due {
            self.last = Some((Instant::now(), tenth));
            let percent = tick.env_steps.saturating_mul(100) / tick.total.max(1);
            let line = format!(
                "{percent:>3}%  env_steps {}  sps {:.0}  return {}",
                tick.env_steps,
                tick.sps,
                tick.episodic_return()
            );
            write_line(&mut self.out, &line);
        }
    }

    fn note(&mut self, line: &str) {
        write_line(&mut self.out, &printable(line));
    }

    fn warn(&mut self, line: &str) {
        write_line(&mut self.out, &paint::warning(line));
    }
}

/// A bar with steps, speed and return on the terminal's standard error.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar for a run of `total` environment steps.
    pub fn new(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
        let style = "{wide_bar:.cyan} {percent:>3}%  {human_pos} steps{msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        Bar { bar }
    }
}

impl Progress for Bar {
    fn tick(&mut self, tick: &Tick) {
        // Final only once the device has been chosen.
        self.bar.set_length(tick.total);
        self.bar.set_position(tick.env_steps);
        // The bar would count the steps of a resumed run before as just taken.
        let left = (tick.total.saturating_sub(tick.env_steps)) as f64 / tick.sps;
        let left = HumanDuration(Duration::try_from_secs_f64(left).unwrap_or_default());
        let speed = short(tick.sps);
        self.bar.set_message(format!("  {speed}/s  return {}  {left:#} left", tick.episodic_return()));
    }

    fn note(&mut self, line: &str) {
        self.bar.suspend(|| write_line(&mut anstream::stderr(), &printable(line)));
    }

    fn warn(&mut self, line: &str) {
        self.bar.suspend(|| write_line(&mut anstream::stderr(), &paint::warning(line)));
    }

    fn finish(&mut self) {
        self.bar.finish_and_clear();
    }

    fn announcer(&self) -> Announcer {
        let bar = self.bar.clone();
        Box::new(move |line| bar.suspend(|| write_line(&mut anstream::stderr(), &printable(line))))
    }
}

/// Writes a line without characters that a terminal obeys, except those of colours. A closed standard error must not end training.
fn write_line(out: &mut impl Write, line: &str) {
    let _ = writeln!(out, "{line}");
}

/// A count in three figures or so: `950`, `12.3k`, `1.24M`, `10.00T`, `1e20`.
pub fn short(x: f64) -> String {
    match x {
        x if !x.is_finite() => "-".to_string(),
        x if x >= 1e18 => format!("{x:.0e}"),
        x if x >= 1e15 => format!("{:.2}P", x / 1e15),
        x if x >= 1e12 => format!("{:.2}T", x / 1e12),
        x if x >= 1e9 => format!("{:.2}G", x / 1e9),
        x if x >= 1e6 => format!("{:.2}M", x / 1e6),
        x if x >= 1e3 => format!("{:.1}k", x / 1e3),
        x => format!("{x:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few() {
        let mut lines = Lines::new(Vec::new());
        for step in 1..=1000u64 {
            lines.tick(&Tick { env_steps: step, total: 1000, sps: 5.0, episodic_return: None });
        }
        lines.warn("disk full");
        let text = String::from_utf8(lines.out).expect("UTF-8");
        assert!(text.lines().count() <= 12, "{text}");
        assert!(text.contains("100%  env_steps 1000  sps 5  return -"), "{text}");
        assert!(anstream::adapter::strip_str(&text).to_string().ends_with("warning: disk full\n"), "{text}");
    }

    #[test]
    fn counts_are_short() {
        assert_eq!([0.0, 999.0, 12_345.0, 1_240_000.0].map(short), ["0", "999", "12.3k", "1.24M"]);
        assert_eq!(
            [1e12, 1e13, 2.5e15, 1e20, f64::NAN].map(short),
            ["1.00T", "10.00T", "2.50P", "1e20", "-"]
        );
    }
}
