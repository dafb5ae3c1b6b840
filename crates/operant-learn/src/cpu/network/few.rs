//! Fully connected layers over few samples: outputs along the lanes.
//!
//! A tile has a sample in each lane; with few samples most lanes are empty. Here each lane is an output: for each sample an input
//! is broadcast and multiplied by a row of weights, the sums of up to 4 samples x 64 outputs stay in registers, and the nonlinearity
//! runs on full vectors. Activations stay `[output]` for each sample between layers; only the first layer's inputs and the last
//! layer's outputs have samples in lanes.
//!
//! Every output is `bias + w0 x0 + w1 x1 + ..` in that order, as in `layers/dense/cpu.rs`, so which form computes it never changes a bit.

use operant_lane::isa::f32x16;
use wide::bytemuck;

use crate::config::Activation;
use crate::cpu::isa;
use crate::cpu::network::layers::{outputs, takes_bits, with_activation};
use crate::cpu::network::tile::{LANES, Lanes, Row, fma, turn};
use crate::network::{Chain, Form, LayerSpec, Network};

/// Samples side by side.
const SAMPLES: usize = 4;
/// Vectors of outputs side by side.
const VECTORS: usize = 4;
/// Time that tanh of a vector takes, in multiply-adds of a vector.
const TANH_COST: usize = 10;
/// Time to move a sample between forms, in multiply-adds of a vector.
const SAMPLE_COST: usize = 20;

/// The layers at the end of a chain that are all fully connected over numbers.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    first: usize,
    layers: Vec<OutputLanes>,
    /// Time that a sample takes in this form, and 16 samples in lanes, in multiply-adds of a vector.
    costs: [usize; 2],
    /// Whether the weights are those of the policy.
    is_packed: bool,
}

impl Tail {
    /// The tail of a chain of `network`. It has no weights until [`Tail::pack`].
    pub fn new(network: &Network, chain: &Chain) -> Self {
        // Layers in bf16 have sums in another order.
        let dense = |(k, layer): &(usize, &LayerSpec)| {
            matches!(layer.form, Form::Dense(_)) && !takes_bits(network, *k) && network.bf16.is_none()
        };
        let count = chain.layers.iter().enumerate().rev().take_while(dense).count();
        let first = chain.layers.len() - count;
        let layers: Vec<OutputLanes> = chain.layers[first..].iter().map(OutputLanes::new).collect();
        let cost = |rows: fn(&OutputLanes) -> usize| -> usize {
            layers.iter().map(|layer| (layer.inputs + layer.finish_cost()) * rows(layer)).sum()
        };
        let costs = [SAMPLE_COST + cost(OutputLanes::vectors), cost(|layer| layer.outputs)];
        Self { first, layers, costs, is_packed: false }
    }

    /// Takes the parameters of the network.
    pub fn pack(&mut self, params: &[f32], chain: &Chain) {
        for (layer, spec) in self.layers.iter_mut().zip(&chain.layers[self.first..]) {
            layer.pack(&params[spec.params.clone()]);
        }
        self.is_packed = true;
    }

    /// The policy has other weights from now on.
    pub fn forget(&mut self) {
        self.is_packed = false;
    }

    /// The first layer that is computed in this form for the samples `active` of V x 16, if it has the policy's weights and is faster
    /// by its estimated costs.
    /// Both forms take the same time at 13 environments for widths of 64-64, at 10 for 32-32, at 9 for 128 and at 5 for 16, measured on an
    /// AMD EPYC (Zen 4, AVX-512) with `operant bench rollout --envs N --hidden WIDTHS`; the estimates are 13, 11, 7 and 5. Not measured
    /// without AVX-512.
    pub fn first_layer<const V: usize>(&self, active: &Lanes<V>) -> Option<usize> {
        let samples: usize = active.iter().map(|lanes| lanes.count_ones() as usize).sum();
        let [cost, dense_cost] = self.costs;
        (self.is_packed && samples * cost < V * dense_cost).then_some(self.first)
    }

