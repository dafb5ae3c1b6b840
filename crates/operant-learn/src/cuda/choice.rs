//! Options of training on a GPU, and the choice between fused kernels and the GEMM path by the network's shape.

use operant_cuda::CudaError;

use crate::LearnError;
use crate::choice;
use crate::config::{Config, CoreKind};
use crate::cuda::common::local::Local;
use crate::cuda::fused::specialise::{Limits, UpdateSpecialisation};
use crate::cuda::fused::tables::run_layers;
use crate::network::{Architecture, Network};
use crate::precision::Precision;

/// The widest hidden layer for which fused kernels are chosen if both paths are possible: a block computes all outputs of a
/// layer for its own samples, and reads weights that exceed shared memory repeatedly.
const WIDEST_FUSED: usize = 256;

/// The maximum number of weights of a first layer over the one-hot features of embeddings: each block has a partial gradient of that size.
const MOST_ONE_HOT: usize = 1 << 17;

/// The maximum number of hidden layers in fused kernels: the code of each is unrolled.
const DEEPEST_FUSED: usize = 8;

choice! {
    /// The kernels that run a network.
    #[derive(Default)]
    pub enum Kernels {
        /// Chosen by the shape of the network.
        #[default]
        Auto = "auto",
        /// One kernel per rollout and one per update, with the network inside.
        Fused = "fused",
        /// Matrix products of cuBLASLt, layer by layer.
        Gemm = "gemm" | "layers",
    }
}

/// Options for running a network on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NetworkOptions {
    /// Precision of matrix products; parameters, sums and moments are in single precision.
    pub precision: Precision,
    /// The kernels.
    pub kernels: Kernels,
}

impl From<Precision> for NetworkOptions {
    fn from(precision: Precision) -> Self {
        Self { precision, kernels: Kernels::Auto }
    }
}

/// Options of training on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuOptions {
    /// Precision and kernels of the network.
    pub network: NetworkOptions,
    /// Share of the free device memory that may be taken.
    pub memory_fraction: f64,
    /// Host threads for greedy evaluation.
    pub threads: usize,
    /// Whether a rollout runs concurrently with the previous update, with weights that are one update old.
    pub overlap: bool,
    /// Whether a run has the same bits on any number of GPUs.
    pub deterministic: bool,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self {
            network: NetworkOptions::default(),
            memory_fraction: 0.9,
            threads: 1,
            overlap: false,
            deterministic: false,
        }
    }
}

/// The chosen kernels, and the reason in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelChoice {
    /// [`Kernels::Fused`] or [`Kernels::Gemm`].
    pub kernels: Kernels,
    /// Such as "4-64-64-(2+1) fits the kernels".
    pub reason: String,
}

/// `kernels: fused; 4-64-64-(2+1) fits the kernels in f32`.
impl std::fmt::Display for KernelChoice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "kernels: {}; {}", self.kernels.name(), self.reason)
    }
}

/// The options of a game: several players learn by self-play on the GEMM path alone, without memory.
///
/// # Errors
/// When other kernels are asked for, or a core.
pub(super) fn for_players(
    options: NetworkOptions,
    players: u32,
    core: CoreKind,
) -> Result<NetworkOptions, LearnError> {
    match (players, options.kernels) {
        (1, _) => Ok(options),
        _ if core != CoreKind::Mlp => Err(LearnError::Config {
            key: "core",
            problem: format!("\"{core}\" is not supported in self-play on a GPU"),
            remedy: "leave it at its default, or set device = \"cpu\"".to_owned(),
        }),
        (_, Kernels::Fused) => Err(LearnError::Config {
            key: "kernels",
            problem: "\"fused\" does not support self-play in games of several players".to_owned(),
            remedy: "set kernels = \"gemm\" or \"auto\"".to_owned(),
        }),
        _ => Ok(NetworkOptions { kernels: Kernels::Gemm, ..options }),
    }
}

