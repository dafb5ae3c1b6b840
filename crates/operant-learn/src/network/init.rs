//! Initial parameters: orthogonal weights with gain sqrt(2) for hidden layers and action values, 0.01 for the policy's output and 1 for
//! the value's and for layers with memory; normal tables; biases zero except the update gates of mingru. Computed in f64 from counter-based draws, so the bits depend on the seed alone.

use core::num::Wrapping;

use operant_lane::{Draws, Purpose};

use super::Network;

/// Gain of hidden layers.
pub(crate) const HIDDEN_GAIN: f64 = core::f64::consts::SQRT_2;

/// The longest memory, in steps, that units of mingru begin with.
const LONGEST_MEMORY: f64 = 256.0;

/// How a block of parameters begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// All equal.
    Constant(f64),
    /// A matrix of the first extent and all others, with orthonormal rows or columns, whichever are fewer, times this gain.
    Orthogonal(f64),
    /// Independent normals.
    Normal {
        /// Their standard deviation.
        scale: f32,
    },
    /// Independent and uniform in [-bound, bound).
    Uniform {
        /// The bound.
        bound: f64,
    },
    /// Biases of mingru's three gates. An update gate that begins half open forgets within a few steps, and no gradient comes back through
    /// more. So the units begin with memories of 1 to 256 steps, evenly spaced in their logarithm (after Tallec and Ollivier 2018).
    Memories,
}

/// The flat vector of initial parameters of `network` for `seed`.
pub fn init_params(network: &Network, seed: u64) -> Vec<f32> {
    let mut params = vec![0.0f32; network.len()];
    for (index, tensor) in network.tensors.iter().enumerate() {
        let values = &mut params[tensor.range()];
        let mut normals = Normals::new(seed, index as u32);
        match tensor.init {
            Init::Constant(value) => values.fill(value as f32),
            Init::Normal { scale } => {
                values.iter_mut().for_each(|value| *value = normals.next() as f32 * scale);
            }
            Init::Uniform { bound } => {
                let draws = core::iter::repeat_with(|| normals.uniforms()).flatten();
                for (value, unit) in values.iter_mut().zip(draws) {
                    *value = (bound * (2.0 * unit - 1.0)) as f32;
                }
            }
            Init::Orthogonal(gain) => {
                let columns = tensor.shape[1..].iter().product();
                let matrix = orthogonal(tensor.shape[0], columns, &mut normals);
                for (value, element) in values.iter_mut().zip(matrix) {
                    *value = (gain * element) as f32;
                }
            }
            Init::Memories => {
                let width = values.len() / 3;
                let last = (width - 1).max(1) as f64;
                for (unit, bias) in values[width..2 * width].iter_mut().enumerate() {
                    *bias = (-operant_lane::Float::ln(LONGEST_MEMORY) * unit as f64 / last) as f32;
                }
            }
        }
    }
    params
}

/// A random matrix `(rows, columns)`, row-major, with orthonormal rows or columns, whichever are fewer: Q of the QR
/// decomposition of a Gaussian matrix with R's diagonal positive, which is uniform over such matrices (Mezzadri 2007).
fn orthogonal(rows: usize, columns: usize, normals: &mut Normals) -> Vec<f64> {
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut vector: Vec<f64> = (0..length).map(|_| normals.next()).collect();
        // Modified Gram-Schmidt, twice: once more makes the result orthogonal to rounding error.
        for _ in 0..2 {
            for earlier in &basis {
                let dot: f64 = vector.iter().zip(earlier).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(earlier).for_each(|(a, b)| *a -= dot * b);
            }
        }
        let norm = vector.iter().map(|a| a * a).sum::<f64>().sqrt();
        // A row inside the span of the earlier ones has probability zero; it is drawn again.
        if norm > 1e-9 {
            vector.iter_mut().for_each(|a| *a /= norm);
            basis.push(vector);
        }
    }
    let mut matrix = vec![0.0; rows * columns];
    for (k, vector) in basis.iter().enumerate() {
        for (i, &value) in vector.iter().enumerate() {
            let place = if rows <= columns { k * columns + i } else { i * columns + k };
            matrix[place] = value;
        }
    }
    matrix
}

/// Standard normal numbers by Box and Muller's transform of uniform ones with 53 bits.
struct Normals {
    seed: u64,
    tensor: u32,
    block: u64,
    spare: Option<f64>,
}

impl Normals {
    fn new(seed: u64, tensor: u32) -> Self {
        Self { seed, tensor, block: 0, spare: None }
    }

