//! Actions and values of a trained policy for any number of observations, without an environment.
//!
//! Rows are processed 64 at a time, or 16 where there are few, with the arithmetic of the rollout: the same bits for the same
//! observation, whatever the number of rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use operant_env::{ObsSpace, numbers};
use operant_lane::isa::{f32x16, u32x16};
use operant_lane::{ActionDraws, Purpose, Wide};
use wide::bytemuck;

use crate::cpu::batch::expand;
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::policy::{Activations, Policy};
use crate::cpu::network::reals;
use crate::cpu::network::tile::{
    BitRow, LANES, Lanes, Row, TILE, TILE_VECTORS, all_lanes, first_lanes, splat,
};
use crate::cpu::rollout::{draw_uniforms, normalised, observation};
use crate::trained::TrainedPolicy;

/// Observations in row-major order, `(N, O)`.
#[derive(Debug, Clone, Copy)]
pub enum ObsRows<'a> {
    /// Real numbers.
    Floats(&'a [f32]),
    /// Binary features.
    Bits(&'a [bool]),
    /// The words of the space: `(N, words)`.
    Words(&'a [u32]),
}

impl<'a> ObsRows<'a> {
    /// Numbers of a row: words, or numbers of the observation.
    fn width(self, space: &ObsSpace) -> usize {
        match self {
            ObsRows::Words(_) => space.words(),
            _ => space.size(),
        }
    }

    /// How many rows.
    pub fn rows(self, space: &ObsSpace) -> usize {
        let len = match self {
            ObsRows::Floats(all) => all.len(),
            ObsRows::Bits(all) => all.len(),
            ObsRows::Words(all) => all.len(),
        };
        len / self.width(space)
    }

    /// Some of the rows.
    #[must_use]
    pub fn part(self, space: &ObsSpace, rows: core::ops::Range<usize>) -> Self {
        let width = self.width(space);
        let range = rows.start * width..rows.end * width;
        match self {
            ObsRows::Floats(all) => ObsRows::Floats(&all[range]),
            ObsRows::Bits(all) => ObsRows::Bits(&all[range]),
            ObsRows::Words(all) => ObsRows::Words(&all[range]),
        }
    }
}

/// How an action is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The most probable action; the mean of a Gaussian.
    Greedy,
    /// A draw from the distribution: a function of the seed, the row's number and the step.
    Sampled {
        /// Names the random streams.
        seed: u64,
        /// The number of the first row.
        first: u32,
        /// Steps count the draws of a row.
        step: u64,
        /// Whether the draws are those of an evaluation with sampled actions.
        evaluation: bool,
    },
}

impl Choice {
    /// The same choice for rows from number `row` on.
    #[must_use]
    pub fn from_row(self, row: u32) -> Self {
        match self {
            Choice::Greedy => Choice::Greedy,
            Choice::Sampled { seed, first, step, evaluation } => {
                Choice::Sampled { seed, first: first + row, step, evaluation }
            }
        }
    }

    /// The same choice `steps` later.
    #[must_use]
    pub fn at_step(self, steps: u64) -> Self {
        match self {
            Choice::Greedy => Choice::Greedy,
            Choice::Sampled { seed, first, step, evaluation } => {
                Choice::Sampled { seed, first, step: step + steps, evaluation }
            }
        }
    }
}

/// A policy ready to compute actions, for several threads at a time.
#[derive(Debug)]
pub struct Inference {
    id: u64,
    trained: TrainedPolicy,
    policy: Policy,
    obs_norm: Vec<(f32, f32)>,
    clip_obs: f64,
    /// Buffers that no call uses at the moment.
    narrow: Mutex<Vec<RowBuffers<1>>>,
    wide: Mutex<Vec<RowBuffers<TILE_VECTORS>>>,
}

/// The buffers of V x 16 rows.
#[derive(Debug)]
pub struct RowBuffers<const V: usize> {
    /// `(words, V x 16)`: observations in the words of their space.
    pub obs: Vec<Row<V>>,
    /// `(input words, V x 16)`: the network's inputs if observations are packed.
    seen: Vec<Row<V>>,
    /// `(mask words, V x 16)`: which actions are legal. Empty where the environment has no masks.
    pub legal: Vec<BitRow<V>>,
    /// `(components, V x 16)`: the actions, within the bounds.
    pub actions: Vec<Row<V>>,
    /// The rows to compute.
    pub active: Lanes<V>,
    /// `(states, V x 16)`: the state of layers with memory between steps; zero before an episode.
    pub memory: Vec<Row<V>>,
    /// `(components, V x 16)`: the actions before they were clipped or squashed.
    pub drawn: Vec<Row<V>>,
    /// Log-probabilities of the drawn actions, after [`Inference::act_and_value_on`].
    pub logprobs: Row<V>,
    /// Values of the observations, after [`Inference::act_and_value_on`] or [`Inference::value_on`].
    pub values: Row<V>,
    uniforms: Vec<Row<V>>,
    activations: Activations<V>,
    head: PolicyHead<V>,
}

impl<const V: usize> RowBuffers<V> {
    pub(super) fn new(trained: &TrainedPolicy) -> Self {
        let head = &trained.network.architecture.head;
        let mask_words = if trained.masked { head.mask_words() } else { 0 };
        let architecture = &trained.network.architecture;
        let seen = if architecture.packing.is_some() { architecture.input.words() } else { 0 };
        RowBuffers {
            obs: vec![splat(0.0); trained.obs.words()],
            seen: vec![splat(0.0); seen],
            legal: vec![[u32x16::ZERO; V]; mask_words],
            actions: vec![splat(0.0); head.components()],
            active: all_lanes(),
            memory: vec![splat(0.0); trained.network.states],
            drawn: vec![splat(0.0); head.components()],
            logprobs: splat(0.0),
            values: splat(0.0),
            uniforms: vec![splat(0.0); head.uniforms()],
            activations: Activations::new(&trained.network),
            head: PolicyHead::of(&trained.network.architecture),
        }
    }

    /// Copies `rows` observations, transposed; the other lanes are unchanged.
    fn read(&mut self, obs: ObsRows<'_>, width: usize) {
        match obs {
            ObsRows::Floats(all) => {
                for (row, obs) in all.chunks_exact(width).enumerate() {
                    for (to, &x) in self.obs.iter_mut().zip(obs) {
                        to[row / LANES].as_mut_array()[row % LANES] = x;
                    }
                }
            }
            ObsRows::Bits(all) => {
                for (row, obs) in all.chunks_exact(width).enumerate() {
                    for (to, bits) in self.obs.iter_mut().zip(obs.chunks(32)) {
                        let word = bits.iter().rev().fold(0u32, |word, &bit| word << 1 | u32::from(bit));
                        to[row / LANES].as_mut_array()[row % LANES] = f32::from_bits(word);
                    }
                }
            }
            ObsRows::Words(all) => {
                for (row, obs) in all.chunks_exact(width).enumerate() {
                    for (to, &word) in self.obs.iter_mut().zip(obs) {
                        to[row / LANES].as_mut_array()[row % LANES] = f32::from_bits(word);
                    }
                }
            }
        }
    }

    /// Copies the states of some rows, `(rows, states)`.
    fn read_states(&mut self, states: &[f32]) {
        for (row, states) in states.chunks_exact(self.memory.len().max(1)).enumerate() {
            for (to, &x) in self.memory.iter_mut().zip(states) {
                to[row / LANES].as_mut_array()[row % LANES] = x;
            }
        }
    }

    /// The inverse of [`RowBuffers::read_states`].
    fn write_states(&self, states: &mut [f32]) {
        for (row, states) in states.chunks_exact_mut(self.memory.len().max(1)).enumerate() {
            states.iter_mut().zip(&self.memory).for_each(|(to, from)| *to = lane(from, row));
        }
    }

    /// The first of `count` rows whose last action had a component without a legal choice.
    pub fn stuck(&self, count: usize) -> Option<usize> {
        self.head.stuck(count)
    }

    /// Copies the masks of some rows, `(rows, choices)`, nonzero where a choice is legal.
    pub(super) fn read_legal(&mut self, legal: &[i8], choices: usize) {
        for (row, legal) in legal.chunks_exact(choices).enumerate() {
            for (to, legal) in self.legal.iter_mut().zip(legal.chunks(32)) {
                let word = legal.iter().rev().fold(0u32, |word, &x| word << 1 | u32::from(x != 0));
                to[row / LANES].as_mut_array()[row % LANES] = word;
            }
        }
    }
}

/// Element `row` of a row of lanes.
fn lane<const V: usize>(row: &Row<V>, index: usize) -> f32 {
    row[index / LANES].as_array()[index % LANES]
}

/// Work on blocks of one width.
trait Work {
    fn run<const V: usize>(&mut self, block: &mut RowBuffers<V>, rows: core::ops::Range<usize>);
}

impl Inference {
    /// Packs the policy's weights.
    pub fn new(trained: TrainedPolicy) -> Self {
        let mut policy = Policy::new(&trained.network);
        policy.pack(&trained.params);
        let (mut obs_norm, mut clip_obs) = (Vec::new(), 0.0);
        if let Some(norm) = &trained.obs_norm {
            obs_norm = norm.shift.iter().copied().zip(norm.scale.iter().copied()).collect();
            clip_obs = f64::from(norm.clip);
        }
        static MADE: AtomicU64 = AtomicU64::new(0);
        let id = MADE.fetch_add(1, Ordering::Relaxed);
        let (narrow, wide) = (Mutex::default(), Mutex::default());
        Self { id, trained, policy, obs_norm, clip_obs, narrow, wide }
    }

    /// The same policy with other weights: memory that began under these continues under those.
    #[must_use]
    pub fn with_weights(&self, trained: TrainedPolicy) -> Self {
        Self { id: self.id, ..Self::new(trained) }
    }

    /// A number that is unique among the policies of this process, but for those with other weights.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The policy.
    pub fn trained(&self) -> &TrainedPolicy {
        &self.trained
    }

    /// S: numbers of state that a policy with memory carries from step to step.
    pub fn states(&self) -> usize {
        self.policy.network().states
    }

    /// Fills `actions`, `(N, components)`: indices of choices, exact, or real numbers within the bounds. `legal` is
    /// `(N, choices)`; without it every action is legal. `states`, `(N, S)`, advances by one step; zeros begin an episode.
    ///
    /// # Panics
    /// If the lengths do not fit each other.
    pub fn act(
        &self,
        obs: ObsRows<'_>,
        legal: Option<&[i8]>,
        choice: Choice,
        states: &mut [f32],
        actions: &mut [f32],
    ) {
        struct Act<'a> {
            of: &'a Inference,
            obs: ObsRows<'a>,
            legal: Option<&'a [i8]>,
            choice: Choice,
            states: &'a mut [f32],
            actions: &'a mut [f32],
        }
        impl Work for Act<'_> {
            fn run<const V: usize>(&mut self, block: &mut RowBuffers<V>, rows: core::ops::Range<usize>) {
                let of = self.of;
                of.read(block, self.obs, rows.clone());
                let choices = of.policy.network().policy_outputs();
                match self.legal {
                    Some(legal) => {
                        block.read_legal(&legal[rows.start * choices..rows.end * choices], choices)
                    }
                    None => block.legal.fill([u32x16::MAX; V]),
                }
                let states = &mut self.states[rows.start * of.states()..rows.end * of.states()];
                block.read_states(states);
                of.act_on(block, self.choice.from_row(rows.start as u32));
                block.write_states(states);
                let components = block.actions.len();
                let to = &mut self.actions[rows.start * components..rows.end * components];
                for (row, to) in to.chunks_exact_mut(components).enumerate() {
                    to.iter_mut().zip(&block.actions).for_each(|(to, from)| *to = lane(from, row));
                }
            }
        }
        let components = self.trained.actions.components();
        let rows = self.rows(obs);
        assert_eq!(actions.len(), rows * components, "one action per observation");
        assert_eq!(states.len(), rows * self.states(), "one state per observation");
        self.each_block(rows, &mut Act { of: self, obs, legal, choice, states, actions });
    }

    /// Fills `outputs`, `(N, A)`, with the policy's logits or means, and `values`, `(N)`, with the value of each
    /// observation. `states`, `(N, S)`, moves on by a step.
    ///
    /// # Panics
    /// If the lengths do not fit each other.
    pub fn evaluate(&self, obs: ObsRows<'_>, states: &mut [f32], outputs: &mut [f32], values: &mut [f32]) {
        struct Evaluate<'a> {
            of: &'a Inference,
            obs: ObsRows<'a>,
            states: &'a mut [f32],
            outputs: &'a mut [f32],
            values: &'a mut [f32],
        }
        impl Work for Evaluate<'_> {
            fn run<const V: usize>(&mut self, block: &mut RowBuffers<V>, rows: core::ops::Range<usize>) {
                self.of.read(block, self.obs, rows.clone());
                self.of.see(block);
                let states = &mut self.states[rows.start * self.of.states()..rows.end * self.of.states()];
                block.read_states(states);
                let seen = observation(&self.of.policy, seen(&block.obs, &block.seen));
                self.of.policy.forward(seen, block.active, &block.memory, &mut block.activations);
                block.memory.copy_from_slice(block.activations.after());
                block.write_states(states);
                block.head.set_mask(&[]);
                let (policy, value) = (block.activations.policy(), block.head.value(&block.activations));
                let outputs = &mut self.outputs[rows.start * policy.len()..rows.end * policy.len()];
                for (row, to) in outputs.chunks_exact_mut(policy.len()).enumerate() {
                    to.iter_mut().zip(policy).for_each(|(to, from)| *to = lane(from, row));
                }
                for (row, to) in self.values[rows].iter_mut().enumerate() {
                    *to = lane(&value, row);
                }
            }
        }
        let rows = self.rows(obs);
        assert_eq!((values.len(), outputs.len()), (rows, rows * self.policy.network().policy_outputs()));
        assert_eq!(states.len(), rows * self.states(), "one state per observation");
        self.each_block(rows, &mut Evaluate { of: self, obs, states, outputs, values });
    }

    /// Buffers for [`Inference::act_on`].
    pub fn block<const V: usize>(&self) -> RowBuffers<V> {
        RowBuffers::new(&self.trained)
    }

    /// Chooses the actions of a block whose observations and masks are set; the observations are normalised in place, and the
    /// memory moves on by a step.
    pub fn act_on<const V: usize>(&self, block: &mut RowBuffers<V>, choice: Choice) {
        self.see(block);
        let seen = observation(&self.policy, seen(&block.obs, &block.seen));
        if block.memory.is_empty() {
            self.policy.actor(seen, block.active, &block.memory, &mut block.activations);
        } else {
            // The critic's memory moves on too.
            self.policy.forward(seen, block.active, &block.memory, &mut block.activations);
        }
        self.choose(block, choice);
    }

    /// As [`Inference::act_on`], and computes values; and log-probabilities of drawn actions.
    pub fn act_and_value_on<const V: usize>(&self, block: &mut RowBuffers<V>, choice: Choice) {
        self.see(block);
        let seen = observation(&self.policy, seen(&block.obs, &block.seen));
        self.policy.forward(seen, block.active, &block.memory, &mut block.activations);
        self.choose(block, choice);
        block.values = block.head.value(&block.activations);
    }

    /// Computes the values of a block's observations; the observations are normalised in place, and the memory stays as it is. Which
    /// actions are legal matters to action values: all of them, unless `masked`.
    pub fn value_on<const V: usize>(&self, block: &mut RowBuffers<V>, masked: bool) {
        self.see(block);
        let seen = observation(&self.policy, seen(&block.obs, &block.seen));
        self.policy.critic(seen, block.active, &block.memory, &mut block.activations);
        block.head.set_mask(if masked { &block.legal } else { &[] });
        block.values = block.head.value(&block.activations);
    }

    /// Chooses actions by the outputs of the network; the memory moves on.
    fn choose<const V: usize>(&self, block: &mut RowBuffers<V>, choice: Choice) {
        if !block.memory.is_empty() {
            block.memory.copy_from_slice(block.activations.after());
        }
        block.head.set_mask(&block.legal);
        let outputs = block.activations.policy();
        match choice {
            Choice::Greedy => block.head.greedy(outputs, &mut block.drawn),
            Choice::Sampled { seed, first, step, evaluation } => {
                let purpose = if evaluation { Purpose::EvalAction } else { Purpose::Action };
                let mut draws: [_; V] = core::array::from_fn(|v| {
                    ActionDraws::new(seed, numbers::<Wide<16>>(first + (v * LANES) as u32), purpose)
                });
                draw_uniforms(&mut draws, step, &mut block.uniforms);
                let log_std = self.policy.log_std();
                block.logprobs = block.head.sample(outputs, log_std, &block.uniforms, &mut block.drawn);
            }
        }
        let head = &self.trained.network.architecture.head;
        reals::taken(head, &self.trained.actions, &block.drawn, &mut block.actions);
    }

    /// Computes the network's inputs: unpacks observations, or normalises them in place.
    fn see<const V: usize>(&self, block: &mut RowBuffers<V>) {
        if let Some(packing) = &self.trained.network.architecture.packing {
            let obs = bytemuck::cast_slice(block.obs.as_flattened());
            return expand::<V>(packing, obs, bytemuck::cast_slice_mut(block.seen.as_flattened_mut()));
        }
        for (row, (shift, scale)) in block.obs.iter_mut().zip(&self.obs_norm) {
            *row = row.map(|x| normalised(x, *shift, *scale, self.clip_obs));
        }
    }

    /// Reads some rows, and normalises real numbers; packed observations stay packed.
    pub(super) fn read_normalised<const V: usize>(
        &self,
        block: &mut RowBuffers<V>,
        obs: ObsRows<'_>,
        rows: core::ops::Range<usize>,
    ) {
        self.read(block, obs, rows);
        if self.trained.network.architecture.packing.is_none() {
            self.see(block);
        }
    }

    fn read<const V: usize>(
        &self,
        block: &mut RowBuffers<V>,
        obs: ObsRows<'_>,
        rows: core::ops::Range<usize>,
    ) {
        let space = &self.trained.obs;
        block.active = first_lanes(rows.len());
        block.read(obs.part(space, rows), obs.width(space));
    }

    fn rows(&self, obs: ObsRows<'_>) -> usize {
        obs.rows(&self.trained.obs)
    }

    /// Blocks of 64 rows, and of 16 where at most 16 are left.
    fn each_block(&self, rows: usize, work: &mut impl Work) {
        let mut first = 0;
        while rows - first > LANES {
            let end = rows.min(first + TILE);
            let mut block = taken(&self.wide).unwrap_or_else(|| self.block());
            work.run(&mut block, first..end);
            self.wide.lock().unwrap_or_else(PoisonError::into_inner).push(block);
            first = end;
        }
        if first < rows {
            let mut block = taken(&self.narrow).unwrap_or_else(|| self.block());
            work.run(&mut block, first..rows);
            self.narrow.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        }
    }
}

