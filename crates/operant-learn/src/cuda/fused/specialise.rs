//! From a network and a device to a specialised kernel: how weights are packed, where they are stored during a rollout, how many
//! warps share them, and the resulting defines. Twin of `kernels/common/packing.cuh`; the kernels assert that both count alike.

use operant_cuda::DeviceProperties;

use crate::LearnError;
use crate::config::{Activation, Config, Intrinsic};
use crate::cuda::common::local::Local;
use crate::cuda::common::text::{owned, shape_defines};
use crate::cuda::fused::tables::{self, is_plain, run_layers, runs_fused};
use crate::network::{Input, Network, Outputs};
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// Environments of a warp.
pub const TILE: usize = 16;
/// Words from one row of a tile in shared memory to the next.
const ROW: usize = 20;
const WARP: usize = 32;
/// Maximum warps per block.
const MAX_WARPS: usize = 4;
/// Maximum words of weights per lane in registers; more leaves too few registers for the rest.
const MAX_HELD_WORDS: usize = 96;
/// Bytes that one merged entry of episodes takes.
const EPISODES_BYTES: usize = 40;

/// Where the weights are during a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightPlacement {
    /// In global memory, through the caches.
    Global,
    /// In each block's shared memory.
    Shared,
    /// In registers, as operands of the tensor cores.
    Registers,
}

/// Limits of a device that decide how a kernel is specialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of shared memory per block.
    pub shared: usize,
    /// Multiprocessors.
    pub multiprocessors: usize,
}

impl From<&DeviceProperties> for Limits {
    fn from(properties: &DeviceProperties) -> Self {
        Self { shared: properties.shared_per_block, multiprocessors: properties.multiprocessors as usize }
    }
}

/// A specialised rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specialisation {
    /// The arithmetic of the network.
    pub precision: Precision,
    /// Where the weights are.
    pub weights_at: WeightPlacement,
    /// Words of the packed weights.
    pub packed_words: usize,
    /// Warps of a block.
    pub warps: usize,
    /// Bytes of shared memory of a block.
    pub shared: usize,
    /// Bytes of it that each warp takes.
    pub warp_bytes: usize,
    /// Quantities normalised by running statistics.
    pub norms: usize,
}

/// A layer as the kernels see it.
struct Layer {
    inputs: usize,
    outputs: usize,
    fragments: bool,
}

/// Layers of every chain, in order.
fn layers(network: &Network, precision: Precision) -> Vec<Layer> {
    let bits = matches!(network.architecture.input, Input::Bits(_));
    let features = network.architecture.input.features();
    let k_tile = if precision == Precision::Bf16 { 16 } else { 8 };
    let mut layers = Vec::new();
    for chain in &network.chains {
        for (k, layer) in run_layers(chain).iter().enumerate() {
            let fragments = precision != Precision::F32 && !(bits && k == 0);
            let inputs = match k {
                0 if fragments => features.next_multiple_of(k_tile),
                0 => features,
                _ => layer.inputs.next_multiple_of(32),
            };
            let last = k + 1 == run_layers(chain).len();
            let outputs = layer.outputs.next_multiple_of(match (last, fragments) {
                (false, _) => 32,
                (true, true) => 8,
                (true, false) => 4,
            });
            layers.push(Layer { inputs, outputs, fragments });
        }
    }
    layers
}

impl Layer {
    fn matrix_words(&self, precision: Precision) -> usize {
        // Two bf16 numbers to a word.
        self.inputs * self.outputs / if self.fragments && precision == Precision::Bf16 { 2 } else { 1 }
    }
}