    /// Sets the lanes `active` of the last layer's outputs `y`. `x` are the inputs of [`Tail::first_layer`].
    pub fn forward<const V: usize>(
        &self,
        x: &[Row<V>],
        active: &Lanes<V>,
        y: &mut [Row<V>],
        scratch: &mut [f32x16],
    ) {
        let widest = self.widest();
        let (mut from, mut to) = scratch[..2 * SAMPLES * widest].split_at_mut(SAMPLES * widest);
        let mut lanes =
            active.iter().enumerate().flat_map(|(v, &bits)| lanes_of(bits).map(move |lane| (v, lane)));
        loop {
            let (mut group, mut samples) = ([(0, 0); SAMPLES], 0);
            for (slot, lane) in group.iter_mut().zip(&mut lanes) {
                (*slot, samples) = (lane, samples + 1);
            }
            let group = &group[..samples];
            if group.is_empty() {
                break;
            }
            for (&(v, lane), sample) in group.iter().zip(from.chunks_exact_mut(widest)) {
                let sample: &mut [f32] = bytemuck::cast_slice_mut(sample);
                for (to, x) in sample.iter_mut().zip(x) {
                    *to = x[v].as_array()[lane];
                }
            }
            for layer in &self.layers {
                with_activation!(layer.activation, outputs, |finish| {
                    layer.apply(samples, widest, from, to, |sum| finish([sum])[0])
                });
                core::mem::swap(&mut from, &mut to);
            }
            for (&(v, lane), sample) in group.iter().zip(from.chunks_exact(widest)) {
                for (y, from) in y.iter_mut().zip(bytemuck::cast_slice::<_, f32>(sample)) {
                    y[v].as_mut_array()[lane] = *from;
                }
            }
        }
    }

    /// Vectors of the widest layer's inputs or outputs.
    fn widest(&self) -> usize {
        self.layers.iter().map(|layer| layer.inputs.max(layer.outputs).div_ceil(LANES)).max().unwrap_or(0)
    }
}

/// Vectors of scratch space that [`Tail::forward`] needs.
pub(crate) fn scratch(network: &Network) -> usize {
    let of_chain = |chain| 2 * SAMPLES * Tail::new(network, chain).widest();
    network.chains.iter().map(of_chain).max().unwrap_or(0)
}

/// Words of memory of the packed weights of a policy, whose outputs are padded to whole vectors.
pub(crate) fn words(network: &Network) -> usize {
    let of_layer = |layer: &OutputLanes| (layer.inputs + 1) * layer.vectors() * LANES;
    network
        .chains
        .iter()
        .flat_map(|chain| Tail::new(network, chain).layers)
        .map(|layer| of_layer(&layer))
        .sum()
}

/// The set bits, ascending.
fn lanes_of(mut bits: u16) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lane = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lane)
    })
}

/// A layer's weights with outputs in lanes, padded with zeros.
#[derive(Debug, Clone)]
struct OutputLanes {
    inputs: usize,
    outputs: usize,
    activation: Option<Activation>,
    /// `[block of 4 vectors][input][vector]`; empty until packed.
    weights: Vec<f32x16>,
    /// `[vector]`.
    bias: Vec<f32x16>,
}

impl OutputLanes {
    fn new(layer: &LayerSpec) -> Self {
        let &LayerSpec { inputs, outputs, activation, .. } = layer;
        Self { inputs, outputs, activation, weights: Vec::new(), bias: Vec::new() }
    }

    /// Time of the nonlinearity of a vector, in multiply-adds.
    fn finish_cost(&self) -> usize {
        if self.activation == Some(Activation::Tanh) { TANH_COST } else { 1 }
    }

    fn vectors(&self) -> usize {
        self.outputs.div_ceil(LANES)
    }