/// Chooses the kernels for a network. `blas` checks for cuBLASLt, and is called only if that matters.
///
/// # Errors
/// When the requested kernels cannot run it, or none can.
pub fn choose(
    network: &Network,
    local: impl Into<Local>,
    options: NetworkOptions,
    limits: Limits,
    blas: impl FnOnce() -> Result<(), CudaError>,
) -> Result<KernelChoice, LearnError> {
    let (local, NetworkOptions { precision, kernels }) = (local.into(), options);
    if let Some((key, value)) = (local.run.algorithm.declaration().gpu.refused)(&local.run) {
        let problem = format!("{value}, which no kernels for GPUs compute");
        return Err(LearnError::Config {
            key,
            problem,
            remedy: "set device = \"cpu\", or its default".to_owned(),
        });
    }
    let shape = network.architecture.to_string();
    let fused = |reason: String| KernelChoice { kernels: Kernels::Fused, reason };
    let gemm = |reason: String| KernelChoice { kernels: Kernels::Gemm, reason };
    if kernels == Kernels::Gemm {
        blas()?;
        return Ok(gemm("requested".to_owned()));
    }
    let fits = UpdateSpecialisation::new(network, &local, precision, limits);
    if kernels == Kernels::Fused {
        fits.map_err(|error| match error {
            LearnError::Config { key: key @ "kernels", problem, .. } => {
                LearnError::Config { key, problem, remedy: "set kernels = \"gemm\" or \"auto\"".to_owned() }
            }
            other => other,
        })?;
        return Ok(fused("requested".to_owned()));
    }
    let (widest, deep) = (local.run.hidden.iter().max().copied().unwrap_or(0), local.run.hidden.len());
    let large = if widest > WIDEST_FUSED {
        Some(format!("a hidden layer of {widest} is wider than {WIDEST_FUSED}"))
    } else if deep > DEEPEST_FUSED {
        Some(format!("{deep} hidden layers are more than {DEEPEST_FUSED}"))
    } else if one_hot_weights(network) > MOST_ONE_HOT {
        Some(format!("{} weights of one-hot features are more than {MOST_ONE_HOT}", one_hot_weights(network)))
    } else {
        None
    };
    match fits {
        Ok(_) => {
            let Some(reason) = large else {
                return Ok(fused(format!("{shape} fits the kernels in {precision}")));
            };
            match blas() {
                Ok(()) => Ok(gemm(reason)),
                Err(error) => {
                    let (problem, remedy) = error.parts();
                    Ok(fused(format!("{reason}, where matrix products are faster, but {problem}: {remedy}")))
                }
            }
        }
        Err(LearnError::Config { key, problem, remedy }) => match blas() {
            Ok(()) => Ok(gemm(problem)),
            Err(error) => {
                let (missing, install) = error.parts();
                let problem = format!("{problem}, and {missing}");
                Err(LearnError::Config { key, problem, remedy: format!("{install}; or {remedy}") })
            }
        },
        Err(other) => Err(other),
    }
}

/// Weights of the first layer over the one-hot features of embeddings; 0 without embeddings.
fn one_hot_weights(network: &Network) -> usize {
    let Architecture { embed, input, .. } = &network.architecture;
    let first = run_layers(&network.chains[0]).first().map_or(0, |layer| layer.outputs);
    if embed.is_some() { input.features() * first } else { 0 }
}

