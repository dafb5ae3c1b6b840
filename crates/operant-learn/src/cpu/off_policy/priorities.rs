//! Prioritised replay (Schaul et al., "Prioritized Experience Replay", 2016) with a sum tree.

use core::num::Wrapping;

use operant_lane::{Draws, Purpose};

use super::replay::{Drawn, Replay};
use crate::backend::LearnError;
use crate::config::Config;
use crate::state::SavedPriorities;

/// Added to each error, so that every transition can be sampled.
const LEAST: f64 = 1e-6;

/// Sums of numbers: node k is the sum of nodes 2k and 2k + 1, and the numbers are the last half. Sums are always those of the numbers, whatever
/// the order in which these were set.
#[derive(Debug, Clone, PartialEq)]
struct SumTree {
    nodes: Vec<f64>,
}

impl SumTree {
    fn new(numbers: usize) -> Self {
        Self { nodes: vec![0.0; 2 * numbers] }
    }

    fn numbers(&self) -> &[f64] {
        &self.nodes[self.nodes.len() / 2..]
    }

    fn total(&self) -> f64 {
        self.nodes[1]
    }

    fn set(&mut self, index: usize, number: f64) {
        let mut node = self.nodes.len() / 2 + index;
        self.nodes[node] = number;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
    }

    /// The number that `at`, of 0 to the total, falls into; never one that is zero, if another is not.
    fn find(&self, mut at: f64) -> usize {
        let count = self.nodes.len() / 2;
        let mut node = 1;
        while node < count {
            let [left, right] = [self.nodes[2 * node], self.nodes[2 * node + 1]];
            let goes_left = at < left || right == 0.0;
            at -= if goes_left { 0.0 } else { left };
            node = 2 * node + usize::from(!goes_left);
        }
        node - count
    }
}

/// The priorities of the rows of a replay.
#[derive(Debug, Clone)]
pub(crate) struct Priorities {
    exponent: f64,
    tree: SumTree,
    /// Completed rows that a sample begins with, its first one included.
    rows: usize,
    /// Samples of a minibatch.
    draws: usize,
    /// `[environment]`: rows that have a priority, or had one.
    heads: Vec<u64>,
    /// The greatest priority so far, before its exponent, which new rows have.
    greatest: f64,
    /// The samples of the minibatch, and their weights.
    pub chosen: Vec<(Drawn, f32)>,
}

impl Priorities {
    /// Those of an empty replay; None if samples are drawn uniformly.
    pub fn of(replay: &Replay, config: &Config) -> Option<Self> {
        let exponent = config.priority_exponent;
        let (heads, rows) = (vec![0; replay.heads().len()], replay.rows());
        (exponent > 0.0).then(|| Self {
            exponent,
            tree: SumTree::new(heads.len() * rows),
            heads,
            rows: config.learned_rows(),
            draws: config.batch_size / config.sequence(),
            greatest: 1.0,
            chosen: Vec::with_capacity(config.batch_size),
        })
    }

    /// The share of draws of each row.
    pub fn shares(&self) -> Vec<f64> {
        self.tree.numbers().iter().map(|number| number / self.tree.total()).collect()
    }

    fn power(&self, priority: f64) -> f64 {
        priority.powf(self.exponent).clamp(1e-200, 1e200)
    }

    /// How many of the first rows of an environment a sample can begin with.
    fn entered(&self, head: u64) -> u64 {
        (head + 1).saturating_sub(self.rows as u64)
    }

    /// Gives the rows that samples can begin with since the last call the greatest priority, and takes that of rows that are being written.
    pub fn enter(&mut self, replay: &Replay) {
        let greatest = self.power(self.greatest);
        for (env, &head) in replay.heads().iter().enumerate() {
            let oldest = head.saturating_sub(replay.rows() as u64 - 1);
            for number in self.heads[env].max(oldest)..self.entered(head) {
                let row = replay.index(env, number);
                self.tree.set(row, if replay.is_step(row) { greatest } else { 0.0 });
            }
            // A step may have completed two rows.
            for number in self.entered(head).max(head.saturating_sub(1))..=head {
                self.tree.set(replay.index(env, number), 0.0);
            }
            self.heads[env] = self.entered(head);
        }
    }