    /// Takes the weights, row-major `(outputs, inputs)`, and the biases after them.
    fn pack(&mut self, params: &[f32]) {
        let vectors = self.vectors();
        self.weights.resize(self.inputs * vectors, f32x16::ZERO);
        self.bias.resize(vectors, f32x16::ZERO);
        let (weight, bias) = params.split_at(self.inputs * self.outputs);
        bytemuck::cast_slice_mut(&mut self.bias)[..bias.len()].copy_from_slice(bias);
        for (c, rows) in weight.chunks(LANES * self.inputs).enumerate() {
            let first = c / VECTORS * VECTORS;
            let width = VECTORS.min(vectors - first);
            let packed = &mut self.weights[first * self.inputs..][..width * self.inputs];
            for (i, packed) in packed.chunks_mut(LANES * width).enumerate() {
                let (mut block, mut columns) = ([[f32x16::ZERO]; LANES], [[f32x16::ZERO]; LANES]);
                for (to, row) in block.iter_mut().zip(rows.chunks_exact(self.inputs)) {
                    let row = &row[LANES * i..];
                    match row.first_chunk() {
                        Some(row) => to[0] = f32x16::new(*row),
                        None => to[0].as_mut_array()[..row.len()].copy_from_slice(row),
                    }
                }
                turn(&block, 0, &mut columns, 0);
                for (packed, [column]) in packed.chunks_exact_mut(width).zip(columns) {
                    packed[c - first] = column;
                }
            }
        }
    }

    /// The outputs of up to four samples, `widest` vectors apart, each through `finish`.
    #[inline(always)]
    fn apply(
        &self,
        samples: usize,
        widest: usize,
        x: &[f32x16],
        y: &mut [f32x16],
        finish: impl Fn(f32x16) -> f32x16,
    ) {
        if isa::HOLDS_BLOCKS {
            match samples {
                4 => self.group::<4>(widest, x, y, &finish),
                3 => self.group::<3>(widest, x, y, &finish),
                2 => self.group::<2>(widest, x, y, &finish),
                _ => self.group::<1>(widest, x, y, &finish),
            }
        } else {
            // One sample's sums at a time.
            for (x, y) in x.chunks_exact(widest).zip(y.chunks_exact_mut(widest)).take(samples) {
                self.group::<1>(widest, x, y, &finish);
            }
        }
    }

    #[inline(always)]
    fn group<const S: usize>(
        &self,
        widest: usize,
        x: &[f32x16],
        y: &mut [f32x16],
        finish: &impl Fn(f32x16) -> f32x16,
    ) {
        let x: [&[f32]; S] =
            core::array::from_fn(|s| &bytemuck::cast_slice(&x[s * widest..][..widest])[..self.inputs]);
        let blocks = self.weights.chunks(VECTORS * self.inputs).zip(self.bias.chunks(VECTORS)).enumerate();
        for (b, (weights, bias)) in blocks {
            let y = &mut y[b * VECTORS..];
            match bias.len() {
                4 => store(sums::<S, 4>(weights, bias, x), widest, y, finish),
                3 => store(sums::<S, 3>(weights, bias, x), widest, y, finish),
                2 => store(sums::<S, 2>(weights, bias, x), widest, y, finish),
                _ => store(sums::<S, 1>(weights, bias, x), widest, y, finish),
            }
        }
    }
}

/// K vectors of outputs of S samples.
#[inline(always)]
fn sums<const S: usize, const K: usize>(
    weights: &[f32x16],
    bias: &[f32x16],
    x: [&[f32]; S],
) -> [[f32x16; K]; S] {
    let mut sums = [*bias.first_chunk::<K>().expect("K vectors of biases"); S];
    let weights = weights.as_chunks::<K>().0;
    let x = x.map(|x| &x[..weights.len()]);
    for (i, weights) in weights.iter().enumerate() {
        for (sums, x) in sums.iter_mut().zip(x) {
            let x = f32x16::splat(x[i]);
            for (sum, &w) in sums.iter_mut().zip(weights) {
                *sum = fma(w, x, *sum);
            }
        }
    }
    sums
}