    /// Two uniform numbers from 0 to 1.
    fn uniforms(&mut self) -> [f64; 2] {
        let mut draws = Draws::<f64>::at(self.seed, Wrapping(self.tensor), self.block, Purpose::Weights);
        self.block += 1;
        core::array::from_fn(|_| {
            let (high, low) = (u64::from(draws.bits().0), u64::from(draws.bits().0));
            // Centred in its cell of 2^-53: never 0, whose logarithm is infinite.
            (((high << 32 | low) >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
        })
    }

    fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let [first, second] = self.uniforms();
        // Lane functions, because libm's last bit differs between machines.
        let radius = (-2.0 * operant_lane::Float::ln(first)).sqrt();
        let (sin, cos) = operant_lane::Float::sin_cos(core::f64::consts::TAU * second);
        self.spare = Some(radius * sin);
        radius * cos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, CoreKind, WeightInit};
    use crate::network::{Architecture, Core, Head, Input};

    #[test]
    fn rows_or_columns_are_orthonormal_times_gain() {
        let config = Config { hidden: vec![64, 33], shared_trunk: false, ..Config::default() };
        let head = Head::MultiDiscrete(vec![3, 2]);
        let network = Network::new(Architecture::new(&config, Input::Dense(4), head));
        let params = init_params(&network, 7);
        for tensor in network.tensors.iter().filter(|t| t.shape.len() == 2) {
            let (rows, columns) = (tensor.shape[0], tensor.shape[1]);
            let w = &params[tensor.range()];
            let Init::Orthogonal(gain) = tensor.init else { panic!("{} is no matrix", tensor.name) };
            let at = |k: usize, i: usize| {
                f64::from(if rows <= columns { w[k * columns + i] } else { w[i * columns + k] })
            };
            for a in 0..rows.min(columns) {
                for b in 0..rows.min(columns) {
                    let dot: f64 = (0..rows.max(columns)).map(|i| at(a, i) * at(b, i)).sum();
                    let expected = if a == b { gain.powi(2) } else { 0.0 };
                    assert!((dot - expected).abs() < 1e-6 * gain.powi(2), "{} {a} {b}: {dot}", tensor.name);
                }
            }
        }
        for tensor in network.tensors.iter().filter(|t| t.name.ends_with(".bias")) {
            assert!(params[tensor.range()].iter().all(|&b| b == 0.0));
        }
    }

    #[test]
    fn weights_and_biases_as_pytorch_begins_are_uniform_within_their_bounds() {
        let core = CoreKind::Lstm;
        let base =
            Config { hidden: vec![24, 30], core, layer_norm: true, residual_blocks: 1, ..Config::default() };
        let [own, pytorch] = [WeightInit::Orthogonal, WeightInit::PyTorch].map(|init| {
            let config = Config { init, ..base.clone() };
            let core = Core::of(&config).expect("a core");
            Network::new(Architecture {
                core,
                ..Architecture::new(&config, Input::Dense(4), Head::gaussian(2))
            })
        });
        let params = init_params(&pytorch, 7);
        assert_eq!((&params, params.len()), (&init_params(&pytorch, 7), own.len()));
        let bounds = [
            ("actor.0.weight", 0.5),
            ("actor.0.bias", 0.5),
            ("critic.1.weight", 1.0 / 24f64.sqrt()),
            ("actor.blocks.0.down.bias", 1.0 / 120f64.sqrt()),
            ("actor.core.0.weight_ih", 1.0 / 30f64.sqrt()),
            ("actor.core.0.bias_hh", 1.0 / 30f64.sqrt()),
            ("policy.weight", 1.0 / 30f64.sqrt()),
            ("value.bias", 1.0 / 30f64.sqrt()),
        ];
        for (name, bound) in bounds {
            let tensor = pytorch.tensors.iter().find(|tensor| tensor.name == name).expect(name);
            assert_eq!(tensor.init, Init::Uniform { bound }, "{name}");
            let values = params[tensor.range()].iter().map(|value| f64::from(*value));
            let (most, squares) =
                values.fold((0.0f64, 0.0), |(most, sum), x| (most.max(x.abs()), sum + x * x));
            assert!(most <= bound && most > 0.0, "{name}: {most}");
            let deviation = (squares / tensor.len() as f64).sqrt() * 3f64.sqrt() / bound;
            assert!(tensor.len() < 96 || (deviation - 1.0).abs() < 0.15, "{name}: {deviation}");
        }
        // Normalisations and log_std stay.
        for (tensor, before) in pytorch.tensors.iter().zip(&own.tensors) {
            if tensor.name.contains("norm") || tensor.name == "log_std" {
                assert_eq!(tensor, before);
            }
        }
    }

    #[test]
    fn seeds_and_tensors_differ() {
        let mut a = Normals::new(1, 0);
        let mut b = Normals::new(2, 0);
        let mut c = Normals::new(1, 1);
        let (a, b, c): (Vec<f64>, Vec<f64>, Vec<f64>) = (
            (0..8).map(|_| a.next()).collect(),
            (0..8).map(|_| b.next()).collect(),
            (0..8).map(|_| c.next()).collect(),
        );
        assert_ne!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn normals_are_normal() {
        let mut normals = Normals::new(3, 1);
        let draws: Vec<f64> = (0..20_000).map(|_| normals.next()).collect();
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let within_one = draws.iter().filter(|x| x.abs() < 1.0).count() as f64 / n;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05 && (within_one - 0.6827).abs() < 0.015);
    }
}
