//! Backpropagation of one tile through the actor-critic, and the gradient sums of a chunk of tiles.

use core::ops::Range;

use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{self, Backward, LayerKind, LayerSums, Sides, Sums};
use crate::cpu::network::policy::{Activations, Observation, Policy};
use crate::cpu::network::tile::{Row, TILE_VECTORS, splat};
use crate::cpu::network::weight_gradient::add_up;
use crate::network::{Chain, Network};

/// A tile's forward pass.
#[derive(Clone, Copy)]
pub(crate) struct Forwarded<'a> {
    pub observation: Observation<'a, TILE_VECTORS>,
    /// 0 where a step of a sequence begins an episode.
    pub keep: &'a Row<TILE_VECTORS>,
    /// The side that moves, if each has a memory of its own.
    pub turns: Option<&'a Row<TILE_VECTORS>>,
    /// Vectors that it computed.
    pub vectors: usize,
    pub activations: &'a Activations<TILE_VECTORS>,
}

/// Running sums of the gradient of every parameter over the tiles of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Gradient {
    /// `[chain][layer]`.
    chains: Vec<Vec<Sums>>,
    /// The log standard deviations' sums of a Gaussian head, `[action]`, samples in lanes.
    pub log_std: Vec<f32x16>,
    /// Gradient of the state of layers with memory, of 16 sequences.
    state: Vec<Row<1>>,
    /// `[side][state]`: the same for each side that has a memory of its own.
    sides: Vec<Row<1>>,
}

impl Gradient {
    /// Zero sums for `network`.
    pub fn new(network: &Network) -> Self {
        let sums =
            |chain: &Chain| (0..chain.layers.len()).map(|k| layers::new(network, chain, k).sums()).collect();
        let chains = network.chains.iter().map(sums);
        let deviations = network.log_std.map_or(0, |_| network.policy_outputs());
        Self {
            chains: chains.collect(),
            log_std: vec![f32x16::ZERO; deviations],
            state: vec![splat(0.0); network.states],
            sides: Vec::new(),
        }
    }

    /// For environments with that many memories, one for each side.
    pub fn of_sides(mut self, memories: usize) -> Self {
        if memories > 1 {
            self.sides = vec![splat(0.0); memories * self.state.len()];
        }
        self
    }

    /// Resets all sums.
    pub fn clear(&mut self) {
        self.chains.iter_mut().flatten().for_each(Sums::clear);
        self.log_std.fill(f32x16::ZERO);
    }

    /// Begins with the last steps of sequences: nothing after them depends on their state.
    pub fn begin_sequences(&mut self) {
        self.state.fill(splat(0.0));
        self.sides.fill(splat(0.0));
    }

    /// Adds one tile; `deltas` holds the loss's gradient with respect to the outputs in its last layers, and the hidden layers' gradients
    /// afterwards. Tiles of sequences come last to first.
    pub fn add(&mut self, policy: &Policy, forward: Forwarded<'_>, deltas: &mut Activations<TILE_VECTORS>) {
        for chain in 0..policy.chains.len() {
            self.add_chain(policy, chain, forward, deltas, None);
        }
    }

    /// One chain of [`Gradient::add`]. With `d_inputs` the gradient of the chain's inputs is written there, and that of its parameters is not
    /// added.
    pub fn add_chain(
        &mut self,
        policy: &Policy,
        chain: usize,
        Forwarded { observation, keep, turns, vectors, activations }: Forwarded<'_>,
        deltas: &mut Activations<TILE_VECTORS>,
        mut d_inputs: Option<&mut [Row<TILE_VECTORS>]>,
    ) {
        let Activations { chains, scratch, .. } = deltas;
        let (layers, values) = (&policy.chains[chain], &activations.chains[chain]);
        let (sums, deltas) = (&mut self.chains[chain], &mut chains[chain]);
        let (inputs_only, each) = (d_inputs.is_some(), self.state.len());
        for k in (0..layers.len()).rev() {
            let (before, after) = deltas.split_at_mut(k);
            let below = k.checked_sub(1);
            let x = below.map_or(observation, |below| Observation::Dense(&values[below].y));
            let pass = Backward {
                x,
                kept: &values[k].kept,
                dz: &after[0].y,
                dx: before.last_mut().map(|before| &mut before.y[..]).or(d_inputs.take_if(|_| k == 0)),
                active: below.map_or(0, |below| layers[below].spec.active()),
                work: &mut after[0].kept,
                state: &mut self.state,
                keep,
                sides: turns.map(|turns| Sides { states: &mut self.sides, each, turns }),
                scratch,
                vectors,
                inputs_only,
            };
            let activation = below.and_then(|below| layers[below].spec.activation);
            layers[k].kind.run_back(&mut sums[k], pass, activation);
        }
    }

    /// Writes the sums of these chains in the order of the flat parameters.
    pub fn finish_chains(&self, policy: &Policy, chains: Range<usize>, flat: &mut [f32]) {
        let sums = self.chains[chains.clone()].iter().flatten();
        for (layer, sums) in policy.chains[chains].iter().flatten().zip(sums) {
            layer.kind.finish(sums, &mut flat[layer.spec.params.clone()]);
        }
    }

