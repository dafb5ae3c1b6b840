//! The search: each setting of the machine in turn, then settings of learning, then a last comparison of the best with the automatic
//! ones. Trials run in turn against a reference, so that a machine that changes its speed changes it for both.

use std::time::{Duration, Instant};

use operant_learn::measure::Spread;
use operant_run::{Error, Result, Settings, trial};

use super::space::{self, Choice, Space};
use super::{Fate, Goal, Report, Tried};
use crate::bench::compare::Verdict;
use crate::bench::run::Progress;

/// Rounds of trials: at least so many before anything is taken, and at most.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=7;
/// Seconds of a measurement of speed, at least and at most.
const SITTING: [f64; 2] = [0.01, 1.0];
/// Where in the budget each part is to end: settings of the machine, and of learning.
const PARTS: [f64; 2] = [0.35, 0.8];
/// Faster by less than so much, a setting of the machine is not worth a line in a file.
const WORTH_A_LINE: f64 = 1.01;
/// Faster by less than so much, learning is not put at risk for it.
const WORTH: f64 = 1.03;
/// Seeds under which changed learning has to solve the environment.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Seeds of the last comparison of times to solve.
const LAST_SEEDS: std::ops::Range<u64> = 101..112;
/// Share of the budget that a run of the last comparison has at least.
const LAST_SHARE: f64 = 0.05;
/// A run that takes so many times as long as the best so far will not be the best.
const HOPELESS: f64 = 3.0;

/// The search and what it has found.
struct Search<'a> {
    space: &'a Space,
    goal: Goal,
    begin: Instant,
    budget: Duration,
    tried: Vec<Tried>,
    notes: Vec<String>,
    progress: &'a mut dyn Progress,
}

/// Settings under trial.
struct Trial {
    choice: Choice,
    settings: Settings,
    values: Vec<f64>,
    problem: Option<String>,
}

