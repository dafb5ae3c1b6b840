//! The search: each machine setting in turn, then learning settings (`tune::learning`), then a last comparison of the best with
//! the automatic ones. Trials alternate with a reference, so that changes of the machine's speed affect both.

use std::time::{Duration, Instant};

use operant_run::{Error, Requested, Result};

use super::choice::{Choice, shown};
use super::space::Space;
use super::{Goal, Report, TrialOutcome, TriedSettings};
use crate::bench::run::Progress;
use crate::bench::verdict::Verdict;
use crate::measure::Spread;
use crate::trial;

/// Minimum and maximum rounds of trials.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=7;
/// Minimum and maximum seconds of a speed measurement.
const REPETITION: [f64; 2] = [0.01, 1.0];
/// The shares of the budget at which the machine settings and the learning settings end.
pub(super) const PARTS: [f64; 2] = [0.35, 0.8];
/// Minimum speedup for which a machine setting is written.
const WORTH_A_LINE: f64 = 1.01;
/// Seeds of the last comparison of times to solve.
const LAST_SEEDS: std::ops::Range<u64> = 101..112;
/// Minimum share of the budget for a run of the last comparison.
const LAST_SHARE: f64 = 0.05;

/// The search and its results.
pub(super) struct Search<'a> {
    pub space: &'a Space,
    pub goal: Goal,
    begin: Instant,
    budget: Duration,
    pub tried: Vec<TriedSettings>,
    notes: Vec<String>,
    progress: &'a mut dyn Progress,
}

/// A trial of requested settings.
pub(super) struct Trial {
    pub choice: Choice,
    requested: Requested,
    values: Vec<f64>,
    problem: Option<String>,
}

/// Searches for about the time `budget`.
///
/// # Errors
/// When the device cannot train with the automatic settings, or fails.
pub fn search(space: &Space, goal: Goal, budget: Duration, progress: &mut dyn Progress) -> Result<Report> {
    let begin = Instant::now();
    let (tried, notes) = (Vec::new(), space.notes.clone());
    let mut search = Search { space, goal, begin, budget, tried, notes, progress };
    let (mut best, machine_gain) = search.machine()?;
    if !space.learning.is_empty() {
        match search.left(PARTS[1]) {
            Duration::ZERO => {
                search.notes.push("settings of learning were not tried: no time was left".to_owned())
            }
            _ => best = search.learning(best)?,
        }
    }
    let (automatic, best_values, problem) = search.compare(&best)?;
    if let Some(problem) = problem {
        search.notes.push(format!("in the last comparison {problem}"));
        best = Choice::new();
    }
    let ratios: Vec<f64> =
        automatic.iter().zip(&best_values).map(|(old, new)| goal.ratio(*old, *new)).collect();
    let verdict = match goal {
        _ if best.is_empty() => Verdict::Same,
        // Only a gain in every round counts.
        Goal::Sps => Verdict::of([1.0; 3], extremes(&ratios)),
        Goal::Solve => Verdict::of(middle_speeds(&automatic), middle_speeds(&best_values)),
    };
    let (automatic, found, gain) = (Spread::of(automatic), Spread::of(best_values), Spread::of(ratios));
    let better = verdict == Verdict::Faster;
    if !better {
        search
            .tried
            .iter_mut()
            .filter(|tried| tried.outcome == TrialOutcome::Taken)
            .for_each(|tried| tried.outcome = TrialOutcome::Left);
    }
    Ok(Report {
        env: space.requested(&Choice::new())?.settings.environment,
        device: space.device.clone(),
        machine: space.about.clone(),
        goal,
        budget,
        spent: begin.elapsed(),
        automatic,
        best: if better { found } else { automatic },
        gain: if better { gain } else { Spread { median: 1.0, min: 1.0, max: 1.0 } },
        verdict,
        choice: if better { best } else { Choice::new() },
        machine_gain,
        tried: search.tried,
        notes: search.notes,
    })
}