impl Specialisation {
    /// The best one that the limits allow.
    ///
    /// # Errors
    /// When the network fits no fused rollout.
    pub fn new(
        network: &Network,
        config: &Config,
        precision: Precision,
        limits: Limits,
    ) -> Result<Self, LearnError> {
        let architecture = &network.architecture;
        let refused = [
            (
                config.intrinsic != Intrinsic::None,
                "have no rewards for exploring, and intrinsic is not \"none\"",
                "set intrinsic = \"none\", or use --device cpu",
            ),
            (
                config.value_bins > 1,
                "have no distributions of values, and value_bins is above 1",
                "set value_bins = 1, or use --device cpu",
            ),
            (
                config.algorithms.ppo.rpo_alpha > 0.0,
                "add no noise to means, and rpo_alpha is above 0",
                "set rpo_alpha = 0, or use --device cpu",
            ),
        ];
        if let Some((_, what, remedy)) = refused.into_iter().find(|(is_set, ..)| *is_set) {
            return Err(LearnError::Config {
                key: "kernels",
                problem: format!("the fused kernels {what}"),
                remedy: remedy.to_owned(),
            });
        }
        if !runs_fused(network) {
            return Err(LearnError::Config {
                key: "kernels",
                problem: format!("the fused kernels support {}; this network is {architecture}", {
                    if architecture.outputs == Outputs::ActionValues {
                        "only networks with a policy"
                    } else if architecture.outputs.has_critics() {
                        "only networks without critics of actions"
                    } else if !is_plain(&architecture.head) {
                        "only action_distribution = \"normal\" with log_std = \"parameter\""
                    } else if architecture.embed.is_some() && matches!(architecture.input, Input::Dense(_)) {
                        "embeddings only if the observation has no real numbers or bytes"
                    } else {
                        "only fully connected layers, with or without embeddings"
                    }
                }),
                remedy: "use --device cpu".to_owned(),
            });
        }
        if config.recomputes() {
            return Err(LearnError::Config {
                key: "kernels",
                problem: "the fused kernels compute advantages once, but recompute_advantages = true"
                    .to_owned(),
                remedy: "set recompute_advantages = false, or use --device cpu".to_owned(),
            });
        }
        let widest = architecture.hidden.iter().map(|width| width.next_multiple_of(32)).max().unwrap_or(0);
        let most = match precision {
            Precision::F32 => usize::MAX,
            Precision::Tf32 => 128,
            Precision::Bf16 => 256,
        };
        if widest > most {
            return Err(too_wide(
                precision,
                format!(
                    "a hidden layer of {widest} is wider than the {most} that a rollout in {precision} holds in registers"
                ),
            ));
        }
        let layers = layers(network, precision);
        let packed_words: usize =
            layers.iter().map(|layer| layer.matrix_words(precision) + layer.outputs).sum();
        let held: usize =
            layers.iter().filter(|l| l.fragments).map(|l| l.matrix_words(precision) / WARP).sum();

        let features = architecture.input.features();
        let (obs_rows, bits) = match architecture.input {
            Input::Bits(_) => (architecture.input.words(), true),
            Input::Dense(_) if precision == Precision::F32 => (features, false),
            Input::Dense(_) => (layers[0].inputs, false),
        };
        let activation_rows = match precision {
            Precision::F32 => 2 * widest,
            _ if bits => architecture.hidden.first().map_or(0, |width| width.next_multiple_of(32)),
            _ => 0,
        };
        let output_rows = (architecture.head.outputs() + 1).next_multiple_of(8);
        let rows = 2 * obs_rows + activation_rows.max(1) + output_rows;
        let norms = if config.norm_obs { features } else { 0 } + usize::from(config.norm_reward);
        let merged = EPISODES_BYTES + 8 * (2 * norms).max(1) + 8;
        let warp_bytes = (rows * ROW * 4 + merged).next_multiple_of(16);

        // Enough warps to spread the tiles over all multiprocessors, at most four to share the weights.
        let tiles = config.num_envs.div_ceil(TILE);
        let preferred = match tiles / limits.multiprocessors.max(1) {
            0 | 1 => 1,
            2 => 2,
            _ => MAX_WARPS,
        };
        let weights = packed_words * 4;
        let fits = |warps: usize, weights: usize| weights + warps * warp_bytes <= limits.shared;
        let few = [preferred, 2, 1].into_iter().filter(|&warps| warps <= preferred);
        let (warps, weights_at) = if let Some(warps) = few.clone().find(|&warps| fits(warps, weights)) {
            let registers = precision == Precision::Bf16 && held <= MAX_HELD_WORDS;
            (warps, if registers { WeightPlacement::Registers } else { WeightPlacement::Shared })
        } else if let Some(warps) = few.clone().find(|&warps| fits(warps, 0)) {
            (warps, WeightPlacement::Global)
        } else {
            return Err(too_wide(
                precision,
                format!(
                    "the activations of 16 environments take {warp_bytes} bytes of shared memory, and this GPU has {} a block",
                    limits.shared
                ),
            ));
        };
        let shared = if weights_at == WeightPlacement::Global { 0 } else { weights } + warps * warp_bytes;
        Ok(Self { precision, weights_at, packed_words, warps, shared, warp_bytes, norms })
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        (self.warps * WARP) as u32
    }

