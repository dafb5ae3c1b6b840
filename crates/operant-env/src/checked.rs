//! A [`Stepper`] that checks what the rules of an environment return.

use std::ops::Range;

use operant_lane::bundle::{Kind, Leaf};

use crate::any::{AnyEnv, Seen, StepError, Stepped, Stepper, TileSpec, running_words};
use crate::rows::set_rows;
use crate::running::{BLOCK, MAX_ROWS};
use crate::spec::{ActionSpace, ObsSpace};
use crate::vector::{Autoreset, ENDED};

/// What is checked after each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// Rewards and real observations are finite.
    Finite,
    /// Also, observations lie in their space and some action is legal. An error then shows the state before the step.
    All,
}

/// The fault of a state without a legal action.
const STUCK: &str = "no action is legal";
/// Fields of a state that an error shows.
const SHOWN: usize = 16;
/// The exponent bits of a float, all set where it is NaN or infinite.
const EXPONENT: u32 = 0x7f80_0000;

struct Checked {
    inner: Box<dyn Stepper>,
    checks: Checks,
    tile: TileSpec,
    name: String,
    leaves: Vec<Leaf>,
    obs: ObsSpace,
    /// Words of real observations.
    real: Vec<Range<usize>>,
    /// The least and the greatest value of each number of an observation.
    bounds: Vec<[f64; 2]>,
    /// Choices of each component, if actions can be illegal.
    choices: Vec<usize>,
    /// The step that was submitted last.
    step: u64,
    /// The environments whose episode it ended.
    ended: [u16; MAX_ROWS / BLOCK],
    /// The seed of each environment, if they have their own.
    seeds: Option<Vec<u64>>,
    /// `(components, R)`.
    actions: Vec<f32>,
    /// `(leaves + 2, R)`: the environments before the step, if all is checked.
    before: Vec<u32>,
}

/// The environments of [`AnyEnv::stepper`], with checks. Those in worker processes have theirs of what is finite already.
///
/// # Errors
/// When the environments cannot be made.
pub fn checked(env: &dyn AnyEnv, tile: TileSpec, checks: Checks) -> Result<Box<dyn Stepper>, StepError> {
    if checks == Checks::Finite && env.counters().is_some() {
        return env.stepper(tile);
    }
    let spec = env.spec();
    let (mut at, mut real, mut bounds) = (0, Vec::new(), Vec::new());
    for (_, part) in spec.obs.parts() {
        let words = at..at + part.words();
        at = words.end;
        match part {
            ObsSpace::Box { low, high } => {
                real.push(words);
                // As the observations are: 0.1 in single precision is above 0.1.
                let single = |x: &f64| f64::from(*x as f32);
                bounds.extend(low.iter().zip(high).map(|(low, high)| [single(low), single(high)]));
            }
            ObsSpace::Index { .. } => {
                bounds.extend(part.bounds().map(|below| [0.0, f64::from(below) - 1.0]));
            }
            other => bounds.extend(std::iter::repeat_n([0.0, 255.0], other.size())),
        }
    }
    let before = if checks == Checks::All { running_words(env) * tile.rows } else { 0 };
    let choices = match &spec.actions {
        ActionSpace::Discrete(choices) if env.masked() => choices.clone(),
        _ => Vec::new(),
    };
    Ok(Box::new(Checked {
        inner: env.stepper(tile)?,
        checks,
        tile,
        leaves: env.leaves(),
        real,
        bounds,
        choices,
        step: 0,
        ended: [0; MAX_ROWS / BLOCK],
        seeds: None,
        actions: vec![0.0; spec.actions.components() * tile.rows],
        before: vec![0; before],
        name: spec.name,
        obs: spec.obs,
    }))
}

