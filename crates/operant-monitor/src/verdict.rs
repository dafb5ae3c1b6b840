//! The description of a run's state: one wording for the banner, the header and the headless modes.

use std::path::Path;

use operant_metrics::{Health, Identity, RunState, Status};

use crate::format;

/// How good or bad a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing is wrong.
    Good,
    /// Needs attention.
    Warning,
    /// Something is lost, or will be.
    Bad,
}

/// The description of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The word for the state, as `operant runs` shows it.
    pub word: &'static str,
    /// How good or bad it is.
    pub tone: Tone,
    /// What happened, one line: `daemon killed 0.4 s ago at step 12.3 M`. Empty while the run is healthy.
    pub headline: String,
    /// What to do about it, one line: `last checkpoint at step 12.2 M; resume with: operant train --resume NAME`. May be
    /// empty.
    pub advice: String,
}

impl Verdict {
    /// Whether a banner should show it, because it says more than the header's state word.
    pub fn needs_banner(&self) -> bool {
        !self.headline.is_empty()
    }

    /// Headline and advice in one line.
    pub fn line(&self) -> String {
        match (self.headline.is_empty(), self.advice.is_empty()) {
            (_, true) => self.headline.clone(),
            (true, false) => self.advice.clone(),
            (false, false) => format!("{}; {}", self.headline, self.advice),
        }
    }
}

/// The description of a run with this identity and status that has taken `env_steps` environment steps (NaN: unknown).
pub fn of(identity: &Identity, status: &Status, env_steps: f64) -> Verdict {
    let word = status.health.name();
    let name = handle(identity);
    let at = match env_steps > 0.0 {
        true => format!(" at step {}", format::steps(env_steps)),
        false => " before its first update".to_string(),
    };
    let ago = format!(" {} ago", format::age(status.since_alive));
    let because = match status.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let resume = resume(status, &name);
    let dir = argument(&identity.dir.display().to_string());
    let (tone, headline, advice) = match status.health {
        Health::Reported(RunState::Starting | RunState::Running) => {
            (Tone::Good, String::new(), String::new())
        }
        Health::Reported(RunState::Paused) => (
            Tone::Warning,
            format!("paused for {}{at}", format::age(status.since_progress)),
            format!("continue with: kill -USR2 {}", identity.pid),
        ),
        Health::Reported(RunState::Stopping) => {
            (Tone::Warning, format!("stopping{at}: saving its checkpoint"), String::new())
        }
        Health::Reported(RunState::Finished) => {
            (Tone::Good, format!("finished{ago}{at}{because}"), format!("evaluate with: operant eval {name}"))
        }
        Health::Reported(RunState::Preempted) => {
            (Tone::Warning, format!("preempted{ago}{at}{because}"), resume)
        }
        Health::Reported(RunState::Failed) => {
            (Tone::Bad, format!("failed{ago}{at}{because}"), format!("see {dir}/operant.log; {resume}"))
        }
        Health::Stalled => (
            Tone::Warning,
            format!("no progress for {}{at}", format::age(status.since_progress)),
            format!(
                "process {pid} is alive: if it was stopped, kill -CONT {pid}; if it hangs, see {dir}/operant.log",
                pid = identity.pid
            ),
        ),
        Health::Killed => {
            let what = if identity.detached { "daemon" } else { "process" };
            (Tone::Bad, format!("{what} killed{ago}{at}"), resume)
        }
    };
    Verdict { word, tone, headline, advice }
}

/// How to continue from the last checkpoint.
fn resume(status: &Status, run: &str) -> String {
    match &status.checkpoint {
        Some(saved) => format!(
            "last checkpoint at step {}; resume with: operant train --resume {run}",
            format::steps(saved.env_steps as f64)
        ),
        None => format!("no checkpoint was saved; start over with: operant train --resume {run}"),
    }
}

/// The argument that names the run in a command typed in the same directory: its name if that suffices, else its directory.
pub(crate) fn handle(identity: &Identity) -> String {
    let named = std::env::current_dir().map(|here| here.join("runs").join(&identity.run));
    let real = |dir: &Path| std::fs::canonicalize(dir).ok();
    let elsewhere = identity.dir.is_dir() && named.is_ok_and(|named| real(&named) != real(&identity.dir));
    argument(&if elsewhere { identity.dir.display().to_string() } else { identity.run.clone() })
}

