//! The [`Stepper`] of environments in worker processes: actions in, observations out, and what happens when one fails.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use operant_env::{Autoreset, ObsSpace, Seen, StepError, Stepped, Stepper, TileSpec};

use crate::group::{WorkerGroup, double};
use crate::layout::Order;
use crate::worker::Failure;
use crate::{Running, locked};

/// Environments of a tile. Rows past `count` are unused: their observations are zeros.
pub(crate) struct GymStepper {
    running: Arc<Running>,
    tile: TileSpec,
    count: usize,
    /// None after a final failure, and for environments that are not stepped.
    group: Option<WorkerGroup>,
    /// `(R)`: how often a row began an episode with its own seed.
    seeded: Vec<u32>,
    /// Whether all rows begin new episodes before the next observation.
    begins: bool,
    /// Words of an observation that are floats, by the names of their parts.
    floats: Vec<(String, Range<usize>)>,
    masked: bool,
}

impl GymStepper {
    pub(crate) fn new(running: Arc<Running>, tile: TileSpec) -> Result<Self, StepError> {
        if !running.description.may_run {
            let what = "its file is not this user's, so its program is not started".to_owned();
            return Err(running.error(what, "add --trust if you know the program"));
        }
        if tile.autoreset != Autoreset::SameStep {
            let what = "Gymnasium environments support same-step autoreset only".to_owned();
            return Err(running.error(what, "use gymnasium.make_vec for other modes of autoreset"));
        }
        let count = tile.count.min(tile.rows);
        let is_stepped = tile.evaluation || !running.description.only_evaluates;
        let group = is_stepped.then(|| running.take_group(tile.rows, count, tile.evaluation)).transpose()?;
        let mut floats = Vec::new();
        let mut first = 0;
        for (name, part) in running.description.spec.obs.parts() {
            if matches!(part, ObsSpace::Box { .. }) {
                floats.push((name.to_owned(), first..first + part.words()));
            }
            first += part.words();
        }
        let masked = running.description.masked;
        Ok(Self {
            running,
            tile,
            count,
            group,
            seeded: vec![0; tile.rows],
            begins: is_stepped,
            floats,
            masked,
        })
    }

    fn group(&mut self) -> &mut WorkerGroup {
        self.group.as_mut().expect("no call follows an error")
    }

    /// Sets a row to begin an episode with a seed in the next turn.
    fn reset(&mut self, row: usize) {
        let seed = seed(&self.tile, self.tile.first + row as u32, self.seeded[row]);
        self.seeded[row] += 1;
        self.group().reset(row, seed);
    }

    /// Begins new episodes everywhere.
    fn begin_all(&mut self) -> Result<(), StepError> {
        (0..self.count).for_each(|row| self.reset(row));
        self.group().begin(None);
        for number in 0..self.group().workers.len() {
            if let Err(failure) = self.finish(number) {
                self.replace(number, failure)?;
            }
        }
        self.begins = false;
        Ok(())
    }

    /// Waits for a worker's turn, and checks its numbers.
    fn finish(&mut self, number: usize) -> Result<(), Failure> {
        self.group().finish(number)?;
        let group = self.group.as_ref().expect("no call follows an error");
        let (words, layout, worker) = (group.words(), &group.layout, &group.workers[number]);
        let is_finite = |word: usize| {
            let bits = words[word].load(Ordering::Relaxed);
            bits & 0x7f80_0000 != 0x7f80_0000
        };
        for row in worker.rows.clone() {
            let ended = words[layout.ends + row].load(Ordering::Relaxed) != 0;
            let stepped = match words[layout.lengths + row].load(Ordering::Relaxed) {
                0 => "a reset".to_owned(),
                step => format!("step {step} of its episode"),
            };
            let reward = double(words, layout.rewards + 2 * row);
            if !(reward as f32).is_finite() {
                let what = format!("after {stepped}: its reward is {reward:?}");
                return Err(Failure { row: Some(row), what, is_final: false });
            }
            let obs = (layout.obs_of(worker.turn, row), if ended { "a reset" } else { &stepped });
            let last = ended.then(|| (layout.final_obs + row * layout.words, stepped.as_str()));
            for (first, after) in [Some(obs), last].into_iter().flatten() {
                for (name, range) in &self.floats {
                    if let Some(at) = range.clone().find(|at| !is_finite(first + at)) {
                        let value = f32::from_bits(words[first + at].load(Ordering::Relaxed));
                        let of = if name.is_empty() { String::new() } else { format!(" of {name:?}") };
                        let at = at - range.start;
                        let what =
                            format!("after {after}: its observation contains {value} (number {at}{of})");
                        return Err(Failure { row: Some(row), what, is_final: false });
                    }
                }
            }
        }
        Ok(())
    }