impl Search<'_> {
    /// Time until `share` of the budget is spent.
    pub(super) fn left(&self, share: f64) -> Duration {
        self.budget.mul_f64(share).saturating_sub(self.begin.elapsed())
    }

    pub(super) fn at(&mut self, what: &str) {
        let done = self.begin.elapsed().as_secs_f64() / self.budget.as_secs_f64().max(1e-9);
        self.progress.at(what, done.min(1.0));
    }

    pub(super) fn trial(&self, choice: Choice) -> Result<Trial> {
        let requested = self.space.requested(&choice)?;
        Ok(Trial { choice, requested, values: Vec::new(), problem: None })
    }

    /// Tries each machine setting in turn, with the best values of the earlier ones. Returns the choice and its speedup over the
    /// automatic settings, the product of the single gains.
    fn machine(&mut self) -> Result<(Choice, Option<f64>)> {
        let (mut best, mut gain) = (Choice::new(), None);
        let knobs = self.space.machine.len();
        for (k, knob) in self.space.machine.iter().enumerate() {
            let mut trials = vec![self.trial(best.clone())?];
            for value in &knob.values {
                let mut choice = best.clone();
                choice.insert(knob.key, value.clone());
                trials.push(self.trial(choice)?);
            }
            let share = self.left(PARTS[0]).div_f64((knobs - k) as f64);
            self.in_turn(&mut trials, share)?;
            let (taken, median) = self.judge(&trials, WORTH_A_LINE);
            let so_far: &mut f64 = gain.get_or_insert(1.0);
            if let Some(taken) = taken {
                *so_far *= median;
                best = trials[taken].choice.clone();
            }
        }
        Ok((best, gain))
    }

    /// Measures the speed of all trials, the first of which is the reference, in rounds for about `time`.
    pub(super) fn in_turn(&mut self, trials: &mut [Trial], time: Duration) -> Result<()> {
        let begin = Instant::now();
        let repetitions = (*ROUNDS.end() * trials.len()) as f64;
        let repetition =
            Duration::from_secs_f64((time.as_secs_f64() / repetitions).clamp(REPETITION[0], REPETITION[1]));
        for round in 0..*ROUNDS.end() {
            if round >= *ROUNDS.start() && begin.elapsed() > time {
                break;
            }
            // In alternating order, so that a drift of the machine's speed cancels.
            let order: Vec<usize> = if round.is_multiple_of(2) {
                (0..trials.len()).collect()
            } else {
                (0..trials.len()).rev().collect()
            };
            for number in order {
                let is_reference = number == 0;
                let trial = &mut trials[number];
                if trial.problem.is_some() {
                    continue;
                }
                self.at(&shown(&trial.choice));
                match trial::sps(&self.space.env, &trial.requested, repetition) {
                    Ok(speed) => trial.values.push(speed),
                    Err(error) if is_reference => return Err(error),
                    Err(error) => trial.problem = Some(first_line(&error)),
                }
            }
        }
        Ok(())
    }

    /// Records the outcomes of speed trials. Returns the best trial that was faster than the reference in every round and at least
    /// `worth` times in the median, with its median.
    pub(super) fn judge(&mut self, trials: &[Trial], worth: f64) -> (Option<usize>, f64) {
        let ratios: Vec<Vec<f64>> = trials.iter().map(|trial| ratios(&trials[0], trial)).collect();
        let spread = |number: &usize| Spread::of(ratios[*number].clone());
        let others = || (1..trials.len()).filter(|&number| trials[number].problem.is_none());
        let faster = |a: &usize, b: &usize| spread(a).median.total_cmp(&spread(b).median);
        let better = |number: &usize| spread(number).min > 1.0 && spread(number).median >= worth;
        let taken = others().filter(better).max_by(faster);
        let gain = taken.map_or(1.0, |number| spread(&number).median);
        for (number, trial) in trials.iter().enumerate() {
            let outcome = match &trial.problem {
                Some(problem) => TrialOutcome::Refused(problem.clone()),
                None if number == 0 => TrialOutcome::Reference,
                None if Some(number) == taken => TrialOutcome::Taken,
                None => TrialOutcome::Left,
            };
            // The automatic settings are listed once.
            if number > 0 || self.tried.is_empty() {
                let (choice, values) = (trial.choice.clone(), trial.values.clone());
                let ratios = ratios[number].clone();
                self.tried.push(TriedSettings { choice, is_speed: true, values, ratios, solved: 0, outcome });
            }
        }
        (taken, gain)
    }

    /// Seconds to solve under a seed.
    pub(super) fn solve(&self, choice: &Choice, seed: u64, limit: Duration) -> Result<Option<f64>> {
        let mut choice = choice.clone();
        choice.insert("seed", seed.to_string());
        trial::seconds_to_solve(&self.space.env, &self.space.requested(&choice)?, limit)
    }

    /// Compares the automatic settings and `best` again: the values of each, and the problem of the best, if any.
    fn compare(&mut self, best: &Choice) -> Result<(Vec<f64>, Vec<f64>, Option<String>)> {
        let mut trials = vec![self.trial(Choice::new())?, self.trial(best.clone())?];
        // Nothing better was found: the spread of the automatic settings alone.
        trials.truncate(if best.is_empty() { 1 } else { 2 });
        match self.goal {
            Goal::Sps => self.in_turn(&mut trials, self.left(1.0))?,
            Goal::Solve => self.in_turn_solving(&mut trials)?,
        }
        let [automatic, found] = [0, 1].map(|k| trials.get(k).unwrap_or(&trials[0]).values.clone());
        let problem = trials.get(1).and_then(|trial| {
            let problem = trial.problem.as_ref()?;
            Some(format!("{} fails: {problem}", shown(&trial.choice)))
        });
        Ok((automatic, found, problem))
    }

    /// Times to solve under new seeds. A run that does not solve counts with its whole time, and is a problem.
    fn in_turn_solving(&mut self, trials: &mut [Trial]) -> Result<()> {
        for (round, seed) in LAST_SEEDS.enumerate() {
            if round >= *ROUNDS.start() && self.left(1.0).is_zero() {
                break;
            }
            for (number, trial) in trials.iter_mut().enumerate() {
                self.at(&format!("{}, seed {seed}", shown(&trial.choice)));
                // A minimum time for each, however long the search took.
                let limit = self.left(1.0).max(self.budget.mul_f64(LAST_SHARE));
                let begin = Instant::now();
                let solved = match self.solve(&trial.choice, seed, limit) {
                    Err(error) if number == 0 => return Err(error),
                    Err(error) => {
                        trial.problem.get_or_insert(first_line(&error));
                        None
                    }
                    Ok(solved) => solved,
                };
                if solved.is_none() {
                    trial.problem.get_or_insert(format!("not solved in time under seed {seed}"));
                }
                trial.values.push(solved.unwrap_or_else(|| begin.elapsed().as_secs_f64()));
            }
        }
        if let Some(problem) = &trials[0].problem {
            self.notes
                .push(format!("the automatic settings: {problem}, which counts as solved when it ended"));
        }
        Ok(())
    }
}

/// Speedup of a trial in each round.
fn ratios(reference: &Trial, trial: &Trial) -> Vec<f64> {
    trial.values.iter().zip(&reference.values).map(|(new, old)| new / old).collect()
}

fn extremes(values: &[f64]) -> [f64; 3] {
    let Spread { median, min, max } = Spread::of(values.to_vec());
    [median, min, max]
}

/// The inverse times to solve of the seeds: their median and quartiles.
fn middle_speeds(times: &[f64]) -> [f64; 3] {
    let mut speeds: Vec<f64> = times.iter().map(|time| 1.0 / time).collect();
    speeds.sort_by(f64::total_cmp);
    let quarter = speeds.len() / 4;
    extremes(&speeds[quarter..speeds.len() - quarter])
}

pub(super) fn first_line(error: &Error) -> String {
    error.what.lines().next().unwrap_or_default().to_owned()
}
