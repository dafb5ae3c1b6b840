//! The network ready to run: weights packed for the kernels, and the forward pass that rollouts, evaluation and the
//! update share.

use core::ops::Range;

use operant_lane::isa::{self, f32x16};
use operant_lane::{Mask, Packed, Wide};

use crate::cpu::network::few::Tail;
use crate::cpu::network::layers::{self, Forward, Kind, LayerKind, Memory, Sides, supports_partial_tiles};
use crate::cpu::network::tile::{BitRow, LANES, Lanes, Row, TILE_VECTORS, all_lanes, splat};
use crate::network::{Chain, LayerSpec, Network};

/// Observations of V x 16 environments or samples.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a, const V: usize> {
    /// `[feature]` rows of floats.
    Dense(&'a [Row<V>]),
    /// `[word]` rows of packed bits, 32 features each, the first lowest; bits past the last feature are clear.
    Bits(&'a [BitRow<V>]),
}

impl<'a, const V: usize> Observation<'a, V> {
    pub(crate) fn numbers(self) -> &'a [Row<V>] {
        match self {
            Self::Dense(rows) => rows,
            Self::Bits(_) => panic!("the layer was laid out for numbers"),
        }
    }

    /// The words of packed bits.
    pub(crate) fn bits(self) -> &'a [BitRow<V>] {
        match self {
            Self::Bits(words) => words,
            Self::Dense(_) => panic!("the layer was laid out for packed bits"),
        }
    }
}

/// Which samples a forward pass computes.
#[derive(Clone, Copy)]
enum Samples<const V: usize> {
    /// These, and only their outputs.
    Lanes(Lanes<V>),
    /// Those of the first vectors, with all that their gradient needs.
    Vectors(usize),
}

/// A layer and its packed weights.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// Shape and place of its parameters.
    pub spec: LayerSpec,
    /// What computes it.
    pub kind: Kind,
}

/// The actor-critic with its weights packed. Pack once per rollout or Adam step, then run any number of tiles.
#[derive(Debug, Clone)]
pub struct Policy {
    network: Network,
    /// `[chain][layer]`.
    pub(crate) chains: Vec<Vec<Layer>>,
    /// `[chain]`: the same weights for few samples.
    tails: Vec<Tail>,
    /// Log standard deviations of a Gaussian head.
    pub(crate) log_std: Vec<f32>,
}

/// The activations of a forward pass over V x 16 samples.
#[derive(Debug, Clone)]
pub struct Activations<const V: usize> {
    /// `[chain][layer]`.
    pub(crate) chains: Vec<Vec<Values<V>>>,
    /// State after a step, of all layers with memory.
    after: Vec<Row<V>>,
    pub(crate) scratch: Vec<f32x16>,
    policy_outputs: usize,
    /// Values beside a policy.
    values: usize,
    /// Logits of the distribution of a value beside a policy.
    value_logits: usize,
}

/// What a layer computed.
#[derive(Debug, Clone)]
pub(crate) struct Values<const V: usize> {
    /// `[output]`.
    pub y: Vec<Row<V>>,
    /// What its gradient needs besides.
    pub kept: Vec<Row<V>>,
}

impl<const V: usize> Activations<V> {
    /// Allocates a forward pass of `network`.
    pub fn new(network: &Network) -> Self {
        let rows = |count| vec![splat(0.0); count];
        let values = |chain: &Chain, k: usize| Values {
            y: rows(layers::rows::<V>(network, chain, k)),
            kept: rows(layers::needs(network, chain, k, V).kept),
        };
        let chain = |chain: &Chain| (0..chain.layers.len()).map(|k| values(chain, k)).collect();
        let scratch = layers::scratch::<V>(network);
        Self {
            chains: network.chains.iter().map(chain).collect(),
            after: rows(network.states),
            scratch: vec![f32x16::ZERO; scratch],
            policy_outputs: network.policy_outputs(),
            values: 1 + usize::from(network.architecture.intrinsic_value),
            value_logits: network.architecture.bins.map_or(0, |bins| bins.count),
        }
    }