    /// Resets the sums of these chains.
    pub fn clear_chains(&mut self, chains: Range<usize>) {
        self.chains[chains].iter_mut().flatten().for_each(Sums::clear);
    }

    /// Writes the sums in the order of the flat parameters.
    pub fn finish(&self, policy: &Policy, flat: &mut [f32]) {
        self.finish_chains(policy, 0..self.chains.len(), flat);
        if let Some(start) = policy.network().log_std {
            add_up(&self.log_std, &mut flat[start..start + self.log_std.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::config::{Activation, CoreKind};
    use crate::cpu::network::tile::LANES;
    use crate::network::{Architecture, Head, Input};
    use operant_lane::isa::u32x16;

    /// A number of each lane; lanes from `count` on repeat the last one, or are zero.
    fn row(k: usize, count: usize, repeat: bool) -> Row<TILE_VECTORS> {
        let number = |s: usize| ((k * 64 + s.min(count - 1)) * 7919 % 1009) as f32 / 331.0 - 1.5;
        let lane = |s: usize| if s < count || repeat { number(s) } else { 0.0 };
        core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| lane(v * LANES + l))))
    }

    /// The gradient of two tiles, of all vectors or of those that contain samples.
    fn gradient(architecture: &Architecture, count: usize, partial: bool) -> Vec<f32> {
        let network = Network::new(architecture.clone());
        let params: Vec<f32> = (0..network.len()).map(|k| row(k, 64, true)[0].to_array()[0] / 4.0).collect();
        let mut policy = Policy::new(&network);
        policy.pack_for_update(&params);
        let (mut values, mut deltas) = (Activations::new(&network), Activations::new(&network));
        // What is not computed is not read.
        for values in values.chains.iter_mut().chain(&mut deltas.chains).flatten() {
            values.y.fill(splat(f32::NAN));
        }
        let mut gradient = Gradient::new(&network);
        for tile in 0..2 {
            let floats: Vec<_> =
                (0..architecture.input.words()).map(|k| row(k + tile, count, true)).collect();
            let bits: Vec<_> = floats.iter().map(|row| row.map(|x| x.to_array().map(f32::to_bits))).collect();
            let bits: Vec<_> =
                bits.iter().map(|row| row.map(|bits| u32x16::new(bits) & u32x16::splat(0xfff))).collect();
            let x = match architecture.input {
                Input::Dense(_) => Observation::Dense(&floats),
                Input::Bits(_) => Observation::Bits(&bits),
            };
            let vectors = policy.tile(x, if partial { count } else { 64 }, &mut values);
            assert_eq!(vectors, if partial && count <= 48 { count.div_ceil(LANES) } else { TILE_VECTORS });
            for last in deltas.chains.iter_mut().filter_map(|chain| chain.last_mut()) {
                for (k, delta) in last.y.iter_mut().enumerate() {
                    *delta = row(k + 3 * tile, count, false);
                }
            }
            let forward =
                Forwarded { observation: x, keep: &splat(1.0), turns: None, vectors, activations: &values };
            gradient.add(&policy, forward, &mut deltas);
        }
        let mut flat: Vec<f32> =
            values.policy().iter().flatten().flat_map(|vector| vector.to_array()).collect();
        flat.extend(values.value().iter().flat_map(|vector| vector.to_array()));
        flat.resize(flat.len() + network.len(), 0.0);
        let start = flat.len() - network.len();
        gradient.finish(&policy, &mut flat[start..]);
        flat
    }

    /// Steps of the sequences of a test.
    const STEPS: usize = 12;

    /// What `STEPS` steps of 16 sequences give: `[step][output]`, and the gradient. Feature, gradient of an output, whether the episode goes
    /// on, and the side of each step and sequence are functions; without sides there is one memory.
    fn of_sequences(
        network: &Network,
        params: &[f32],
        [feature, delta]: [&dyn Fn(usize, usize, usize) -> f32; 2],
        goes_on: &dyn Fn(usize, usize) -> bool,
        side: Option<&dyn Fn(usize, usize) -> usize>,
    ) -> (Vec<[[f32; LANES]; 2]>, Vec<f32>) {
        let mut policy = Policy::new(network);
        policy.pack_for_update(params);
        let mut gradient = Gradient::new(network).of_sides(if side.is_some() { 3 } else { 1 });
        let (mut state, mut states) =
            (vec![splat(0.0); network.states], vec![splat(0.0); 3 * network.states]);
        let mut deltas = Activations::new(network);
        let tile = |of: &dyn Fn(usize, usize) -> f32, k: usize| -> Row<TILE_VECTORS> {
            core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| of(k * TILE_VECTORS + v, l))))
        };
        let mut tiles = Vec::new();
        for k in 0..STEPS / TILE_VECTORS {
            let x: Vec<_> = (0..3).map(|i| tile(&|t, l| feature(t, l, i), k)).collect();
            let keep = tile(&|t, l| f32::from(u8::from(goes_on(t, l))), k);
            let turns = side.map(|side| tile(&|t, l| side(t, l) as f32, k));
            let mut values = Activations::of_sequence(network);
            let each = state.len();
            let sides = turns.as_ref().map(|turns| Sides { states: &mut states, each, turns });
            let ends = (&keep, sides);
            policy.sequence(Observation::Dense(&x), &mut state, ends, &mut deltas.scratch, &mut values);
            tiles.push((x, keep, turns, values));
        }
        gradient.begin_sequences();
        for (k, (x, keep, turns, activations)) in tiles.iter().enumerate().rev() {
            for (i, row) in deltas.policy_mut().iter_mut().enumerate() {
                *row = tile(&|t, l| delta(t, l, i), k);
            }
            deltas.values_mut().fill(splat(0.0));
            let (observation, turns) = (Observation::Dense(&x[..]), turns.as_ref());
            let forward = Forwarded { observation, keep, turns, vectors: TILE_VECTORS, activations };
            gradient.add(&policy, forward, &mut deltas);
        }
        let outputs = tiles.iter().flat_map(|(.., values)| {
            (0..TILE_VECTORS).map(|v| [0, 1].map(|i| values.policy()[i][v].to_array()))
        });
        let outputs = outputs.collect();
        let mut flat = vec![0.0; network.len()];
        gradient.finish(&policy, &mut flat);
        (outputs, flat)
    }

    #[test]
    fn sides_with_memories_of_their_own_are_like_sequences_of_their_own() {
        for core in [CoreKind::MinGru, CoreKind::Gru, CoreKind::Lstm] {
            let config = Config { hidden: vec![8], core, core_layers: 2, ..Config::default() };
            let architecture = Architecture::new(&config, Input::Dense(3), Head::MultiDiscrete(vec![2]));
            let network = Network::new(architecture);
            let params: Vec<f32> =
                (0..network.len()).map(|k| row(k, 64, true)[0].to_array()[0] / 4.0).collect();
            let number =
                |t: usize, l: usize, i: usize| ((t * 48 + l * 3 + i) * 7919 % 1009) as f32 / 331.0 - 1.5;
            let delta = |t: usize, l: usize, i: usize| number(t + 7, l, i) / 3.0;
            let side = |t: usize, l: usize| (t * (1 + l % 2) + l + t / 5) % 3;
            let goes_on = |t: usize, l: usize| (t + l) % 7 != 4;
            let (outputs, gradient) =
                of_sequences(&network, &params, [&number, &delta], &goes_on, Some(&side));
            let mut sum = vec![0.0; network.len()];
            for own in 0..3 {
                // The steps of this side, one after the other; those after them carry no weight.
                let steps = |l: usize| (0..STEPS).filter(move |t| side(*t, l) == own).collect::<Vec<_>>();
                let at = |t: usize, l: usize| steps(l).get(t).copied();
                let x = |t: usize, l: usize, i: usize| at(t, l).map_or(0.5, |t| number(t, l, i));
                let dy = |t: usize, l: usize, i: usize| at(t, l).map_or(0.0, |t| delta(t, l, i));
                let goes_on = |t: usize, l: usize| {
                    let before = t.checked_sub(1).and_then(|t| at(t, l)).map_or(0, |before| before + 1);
                    at(t, l).is_none_or(|now| (before..=now).all(|t| goes_on(t, l)))
                };
                let (alone, of_side) = of_sequences(&network, &params, [&x, &dy], &goes_on, None);
                for l in 0..LANES {
                    for (k, t) in steps(l).into_iter().enumerate() {
                        let [all, own] = [outputs[t], alone[k]].map(|it| it.map(|lanes| lanes[l].to_bits()));
                        assert_eq!(all, own, "{core}, sequence {l}, step {t}");
                    }
                }
                sum.iter_mut().zip(of_side).for_each(|(sum, part)| *sum += part);
            }
            let most = sum.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            for (k, (a, b)) in gradient.iter().zip(&sum).enumerate() {
                assert!((a - b).abs() < 1e-5 * most, "{core}, parameter {k}: {a}, {b}");
            }
        }
    }

    #[test]
    fn partial_tiles_have_the_outputs_and_gradients_of_padded_ones() {
        for (hidden, activation) in [(vec![64, 64], Activation::Tanh), (vec![7, 33], Activation::Relu)] {
            for input in [Input::Dense(4), Input::Dense(19), Input::Bits(64)] {
                let config = Config { hidden: hidden.clone(), activation, ..Config::default() };
                let architecture = Architecture::new(&config, input, Head::MultiDiscrete(vec![3]));
                for count in [1, 15, 16, 17, 31, 32, 33, 48, 49, 64] {
                    let [padded, partial] = [false, true].map(|partial| {
                        gradient(&architecture, count, partial)
                            .iter()
                            .map(|x| x.to_bits())
                            .collect::<Vec<_>>()
                    });
                    assert!(padded == partial, "{architecture} {count}");
                }
            }
        }
    }
}
