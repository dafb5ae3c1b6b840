//! Trials of learning settings: the fastest that still solve the environment, or those with the shortest time to solve.

use std::time::Duration;

use operant_run::Result;

use super::choice::{Choice, shown};
use super::search::{PARTS, Search, Trial, first_line};
use super::{Goal, TrialOutcome, TriedSettings};
use crate::measure::Spread;

/// Minimum speedup for which learning settings are changed.
const WORTH: f64 = 1.03;
/// Seeds under which changed learning settings must solve the environment.
const SEEDS: [u64; 3] = [1, 2, 3];
/// A run that takes this many times as long as the best so far is given up.
const GIVE_UP_FACTOR: f64 = 3.0;

impl Search<'_> {
    /// Tries changed learning settings on top of the best machine settings.
    pub(super) fn learning(&mut self, best: Choice) -> Result<Choice> {
        let mut trials = vec![self.trial(best.clone())?];
        for change in &self.space.learning {
            let mut choice = best.clone();
            choice.extend(change.clone());
            trials.push(self.trial(choice)?);
        }
        match self.goal {
            Goal::Sps => self.fastest_that_solves(trials, best),
            Goal::Solve => self.fastest_to_solve(trials, best),
        }
    }

    /// The fastest that still solves the environment under every seed.
    fn fastest_that_solves(&mut self, mut trials: Vec<Trial>, best: Choice) -> Result<Choice> {
        let time = self.left(PARTS[1]).mul_f64(0.4);
        self.in_turn(&mut trials, time)?;
        let from = self.tried.len();
        self.judge(&trials, WORTH);
        let is_worth = |tried: &TriedSettings| {
            let ratio = Spread::of(tried.ratios.clone());
            matches!(tried.outcome, TrialOutcome::Taken | TrialOutcome::Left)
                && ratio.min > 1.0
                && ratio.median >= WORTH
        };
        let mut order: Vec<usize> = (from..self.tried.len()).filter(|&k| is_worth(&self.tried[k])).collect();
        let median = |tried: &TriedSettings| Spread::of(tried.ratios.clone()).median;
        order.sort_by(|&a, &b| median(&self.tried[b]).total_cmp(&median(&self.tried[a])));
        // Not yet accepted: it must still solve the environment.
        self.tried[from..]
            .iter_mut()
            .filter(|tried| tried.outcome == TrialOutcome::Taken)
            .for_each(|tried| tried.outcome = TrialOutcome::Left);
        for number in order {
            let choice = self.tried[number].choice.clone();
            let outcome = self.whether_it_solves(&choice, number)?;
            self.tried[number].outcome = outcome.clone();
            if outcome == TrialOutcome::Taken {
                return Ok(choice);
            }
        }
        Ok(best)
    }

    /// Accepts it if it solves the environment under every seed; counts the solved seeds.
    fn whether_it_solves(&mut self, choice: &Choice, number: usize) -> Result<TrialOutcome> {
        for seed in SEEDS {
            self.at(&format!("{}: whether it learns", shown(choice)));
            let limit = self.left(PARTS[1]);
            if limit.is_zero() {
                return Ok(TrialOutcome::NotTried);
            }
            match self.solve(choice, seed, limit) {
                Ok(Some(_)) => self.tried[number].solved += 1,
                Ok(None) => return Ok(TrialOutcome::NotSolved(seed)),
                Err(error) => return Ok(TrialOutcome::Refused(first_line(&error))),
            }
        }
        Ok(TrialOutcome::Taken)
    }

    /// The choice with the shortest median time to solve among those that solve the environment under every seed. After each seed
    /// the better half is kept.
    fn fastest_to_solve(&mut self, trials: Vec<Trial>, best: Choice) -> Result<Choice> {
        let from = self.tried.len();
        let tried = |trial: Trial| TriedSettings {
            choice: trial.choice,
            is_speed: false,
            values: Vec::new(),
            ratios: Vec::new(),
            solved: 0,
            outcome: TrialOutcome::Left,
        };
        self.tried.extend(trials.into_iter().map(tried));
        self.tried[from].outcome = TrialOutcome::Reference;
        let mut alive: Vec<usize> = (from..self.tried.len()).collect();
        let mut fastest_to_solve = f64::INFINITY;
        for (round, seed) in SEEDS.into_iter().enumerate() {
            for &number in &alive {
                let left = self.left(PARTS[1]);
                if left.is_zero() {
                    if number != from {
                        self.tried[number].outcome = TrialOutcome::NotTried;
                    }
                    continue;
                }
                let hopeless = Duration::try_from_secs_f64(GIVE_UP_FACTOR * fastest_to_solve).unwrap_or(left);
                let choice = self.tried[number].choice.clone();
                self.at(&format!("{}, seed {seed}", shown(&choice)));
                // The reference runs without a limit relative to the best.
                let limit = if number == from { left } else { left.min(hopeless) };
                match self.solve(&choice, seed, limit) {
                    Ok(Some(seconds)) => {
                        fastest_to_solve = fastest_to_solve.min(seconds);
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
                    Err(error) => self.tried[number].outcome = TrialOutcome::Refused(first_line(&error)),
                    Ok(None) if number != from => self.tried[number].outcome = TrialOutcome::NotSolved(seed),
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
                self.tried[number].outcome = TrialOutcome::Taken;
                Ok(self.tried[number].choice.clone())
            }
            _ => Ok(best),
        }
    }
}

fn middle(tried: &TriedSettings) -> f64 {
    Spread::of(tried.values.clone()).median
}