impl Checked {
    /// The first number outside its range, in observations of the environments that are `asked` for.
    fn find_in_obs(&self, obs: &[u32], asked: impl Fn(usize) -> bool) -> Option<(usize, String)> {
        let stride = self.tile.rows;
        let mut rows = (0..self.tile.count).filter(|&row| asked(row));
        if self.checks == Checks::All {
            return rows.find_map(|row| {
                let words: Vec<u32> = obs.iter().skip(row).step_by(stride).copied().collect();
                let numbers = self.obs.unpack(&words).into_iter().zip(&self.bounds).enumerate();
                numbers.into_iter().find_map(|(k, (x, [low, high]))| {
                    let range = match x.is_finite() {
                        true if x >= *low && x <= *high => return None,
                        true => format!(", outside [{low}, {high}]"),
                        false => String::new(),
                    };
                    Some((row, format!("observation[{k}] is {x}{range}")))
                })
            });
        }
        let is_invalid = |word: u32| word & EXPONENT == EXPONENT;
        let mut before = 0;
        for words in &self.real {
            let part = &obs[words.start * stride..words.end * stride];
            // Without a branch per word.
            if part.iter().fold(false, |any, &word| any | is_invalid(word)) {
                for (k, of_rows) in part.chunks_exact(stride).enumerate() {
                    if let Some(row) = rows.clone().find(|&row| is_invalid(of_rows[row])) {
                        let x = f32::from_bits(of_rows[row]);
                        return Some((row, format!("observation[{}] is {x}", before + k)));
                    }
                }
            }
            before += words.len();
        }
        None
    }

    /// The first environment that continues without a legal choice of some component.
    fn find_stuck(&self, legal: &[u32], ended: impl Fn(usize) -> bool) -> Option<usize> {
        let stride = self.tile.rows;
        let is_legal = |row: usize, logit: usize| legal[logit / 32 * stride + row] >> (logit % 32) & 1 == 1;
        (0..self.tile.count).find(|&row| {
            let mut first = 0;
            !ended(row)
                && self.choices.iter().any(|choices| {
                    let all = first..first + choices;
                    first = all.end;
                    !all.into_iter().any(|logit| is_legal(row, logit))
                })
        })
    }

    /// The error for `what` in an environment: in its last step or, if not `in_step`, in the state that it has.
    fn error(&self, row: usize, what: &str, in_step: bool, has_ended: bool) -> StepError {
        let remedy = match self.checks {
            _ if what == STUCK => StepError::LEGAL,
            Checks::All => "correct the rule that computes it",
            Checks::Finite => {
                "correct the rule that computes it; operant.check_world shows the state before such a step"
            }
        };
        let stride = self.tile.rows;
        let number = self.tile.first as usize + row;
        let mut text = format!("{what} in environment {number}");
        if in_step {
            let step = if self.tile.evaluation { self.step & u64::from(u32::MAX) } else { self.step };
            let actions: Vec<String> =
                self.actions.iter().skip(row).step_by(stride).map(f32::to_string).collect();
            text.push_str(&format!(" at step {step}, after action {}", actions.join(", ")));
        }
        text.push_str(&format!(" (seed {})", self.seeds.as_ref().map_or(self.tile.seed, |seeds| seeds[row])));
        let leaves = self.leaves.len();
        if in_step && self.checks == Checks::All {
            let before = self.before.iter().skip(row).step_by(stride).take(leaves);
            text.push_str(&format!("; the state before: {}", shown(&self.leaves, before.copied())));
        } else if !has_ended && leaves > 0 {
            let mut state = vec![0; leaves];
            self.inner.state(row, &mut state);
            text.push_str(&format!("; its state: {}", shown(&self.leaves, state.into_iter())));
        }
        StepError { env: self.name.clone(), what: text, remedy }
    }
}

/// Whether an environment's bit is set: bit i of word k is environment 16 k + i.
fn is_set(bits: &[u16; MAX_ROWS / BLOCK], row: usize) -> bool {
    bits[row / BLOCK] >> (row % BLOCK) & 1 == 1
}

impl Stepper for Checked {
    fn observe(&mut self, seen: Seen<'_>) -> Result<(), StepError> {
        let Seen { obs, legal } = seen;
        self.inner.observe(Seen { obs, legal })?;
        if let Some((row, what)) = self.find_in_obs(obs, |_| true) {
            return Err(self.error(row, &what, false, false));
        }
        // In the other modes an episode that ended may still be there.
        if self.checks == Checks::All
            && self.tile.autoreset == Autoreset::SameStep
            && let Some(row) = self.find_stuck(legal, |_| false)
        {
            return Err(self.error(row, STUCK, false, false));
        }
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        self.step = step;
        self.actions.copy_from_slice(actions);
        if self.checks == Checks::All {
            self.inner.save(&mut self.before);
        }
        self.inner.submit(actions, step)
    }