    /// Draws the samples of minibatch `number`: one from each of as many equal parts of the sum as there are samples.
    pub fn draw(&mut self, replay: &Replay, config: &Config, number: u64, beta: f64) {
        let Config { seed, n_step, gamma, .. } = *config;
        let (total, mut least) = (self.tree.total(), f64::INFINITY);
        self.chosen.clear();
        let priority = |tree: &SumTree, drawn: &Drawn| tree.numbers()[drawn.rows[0]];
        for position in 0..self.draws {
            let mut draws = Draws::<f32>::at(seed, Wrapping(position as u32), number, Purpose::Replay);
            let at = (position as f64 + f64::from(draws.unit())) / self.draws as f64 * total;
            let drawn = replay.from(replay.start(self.tree.find(at)), n_step, gamma as f32);
            least = least.min(priority(&self.tree, &drawn));
            self.chosen.push((drawn, 0.0));
        }
        for (drawn, weight) in &mut self.chosen {
            *weight = (least / priority(&self.tree, drawn)).powf(beta) as f32;
        }
    }

    /// Gives the samples the priorities of these |errors|.
    pub fn renew(&mut self, errors: impl Iterator<Item = f32>) {
        for (k, error) in (0..self.chosen.len()).zip(errors) {
            let priority = f64::from(error) + LEAST;
            self.greatest = self.greatest.max(priority);
            self.tree.set(self.chosen[k].0.rows[0], self.power(priority));
        }
    }

    /// What a checkpoint holds of them, of the first `written` rows of each environment.
    pub fn saved(&self, written: usize) -> SavedPriorities {
        let rows = self.tree.numbers().chunks_exact(self.tree.numbers().len() / self.heads.len());
        SavedPriorities {
            rows: rows.flat_map(|rows| &rows[..written]).copied().collect(),
            greatest: self.greatest,
        }
    }