    /// The defines of `pack.cu` and, with those of the environment, of `rollout.cu`.
    pub fn defines(
        &self,
        network: &Network,
        config: &Config,
        layout: &SampleLayout,
    ) -> Vec<(String, String)> {
        let flag = |on: bool| u8::from(on).to_string();
        let unsigned = |count: usize| format!("{count}u");
        let precision = match self.precision {
            Precision::F32 => "0u",
            Precision::Tf32 => "1u",
            Precision::Bf16 => "2u",
        };
        let weights_at = match self.weights_at {
            WeightPlacement::Global => "0u",
            WeightPlacement::Shared => "1u",
            WeightPlacement::Registers => "2u",
        };
        let own = [
            ("ACTIVATION_RELU", flag(network.architecture.activation == Activation::Relu)),
            ("PRECISION", precision.to_owned()),
            ("WEIGHTS_AT", weights_at.to_owned()),
            ("THREADS", self.threads().to_string()),
            ("WARP_BYTES", unsigned(self.warp_bytes)),
            ("EXPECTED_PACKED_WORDS", unsigned(self.packed_words)),
            ("SAMPLE_STRIDE", unsigned(layout.stride)),
            ("NORM_OBS", flag(config.norm_obs)),
            ("NORM_REWARD", flag(config.norm_reward)),
        ];
        shape_defines(network).into_iter().chain(owned(own)).chain(tables::defines(network)).collect()
    }
}

/// A specialised update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateSpecialisation {
    /// The rollout's specialisation, for the packing.
    pub forward: Specialisation,
    /// Where the weights are.
    pub weights_at: WeightPlacement,
    /// Words of the transposed matrices.
    pub transposed_words: usize,
    /// Warps of a block.
    pub warps: usize,
    /// Bytes of shared memory of a block.
    pub shared: usize,
}

/// The sizes that determine the shared memory of an update's block, in words.
struct UpdateWords {
    transposed: usize,
    /// Per warp: rows and space for sums.
    warp: usize,
    /// Features whose values for all samples of the block are contiguous.
    features: usize,
}

impl UpdateWords {
    /// As `kernels/fused/gradient_rows.cuh` counts them.
    fn rows(network: &Network) -> Self {
        let shape = UpdateLayers::of(network, 4);
        let last = shape.hidden.last().copied().unwrap_or(0);
        let transposed = shape.heads.iter().map(|head| shape.between + head * last).sum();
        let rows = shape.obs + shape.heads.len() * shape.hidden_sum + shape.heads.iter().sum::<usize>();
        Self { transposed, warp: rows * ROW, features: 0 }
    }

    /// As `kernels/fused/gradient_fragments.cuh` does.
    fn fragments(network: &Network, precision: Precision) -> Self {
        let shape = UpdateLayers::of(network, 8);
        let (k_tile, halves) = if precision == Precision::Bf16 { (16, 2) } else { (8, 1) };
        let last = shape.hidden.last().copied().unwrap_or(0);
        let matrix = |head: usize| shape.between + head.next_multiple_of(k_tile) * last;
        let transposed = shape.heads.iter().map(|head| matrix(*head) / halves).sum();
        let bits = matches!(network.architecture.input, Input::Bits(_));
        let (read, bag) = if bits {
            (shape.obs, shape.hidden.first().copied().unwrap_or(0))
        } else {
            (shape.obs.next_multiple_of(k_tile), 0)
        };
        let deltas: usize = shape.heads.iter().map(|head| shape.hidden_sum + head.next_multiple_of(16)).sum();
        let observed = if bits { 0 } else { shape.obs.next_multiple_of(16) };
        let features = observed + shape.heads.len() * shape.hidden_sum + deltas;
        Self { transposed, warp: (read + bag + shape.heads.iter().sum::<usize>()) * ROW, features }
    }
}