    fn has_stepped(&mut self) -> bool {
        self.inner.has_stepped()
    }

    fn collect(&mut self, stepped: Stepped<'_>) -> Result<(), StepError> {
        let Stepped { seen, final_obs, rewards, terminated, truncated, returns, lengths, metrics } = stepped;
        let Seen { obs, legal } = seen;
        self.inner.collect(Stepped {
            seen: Seen { obs, legal },
            final_obs,
            rewards,
            terminated,
            truncated,
            returns,
            lengths,
            metrics,
        })?;
        let mut ended = [0u16; MAX_ROWS / BLOCK];
        for (ended, (a, b)) in ended.iter_mut().zip(terminated.iter().zip(&*truncated)) {
            *ended = a | b;
        }
        let before = std::mem::replace(&mut self.ended, ended);
        // Where an episode begins, the observation is not of the step.
        let (same_step, begins) = match self.tile.autoreset {
            Autoreset::SameStep => (true, ended),
            Autoreset::NextStep => (false, before),
            Autoreset::Disabled => (false, [0; MAX_ROWS / BLOCK]),
        };
        if rewards.iter().any(|reward| !reward.is_finite())
            && let Some(row) = rewards[..self.tile.count].iter().position(|reward| !reward.is_finite())
        {
            let what = format!("the reward is {}", rewards[row]);
            return Err(self.error(row, &what, true, is_set(&ended, row)));
        }
        if same_step
            && ended != [0; MAX_ROWS / BLOCK]
            && let Some((row, what)) = self.find_in_obs(final_obs, |row| is_set(&ended, row))
        {
            return Err(self.error(row, &format!("the last {what}"), true, true));
        }
        if let Some((row, what)) = self.find_in_obs(obs, |_| true) {
            return Err(match is_set(&begins, row) {
                true => self.error(row, &format!("at the beginning of an episode, {what}"), false, false),
                false => self.error(row, &what, true, is_set(&ended, row)),
            });
        }
        if self.checks == Checks::All
            && let Some(row) = self.find_stuck(legal, |row| !same_step && is_set(&ended, row))
        {
            return Err(self.error(row, STUCK, !is_set(&begins, row), false));
        }
        Ok(())
    }

    fn save(&self, words: &mut [u32]) {
        self.inner.save(words);
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        // The length of an episode comes after the fields.
        self.ended = [0; MAX_ROWS / BLOCK];
        for (row, _) in words[self.leaves.len() * self.tile.rows..][..self.tile.rows]
            .iter()
            .enumerate()
            .filter(|(_, length)| **length == ENDED)
        {
            self.ended[row / BLOCK] |= 1 << (row % BLOCK);
        }
        self.inner.load(words)
    }

    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError> {
        if let Some(seeds) = seeds {
            let own = self.seeds.get_or_insert_with(|| vec![self.tile.seed; self.tile.rows]);
            for row in set_rows(rows) {
                own[row] = seeds[row];
            }
        }
        for (ended, begun) in self.ended.iter_mut().zip(rows) {
            *ended &= !begun;
        }
        self.inner.restart(rows, seeds, step)
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        self.inner.state(row, words);
    }

    fn leaf(&self, leaf: usize, words: &mut [u32]) {
        self.inner.leaf(leaf, words);
    }
}

/// The first fields of a state with their values.
fn shown(leaves: &[Leaf], words: impl Iterator<Item = u32>) -> String {
    let value = |kind: Kind, word: u32| match kind {
        Kind::Float => format!("{:?}", f32::from_bits(word)),
        Kind::Uint => word.to_string(),
        Kind::Int => word.cast_signed().to_string(),
        Kind::Mask => (word != 0).to_string(),
    };
    let mut fields: Vec<String> = leaves
        .iter()
        .zip(words)
        .take(SHOWN)
        .map(|(leaf, word)| format!("{} = {}", leaf.name, value(leaf.kind, word)))
        .collect();
    if leaves.len() > SHOWN {
        fields.push(format!("and {} more", leaves.len() - SHOWN));
    }
    fields.join(", ")
}