    /// The activations of steps of sequences, whose state and scratch space are stored elsewhere.
    pub(crate) fn of_sequence(network: &Network) -> Self {
        Self { after: Vec::new(), scratch: Vec::new(), ..Self::new(network) }
    }

    /// `[state]`: the state after a step, of the layers with memory that were computed.
    pub fn after(&self) -> &[Row<V>] {
        &self.after
    }

    /// `[output]`: logits over all components, or means.
    pub fn policy(&self) -> &[Row<V>] {
        &self.last(0)[..self.policy_outputs]
    }

    /// V(obs), where the network computes it.
    pub fn value(&self) -> Row<V> {
        self.values()[0]
    }

    /// It, and the value of rewards for exploring if they have one of their own.
    pub(crate) fn values(&self) -> &[Row<V>] {
        let last = self.last(self.chains.len() - 1);
        &last[last.len() - self.values..]
    }

    /// The buffer for the gradient of [`Activations::policy`].
    pub(crate) fn policy_mut(&mut self) -> &mut [Row<V>] {
        let outputs = self.policy_outputs;
        &mut self.chains[0].last_mut().expect("an output layer").y[..outputs]
    }

    /// The same of one chain, for its gradient.
    pub(crate) fn last_mut(&mut self, chain: usize) -> &mut [Row<V>] {
        &mut self.chains[chain].last_mut().expect("an output layer").y
    }

    /// The buffer for the gradient of [`Activations::values`].
    pub(crate) fn values_mut(&mut self) -> &mut [Row<V>] {
        let count = self.values;
        let last = self.last_mut(self.chains.len() - 1);
        let first = last.len() - count;
        &mut last[first..]
    }

    /// Logits of the distribution whose mean is [`Activations::value`].
    pub(crate) fn value_logits(&self) -> &[Row<V>] {
        let logits = self.before_last(self.chains.len() - 1);
        &logits[logits.len() - self.value_logits..]
    }

    /// The buffer for their gradient; empty if it is none.
    pub(crate) fn value_logits_mut(&mut self) -> &mut [Row<V>] {
        let count = self.value_logits;
        if count == 0 {
            return &mut [];
        }
        let logits = self.before_last_mut(self.chains.len() - 1);
        let first = logits.len() - count;
        &mut logits[first..]
    }

    /// What a chain computed before its last layer.
    pub(crate) fn before_last(&self, chain: usize) -> &[Row<V>] {
        let chain = &self.chains[chain];
        &chain[chain.len() - 2].y
    }

    /// The same, for its gradient.
    pub(crate) fn before_last_mut(&mut self, chain: usize) -> &mut [Row<V>] {
        let last = self.chains[chain].len() - 1;
        &mut self.chains[chain][last - 1].y
    }

    /// `[output]`: what one chain computed.
    pub(crate) fn last(&self, chain: usize) -> &[Row<V>] {
        &self.chains[chain].last().expect("an output layer").y
    }
}

/// Makes lanes zero that nobody reads, where multiply-adds are computed by other instructions and those of zeros take less time.
fn silence<const V: usize>(active: Lanes<V>, rows: &mut [Row<V>]) {
    if isa::SET.fused || active == all_lanes() {
        return;
    }
    let kept: [_; V] = core::array::from_fn(|v| Wide::<16>::from_bits(active[v].into()));
    for row in rows {
        *row = core::array::from_fn(|v| kept[v].select(row[v], f32x16::ZERO));
    }
}

impl Policy {
    /// `network` with zero weights; [`Policy::pack`] sets them.
    pub fn new(network: &Network) -> Self {
        let layer = |chain: &Chain, k: usize| Layer {
            spec: chain.layers[k].clone(),
            kind: layers::new(network, chain, k),
        };
        let chain = |chain: &Chain| (0..chain.layers.len()).map(|k| layer(chain, k)).collect();
        let chains = network.chains.iter().map(chain).collect();
        let deviations = network.log_std.map_or(0, |_| network.policy_outputs());
        let tails = network.chains.iter().map(|chain| Tail::new(network, chain)).collect();
        Self { network: network.clone(), chains, tails, log_std: vec![0.0; deviations] }
    }