/// The network's inputs: the second list, unless it is empty.
fn seen<'a, const V: usize>(obs: &'a [Row<V>], seen: &'a [Row<V>]) -> &'a [f32x16] {
    bytemuck::cast_slice(if seen.is_empty() { obs } else { seen }.as_flattened())
}

fn taken<T>(idle: &Mutex<Vec<T>>) -> Option<T> {
    idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

#[cfg(test)]
mod tests {
    use operant_env::{ActionSpace, ObsSpace};

    use super::*;
    use crate::config::Config;
    use crate::network::{Architecture, Head, Input, Network, init_params};
    use crate::trained::ObsNorm;

    fn policy(obs: ObsSpace, actions: ActionSpace, obs_norm: Option<ObsNorm>) -> Inference {
        let input = match &obs {
            space if space.is_binary() => Input::Bits(obs.features()),
            space => Input::Dense(space.features()),
        };
        let head = match &actions {
            ActionSpace::Discrete(choices) => Head::MultiDiscrete(choices.clone()),
            ActionSpace::Box { low, .. } => Head::gaussian(low.len()),
        };
        let config =
            Config { hidden: vec![32, 20], shared_trunk: false, log_std_init: -1.0, ..Config::default() };
        let plain = Architecture::new(&config, input, head);
        let network = Network::new(Architecture { packing: obs.packing(), ..plain });
        // The policy's last layer is small at the start; these logits differ.
        let params = init_params(&network, 5).iter().map(|x| x * 2.0).collect();
        let masked = matches!(actions, ActionSpace::Discrete(_));
        let env = "test".to_owned();
        Inference::new(TrainedPolicy { env, obs, actions, masked, network, params, obs_norm })
    }

    #[test]
    fn packed_observations_act_as_their_features() {
        let cells = ObsSpace::Index { shape: vec![5, 2], below: vec![11, 30] };
        let parts = ObsSpace::Parts(vec![
            ("cells".to_owned(), cells),
            ("flags".to_owned(), ObsSpace::Binary { shape: vec![3] }),
        ]);
        let actions = || ActionSpace::Discrete(vec![4]);
        let packed = policy(parts.clone(), actions(), None);
        let binary = policy(ObsSpace::Binary { shape: vec![parts.features()] }, actions(), None);
        let (mut words, mut bits) = (Vec::new(), Vec::new());
        for row in 0..70u32 {
            let indices: Vec<u32> =
                (0..10).map(|k| (row * 7 + k * 13) % if k % 2 == 0 { 11 } else { 30 }).collect();
            for (k, &index) in indices.iter().enumerate() {
                bits.extend((0..if k % 2 == 0 { 11 } else { 30 }).map(|value| value == index));
            }
            let word = |four: &[u32]| four.iter().rev().fold(0, |word, index| word << 8 | index);
            words.extend(indices.chunks(4).map(word));
            words.push(row % 8);
            bits.extend((0..3).map(|k| row >> k & 1 == 1));
        }
        let evaluate = |of: &Inference, obs| {
            let (mut outputs, mut values) = (vec![0.0; 70 * 4], vec![0.0; 70]);
            of.evaluate(obs, &mut [], &mut outputs, &mut values);
            (outputs, values)
        };
        let got = evaluate(&packed, ObsRows::Words(&words));
        assert_eq!(got, evaluate(&binary, ObsRows::Bits(&bits)));
        assert!(got.0.iter().any(|x| *x != got.0[0]), "the rows differ");
    }

    fn floats(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 20.0).collect()
    }

    /// One dense layer in double precision.
    fn dense(inference: &Inference, layer: &str, x: &[f64]) -> Vec<f64> {
        let tensors = inference.trained().tensors();
        let find = |name: String| tensors.iter().find(|t| t.name == name).expect("the tensor").values.clone();
        let (weight, bias) = (find(format!("{layer}.weight")), find(format!("{layer}.bias")));
        let rows = weight.chunks_exact(x.len()).zip(bias);
        rows.map(|(row, bias)| row.iter().zip(x).fold(f64::from(bias), |sum, (w, x)| sum + f64::from(*w) * x))
            .collect()
    }

    #[test]
    fn outputs_are_those_of_the_formula() {
        let norm = ObsNorm { shift: vec![0.5, -1.0, 0.0], scale: vec![2.0, 0.5, 1.0], clip: 2.0 };
        let inference = policy(
            ObsSpace::symmetric(&[1.0; 3]),
            ActionSpace::Box { low: vec![-0.1; 2], high: vec![0.1, 9.0] },
            Some(norm.clone()),
        );
        let obs = floats(3 * 37);
        let (mut outputs, mut values, mut actions) = (vec![0.0; 74], vec![0.0; 37], vec![0.0; 74]);
        inference.evaluate(ObsRows::Floats(&obs), &mut [], &mut outputs, &mut values);
        inference.act(ObsRows::Floats(&obs), None, Choice::Greedy, &mut [], &mut actions);
        for (row, obs) in obs.chunks_exact(3).enumerate() {
            let x: Vec<f64> = (0..3)
                .map(|i| f64::from((obs[i] - norm.shift[i]) * norm.scale[i]).clamp(-2.0, 2.0))
                .collect();
            let run = |trunk: &str, head: &str| {
                let hidden = (0..2).fold(x.clone(), |x, k| {
                    dense(&inference, &format!("{trunk}.{k}"), &x).into_iter().map(f64::tanh).collect()
                });
                dense(&inference, head, &hidden)
            };
            for (k, mean) in run("actor", "policy").into_iter().enumerate() {
                assert!((f64::from(outputs[2 * row + k]) - mean).abs() < 1e-5);
                assert_eq!(actions[2 * row + k], outputs[2 * row + k].clamp(-0.1, [0.1, 9.0][k]));
            }
            assert!((f64::from(values[row]) - run("critic", "value")[0]).abs() < 1e-5);
        }
    }

    #[test]
    fn rows_do_not_depend_on_their_number() {
        let inference =
            policy(ObsSpace::Binary { shape: vec![5, 8] }, ActionSpace::Discrete(vec![3, 4]), None);
        let obs: Vec<bool> = (0..40 * 150).map(|i| i * 7 % 5 < 2).collect();
        let legal: Vec<i8> = (0..7 * 150).map(|i| i8::from(i % 7 == 1 || i % 7 == 4 || i % 3 == 0)).collect();
        for choice in [Choice::Greedy, Choice::Sampled { seed: 3, first: 0, step: 9, evaluation: false }] {
            let mut together = vec![0.0; 2 * 150];
            inference.act(ObsRows::Bits(&obs), Some(&legal), choice, &mut [], &mut together);
            for row in 0..150 {
                let choice = choice.from_row(row as u32);
                let mut alone = [0.0; 2];
                let (obs, legal) = (&obs[40 * row..][..40], &legal[7 * row..][..7]);
                inference.act(ObsRows::Bits(obs), Some(legal), choice, &mut [], &mut alone);
                assert_eq!(alone, together[2 * row..][..2], "{choice:?} {row}");
                assert_eq!(legal[alone[0] as usize], 1);
                assert_eq!(legal[3 + alone[1] as usize], 1);
            }
        }
    }

    #[test]
    fn draws_differ_by_step_and_seed() {
        let inference = policy(ObsSpace::symmetric(&[1.0; 4]), ActionSpace::Discrete(vec![5]), None);
        let obs = floats(4 * 64);
        let draw = |seed, step| {
            let mut actions = vec![0.0; 64];
            inference.act(
                ObsRows::Floats(&obs),
                None,
                Choice::Sampled { seed, first: 0, step, evaluation: false },
                &mut [],
                &mut actions,
            );
            actions
        };
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
    }
}