    /// The inverse of [`Priorities::saved`] once the replay is restored; without them each row has the greatest.
    ///
    /// # Errors
    /// When they are of another replay.
    pub fn restore(&mut self, replay: &Replay, saved: Option<&SavedPriorities>) -> Result<(), LearnError> {
        self.tree.nodes.fill(0.0);
        (self.greatest, self.heads) = (1.0, vec![0; self.heads.len()]);
        let Some(SavedPriorities { rows, greatest }) = saved else {
            self.enter(replay);
            return Ok(());
        };
        let is_priority = |x: &f64| *x >= 0.0 && *x <= 1e200;
        let written = rows.len() / self.heads.len();
        if written != replay.written() || !rows.iter().chain([greatest]).all(is_priority) {
            let problem = "the priorities of its replay are damaged or do not match its rows".to_owned();
            return Err(LearnError::Snapshot(problem));
        }
        for (k, &priority) in rows.iter().enumerate() {
            self.tree.set(k / written * replay.rows() + k % written, priority);
        }
        self.greatest = *greatest;
        self.heads = replay.heads().iter().map(|&head| self.entered(head)).collect();
        // Of earlier versions: rows that no sequence can begin with yet.
        for (env, &head) in replay.heads().iter().enumerate() {
            (self.heads[env]..=head).for_each(|number| self.tree.set(replay.index(env, number), 0.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CoreKind;
    use crate::cpu::off_policy::replay::{End, ReplayLayout};

    /// Numbers of 0 to 2, some of them zero.
    fn number(k: usize) -> f64 {
        if k % 5 == 3 { 0.0 } else { (k * 7919 % 1009) as f64 / 500.0 }
    }

    #[test]
    fn priorities_are_powers_of_errors_and_weights_make_up_for_them() {
        let layout = ReplayLayout { obs: 0, mask: 1, actions: 1, reward: 2, end: 3, state: 4, stride: 4 };
        let mut replay = Replay::new(layout, 1, 9);
        let read = |rows: &mut [u32]| -> Result<(), LearnError> {
            rows.fill(0);
            Ok(())
        };
        replay.restore(&[8], [1, 8, 4], read).expect("it fits");
        let config = Config { priority_exponent: 0.8, batch_size: 64, ..Config::default() };
        let mut priorities = Priorities::of(&replay, &config).expect("by priority");
        priorities.enter(&replay);
        priorities.draw(&replay, &config, 0, 1.0);
        let errors: Vec<f32> =
            priorities.chosen.iter().map(|(drawn, _)| 1.0 + drawn.rows[0] as f32).collect();
        priorities.renew(errors.into_iter());
        let power = |row: usize| (1.0 + LEAST + row as f64).powf(0.8);
        let assert_near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        (0..8).for_each(|row| assert_near(priorities.tree.numbers()[row], power(row)));
        priorities.draw(&replay, &config, 1, 0.5);
        let least = priorities.chosen.iter().map(|(drawn, _)| power(drawn.rows[0])).fold(f64::MAX, f64::min);
        for (drawn, weight) in &priorities.chosen {
            assert_near(f64::from(*weight), (least / power(drawn.rows[0])).sqrt());
        }
        // A new row has the greatest so far.
        replay.push(0, &[0; 4], 0);
        priorities.enter(&replay);
        assert_near(priorities.tree.numbers()[8], power(7));
    }

    #[test]
    fn rows_that_no_sequence_can_begin_with_have_no_priority() {
        let layout = ReplayLayout { obs: 0, mask: 1, actions: 1, reward: 2, end: 3, state: 4, stride: 4 };
        let mut replay = Replay::new(layout, 1, 9);
        let config = Config { core: CoreKind::Gru, sequence_length: 3, batch_size: 3, ..Config::default() };
        let config = Config { priority_exponent: 1.0, ..config };
        let mut priorities = Priorities::of(&replay, &config).expect("by priority");
        for step in 0..40 {
            // Some steps end by a time limit, and complete two rows.
            let is_cut = step % 5 == 4;
            replay.push(0, &[0; 4], if is_cut { End::Truncated } else { End::GoesOn } as u32);
            if is_cut {
                replay.push(0, &[0; 4], End::Final as u32);
            }
            priorities.enter(&replay);
            let head = replay.heads()[0];
            for age in 0..=head.min(8) {
                let row = replay.index(0, head - age);
                let is_first = age >= 3 && replay.is_step(row);
                assert_eq!(priorities.tree.numbers()[row] > 0.0, is_first, "step {step}, {age} rows ago");
            }
        }
        // Nor have they one from a checkpoint in which all rows had some.
        let saved = SavedPriorities { rows: vec![1.0; replay.written()], greatest: 1.0 };
        priorities.restore(&replay, Some(&saved)).expect("as many as rows");
        let newest = (0..5).map(|age| priorities.tree.numbers()[replay.index(0, replay.heads()[0] - age)]);
        assert_eq!(newest.collect::<Vec<_>>(), [0.0, 0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn sums_are_those_of_a_scan_whatever_was_set_before() {
        for count in [2, 3, 7, 64, 100] {
            let (mut tree, mut again) = (SumTree::new(count), SumTree::new(count));
            (0..count).for_each(|k| again.set(k, number(k)));
            (0..count).for_each(|k| tree.set(k, number(k + 1)));
            (0..count).rev().for_each(|k| tree.set(k, number(k)));
            assert_eq!(tree, again);
            let scan: f64 = (0..count).map(number).sum();
            assert!((tree.total() - scan).abs() < 1e-9 * scan, "{count}");
            // What falls into a number is a share as large as the number.
            let mut found = vec![0.0; count];
            let parts = 20_000;
            (0..parts).for_each(|k| {
                let at = (f64::from(k) + 0.5) / f64::from(parts) * tree.total();
                found[tree.find(at)] += tree.total() / f64::from(parts);
            });
            for (k, found) in found.into_iter().enumerate() {
                assert!((found - number(k)).abs() <= 2.0 * scan / f64::from(parts), "{count} {k}: {found}");
            }
        }
        let mut last = SumTree::new(6);
        last.set(2, 1.0);
        assert_eq!([0.0, 1.0, 2.0].map(|at| last.find(at)), [2; 3], "never one that is zero");
    }
}