    /// The network it runs.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Log standard deviations of a Gaussian head, `(A)`; empty for others.
    pub fn log_std(&self) -> &[f32] {
        &self.log_std
    }

    /// Packs the network's flat parameters for forward passes.
    pub fn pack(&mut self, params: &[f32]) {
        self.pack_dense(params);
        for (tail, chain) in self.tails.iter_mut().zip(&self.network.chains) {
            tail.pack(params, chain);
        }
    }

    /// Packs what one step of environments needs. The form for few samples takes longer to pack than it saves in a step.
    pub(crate) fn pack_for_step(&mut self, params: &[f32]) {
        self.pack_chains(0..self.of_observations(), params, usize::MAX);
    }

    /// Packs the same parameters for further steps.
    pub(crate) fn pack_for_steps(&mut self, params: &[f32]) {
        let acting = self.of_observations();
        for (tail, chain) in self.tails.iter_mut().zip(&self.network.chains).take(acting) {
            tail.pack(params, chain);
        }
    }

    /// Packs the layers of these chains for forward passes over all samples of a tile, and from layer `back` on the transposes that the
    /// gradients of their inputs need.
    pub(crate) fn pack_chains(&mut self, chains: Range<usize>, params: &[f32], back: usize) {
        self.tails[chains.clone()].iter_mut().for_each(Tail::forget);
        for chain in &mut self.chains[chains] {
            for (k, layer) in chain.iter_mut().enumerate() {
                let params = &params[layer.spec.params.clone()];
                layer.kind.pack(params);
                if k >= back {
                    layer.kind.pack_backward(params);
                }
            }
        }
    }

    /// One chain's outputs for the first `vectors` vectors of a tile, zeros for the others, and all that their gradient needs.
    pub(crate) fn chain(
        &self,
        chain: usize,
        observation: Observation<'_, TILE_VECTORS>,
        vectors: usize,
        out: &mut Activations<TILE_VECTORS>,
    ) {
        let Activations { chains: to, after, scratch, .. } = out;
        let memory = Memory::Step { before: &[], after };
        self.run(chain..chain + 1, observation, Samples::Vectors(vectors), memory, to, scratch);
        let outputs = to[chain].last_mut().into_iter().flat_map(|last| &mut last.y);
        outputs.for_each(|row| row[vectors..].fill(f32x16::ZERO));
    }

    /// Packs them for forward passes over all samples of a tile.
    fn pack_dense(&mut self, params: &[f32]) {
        for layer in self.chains.iter_mut().flatten() {
            layer.kind.pack(&params[layer.spec.params.clone()]);
        }
        if let Some(start) = self.network.log_std {
            let end = start + self.log_std.len();
            self.log_std.copy_from_slice(&params[start..end]);
        }
    }

    /// Packs them for forward passes over all samples of a tile, and the transposes that gradients need.
    pub(crate) fn pack_for_update(&mut self, params: &[f32]) {
        self.tails.iter_mut().for_each(Tail::forget);
        self.pack_dense(params);
        for chain in &mut self.chains {
            for layer in &mut chain[1..] {
                layer.kind.pack_backward(&params[layer.spec.params.clone()]);
            }
        }
    }

    /// Policy outputs and value of the samples `active` of `observation` in the states `before`, into `out`; critics of actions are left out.
    pub fn forward<const V: usize>(
        &self,
        observation: Observation<'_, V>,
        active: Lanes<V>,
        before: &[Row<V>],
        out: &mut Activations<V>,
    ) {
        self.step(0..self.of_observations(), observation, active, before, out);
    }

    /// Policy outputs of `observation` alone; with a shared trunk the value comes with them.
    pub fn actor<const V: usize>(
        &self,
        observation: Observation<'_, V>,
        active: Lanes<V>,
        before: &[Row<V>],
        out: &mut Activations<V>,
    ) {
        self.step(0..1, observation, active, before, out);
    }

    /// Chains whose input is the observation alone.
    fn of_observations(&self) -> usize {
        if self.network.architecture.outputs.has_critics() { 1 } else { self.chains.len() }
    }