/// A text quoted for the shell, to be copied from the screen.
fn argument(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./~+=:,@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_metrics::SavedCheckpoint;
    use std::time::Duration;

    fn identity() -> Identity {
        let mut identity = Identity::of_this_process("cartpole-7", "cartpole");
        identity.dir = "/data/runs/cartpole-7".into();
        (identity.pid, identity.detached) = (4321, true);
        identity
    }

    fn status(health: Health) -> Status {
        Status {
            health,
            reason: String::new(),
            since_update: Some(Duration::from_millis(400)),
            since_progress: Duration::from_millis(3100),
            since_alive: Duration::from_millis(400),
            uptime: Duration::from_secs(60),
            checkpoint: Some(SavedCheckpoint { env_steps: 12_200_000, path: "checkpoints/12200000".into() }),
        }
    }

    #[test]
    fn a_killed_run_says_where_it_died_and_how_to_go_on() {
        let verdict = of(&identity(), &status(Health::Killed), 12_300_000.0);
        assert_eq!(
            verdict.line(),
            "daemon killed 0.4 s ago at step 12.3 M; last checkpoint at step 12.2 M; \
             resume with: operant train --resume cartpole-7"
        );
        assert_eq!((verdict.word, verdict.tone), ("killed", Tone::Bad));
    }

    #[test]
    fn a_run_in_the_foreground_is_no_daemon() {
        let identity = Identity { detached: false, ..identity() };
        let verdict = of(&identity, &status(Health::Killed), 12_300_000.0);
        assert_eq!(verdict.headline, "process killed 0.4 s ago at step 12.3 M");
    }

    #[test]
    fn without_a_checkpoint_the_run_starts_over() {
        let mut status = status(Health::Killed);
        status.checkpoint = None;
        assert_eq!(
            of(&identity(), &status, f64::NAN).line(),
            "daemon killed 0.4 s ago before its first update; no checkpoint was saved; \
             start over with: operant train --resume cartpole-7"
        );
    }

    #[test]
    fn a_run_from_elsewhere_is_called_by_its_directory() {
        let elsewhere = tempfile::tempdir().unwrap();
        let identity = Identity { dir: elsewhere.path().to_owned(), ..identity() };
        let line = of(&identity, &status(Health::Killed), 1.0).line();
        assert!(line.ends_with(&format!("--resume {}", elsewhere.path().display())), "{line}");
    }

    #[test]
    fn a_stalled_run_says_for_how_long() {
        let verdict = of(&identity(), &status(Health::Stalled), 5000.0);
        assert!(verdict.headline.starts_with("no progress for 3.1 s"), "{}", verdict.headline);
        assert!(verdict.advice.contains("kill -CONT 4321"), "{}", verdict.advice);
    }

    #[test]
    fn a_failed_run_gives_its_reason_and_its_log() {
        let mut status = status(Health::Reported(RunState::Failed));
        status.reason = "loss is not finite".to_string();
        let line = of(&identity(), &status, 5000.0).line();
        assert!(line.starts_with("failed 0.4 s ago at step 5.00 k: loss is not finite; see "), "{line}");
        assert!(line.contains("/data/runs/cartpole-7/operant.log"), "{line}");
    }

    #[test]
    fn every_state_has_a_word_and_a_running_one_no_banner() {
        for state in RunState::ALL {
            let verdict = of(&identity(), &status(Health::Reported(state)), 5000.0);
            assert_eq!(verdict.word, state.name());
            let quiet = matches!(state, RunState::Starting | RunState::Running);
            assert_eq!(verdict.needs_banner(), !quiet, "{state:?}");
        }
    }

    #[test]
    fn names_can_be_pasted_into_a_shell() {
        assert_eq!(argument("cartpole-7"), "cartpole-7");
        assert_eq!(argument("my run"), "'my run'");
        assert_eq!(argument("it's"), "'it'\\''s'");
        assert_eq!(argument(""), "''");
    }
}