/// The padded shape of a network.
struct UpdateLayers {
    /// Rows of an observation.
    obs: usize,
    /// Widths of the hidden layers, and their sum.
    hidden: Vec<usize>,
    hidden_sum: usize,
    /// Weights between hidden layers.
    between: usize,
    /// Outputs of each chain.
    heads: Vec<usize>,
}

impl UpdateLayers {
    fn of(network: &Network, head_multiple: usize) -> Self {
        let architecture = &network.architecture;
        let hidden: Vec<usize> = architecture.hidden.iter().map(|width| width.next_multiple_of(32)).collect();
        let heads = network.chains.iter().filter_map(|chain| chain.layers.last());
        Self {
            obs: architecture.input.words(),
            hidden_sum: hidden.iter().sum(),
            between: hidden.windows(2).map(|pair| pair[0] * pair[1]).sum(),
            heads: heads.map(|head| head.outputs.next_multiple_of(head_multiple)).collect(),
            hidden,
        }
    }
}

impl UpdateSpecialisation {
    /// The best one that the limits allow.
    ///
    /// # Errors
    /// When the network fits no fused update.
    pub fn new(
        network: &Network,
        local: impl Into<Local>,
        precision: Precision,
        limits: Limits,
    ) -> Result<Self, LearnError> {
        let local = local.into();
        let forward = Specialisation::new(network, &local.run, precision, limits)?;
        if let Some(setting) = local.run.not_fused() {
            return Err(LearnError::Config {
                key: "kernels",
                problem: format!("the fused kernels do not support {setting}"),
                remedy: "use --device cpu".to_owned(),
            });
        }
        let widest = network.architecture.hidden.iter().max().copied().unwrap_or(0);
        if precision == Precision::Tf32 && widest > 64 {
            return Err(too_wide(
                precision,
                format!(
                    "a hidden layer of {widest} is wider than the 64 that an update in tf32 holds in registers"
                ),
            ));
        }
        let words = match precision {
            Precision::F32 => UpdateWords::rows(network),
            _ => UpdateWords::fragments(network, precision),
        };
        let actions = network.architecture.head.outputs().next_multiple_of(4);
        // Two samples to a word in bf16, and four words to keep rows out of each other's banks.
        let samples_a_word = if precision == Precision::Bf16 { 2 } else { 1 };
        let of_block = |warps: usize| {
            4 * (16
                + warps * (words.warp + 16 + actions)
                + words.features * (warps * TILE / samples_a_word + 4))
        };
        let weights = 4 * (forward.packed_words.next_multiple_of(4) + words.transposed.next_multiple_of(4));
        let fits = |warps: usize, weights: usize| weights + of_block(warps) <= limits.shared;
        // Eight warps share weights and add up gradients where every multiprocessor has a tile of theirs. On tensor cores four warps that
        // read weights through the caches are twice as fast as two with weights in shared memory (docs/results/gpu.md).
        let minibatch = local.samples() / local.run.num_minibatches.max(1);
        let wide = minibatch >= 8 * TILE * limits.multiprocessors;
        let [third, fourth] = match precision {
            Precision::F32 => [(2, true), (4, false)],
            _ => [(4, false), (2, true)],
        };
        let choices = [(8, true), (4, true), third, fourth, (2, false), (1, false)];
        let fitting = choices
            .into_iter()
            .skip(usize::from(!wide))
            .find(|&(warps, held)| fits(warps, if held { weights } else { 0 }));
        let Some((warps, held)) = fitting else {
            return Err(too_wide(
                precision,
                format!(
                    "the activations of 16 samples take {} bytes of shared memory, and this GPU has {} a block",
                    of_block(1),
                    limits.shared
                ),
            ));
        };
        let weights_at = if held { WeightPlacement::Shared } else { WeightPlacement::Global };
        let shared = if held { weights } else { 0 } + of_block(warps);
        Ok(Self { forward, weights_at, transposed_words: words.transposed, warps, shared })
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        (self.warps * WARP) as u32
    }