    /// What the value of `observation` needs alone, for V(final_obs) and the bootstrap; with a shared trunk the policy's outputs come with it.
    pub fn critic<const V: usize>(
        &self,
        observation: Observation<'_, V>,
        active: Lanes<V>,
        before: &[Row<V>],
        out: &mut Activations<V>,
    ) {
        let last = self.of_observations() - 1;
        self.step(last..last + 1, observation, active, before, out);
    }

    /// How many vectors of a tile with `count` samples or fewer are computed.
    pub(crate) fn vectors(&self, count: usize) -> usize {
        match count.div_ceil(LANES) {
            used if used < TILE_VECTORS && supports_partial_tiles(&self.network) => used,
            _ => TILE_VECTORS,
        }
    }

    /// Policy outputs and value of the first `count` samples of a tile, and all that their gradient needs. Returns how many vectors of
    /// the tile were computed; in the others the outputs repeat the last sample.
    pub(crate) fn tile(
        &self,
        observation: Observation<'_, TILE_VECTORS>,
        count: usize,
        out: &mut Activations<TILE_VECTORS>,
    ) -> usize {
        let vectors = self.vectors(count);
        let Activations { chains: to, after, scratch, .. } = out;
        let memory = Memory::Step { before: &[], after };
        self.run(0..self.chains.len(), observation, Samples::Vectors(vectors), memory, to, scratch);
        for row in to.iter_mut().filter_map(|chain| chain.last_mut()).flat_map(|last| &mut last.y) {
            let last = row[(count - 1) / LANES % TILE_VECTORS].as_array()[(count - 1) % LANES];
            row[vectors..].fill(f32x16::splat(last));
        }
        vectors
    }

    /// The forward pass over V steps of 16 sequences, whose `state`, or those of the sides, it advances; where `keep` is 0 an episode begins.
    pub(crate) fn sequence<const V: usize>(
        &self,
        observation: Observation<'_, V>,
        state: &mut [Row<1>],
        (keep, sides): (&Row<V>, Option<Sides<'_, V>>),
        scratch: &mut [f32x16],
        out: &mut Activations<V>,
    ) {
        let memory = Memory::Sequence { state, keep, sides };
        self.run(0..self.chains.len(), observation, Samples::Vectors(V), memory, &mut out.chains, scratch);
    }

    fn step<const V: usize>(
        &self,
        chains: Range<usize>,
        observation: Observation<'_, V>,
        active: Lanes<V>,
        before: &[Row<V>],
        out: &mut Activations<V>,
    ) {
        let Activations { chains: to, after, scratch, .. } = out;
        self.run(chains, observation, Samples::Lanes(active), Memory::Step { before, after }, to, scratch);
        silence(active, after);
    }

    fn run<const V: usize>(
        &self,
        chains: Range<usize>,
        observation: Observation<'_, V>,
        samples: Samples<V>,
        mut memory: Memory<'_, V>,
        out: &mut [Vec<Values<V>>],
        scratch: &mut [f32x16],
    ) {
        let all = self.chains[chains.clone()].iter().zip(&self.tails[chains.clone()]);
        for ((chain, tail), out) in all.zip(&mut out[chains]) {
            let (few, vectors) = match samples {
                Samples::Lanes(active) => (tail.first_layer(&active).map(|first| (first, active)), V),
                Samples::Vectors(vectors) => (None, vectors),
            };
            let end = few.map_or(chain.len(), |(first, _)| first);
            for (k, layer) in chain[..end].iter().enumerate() {
                let (before, after) = out.split_at_mut(k);
                let x = before.last().map_or(observation, |before| Observation::Dense(&before.y));
                let Values { y, kept } = &mut after[0];
                let pass = Forward { x, y, kept, memory: memory.reborrow(), scratch, vectors };
                layer.kind.run(pass, layer.spec.activation);
                if let Samples::Lanes(active) = samples {
                    silence(active, &mut after[0].y);
                }
            }
            if let (Some((first, active)), Some((last, before))) = (few, out.split_last_mut()) {
                let x = first.checked_sub(1).map_or(observation, |k| Observation::Dense(&before[k].y));
                tail.forward(x.numbers(), &active, &mut last.y, scratch);
            }
        }
    }
}