/// Searches for about `budget`.
///
/// # Errors
/// When no device trains under the automatic settings, or it fails.
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
        // A gain in every round is one.
        Goal::Sps => Verdict::of([1.0; 3], extremes(&ratios)),
        Goal::Solve => Verdict::of(middle_speeds(&automatic), middle_speeds(&best_values)),
    };
    let (automatic, found, gain) = (Spread::of(automatic), Spread::of(best_values), Spread::of(ratios));
    let better = verdict == Verdict::Faster;
    if !better {
        search
            .tried
            .iter_mut()
            .filter(|tried| tried.fate == Fate::Taken)
            .for_each(|tried| tried.fate = Fate::Left);
    }
    Ok(Report {
        env: space.settings(&Choice::new())?.environment,
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
    fn left(&self, share: f64) -> Duration {
        self.budget.mul_f64(share).saturating_sub(self.begin.elapsed())
    }

    fn at(&mut self, what: &str) {
        let done = self.begin.elapsed().as_secs_f64() / self.budget.as_secs_f64().max(1e-9);
        self.progress.at(what, done.min(1.0));
    }

    fn trial(&self, choice: Choice) -> Result<Trial> {
        let settings = self.space.settings(&choice)?;
        Ok(Trial { choice, settings, values: Vec::new(), problem: None })
    }

    /// Each setting of the machine while the others stay, the best of each for those after it. Returns what was taken, and how
    /// many times faster that is than the automatic settings, each setting's gain times the next one's.
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

    /// Measures the speed of all trials, the first of which is the reference, round after round for about `time`.
    fn in_turn(&mut self, trials: &mut [Trial], time: Duration) -> Result<()> {
        let begin = Instant::now();
        let sittings = (*ROUNDS.end() * trials.len()) as f64;
        let sitting = Duration::from_secs_f64((time.as_secs_f64() / sittings).clamp(SITTING[0], SITTING[1]));
        for round in 0..*ROUNDS.end() {
            if round >= *ROUNDS.start() && begin.elapsed() > time {
                break;
            }
            // Back and forth: what only grows or falls evens out.
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
                self.at(&space::shown(&trial.choice));
                match trial::sps(&trial.settings, sitting) {
                    Ok(speed) => trial.values.push(speed),
                    Err(error) if is_reference => return Err(error),
                    Err(error) => trial.problem = Some(first_line(&error)),
                }
            }
        }
        Ok(())
    }

    /// Notes what became of trials of speed. The one to take: the best of those that were faster than the reference in every
    /// round, in the median at least `worth` times. With its median.
    fn judge(&mut self, trials: &[Trial], worth: f64) -> (Option<usize>, f64) {
        let ratios: Vec<Vec<f64>> = trials.iter().map(|trial| ratios(&trials[0], trial)).collect();
        let spread = |number: &usize| Spread::of(ratios[*number].clone());
        let others = || (1..trials.len()).filter(|&number| trials[number].problem.is_none());
        let sooner = |a: &usize, b: &usize| spread(a).median.total_cmp(&spread(b).median);
        let better = |number: &usize| spread(number).min > 1.0 && spread(number).median >= worth;
        let taken = others().filter(better).max_by(sooner);
        let gain = taken.map_or(1.0, |number| spread(&number).median);
        for (number, trial) in trials.iter().enumerate() {
            let fate = match &trial.problem {
                Some(problem) => Fate::Refused(problem.clone()),
                None if number == 0 => Fate::Reference,
                None if Some(number) == taken => Fate::Taken,
                None => Fate::Left,
            };
            // The automatic settings are told once.
            if number > 0 || self.tried.is_empty() {
                let (choice, values) = (trial.choice.clone(), trial.values.clone());
                let ratios = ratios[number].clone();
                self.tried.push(Tried { choice, is_speed: true, values, ratios, solved: 0, fate });
            }
        }
        (taken, gain)
    }

    /// Changed learning on top of the best settings of the machine, for the goal.
    fn learning(&mut self, best: Choice) -> Result<Choice> {
        let mut trials = vec![self.trial(best.clone())?];
        for change in &self.space.learning {
            let mut choice = best.clone();
            choice.extend(change.clone());
            trials.push(self.trial(choice)?);
        }
        match self.goal {
            Goal::Sps => self.fastest_that_solves(trials, best),
            Goal::Solve => self.soonest(trials, best),
        }
    }

    /// The fastest that still solves the environment under every seed.
    fn fastest_that_solves(&mut self, mut trials: Vec<Trial>, best: Choice) -> Result<Choice> {
        let time = self.left(PARTS[1]).mul_f64(0.4);
        self.in_turn(&mut trials, time)?;
        let from = self.tried.len();
        self.judge(&trials, WORTH);
        let is_worth = |tried: &Tried| {
            let ratio = Spread::of(tried.ratios.clone());
            matches!(tried.fate, Fate::Taken | Fate::Left) && ratio.min > 1.0 && ratio.median >= WORTH
        };
        let mut order: Vec<usize> = (from..self.tried.len()).filter(|&k| is_worth(&self.tried[k])).collect();
        let median = |tried: &Tried| Spread::of(tried.ratios.clone()).median;
        order.sort_by(|&a, &b| median(&self.tried[b]).total_cmp(&median(&self.tried[a])));
        // Whether it may be taken is yet to be seen.
        self.tried[from..]
            .iter_mut()
            .filter(|tried| tried.fate == Fate::Taken)
            .for_each(|tried| tried.fate = Fate::Left);
        for number in order {
            let choice = self.tried[number].choice.clone();
            let fate = self.whether_it_solves(&choice, number)?;
            self.tried[number].fate = fate.clone();
            if fate == Fate::Taken {
                return Ok(choice);
            }
        }
        Ok(best)
    }

    /// Taken if it solves the environment under every seed, which are counted.
    fn whether_it_solves(&mut self, choice: &Choice, number: usize) -> Result<Fate> {
        for seed in SEEDS {
            self.at(&format!("{}: whether it learns", space::shown(choice)));
            let limit = self.left(PARTS[1]);
            if limit.is_zero() {
                return Ok(Fate::NotTried);
            }
            match self.solve(choice, seed, limit) {
                Ok(Some(_)) => self.tried[number].solved += 1,
                Ok(None) => return Ok(Fate::NotSolved(seed)),
                Err(error) => return Ok(Fate::Refused(first_line(&error))),
            }
        }
        Ok(Fate::Taken)
    }

    /// Seconds to solve under a seed.
    fn solve(&self, choice: &Choice, seed: u64, limit: Duration) -> Result<Option<f64>> {
        let mut choice = choice.clone();
        choice.insert("seed", seed.to_string());
        trial::seconds_to_solve(&self.space.settings(&choice)?, limit)
    }

    /// The one that solves the environment soonest in the median of the seeds, and under each of them; after every seed the
    /// better half stays.
    fn soonest(&mut self, trials: Vec<Trial>, best: Choice) -> Result<Choice> {
        let from = self.tried.len();
        let tried = |trial: Trial| Tried {
            choice: trial.choice,
            is_speed: false,
            values: Vec::new(),
            ratios: Vec::new(),
            solved: 0,
            fate: Fate::Left,
        };
        self.tried.extend(trials.into_iter().map(tried));
        self.tried[from].fate = Fate::Reference;
        let mut alive: Vec<usize> = (from..self.tried.len()).collect();
        let mut soonest = f64::INFINITY;
        for (round, seed) in SEEDS.into_iter().enumerate() {
            for &number in &alive {
                let left = self.left(PARTS[1]);
                if left.is_zero() {
                    if number != from {
                        self.tried[number].fate = Fate::NotTried;
                    }
                    continue;
                }
                let hopeless = Duration::try_from_secs_f64(HOPELESS * soonest).unwrap_or(left);
                let choice = self.tried[number].choice.clone();
                self.at(&format!("{}, seed {seed}", space::shown(&choice)));
                // The reference says how long it takes, whatever that is.
                let limit = if number == from { left } else { left.min(hopeless) };
                match self.solve(&choice, seed, limit) {
                    Ok(Some(seconds)) => {
                        soonest = soonest.min(seconds);
                        let reference = self.tried[from].values.get(round).copied();
                        let tried = &mut self.tried[number];
                        tried.values.push(seconds);
                        tried.ratios.extend(if number == from {
                            Some(1.0)
                        } else {
                            reference.map(|old| old / seconds)
                        });
                        tried.solved += 1;
                    }
                    Err(error) if number == from => return Err(error),
                    Err(error) => self.tried[number].fate = Fate::Refused(first_line(&error)),
                    Ok(None) if number != from => self.tried[number].fate = Fate::NotSolved(seed),
                    Ok(None) => {}
                }
            }
            alive.retain(|&number| number == from || self.tried[number].values.len() > round);
            alive[1..].sort_by(|&a, &b| middle(&self.tried[a]).total_cmp(&middle(&self.tried[b])));
            alive.truncate(alive.len() / 2 + 1);
        }
        let complete = |number: &&usize| self.tried[**number].solved == SEEDS.len();
        let found = alive[1..]
            .iter()
            .filter(complete)
            .min_by(|&&a, &&b| middle(&self.tried[a]).total_cmp(&middle(&self.tried[b])));
        let reference = middle(&self.tried[from]);
        match found {
            Some(&number) if reference.is_nan() || middle(&self.tried[number]) < reference => {
                self.tried[number].fate = Fate::Taken;
                Ok(self.tried[number].choice.clone())
            }
            _ => Ok(best),
        }
    }

    /// The automatic settings and `best`, in turn once more: the figures of each, and what speaks against the best.
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
            Some(format!("{} fails: {problem}", space::shown(&trial.choice)))
        });
        Ok((automatic, found, problem))
    }

    /// Times to solve under seeds that were not tried before. A run that does not solve counts as long as it took, and is a problem.
    fn in_turn_solving(&mut self, trials: &mut [Trial]) -> Result<()> {
        for (round, seed) in LAST_SEEDS.enumerate() {
            if round >= *ROUNDS.start() && self.left(1.0).is_zero() {
                break;
            }
            for (number, trial) in trials.iter_mut().enumerate() {
                self.at(&format!("{}, seed {seed}", space::shown(&trial.choice)));
                // Some time for each, however long the search took.
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

/// How many times faster a trial was, a round each.
fn ratios(reference: &Trial, trial: &Trial) -> Vec<f64> {
    trial.values.iter().zip(&reference.values).map(|(new, old)| new / old).collect()
}

fn extremes(values: &[f64]) -> [f64; 3] {
    let Spread { median, min, max } = Spread::of(values.to_vec());
    [median, min, max]
}

/// Of times that vary with the seed: how often a second it would be solved, the median and the ends of the middle half.
fn middle_speeds(times: &[f64]) -> [f64; 3] {
    let mut speeds: Vec<f64> = times.iter().map(|time| 1.0 / time).collect();
    speeds.sort_by(f64::total_cmp);
    let quarter = speeds.len() / 4;
    extremes(&speeds[quarter..speeds.len() - quarter])
}

fn middle(tried: &Tried) -> f64 {
    Spread::of(tried.values.clone()).median
}

fn first_line(error: &Error) -> String {
    error.what.lines().next().unwrap_or_default().to_owned()
}