    /// Where a failure happened, for people.
    fn place(&self, number: usize, failure: &Failure) -> String {
        let group = self.group.as_ref().expect("no call follows an error");
        let rows = &group.workers[number].rows;
        let of = |row: usize| {
            let seed = group.words()[group.layout.seeds + row].load(Ordering::Relaxed);
            format!("environment {} (seed {seed})", self.tile.first as usize + row)
        };
        let place = match failure.row {
            Some(row) => of(row),
            None if rows.len() == 1 => of(rows.start),
            None => {
                let first = self.tile.first as usize;
                format!("environments {} to {}", first + rows.start, first + rows.end - 1)
            }
        };
        if self.tile.evaluation { format!("{place} of an evaluation") } else { place }
    }

    /// The error of a failure that ends the run.
    fn give_up(&mut self, number: usize, failure: &Failure, count: &str) -> StepError {
        let what = format!("{}: {}{count}", self.place(number, failure), failure.what);
        self.group = None;
        self.running.error(what, "correct the environment; the traceback, if any, shows where it failed")
    }

    /// Why a new worker would fail as this one did, as the end of an error; None if it may not.
    fn repeats(&mut self, number: usize, failure: &Failure) -> Option<&'static str> {
        let is_evaluation = self.tile.evaluation;
        let worker = &self.group().workers[number];
        match &worker.replaces {
            _ if failure.is_final => Some(""),
            _ if worker.has_stepped => None,
            Some(before) if *before == failure.what => {
                Some("\nthe restarted worker failed as the one before")
            }
            None if !is_evaluation => Some("\nno step had been completed, so the worker is not restarted"),
            _ => None,
        }
    }

    /// Replaces a worker after a failure; its environments begin new episodes.
    fn replace(&mut self, number: usize, mut failure: Failure) -> Result<(), StepError> {
        loop {
            if let Some(why) = self.repeats(number, &failure) {
                return Err(self.give_up(number, &failure, why));
            }
            let (failed, most) = (self.running.count_failure(), self.running.options.restarts);
            if failed > u64::from(most) {
                let count = format!("\nfailure {failed} exceeds the limit of {most} restarts (env.restarts)");
                return Err(self.give_up(number, &failure, &count));
            }
            let place = self.place(number, &failure);
            self.running.warn(format!(
                "{}: {place}: {}\nthe worker {}is restarted, and its environments begin new episodes (restart {failed} of {most})",
                self.running.description.spec.name,
                failure.what,
                if self.running.host.is_some() { "" } else { "process " },
            ));
            let running = Arc::clone(&self.running);
            if let Err(error) = self.group().replace(&running.description, number, failure.what) {
                self.group = None;
                return Err(running.cannot_start(&error));
            }
            for row in self.group().workers[number].rows.clone() {
                self.reset(row);
            }
            self.group().begin(Some(number));
            match self.finish(number) {
                Ok(()) => return Ok(()),
                Err(again) => failure = again,
            }
        }
    }

    /// Copies observations and legal choices of a worker's rows into columns.
    fn write_seen(&self, number: usize, seen: &mut Seen<'_>) {
        let group = self.group.as_ref().expect("no call follows an error");
        let (words, layout, worker) = (group.words(), &group.layout, &group.workers[number]);
        let stride = layout.rows;
        let transpose = |to: &mut [u32], first: usize, width: usize| {
            for word in 0..width {
                for row in worker.rows.clone() {
                    to[word * stride + row] = words[first + row * width + word].load(Ordering::Relaxed);
                }
            }
        };
        transpose(seen.obs, layout.obs_of(worker.turn, 0), layout.words);
        transpose(seen.legal, layout.legal, layout.mask_words);
    }

    /// Copies the last observation of a row into its column.
    fn write_final(&self, first: usize, row: usize, final_obs: &mut [u32]) {
        let group = self.group.as_ref().expect("no call follows an error");
        let source = &group.words()[first..][..group.layout.words];
        for (word, from) in source.iter().enumerate() {
            final_obs[word * group.layout.rows + row] = from.load(Ordering::Relaxed);
        }
    }

    /// Writes what a turn of a worker gave.
    fn write_step(&mut self, number: usize, stepped: &mut Stepped<'_>) {
        self.write_seen(number, &mut stepped.seen);
        let group = self.group.as_ref().expect("no call follows an error");
        if let Some(text) = group.take_keys(number) {
            locked(&self.running.keys).take(&text);
        }
        let (words, layout) = (group.words(), &group.layout);
        for row in group.workers[number].rows.clone() {
            stepped.rewards[row] = double(words, layout.rewards + 2 * row) as f32;
            let ends = words[layout.ends + row].load(Ordering::Relaxed);
            if ends == 0 {
                continue;
            }
            set_bits(stepped, row, ends);
            stepped.returns[row] = double(words, layout.returns + 2 * row) as f32;
            stepped.lengths[row] = words[layout.lengths + row].load(Ordering::Relaxed);
            let metrics = self.running.description.spec.metrics.len();
            let measured = words[layout.metrics + row * metrics..][..metrics].iter();
            let measured = measured.map(|word| f32::from_bits(word.load(Ordering::Relaxed)));
            for (values, value) in stepped.metrics.chunks_exact_mut(layout.rows).zip(measured.clone()) {
                values[row] = value;
            }
            if metrics > 0 && stepped.lengths[row] > 0 {
                self.running.count_metrics(measured);
            }
            self.write_final(layout.final_obs + row * layout.words, row, stepped.final_obs);
        }
    }

    /// Writes a step in which a worker failed: its episodes are truncated where they were, and are excluded from statistics.
    fn write_failed(&mut self, number: usize, stepped: &mut Stepped<'_>) {
        let group = self.group.as_ref().expect("no call follows an error");
        let worker = &group.workers[number];
        for row in worker.rows.clone() {
            stepped.rewards[row] = 0.0;
            set_bits(stepped, row, 2);
            stepped.returns[row] = 0.0;
            stepped.lengths[row] = 0;
            self.write_final(group.layout.obs_of(worker.turn.wrapping_sub(1), row), row, stepped.final_obs);
        }
    }

    /// Unused rows: every choice is legal, because a policy needs one.
    fn write_unused(&self, legal: &mut [u32]) {
        if self.masked {
            for row in legal.chunks_exact_mut(self.tile.rows) {
                row[self.count..].fill(u32::MAX);
            }
        }
    }
}

