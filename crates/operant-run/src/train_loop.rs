//! The training loop over a [`Backend`]: update, publish, evaluate, save, until the budget is spent or a stop is requested.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use operant_learn::{Backend, InFlight, LearnError, UpdateStats};
use operant_metrics::{Level, Record, RunState};

use crate::checkpoint::{Checkpoint, Store};
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluate::{self, EvalSummary};
use crate::progress::{Progress, Tick};
use crate::run::{OnCheckpoint, OnRecord};
use crate::signals::{CALLER, Signals};
use crate::sinks::SinkEvent;
use crate::state::State;
use crate::telemetry::Publisher;

/// What to do when losses are not finite. A CPU checks what environments return, so there it is never their fault.
pub(crate) fn diverged_advice(on_gpu: bool) -> String {
    let of_gpu = match on_gpu {
        true => "; and train with --device cpu, which names an environment that returns NaN or infinity",
        false => "",
    };
    format!("lower learning_rate or max_grad_norm, or set norm_obs and norm_reward{of_gpu}")
}

/// Poll interval for signals while training is paused.
const PAUSE_POLL: Duration = Duration::from_millis(20);

/// Random stream of the final evaluation; those during training count from one.
pub(crate) const FINAL_ROUND: u64 = 0;

/// Exit reason of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// Every environment step was taken.
    Finished,
    /// `stop_when_solved` is set and it was solved.
    Solved,
    /// A signal of this name requested a stop, or `the program` that trains; with [`Signals::finish`] after its final evaluation.
    Stopped(&'static str),
}

/// A run during training.
pub(crate) struct Training<'a> {
    pub backend: &'a mut dyn Backend,
    pub settings: &'a Settings,
    /// Whether a GPU trains.
    pub on_gpu: bool,
    /// Whether its replay began with given transitions.
    pub is_given: bool,
    pub saved_config: String,
    pub state: State,
    pub store: Store,
    pub publisher: Publisher,
    pub signals: &'a Signals,
    pub progress: &'a mut dyn Progress,
    /// Whether details are shown to the user.
    pub verbose: bool,
    pub started: Instant,
    /// Updates after which training ends.
    pub target: u64,
    pub last_checkpoint: Option<PathBuf>,
    pub clocks: Clocks,
    /// The record of the latest update, held until it is known whether an evaluation follows.
    pub held: Option<Record>,
    pub on_record: Option<OnRecord>,
    pub on_checkpoint: Option<OnCheckpoint>,
}

/// State of this process only: its times, and the updates in flight.
pub(crate) struct Clocks {
    in_flight: InFlight,
    /// When the last update was collected, or the evaluation or checkpoint after it ended.
    mark: Instant,
    /// When the last update was collected.
    collected: Instant,
    /// Time since then for which training was paused.
    paused: Duration,
    first_steps: u64,
    first_train_s: f64,
    warned_nonfinite: u64,
    lost_checkpoints: u64,
}

impl Clocks {
    /// Clocks of a process that begins to train from `state`.
    pub fn start(state: &State) -> Self {
        let now = Instant::now();
        Clocks {
            in_flight: InFlight::default(),
            mark: now,
            collected: now,
            paused: Duration::ZERO,
            first_steps: state.env_steps,
            first_train_s: state.train_s,
            warned_nonfinite: 0,
            lost_checkpoints: 0,
        }
    }
}

/// Seconds of wall time of one update.
struct Times {
    /// In the backend.
    busy: f64,
    /// From the end of the previous update to the end of this one.
    period: f64,
    /// Part of the period spent in this loop: publishing, evaluation, checkpoints.
    host: f64,
    /// Part of the rollout in which threads waited for environments in other processes; NaN without those.
    env_wait: f64,
    /// Part of the period spent in exchanges with other processes of the run; NaN without those.
    exchange: f64,
}

impl Times {
    /// The part of the period that no phase accounts for. Phases may overlap on a device with several updates in flight.
    fn idle(&self, stats: &UpdateStats) -> f64 {
        // A device that runs GAE inside the rollout has no separate time for it.
        let Record { time_rollout, time_gae, time_update, .. } = stats.metrics;
        let gae = if time_gae.is_nan() { 0.0 } else { time_gae };
        let phases = time_rollout + gae + time_update + self.host;
        (self.period - phases).max(0.0)
    }
}