#[inline(always)]
fn store<const S: usize, const K: usize>(
    sums: [[f32x16; K]; S],
    widest: usize,
    y: &mut [f32x16],
    finish: &impl Fn(f32x16) -> f32x16,
) {
    // By index: an array's iterator goes through memory here.
    for s in 0..S {
        let y = y[s * widest..].first_chunk_mut::<K>().expect("K vectors of outputs");
        for k in 0..K {
            y[k] = finish(sums[s][k]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::cpu::network::policy::{Activations, Observation, Policy};
    use crate::cpu::network::tile::{BitRow, all_lanes, first_lanes, splat};
    use crate::network::{Architecture, Conv, Head, Image, Input};
    use operant_lane::isa::u32x16;

    fn number(k: usize) -> f32 {
        ((k * 7919 % 1009) as f32 - 500.0) / 331.0
    }

    /// Sparse bits, about two of a word.
    fn word(k: usize) -> u32 {
        1 << (k * 13 % 32) | 1 << (k * 29 % 32)
    }

    /// The tails of each architecture set the bits that the whole network sets with samples in lanes, and no other lane.
    fn equals_samples_in_lanes<const V: usize>(architecture: Architecture, sets: &[Lanes<V>]) {
        let network = Network::new(architecture);
        let params: Vec<f32> = (0..network.len()).map(|k| number(k + 1) / 4.0).collect();
        let mut policy = Policy::new(&network);
        policy.pack(&params);
        let floats: Vec<Row<V>> = (0..network.architecture.input.words())
            .map(|i| {
                core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| number(i * 64 + v * 16 + l))))
            })
            .collect();
        let bits: Vec<BitRow<V>> = (0..floats.len())
            .map(|i| {
                core::array::from_fn(|v| u32x16::new(core::array::from_fn(|l| word(i * 64 + v * 16 + l))))
            })
            .collect();
        let observation = match network.architecture.input {
            Input::Dense(_) => Observation::Dense(&floats),
            Input::Bits(_) => Observation::Bits(&bits),
        };
        let mut all = Activations::<V>::new(&network);
        policy.forward(observation, all_lanes(), &[], &mut all);
        let mut scratch = vec![f32x16::ZERO; scratch(&network)];
        for active in sets {
            let mut some = Activations::<V>::new(&network);
            policy.forward(observation, *active, &[], &mut some);
            for (chain, expected) in network.chains.iter().zip(&all.chains) {
                let mut tail = Tail::new(&network, chain);
                tail.pack(&params, chain);
                if tail.layers.is_empty() {
                    continue;
                }
                let x = tail.first.checked_sub(1).map_or(&floats, |k| &expected[k].y);
                let expected = &expected.last().expect("an output layer").y;
                let marked = splat::<V>(7.5);
                let mut y = vec![marked; expected.len()];
                tail.forward(x, active, &mut y, &mut scratch);
                for (y, expected) in y.iter().zip(expected) {
                    for v in 0..V {
                        for lane in 0..LANES {
                            let is_active = active[v] >> lane & 1 == 1;
                            let expected = if is_active { expected[v].as_array()[lane] } else { 7.5 };
                            assert_eq!(y[v].as_array()[lane].to_bits(), expected.to_bits(), "{active:?}");
                        }
                    }
                }
            }
            let both = [(some.policy(), all.policy()), (&[some.value()], &[all.value()])];
            for (some, all) in both.into_iter().flat_map(|(some, all)| some.iter().zip(all)) {
                for (v, lanes) in active.iter().enumerate() {
                    for lane in lanes_of(*lanes) {
                        assert_eq!(some[v].as_array()[lane].to_bits(), all[v].as_array()[lane].to_bits());
                    }
                }
            }
        }
    }

    fn architectures() -> Vec<Architecture> {
        let hidden: [&[usize]; 7] = [&[64, 64], &[], &[1], &[16, 5], &[33, 80, 17], &[130], &[48, 64, 200]];
        let mut all = Vec::new();
        for (k, hidden) in hidden.into_iter().enumerate() {
            for activation in [Activation::Tanh, Activation::Relu] {
                for shared_trunk in [false, true] {
                    let config =
                        Config { hidden: hidden.to_vec(), activation, shared_trunk, ..Config::default() };
                    let inputs = [4, 1, 17, 64, 75, 3, 16][k];
                    let head = match k % 2 {
                        0 => Head::MultiDiscrete(vec![2 + k, 3 * k + 1]),
                        _ => Head::gaussian(1 + k),
                    };
                    all.push(Architecture::new(&config, Input::Dense(inputs), head.clone()));
                    all.push(Architecture::new(&config, Input::Bits(32 * inputs), head));
                }
            }
        }
        all
    }

    #[test]
    fn every_number_of_samples_has_the_bits_of_a_full_tile() {
        let counts: Vec<Lanes<1>> = (0..=LANES).map(first_lanes).chain([[0b1000_0100_0010_0001]]).collect();
        architectures().into_iter().for_each(|architecture| equals_samples_in_lanes(architecture, &counts));
    }

    #[test]
    fn so_have_samples_anywhere_in_wide_tiles() {
        for architecture in architectures() {
            let sets = [first_lanes(5), first_lanes(20), [0, 1 << 15], [0x8001, 0x0ff0]];
            equals_samples_in_lanes::<2>(architecture.clone(), &sets);
            let sets = [first_lanes(1), first_lanes(37), [0, 0, 3, 0], [0x1111, 0, u16::MAX, 1 << 9]];
            equals_samples_in_lanes::<4>(architecture, &sets);
        }
    }

    #[test]
    fn other_layers_come_before() {
        let config = Config { hidden: vec![32, 20], ..Config::default() };
        let plain = Architecture::new(&config, Input::Dense(90), Head::MultiDiscrete(vec![5]));
        let image = Image { first: 0, extents: [6, 5, 3] };
        let conv = Conv::stack(image, &[[8, 3, 1]]).expect("it fits");
        let normalised = Architecture { layer_norm: true, ..plain.clone() };
        let counts: Vec<Lanes<1>> = (1..=LANES).map(first_lanes).collect();
        for architecture in [Architecture { conv, ..plain }, normalised] {
            let network = Network::new(architecture.clone());
            assert!(Tail::new(&network, &network.chains[0]).first > 0);
            equals_samples_in_lanes(architecture, &counts);
        }
    }

    #[test]
    fn the_memory_of_packed_weights_is_counted() {
        for architecture in architectures() {
            let network = Network::new(architecture);
            let params = vec![1.0; network.len()];
            let taken = network.chains.iter().flat_map(|chain| {
                let mut tail = Tail::new(&network, chain);
                tail.pack(&params, chain);
                tail.layers
            });
            let vectors: usize = taken.map(|layer| layer.weights.len() + layer.bias.len()).sum();
            assert_eq!(words(&network), vectors * LANES);
        }
    }

    #[test]
    fn few_samples_use_this_form_and_full_tiles_do_not() {
        let architecture =
            Architecture::new(&Config::default(), Input::Dense(4), Head::MultiDiscrete(vec![2]));
        let network = Network::new(architecture);
        let packed = |network: &Network| {
            let mut tail = Tail::new(network, &network.chains[0]);
            tail.pack(&vec![0.0; network.len()], &network.chains[0]);
            tail
        };
        let mut tail = packed(&network);
        assert_eq!(tail.first_layer(&first_lanes::<1>(1)), Some(0));
        assert_eq!(tail.first_layer(&all_lanes::<1>()), None);
        assert_eq!(tail.first_layer(&first_lanes::<4>(16)), Some(0));
        assert_eq!(tail.first_layer(&all_lanes::<4>()), None);
        tail.forget();
        assert_eq!(tail.first_layer(&first_lanes::<1>(1)), None);
        let counts = |hidden: &[usize]| {
            let config = Config { hidden: hidden.to_vec(), ..Config::default() };
            let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
            let network = Network::new(architecture);
            let tail = packed(&network);
            (0..=LANES).filter(|&count| tail.first_layer(&first_lanes::<1>(count)).is_some()).count() - 1
        };
        let most: [&[usize]; 4] = [&[64, 64], &[32, 32], &[128], &[16]];
        assert_eq!(most.map(counts), [13, 11, 7, 5]);
    }
}