fn set_bits(stepped: &mut Stepped<'_>, row: usize, ends: u32) {
    for (bit, words) in [&mut *stepped.terminated, &mut *stepped.truncated].into_iter().enumerate() {
        words[row / 16] |= ((ends >> bit & 1) << (row % 16)) as u16;
    }
}

/// The seed of an environment's episode, below 2^31; `nth` counts those with a seed. The first episodes of a run have seeds as in
/// Gymnasium's vector environments, the run's seed plus the environment's number, if that is below 2^31.
fn seed(tile: &TileSpec, number: u32, nth: u32) -> u32 {
    let sum = tile.seed.saturating_add(u64::from(number));
    if nth == 0 && !tile.evaluation && sum >> 31 == 0 {
        return sum as u32;
    }
    let mut mixed = tile.seed ^ if tile.evaluation { 0x5bd1_e995_0000_0000 } else { 0 };
    for word in [u64::from(number), tile.step, u64::from(nth)] {
        mixed = mix(mixed ^ word);
    }
    (mixed >> 33) as u32
}

/// The finaliser of SplitMix64: a bijection that spreads every bit.
fn mix(word: u64) -> u64 {
    let mut word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

impl Stepper for GymStepper {
    fn observe(&mut self, mut seen: Seen<'_>) -> Result<(), StepError> {
        if self.begins {
            self.begin_all()?;
        }
        seen.obs.fill(0);
        if self.group.is_none() {
            // Its observations are never used.
            seen.legal.fill(u32::MAX);
            return Ok(());
        }
        for number in 0..self.group().workers.len() {
            self.write_seen(number, &mut seen);
        }
        self.write_unused(seen.legal);
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], _step: u64) -> Result<(), StepError> {
        let (rows, count) = (self.tile.rows, self.count);
        let group = self.group();
        let (words, layout) = (group.words(), &group.layout);
        for (component, column) in actions.chunks_exact(rows).enumerate() {
            for (row, action) in column[..count].iter().enumerate() {
                let word = layout.actions + row * layout.components + component;
                words[word].store(action.to_bits(), Ordering::Relaxed);
            }
        }
        (0..count).for_each(|row| group.order(row, Order::Step));
        group.begin(None);
        Ok(())
    }

    fn has_stepped(&mut self) -> bool {
        self.group().has_stepped()
    }

    fn collect(&mut self, mut stepped: Stepped<'_>) -> Result<(), StepError> {
        stepped.terminated.fill(0);
        stepped.truncated.fill(0);
        stepped.rewards.fill(0.0);
        let begun = Instant::now();
        let workers = self.group().workers.len();
        let failures: Vec<Option<Failure>> = (0..workers).map(|number| self.finish(number).err()).collect();
        self.running.count_waiting(begun.elapsed());
        for (number, failure) in failures.into_iter().enumerate() {
            match failure {
                None => {
                    self.group().workers[number].has_stepped = true;
                    self.write_step(number, &mut stepped);
                }
                Some(failure) => {
                    self.write_failed(number, &mut stepped);
                    self.replace(number, failure)?;
                    self.write_seen(number, &mut stepped.seen);
                }
            }
        }
        self.write_unused(stepped.seen.legal);
        Ok(())
    }

    /// Worker processes cannot save their environments: the words are how often each row had a seed, so that the new episodes have
    /// other ones.
    fn save(&self, words: &mut [u32]) {
        let (seeded, unused) = words.split_at_mut(self.tile.rows);
        seeded.copy_from_slice(&self.seeded);
        unused.fill(0);
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        self.seeded.copy_from_slice(&words[..self.tile.rows]);
        self.begins = self.group.is_some();
        Ok(())
    }

    fn restart(&mut self, _: &[u16], _: Option<&[u64]>, _: u64) -> Result<(), StepError> {
        let what = "single environments of worker processes cannot be reset".to_owned();
        Err(self.running.error(what, "use gymnasium.make_vec"))
    }

    fn state(&self, _: usize, _: &mut [u32]) {}

    fn leaf(&self, _: usize, _: &mut [u32]) {}
}

impl Drop for GymStepper {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            self.running.give_group(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_seed_of_64_bits_repeats_the_episodes_of_another() {
        let begun = |of_run: u64| -> Vec<u32> {
            (0..4).map(|number| seed(&TileSpec::new(of_run, 0, 16), number, 0)).collect()
        };
        assert_eq!(begun(5), [5, 6, 7, 8]);
        assert_eq!(begun((1 << 31) - 2)[..2], [(1 << 31) - 2, (1 << 31) - 1]);
        let runs = [5, 5 + (1 << 31), 5 + (1 << 32), 5 + (1 << 63), u64::MAX];
        let mut all: Vec<u32> = runs.into_iter().flat_map(begun).collect();
        assert!(all.iter().all(|seed| seed >> 31 == 0), "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5 * 4);
    }
}