impl Training<'_> {
    /// Seconds of wall time, including those before a resume.
    pub fn wall_s(&self) -> f64 {
        self.state.wall_before_s + self.started.elapsed().as_secs_f64()
    }

    /// Trains until the budget is spent, a signal requests a stop, or the run is solved and `stop_when_solved` is set.
    ///
    /// # Errors
    /// When the device fails, when training diverges, or when a signal requests a stop and nothing could be saved.
    pub fn run(&mut self) -> Result<ExitReason> {
        // A run that was stopped or killed after it was solved.
        if self.settings.run.stop_when_solved && self.state.solved_at_step.is_some() {
            return Ok(ExitReason::Solved);
        }
        let target = self.target;
        let interval = self.settings.run.checkpoint_interval;
        let kept = self.settings.run.keep_checkpoints;
        // An evaluation that a stop prevented comes before the next update, as if there had been no stop.
        if self.state.updates > 0 && self.state.solved_at_step.is_none() && self.attempt_is_due() {
            if let Some(improved) = self.attempt()? {
                self.try_to_save(Some(improved));
            }
            if self.settings.run.stop_when_solved && self.state.solved_at_step.is_some() {
                return Ok(ExitReason::Solved);
            }
            self.clocks.mark = Instant::now();
        }
        while self.state.updates < target {
            if let Some(signal) = self.signals.stopped_by() {
                self.drain()?;
                self.release();
                return self.stop(signal);
            }
            if self.signals.is_finishing() {
                self.drain()?;
                return Ok(ExitReason::Stopped(CALLER));
            }
            let is_held = self.signals.is_holding();
            if is_held || self.signals.take_pause() {
                self.pause(is_held)?;
                continue;
            }
            // No update is enqueued past one after which the device must be idle.
            let to_checkpoint = match interval {
                0 => u64::MAX,
                interval => interval - self.state.updates % interval,
            };
            let to_checkpoint = to_checkpoint.min(kept.to_next(self.state.updates));
            let stats = self.collect(to_checkpoint.min(target - self.state.updates))?;

            // Weights after a non-finite update are neither evaluated nor saved.
            if stats.nonfinite_in_a_row > 0 {
                continue;
            }
            let is_due = interval > 0 && self.state.updates.is_multiple_of(interval);
            let periodic = (is_due || kept.keeps(self.state.updates)) && self.state.updates < target;
            let asked = self.signals.take_checkpoint();
            let save = asked || periodic;
            let attempt = self.state.solved_at_step.is_none() && self.attempt_is_due();
            if !save && !attempt {
                // The record of the last update is held for the final evaluation.
                if self.state.updates < target {
                    self.release();
                }
                continue;
            }
            self.drain()?;
            let improved = if attempt { self.attempt()? } else { None };
            if asked {
                self.publisher.event(Level::Info, "SIGUSR1 received: saving a checkpoint");
            }
            if save || improved.is_some() {
                self.try_to_save(improved);
            }
            if self.state.updates < target {
                self.release();
            }
            self.clocks.mark = Instant::now();
            if self.settings.run.stop_when_solved && self.state.solved_at_step.is_some() {
                return Ok(ExitReason::Solved);
            }
        }
        Ok(ExitReason::Finished)
    }

    /// Collects the next update; its record is held, and the one before it published. At most `ahead` updates are in
    /// flight meanwhile.
    fn collect(&mut self, ahead: u64) -> Result<UpdateStats> {
        self.release();
        let host = self.clocks.collected.elapsed().saturating_sub(self.clocks.paused);
        let waited = |backend: &dyn Backend| {
            let env = backend.env_counters().map_or(f64::NAN, |counters| counters.waited_s);
            [env, backend.exchange_seconds().unwrap_or(f64::NAN)]
        };
        let before = waited(self.backend);
        let next = self.clocks.in_flight.next(self.backend, ahead);
        let after = waited(self.backend);
        let [env_wait, exchange] = std::array::from_fn(|i| after[i] - before[i]);
        self.report_environments();
        let stats = next.map_err(|error| match error {
            // Without them there is nothing to save.
            LearnError::Process(_) => error.into(),
            _ => {
                let is_whole = !self.backend.saves_episodes();
                self.saved_after(error.into(), is_whole)
            }
        })?;
        let now = Instant::now();
        let busy_s = (now - self.clocks.mark).as_secs_f64();
        let (period, host) = ((now - self.clocks.collected).as_secs_f64(), host.as_secs_f64());
        (self.clocks.mark, self.clocks.collected, self.clocks.paused) = (now, now, Duration::ZERO);

        self.state.record(&stats);
        self.state.train_s += busy_s;
        let record = self.record(&stats, &Times { busy: busy_s, period, host, env_wait, exchange });
        self.progress.tick(&Tick {
            env_steps: self.state.env_steps,
            total: self.settings.steps(),
            sps: record.sps_average,
            episodic_return: self.state.attempts.mean(),
        });
        self.held = Some(record);
        self.guard(&stats)?;
        Ok(stats)
    }

    /// Publishes the record that is held, if any.
    pub fn release(&mut self) {
        if let Some(record) = self.held.take() {
            self.publish(record);
        }
    }

    /// Collects all updates in flight, so that the device is idle.
    fn drain(&mut self) -> Result<()> {
        while self.clocks.in_flight.count() > 0 {
            self.collect(0)?;
        }
        Ok(())
    }

    /// Pauses training until the next SIGUSR2 or a stop, or with `is_held` for as long as a sweep is paused. Checkpoints can be requested
    /// meanwhile.
    fn pause(&mut self, is_held: bool) -> Result<()> {
        self.drain()?;
        self.release();
        self.publisher.state(RunState::Paused, "");
        self.note("SIGUSR2: paused; send SIGUSR2 again to continue");
        let begun = Instant::now();
        if is_held {
            self.signals.set_held(true);
        }
        let continues = |signals: &Signals| match is_held {
            true => !signals.is_holding(),
            false => signals.take_pause(),
        };
        while self.signals.stopped_by().is_none() && !continues(self.signals) {
            if self.signals.take_checkpoint() {
                self.publisher.event(Level::Info, "SIGUSR1 received: saving a checkpoint");
                self.try_to_save(None);
            }
            self.publisher.alive();
            self.publisher.recreate_ring_while_paused();
            self.progress.poll();
            std::thread::park_timeout(PAUSE_POLL);
        }
        if is_held {
            self.signals.set_held(false);
        }
        self.clocks.mark = Instant::now();
        self.clocks.paused += begun.elapsed();
        // A run that is to stop does not return to *running* first.
        if self.signals.stopped_by().is_none() {
            self.publisher.state(RunState::Running, "");
            self.note(&format!("SIGUSR2: training continues after {:.1} s", begun.elapsed().as_secs_f64()));
        }
        Ok(())
    }

    /// The record of one update, without an evaluation after it: what the backend reported, and what this loop counts.
    #[allow(clippy::cast_precision_loss)] // counts shown as reals
    fn record(&self, stats: &UpdateStats, times: &Times) -> Record {
        let state = &self.state;
        let own_steps = (state.env_steps - self.clocks.first_steps) as f64;
        let sps_average = own_steps / (state.train_s - self.clocks.first_train_s);
        let mut env = stats.metrics.env;
        self.settings.metrics().add_scores(&mut env);
        Record {
            time: self.wall_s(),
            update: state.updates as f64,
            env_steps: state.env_steps as f64,
            sps: self.settings.batch() as f64 / times.busy,
            sps_average,
            episodes: state.episodes as f64,
            nonfinite_updates: state.nonfinite_updates as f64,
            time_host: times.host,
            time_idle: times.idle(stats),
            env_wait: (times.env_wait / stats.metrics.time_rollout).clamp(0.0, 1.0),
            comm_share: (times.exchange / times.busy).clamp(0.0, 1.0),
            env_restarts: self.backend.env_counters().map_or(f64::NAN, |counters| counters.restarts as f64),
            env,
            // The publisher adds utilization.
            ..stats.metrics
        }
    }

    /// Writes one record to the files and the ring.
    fn publish(&mut self, record: Record) {
        if let Some(on_record) = &mut self.on_record {
            on_record(self.settings.metrics(), &record);
        }
        let events = self.publisher.publish(record);
        self.report(events);
        if self.publisher.scene_is_due()
            && let Some(episode) = self.backend.scene()
        {
            self.publisher.show(&episode);
        }
    }

    /// Reports which files of metrics cannot be written, and which are written again.
    pub fn report(&mut self, events: Vec<SinkEvent>) {
        for event in events {
            match event {
                SinkEvent::Lost(error) => {
                    self.warn(&format!(
                        "{error}\ntraining continues without this file, and tries it again every second"
                    ));
                }
                SinkEvent::Recovered { path, after, before } => self.warn(&format!(
                    "{} is written again; updates after {after} and before {before} may be missing in it",
                    path.display()
                )),
            }
        }
    }

    /// Reports skipped updates, and ends training when there were too many in a row.
    fn guard(&mut self, stats: &UpdateStats) -> Result<()> {
        if stats.nonfinite == 0 {
            return Ok(());
        }
        self.clocks.warned_nonfinite += 1;
        // Each of the first, then increasingly few: 1..=8, 16, 32, ...
        let count = self.clocks.warned_nonfinite;
        if count <= 8 || count.is_power_of_two() {
            self.warn(&format!(
                "update {}: {} minibatches skipped for a non-finite loss or gradient ({} updates in a row; training \
                 stops at {})",
                self.state.updates,
                stats.nonfinite,
                stats.nonfinite_in_a_row,
                self.settings.learner.max_nonfinite_updates
            ));
        }
        if stats.nonfinite_in_a_row < self.settings.learner.max_nonfinite_updates as u64 {
            return Ok(());
        }
        self.release();
        let events = self.publisher.sync();
        self.report(events);
        let what = format!(
            "training diverged: {} updates in a row had a non-finite loss or gradient",
            stats.nonfinite_in_a_row
        );
        let advice = diverged_advice(self.on_gpu);
        let error = Error::new(ErrorKind::Diverged, what).at(format!("update {}", self.state.updates));
        Err(match &self.last_checkpoint {
            Some(path) => error.remedy(format!("{advice}; the last good checkpoint is {}", path.display())),
            None => error.remedy(format!("{advice}; no checkpoint had been saved")),
        })
    }

    fn attempt_is_due(&self) -> bool {
        let run = &self.settings.run;
        self.state.attempts.due(self.state.updates, run.solved_at, run.eval_interval)
    }

    /// Evaluates during training. Returns the mean if it is the best so far; a stop ends the evaluation.
    fn attempt(&mut self) -> Result<Option<f64>> {
        let Some(summary) = self.evaluate(self.state.rounds + 1)? else { return Ok(None) };
        self.state.rounds += 1;
        self.state.attempts.tried(self.state.updates);
        let improved = self.state.best_mean.is_none_or(|best| summary.mean > best);
        if improved {
            self.state.best_mean = Some(summary.mean);
        }
        Ok(improved.then_some(summary.mean))
    }

    /// Plays greedy episodes, and records when they first reach the threshold. None if a stop came first.
    pub fn evaluate(&mut self, round: u64) -> Result<Option<EvalSummary>> {
        let (episodes, signals, progress) =
            (self.settings.run.eval_episodes, self.signals, &mut self.progress);
        let stopped = || {
            progress.poll();
            signals.stopped_by().is_some()
        };
        let played = evaluate::play(self.backend, episodes, round, stopped);
        self.report_environments();
        let played = played.map_err(|error| self.saved_after(error, true))?;
        let Some(evaluation) = played else { return Ok(None) };
        let summary = EvalSummary::of(&evaluation);
        let wall_s = self.wall_s();
        self.publisher.alive();
        // An evaluation that ended training belongs to its update; the final evaluation adds no second row.
        if let Some(record) = self.held.as_mut().filter(|record| record.eval_return.is_nan()) {
            summary.add_to(record);
        }
        tracing::info!(env_steps = self.state.env_steps, mean = summary.mean, std = summary.std, "evaluated");
        if self.state.solved_at_step.is_none() && summary.solves(self.settings.run.solved_at) {
            self.state.solved_at_step = Some(self.state.env_steps);
            self.state.solved_at_s = Some(wall_s);
            let steps = self.state.env_steps;
            self.note(&format!(
                "solved at {steps} steps after {wall_s:.2} s: mean return {:.2}",
                summary.mean
            ));
        }
        Ok(Some(summary))
    }

    /// Saves a checkpoint and ends training.
    pub fn stop(&mut self, signal: &'static str) -> Result<ExitReason> {
        self.publisher.state(RunState::Stopping, "");
        self.note(&match signal {
            CALLER => format!("stopped by {CALLER}: saving a checkpoint"),
            _ => format!("{signal}: saving a checkpoint"),
        });
        match self.save(None) {
            Ok(()) => Ok(ExitReason::Stopped(signal)),
            Err(mut error) => {
                error.what = format!("stopped by {signal}, and the checkpoint was not saved: {}", error.what);
                Err(error)
            }
        }
    }

    /// Saves a checkpoint of an idle device.
    pub fn save(&mut self, eval_mean: Option<f64>) -> Result<()> {
        // Rows up to this step must be on disk before the checkpoint that relies on them.
        self.release();
        let events = self.publisher.sync();
        self.report(events);
        let checkpoint = Checkpoint {
            env: self.settings.environment.clone(),
            config: self.saved_config.clone(),
            env_steps: self.state.env_steps,
            updates: self.state.updates,
            train_s: self.state.train_s,
            eval_mean,
            totals: self.state.totals(self.wall_s()),
            snapshot: self.backend.save()?,
        };
        // What a run was given is there again after a resume, even if no other checkpoint holds its replay.
        let begins_given = self.is_given && self.state.updates == 0;
        let replay = match self.settings.learner.checkpoint_replay || begins_given {
            true => self.backend.replay()?,
            false => None,
        };
        let path = self.store.save_with(&checkpoint, replay.as_deref())?;
        let steps = self.state.env_steps;
        tracing::info!(env_steps = steps, path = %path.display(), "checkpoint saved");
        // Monitors in other directories need an absolute path.
        let from_root = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        self.publisher.checkpoint(steps, &from_root);
        self.publisher.event(Level::Info, &format!("checkpoint saved at {steps} steps"));
        self.publisher.alive();
        self.last_checkpoint = Some(path);
        if let Some(on_checkpoint) = &mut self.on_checkpoint {
            on_checkpoint(&from_root);
        }
        Ok(())
    }

    /// Saves a checkpoint. Training continues if that fails: the disk may have space again for the next.
    fn try_to_save(&mut self, eval_mean: Option<f64>) {
        if let Err(error) = self.save(eval_mean) {
            self.clocks.lost_checkpoints += 1;
            let lost = self.clocks.lost_checkpoints;
            if lost.is_power_of_two() {
                self.warn(&format!("{error}\ntraining continues; checkpoints lost so far: {lost}"));
            }
        }
    }

    /// Reports what happened to environments, such as restarts.
    fn report_environments(&mut self) {
        for message in self.backend.messages() {
            self.warn(&message);
        }
    }

    /// Saves a checkpoint after the failure of an environment, if the state of training is whole: in an evaluation, or where the
    /// environments have no state to lose. Returns the error.
    fn saved_after(&mut self, error: Error, is_whole: bool) -> Error {
        if error.kind == ErrorKind::Device && is_whole && self.state.updates > 0 {
            self.try_to_save(None);
        }
        error
    }

    pub fn note(&mut self, line: &str) {
        tracing::info!("{line}");
        self.publisher.event(Level::Info, line);
        self.progress.note(line);
    }

    /// A line for the log and for monitors, which the user sees on request.
    pub fn detail(&mut self, line: &str) {
        if self.verbose {
            return self.note(line);
        }
        tracing::info!("{line}");
        self.publisher.event(Level::Info, line);
    }

    pub fn warn(&mut self, line: &str) {
        tracing::warn!("{line}");
        self.publisher.event(Level::Warning, line);
        self.progress.warn(line);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_gpu_that_diverges_is_told_where_environments_are_checked() {
        let [gpu, cpu] = [true, false].map(super::diverged_advice);
        assert!(gpu.contains("--device cpu") && !cpu.contains("--device"), "{gpu} {cpu}");
    }
}