/// The widest pair of hidden layers, in steps of 32, for which `choose` takes fused kernels.
pub fn fused_up_to(
    network: impl Fn(usize) -> (Network, Config),
    precision: Precision,
    limits: Limits,
) -> usize {
    (1..=WIDEST_FUSED / 32)
        .map(|step| 32 * step)
        .take_while(|&width| {
            let (network, config) = network(width);
            UpdateSpecialisation::new(&network, &config, precision, limits).is_ok()
        })
        .last()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;
    use crate::algorithms::Algorithm;
    use crate::config::Intrinsic;
    use crate::network::{Embed, EmbedPart, Head, Input, Pool};

    const H200: Limits = Limits { shared: 232_448, multiprocessors: 132 };

    fn network(hidden: &[usize]) -> (Network, Config) {
        let config =
            Config { hidden: hidden.to_vec(), shared_trunk: true, num_envs: 8_192, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        (Network::new(architecture), config)
    }

    fn chosen(hidden: &[usize], options: NetworkOptions, blas: bool) -> Result<KernelChoice, LearnError> {
        let (network, config) = network(hidden);
        choose(&network, &config, options, H200, || {
            let (problem, remedy) = ("cuBLASLt is not there".to_owned(), "install it".to_owned());
            if blas { Ok(()) } else { Err(CudaError::NoBlas { problem, remedy }) }
        })
    }

    #[test]
    fn small_networks_stay_inside_the_kernels_and_wide_ones_become_products() {
        for (hidden, precision, expected) in [
            (vec![64, 64], Precision::F32, Kernels::Fused),
            (vec![], Precision::Bf16, Kernels::Fused),
            (vec![256, 256], Precision::Bf16, Kernels::Fused),
            (vec![512], Precision::F32, Kernels::Gemm),
            (vec![512, 512], Precision::Bf16, Kernels::Gemm),
            (vec![128, 128], Precision::Tf32, Kernels::Gemm),
            (vec![64; 9], Precision::F32, Kernels::Gemm),
        ] {
            let choice = chosen(&hidden, precision.into(), true).expect("something runs it");
            assert_eq!(choice.kernels, expected, "{hidden:?} {precision}: {}", choice.reason);
            assert!(!choice.reason.contains('\n'));
        }
    }

    #[test]
    fn without_the_library_what_fits_runs_slowly_and_the_rest_says_what_to_install() {
        let choice = chosen(&[384], Precision::F32.into(), false).expect("it fits");
        assert_eq!(choice.kernels, Kernels::Fused);
        assert!(choice.reason.contains("install it"), "{}", choice.reason);
        let error = chosen(&[512, 512], Precision::Bf16.into(), false).expect_err("it does not fit");
        assert!(error.to_string().contains("install it"), "{error}");
    }

    #[test]
    fn action_values_and_rewards_for_exploring_always_become_products() {
        let action_values = Config { algorithm: Algorithm::Pqn, ..network(&[64]).1 };
        let exploring = |intrinsic| Config { intrinsic, ..network(&[64]).1 };
        for (config, reason) in [
            (action_values, "only networks with a policy"),
            (exploring(Intrinsic::Counts), "no rewards for exploring"),
            (exploring(Intrinsic::Rnd), "no rewards for exploring"),
        ] {
            let head = Head::MultiDiscrete(vec![2]);
            let network = Network::new(Architecture::new(&config, Input::Dense(4), head));
            let of = |kernels| {
                let options = NetworkOptions { kernels, ..Precision::F32.into() };
                choose(&network, &config, options, H200, || Ok(()))
            };
            let choice = of(Kernels::Auto).expect("products run it");
            assert_eq!(choice.kernels, Kernels::Gemm);
            assert!(choice.reason.contains(reason), "{}", choice.reason);
            assert!(of(Kernels::Fused).expect_err("refused").to_string().contains("set kernels = \"gemm\""));
        }
    }

    #[test]
    fn settings_without_kernels_are_refused_and_those_of_the_gemm_path_choose_it() {
        let of = |kernels, change: fn(&mut Config)| {
            let (network, mut config) = network(&[64]);
            change(&mut config);
            let options = NetworkOptions { kernels, ..Precision::F32.into() };
            choose(&network, &config, options, H200, || Ok(()))
        };
        let refused = |kernels, change| of(kernels, change).expect_err("refused").to_string();
        type Change = fn(&mut Config);
        let changes: [(&str, Change); 5] = [
            ("recompute_advantages = true", |config| config.recompute_advantages = true),
            ("norm_value = true", |config| config.algorithms.ppo.norm_value = true),
            ("vf_epochs = 2", |config| (config.shared_trunk, config.algorithms.ppo.vf_epochs) = (false, 2)),
            ("prio_alpha = 0.5", |config| config.algorithms.ppo.prio_alpha = 0.5),
            ("value_bins is above 1", |config| config.value_bins = 51),
        ];
        for (setting, change) in changes {
            let error = refused(Kernels::Fused, change);
            assert!(error.contains(setting), "{error}");
            assert_eq!(of(Kernels::Auto, change).expect("products run it").kernels, Kernels::Gemm);
        }
    }

    #[test]
    fn embeddings_of_few_values_stay_inside_the_kernels() {
        let chosen = |rows| {
            let (_, config) = network(&[64]);
            let part = EmbedPart { name: String::new(), first: 0, positions: 1, indices: 1, rows };
            let embed = Some(Embed { parts: vec![part], width: 8, pool: Pool::Concat });
            let head = Head::MultiDiscrete(vec![2]);
            let architecture = Architecture { embed, ..Architecture::new(&config, Input::Bits(rows), head) };
            choose(&Network::new(architecture), &config, Precision::F32.into(), H200, || Ok(()))
        };
        assert_eq!(chosen(500).expect("it fits").kernels, Kernels::Fused);
        let many = chosen(4_000).expect("products run it");
        assert_eq!(many.kernels, Kernels::Gemm);
        assert!(many.reason.contains("256000 weights of one-hot features"), "{}", many.reason);
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused() {
        let asked = |kernels| NetworkOptions { precision: Precision::Bf16, kernels };
        let choice =
            |hidden: &[usize], kernels, blas| chosen(hidden, asked(kernels), blas).map(|it| it.kernels);
        assert_eq!(choice(&[64], Kernels::Gemm, true).expect("it is there"), Kernels::Gemm);
        assert_eq!(choice(&[64], Kernels::Fused, false).expect("it fits"), Kernels::Fused);
        assert!(choice(&[64], Kernels::Gemm, false).is_err());
        assert!(choice(&[512], Kernels::Fused, true).is_err());
    }

    #[test]
    fn kernels_have_the_names_that_configurations_use() {
        let read = |word| Kernels::deserialize(StrDeserializer::<Error>::new(word));
        for kernels in Kernels::ALL {
            assert_eq!(read(kernels.name()), Ok(kernels));
        }
        assert!(read("cublas").is_err());
        assert_eq!(fused_up_to(|width| network(&[width, width]), Precision::Tf32, H200), 64);
        assert_eq!(fused_up_to(|width| network(&[width, width]), Precision::Bf16, H200), 256);
    }
}