    /// Samples of a block's tile.
    pub fn tile(&self) -> usize {
        self.warps * TILE
    }

    /// Blocks of a launch over minibatches of `samples` samples: as many as are resident at once, but none without a tile or a
    /// share of the parameters.
    pub fn blocks(&self, network: &Network, minibatch: usize, resident: usize) -> usize {
        let numbers = network.len().max(tables::partial_len(network));
        let shares = numbers.div_ceil(self.threads() as usize);
        resident.clamp(1, minibatch.div_ceil(self.tile()).max(shares))
    }

    /// The defines of `ppo_update.cu`.
    pub fn defines(
        &self,
        network: &Network,
        config: &Config,
        layout: &SampleLayout,
    ) -> Vec<(String, String)> {
        let weights_at = if self.weights_at == WeightPlacement::Shared { "1u" } else { "0u" };
        let mut defines = self.forward.defines(network, config, layout);
        defines.retain(|(name, _)| !["NORM_OBS", "NORM_REWARD", "WARP_BYTES"].contains(&name.as_str()));
        for (name, value) in &mut defines {
            match name.as_str() {
                "WEIGHTS_AT" => *value = weights_at.to_owned(),
                "THREADS" => *value = self.threads().to_string(),
                _ => {}
            }
        }
        let counts = [
            ("BLOCK_BYTES", self.shared),
            ("EXPECTED_PARAMETERS", network.len()),
            ("EXPECTED_PARTIAL", tables::partial_len(network)),
            ("EXPECTED_TRANSPOSED_WORDS", self.transposed_words),
        ];
        defines.extend(owned(counts.map(|(name, count)| (name, format!("{count}u")))));
        defines
    }
}

fn too_wide(precision: Precision, problem: String) -> LearnError {
    LearnError::Config {
        key: "hidden",
        problem,
        remedy: match precision {
            Precision::F32 => "use narrower layers, or --device cpu",
            _ => "use narrower layers, --precision f32, or --device cpu",
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Architecture, Head};

    const H200: Limits = Limits { shared: 232_448, multiprocessors: 132 };

    fn of(hidden: &[usize], precision: Precision, num_envs: usize, limits: Limits) -> Specialisation {
        let config = Config { hidden: hidden.to_vec(), num_envs, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        Specialisation::new(&Network::new(architecture), &config, precision, limits).expect("it fits")
    }

    #[test]
    fn the_worked_example_of_packing_holds() {
        let of = of(&[64, 64], Precision::Bf16, 8_192, H200);
        let trunks = 2; // CleanRL's defaults: actor and critic apart
        assert_eq!(of.packed_words, trunks * (512 + 64 + 2_048 + 64 + 256 + 8));
    }

    #[test]
    fn weights_move_out_as_networks_grow() {
        let small = Limits { shared: 101_376, ..H200 };
        assert_eq!(of(&[64, 64], Precision::F32, 8_192, H200).weights_at, WeightPlacement::Shared);
        assert_eq!(of(&[32], Precision::Bf16, 8_192, H200).weights_at, WeightPlacement::Registers);
        assert_eq!(of(&[128, 128], Precision::Bf16, 8_192, H200).weights_at, WeightPlacement::Shared);
        assert_eq!(of(&[256, 256], Precision::F32, 8_192, small).weights_at, WeightPlacement::Global);
    }

    #[test]
    fn few_environments_spread_over_blocks() {
        assert_eq!(of(&[64, 64], Precision::F32, 512, H200).warps, 1);
        assert_eq!(of(&[64, 64], Precision::F32, 8_192, H200).warps, 4);
    }

    #[test]
    fn what_cannot_fit_is_refused_with_a_remedy() {
        let config = Config { hidden: vec![512], ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        let network = Network::new(architecture);
        let error = Specialisation::new(&network, &config, Precision::Bf16, H200).expect_err("too wide");
        assert!(error.to_string().contains("--precision f32"), "{error}");
    }
}
