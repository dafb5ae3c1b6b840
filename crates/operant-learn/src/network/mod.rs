//! The network: architecture, parameter layout and initialisation. It is device-neutral; the CPU and GPU backends
//! each have their own implementation.

mod init;
mod layout;

use std::borrow::Cow;

pub use crate::layers::Form;
pub use crate::layers::bins::Bins;
pub use crate::layers::cell::{Cell, CellSpec, Core, MEMORY_KEYS};
pub use crate::layers::conv::{Conv, Image, Items};
pub use crate::layers::dense::Dense;
pub use crate::layers::dueling::Dueling;
pub use crate::layers::embed::{Embed, EmbedPart, Pool};
pub use crate::layers::norm::Norm;
pub use crate::layers::pointer::{self, Pointer};
pub use crate::layers::residual::Residual;
pub(crate) use init::HIDDEN_GAIN;
pub use init::{Init, init_params};
pub use layout::{Chain, LayerSpec, Network, TensorSpec};

use operant_env::{ActionSpace, EnvSpec, ObsSpace, Packing};

use crate::backend::LearnError;
use crate::config::{
    ActionDistribution, Activation, Config, CoreKind, Encoder, Intrinsic, LogStd, WeightInit,
};
use crate::normalise::RunningNorm;

/// The network's input.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Input {
    /// O floats.
    Dense(usize),
    /// O binary features, packed 32 to a word, the first lowest: the first layer sums the weight columns of the set bits.
    Bits(usize),
}

impl Input {
    /// O: features.
    pub fn features(&self) -> usize {
        match *self {
            Self::Dense(n) | Self::Bits(n) => n,
        }
    }

    /// 32-bit words an observation takes in a sample.
    pub fn words(&self) -> usize {
        match *self {
            Self::Dense(n) => n,
            Self::Bits(n) => n.div_ceil(32),
        }
    }
}

/// The policy's distribution.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Head {
    /// One categorical choice per component, with that many actions each. Discrete is one component.
    MultiDiscrete(Vec<usize>),
    /// Independent real numbers.
    Continuous(Continuous),
}

/// A distribution of real actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Continuous {
    /// Numbers per action.
    pub actions: usize,
    /// Of each number.
    pub distribution: ActionDistribution,
    /// What their log standard deviations are; None of a deterministic policy, whose noise follows tanh.
    pub log_std: Option<LogStd>,
}

/// Rounds in which a Beta distribution is sampled, with four uniform numbers each. All fail less than once in 10^7 draws.
pub const BETA_ROUNDS: usize = 6;

impl Continuous {
    /// Outputs of the network for each action.
    pub fn numbers(&self) -> usize {
        if self.computes_log_std() || self.distribution == ActionDistribution::Beta { 2 } else { 1 }
    }

    /// Whether log standard deviations are outputs.
    pub fn computes_log_std(&self) -> bool {
        self.log_std == Some(LogStd::Network) && self.distribution != ActionDistribution::Beta
    }

    /// Whether log standard deviations are parameters.
    pub fn has_log_std(&self) -> bool {
        self.log_std == Some(LogStd::Parameter) && self.distribution != ActionDistribution::Beta
    }
}

impl Head {
    /// Independent normals, whose log standard deviations are parameters.
    pub fn gaussian(actions: usize) -> Self {
        Self::continuous(actions, &Config::default())
    }

    /// The distribution of `config`.
    pub fn continuous(actions: usize, config: &Config) -> Self {
        let is_drawn = config.algorithm.declaration().outputs != Outputs::ActionAndCritics;
        let log_std = is_drawn.then_some(config.log_std);
        Self::Continuous(Continuous { actions, distribution: config.action_distribution, log_std })
    }

    /// The layers that make it, side by side, and their outputs.
    pub fn layers(&self) -> Vec<(&'static str, usize)> {
        let mut layers = vec![("policy", self.outputs())];
        if let Self::Continuous(of @ Continuous { actions, .. }) = *self
            && of.computes_log_std()
        {
            layers = vec![("policy", actions), ("log_std", actions)];
        }
        layers
    }

    /// A: outputs of the policy (logits over all components; means, after which log standard deviations may follow; or what makes all alphas and then
    /// all betas).
    pub fn outputs(&self) -> usize {
        match self {
            Self::MultiDiscrete(actions) => actions.iter().sum(),
            Self::Continuous(of) => of.numbers() * of.actions,
        }
    }

    /// Numbers per action.
    pub fn components(&self) -> usize {
        match self {
            Self::MultiDiscrete(actions) => actions.len(),
            Self::Continuous(of) => of.actions,
        }
    }

    /// 32-bit words of an action mask: one bit per logit over all components, the first lowest.
    pub fn mask_words(&self) -> usize {
        match self {
            Self::MultiDiscrete(_) => self.outputs().div_ceil(32),
            Self::Continuous(_) => 0,
        }
    }

    /// Uniform random numbers per sampled action: one per component, a pair for every two normals, or those of the rounds of a Beta distribution.
    pub fn uniforms(&self) -> usize {
        match self {
            Self::MultiDiscrete(actions) => actions.len(),
            Self::Continuous(of) if of.distribution == ActionDistribution::Beta => {
                of.actions * 4 * BETA_ROUNDS
            }
            Self::Continuous(of) => of.actions.next_multiple_of(2),
        }
    }
}

impl Network {
    /// Parameters with which the network computes values themselves, from those with which it computes them in units of the deviation of
    /// returns from their mean: both are in its last layer then.
    pub fn with_values<'a>(&self, params: &'a [f32], returns: &RunningNorm) -> Cow<'a, [f32]> {
        let Some(deviation) = returns.deviation() else { return Cow::Borrowed(params) };
        let (mut params, mean) = (params.to_vec(), returns.mean[0]);
        self.scale_values(&mut params, |weight| weight * deviation, |bias| bias * deviation + mean);
        Cow::Owned(params)
    }

    /// The inverse of [`Network::with_values`].
    pub fn set_units(&self, params: &mut [f32], returns: &RunningNorm) {
        let Some(deviation) = returns.deviation() else { return };
        let mean = returns.mean[0];
        self.scale_values(params, |weight| weight / deviation, |bias| (bias - mean) / deviation);
    }

    /// Changes the parameters of the value layer.
    fn scale_values(&self, params: &mut [f32], weight: impl Fn(f64) -> f64, bias: impl Fn(f64) -> f64) {
        let [weights, biases] = self.value_layer();
        params[weights].iter_mut().for_each(|p| *p = weight(f64::from(*p)) as f32);
        params[biases].iter_mut().for_each(|p| *p = bias(f64::from(*p)) as f32);
    }

    /// Weights and biases of the value layer; empty without one.
    pub(crate) fn value_layer(&self) -> [core::ops::Range<usize>; 2] {
        ["value.weight", "value.bias"].map(|name| {
            let tensor = self.tensors.iter().find(|tensor| tensor.name == name);
            tensor.map_or(0..0, |tensor| tensor.range())
        })
    }
}

/// What a network computes from an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Outputs {
    /// A policy's logits or means, and the value of the observation.
    PolicyAndValue,
    /// A policy's means and deviations, and the values Q(s, a) of two networks that take its action as input.
    PolicyAndCritics,
    /// An action, before tanh, and the values of two such networks.
    ActionAndCritics,
    /// The value of each choice, Q(s, a); with several components the mean over them is the value of an action.
    ActionValues,
}

impl Outputs {
    /// Whether critics take actions as input.
    pub fn has_critics(self) -> bool {
        matches!(self, Self::PolicyAndCritics | Self::ActionAndCritics)
    }
}

/// The shape of a network.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Architecture {
    /// The input.
    pub input: Input,
    /// The conversion from a stored observation to the input; None if it is stored unchanged. It follows from the space, so files lack it.
    #[serde(skip)]
    pub packing: Option<Packing>,
    /// Tables of the indices of the input, before all other layers.
    pub embed: Option<Embed>,
    /// Convolutions over the image of the input, before the hidden layers.
    pub conv: Vec<Conv>,
    /// The state and the candidates of a pointer head, an image of one column. Each passes the same hidden layers.
    pub items: Option<Image>,
    /// Widths of the hidden layers; none makes it linear.
    pub hidden: Vec<usize>,
    /// Whether the sums of hidden layers are normalised before the nonlinearity.
    pub layer_norm: bool,
    /// Residual blocks after the hidden layers, of which the last is then linear, and a normalisation after the blocks.
    pub residual_blocks: usize,
    /// Layers with memory, after all of these.
    pub core: Option<Core>,
    /// Nonlinearity after each hidden layer.
    pub activation: Activation,
    /// One trunk under both heads, or a network for each.
    pub shared_trunk: bool,
    /// Whether action values are made of advantages and a value.
    pub dueling: bool,
    /// The distributions whose means are values.
    pub bins: Option<Bins>,
    /// Whether rewards for exploring have a value of their own, after that of the task.
    #[serde(default)]
    pub intrinsic_value: bool,
    /// The actions, of which it makes a distribution or values.
    pub head: Head,
    /// What it computes for them.
    pub outputs: Outputs,
    /// Share of random actions of a trained network of action values where actions are sampled, or the deviation of noise on them.
    pub exploration: f64,
    /// Initial log standard deviation of a Gaussian head.
    pub log_std_init: f64,
    /// How all other parameters begin.
    pub init: WeightInit,
    /// Initial weight of the entropy in the value of a state, if it is a parameter.
    pub temperature: Option<f64>,
}

impl Architecture {
    /// The network of `config` for an environment.
    ///
    /// # Errors
    /// When the configuration does not match the environment's spaces.
    pub fn of(spec: &EnvSpec, config: &Config) -> Result<Self, LearnError> {
        if config.norm_obs && !spec.obs.is_real() {
            return Err(LearnError::Config {
                key: "norm_obs",
                problem: format!("true, but the observations of {} are not real numbers", spec.name),
                remedy: "set norm_obs = false".to_owned(),
            });
        }
        if let Some((why, remedy)) = unfit_for_exploring(&spec.obs, config) {
            let problem = format!("\"{}\", but the observations of {} {why}", config.intrinsic, spec.name);
            return Err(LearnError::Config { key: "intrinsic", problem, remedy: remedy.to_owned() });
        }
        let outputs = config.algorithm.declaration().outputs;
        if outputs == Outputs::ActionValues && matches!(spec.actions, ActionSpace::Box { .. }) {
            return Err(LearnError::Config {
                key: "algorithm",
                problem: format!(
                    "\"{}\" chooses among actions, but those of {} are real numbers",
                    config.algorithm, spec.name
                ),
                remedy: "set algorithm = \"ppo\", \"sac\" or \"td3\"".to_owned(),
            });
        }
        if outputs.has_critics() && matches!(spec.actions, ActionSpace::Discrete(_)) {
            return Err(LearnError::Config {
                key: "algorithm",
                problem: format!(
                    "\"{}\" needs actions that are real numbers, but those of {} are choices",
                    config.algorithm, spec.name
                ),
                remedy: "set algorithm = \"ppo\", \"pqn\" or \"dqn\"".to_owned(),
            });
        }
        if let Some((key, problem, remedy)) = unfit_for_actions(&spec.actions, config) {
            let problem = format!("{problem}; the environment is {}", spec.name);
            return Err(LearnError::Config { key, problem, remedy: remedy.to_owned() });
        }
        let features = spec.obs.features();
        let input = if spec.obs.is_binary() { Input::Bits(features) } else { Input::Dense(features) };
        let head = match &spec.actions {
            ActionSpace::Discrete(choices) => Head::MultiDiscrete(choices.clone()),
            ActionSpace::Box { low, .. } => Head::continuous(low.len(), config),
        };
        let refused = |key, value: String, remedy: &'static str| {
            move |problem: String| LearnError::Config {
                key,
                problem: format!("{value}, but {problem}; {} observes {}", spec.name, spec.obs),
                remedy: remedy.to_owned(),
            }
        };
        let embed = Pool::of(config.encoder).map(|pool| Embed::of(&spec.obs, config.embed_width, pool));
        let embed = embed.transpose().map_err(refused(
            "encoder",
            format!("\"{}\"", config.encoder),
            "set encoder = \"auto\"",
        ))?;
        let default_width = Config::default().embed_width;
        if embed.is_none() && config.embed_width != default_width {
            return Err(LearnError::Config {
                key: "embed_width",
                problem: format!(
                    "{}, but encoder = \"{}\" has no tables",
                    config.embed_width, config.encoder
                ),
                remedy: format!("set encoder = \"embed\", or embed_width = {default_width}"),
            });
        }
        let conv = match config.conv.as_slice() {
            [] => Vec::new(),
            convs => Image::of(&spec.obs)
                .and_then(|image| image.embedded(embed.as_ref()))
                .and_then(|image| Conv::stack(image, convs))
                .map_err(refused(
                    "conv",
                    format!("{convs:?}"),
                    "give [channels, kernel, stride] of convolutions that fit, or conv = []",
                ))?,
        };
        if config.residual_blocks > 0 && config.hidden.is_empty() {
            return Err(LearnError::Config {
                key: "residual_blocks",
                problem: format!("{}, but hidden = [] gives them no width", config.residual_blocks),
                remedy: "set hidden, for example to [128], or residual_blocks = 0".to_owned(),
            });
        }
        if config.dueling && config.hidden.last().is_none_or(|width| *width < 2) {
            return Err(LearnError::Config {
                key: "dueling",
                problem: format!("true, but hidden = {:?} cannot be split into two halves", config.hidden),
                remedy: "set hidden, for example to [128], or dueling = false".to_owned(),
            });
        }
        if config.value_bins > 1
            && let Some((problem, remedy)) = unfit_for_bins(&spec.actions, config)
        {
            let problem = format!("{}, but {problem}; the environment is {}", config.value_bins, spec.name);
            return Err(LearnError::Config { key: "value_bins", problem, remedy: remedy.to_owned() });
        }
        let core = Core::of(config)?;
        let (mut embed, mut items) = (embed, None);
        if config.pointer {
            let without = |remedy| refused("pointer", "true".to_owned(), remedy);
            if let Some((problem, remedy)) = unfit_for_pointer(config) {
                return Err(without(remedy)(problem.to_owned()));
            }
            let of_spec = pointer::items(spec).and_then(|image| {
                embed = embed.take().map(|embed| embed.shared(image));
                image.embedded(embed.as_ref())
            });
            items = Some(of_spec.map_err(without("set pointer = false"))?);
        }
        Ok(Self { packing: spec.obs.packing(), embed, conv, items, core, ..Self::new(config, input, head) })
    }

    /// 32-bit words of an observation as samples hold it.
    pub fn obs_words(&self) -> usize {
        self.packing.as_ref().map_or(self.input.words(), Packing::words)
    }

    /// The network of `config` between `input` and `head`, without embeddings, convolutions and memory.
    pub fn new(config: &Config, input: Input, head: Head) -> Self {
        let outputs = config.algorithm.declaration().outputs;
        Self {
            input,
            packing: None,
            embed: None,
            conv: Vec::new(),
            items: None,
            hidden: config.hidden.clone(),
            layer_norm: config.layer_norm,
            residual_blocks: config.residual_blocks,
            core: None,
            activation: config.activation,
            // A network of action values has one chain.
            shared_trunk: config.shared_trunk || outputs == Outputs::ActionValues,
            dueling: config.dueling && outputs == Outputs::ActionValues,
            bins: Bins::of(config),
            intrinsic_value: config.intrinsic_gamma > 0.0 && outputs == Outputs::PolicyAndValue,
            head,
            outputs,
            exploration: (config.algorithm.declaration().exploration)(config).at(u64::MAX),
            log_std_init: config.log_std_init,
            init: config.init,
            temperature: (config.algorithm.declaration().temperature)(config),
        }
    }
}

/// Why these observations do not tell how new they are, and what to do.
fn unfit_for_exploring(obs: &ObsSpace, config: &Config) -> Option<(&'static str, &'static str)> {
    const NONE: &str = "set intrinsic = \"none\"";
    let is_wide = |part: &ObsSpace| match part {
        ObsSpace::Box { low, high } => low.iter().chain(high).any(|bound| bound.abs() > config.clip_obs),
        _ => false,
    };
    match (config.intrinsic, obs) {
        (Intrinsic::Counts, _) if obs.is_real() => Some(("are real numbers, which hardly repeat", NONE)),
        (Intrinsic::Rnd, _) if obs.is_real() => {
            let why = "are real numbers, which have to be normalised";
            (!config.norm_obs).then_some((why, "set norm_obs = true"))
        }
        (Intrinsic::Rnd, ObsSpace::Parts(parts)) if parts.iter().any(|(_, part)| is_wide(part)) => {
            Some(("have a part of real numbers beyond clip_obs, which is not normalised", NONE))
        }
        _ => None,
    }
}

/// The setting of the policy's distribution that does not fit the actions, the problem, and the remedy.
fn unfit_for_actions(actions: &ActionSpace, config: &Config) -> Option<(&'static str, String, &'static str)> {
    let Config { action_distribution: distribution, log_std, log_std_init, .. } = *config;
    let (is_discrete, is_bounded) = match actions {
        ActionSpace::Discrete(_) => (true, false),
        ActionSpace::Box { low, high } => (false, low.iter().chain(high).all(|bound| bound.is_finite())),
    };
    let is_beta = distribution == ActionDistribution::Beta;
    let without = if is_discrete { "actions are choices" } else { "a Beta distribution has only two shapes" };
    if distribution != ActionDistribution::Normal && !is_bounded {
        let problem = format!("\"{distribution}\" needs actions between finite bounds");
        return Some(("action_distribution", problem, "set action_distribution = \"normal\""));
    }
    if config.algorithms.ppo.rpo_alpha > 0.0 && (is_discrete || is_beta) {
        return Some(("rpo_alpha", format!("it is noise on a mean, but {without}"), "set rpo_alpha = 0"));
    }
    if log_std == LogStd::Network && (is_discrete || is_beta) {
        let problem = format!("\"{log_std}\", but {without}");
        return Some(("log_std", problem, "set log_std = \"parameter\""));
    }
    let is_outside = log_std == LogStd::Network && LogStd::output(log_std_init).is_none();
    let problem = format!("{log_std_init}, but log_std = \"{log_std}\" is between -5 and 2");
    is_outside.then_some(("log_std_init", problem, "set it above -5 and below 2"))
}

/// What distributions of values do not support, and the remedy.
fn unfit_for_bins(actions: &ActionSpace, config: &Config) -> Option<(String, &'static str)> {
    let has_components = matches!(actions, ActionSpace::Discrete(counts) if counts.len() != 1);
    if has_components && config.algorithm.declaration().outputs == Outputs::ActionValues {
        Some(("distributions need actions with one component".to_owned(), "set value_bins = 1"))
    } else if config.dueling || config.pointer {
        let problem = "distributions support neither dueling nor pointer".to_owned();
        Some((problem, "set dueling and pointer = false, or value_bins = 1"))
    } else if config.huber().is_some() {
        let problem = "the loss of distributions is a cross-entropy, not value_loss = \"huber\"".to_owned();
        Some((problem, "set value_loss = \"mse\", or value_bins = 1"))
    } else {
        let Config { value_min, value_max, .. } = *config;
        let width = value_max as f32 - value_min as f32;
        let problem = || format!("value_min = {value_min} is not below value_max = {value_max}");
        (width <= 0.0 || !width.is_finite()).then(|| (problem(), "set value_min below value_max"))
    }
}

/// The part of a configuration that is incompatible with a pointer head, and the remedy.
fn unfit_for_pointer(config: &Config) -> Option<(&'static str, &'static str)> {
    if !config.conv.is_empty() {
        Some(("a pointer head does not support convolutions", "set conv = [], or pointer = false"))
    } else if config.dueling {
        Some(("a pointer head does not support dueling", "set dueling = false, or pointer = false"))
    } else if config.residual_blocks > 0 {
        let problem = "a pointer head does not support residual blocks";
        Some((problem, "set residual_blocks = 0, or pointer = false"))
    } else if config.core != CoreKind::Mlp {
        Some(("a pointer head does not support a core", "set core = \"mlp\", or pointer = false"))
    } else if config.hidden.is_empty() {
        let problem = "a pointer head needs a hidden layer, and hidden = []";
        Some((problem, "set hidden, for example to [64], or set pointer = false"))
    } else if matches!(config.encoder, Encoder::EmbedSum | Encoder::EmbedMean) {
        let problem = "embed_sum and embed_mean pool all candidates into one vector";
        Some((problem, "set encoder = \"embed\", or pointer = false"))
    } else {
        None
    }
}

/// Widths from the observation to the outputs: `4-64-64-(2+1)`, or of two networks `4-64-64-2 and 4-64-64-1`; critics of actions also have
/// these as inputs, `3-64-64-2 and two of 4-64-64-1`. A convolution has
/// its kernel, its stride and the extents of its output, a layer with memory its unit, a normalised one an n: `400-conv3/1(8x8x16)-128-gru(128)-(6+1)`.
/// Residual blocks have their width, and the layer before them has no n: `4-128-residual(128)-residual(128)-(2+1)`.
/// Layers of a pointer head's items are in brackets: `2100-21x(64-64)-(20+1)`.
impl std::fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut trunk = self.input.features().to_string();
        if let Some(Embed { width, pool, .. }) = &self.embed {
            trunk.push_str(&format!("-{}({width})", pool.encoder()));
        }
        for conv in &self.conv {
            let ([height, width], Conv { kernel, stride, channels, .. }) = (conv.extents(), conv);
            trunk.push_str(&format!("-conv{kernel}/{stride}({height}x{width}x{channels})"));
        }
        let norm = if self.layer_norm { "n" } else { "" };
        let normalised = self.hidden.len() - usize::from(self.residual_blocks > 0).min(self.hidden.len());
        let norm = |k| if k < normalised { norm } else { "" };
        let hidden = self.hidden.iter().enumerate();
        let hidden: Vec<String> = hidden.map(|(k, width)| format!("{width}{}", norm(k))).collect();
        if let Some(Image { extents: [items, ..], .. }) = self.items {
            trunk.push_str(&format!("-{items}x({})", hidden.join("-")));
        } else {
            hidden.iter().for_each(|width| trunk.push_str(&format!("-{width}")));
        }
        if let Some(width) = self.hidden.last() {
            (0..self.residual_blocks).for_each(|_| trunk.push_str(&format!("-residual({width})")));
        }
        if let Some(Core { cell, width, layers }) = self.core {
            (0..layers).for_each(|_| trunk.push_str(&format!("-{}({width})", cell.name())));
        }
        let outputs = self.head.outputs();
        let values = 1 + usize::from(self.intrinsic_value);
        let value = self.bins.map_or(values.to_string(), |bins| format!("1x{}", bins.count));
        if self.outputs == Outputs::ActionValues {
            let outputs = match self.bins {
                _ if self.dueling => format!("dueling({outputs})"),
                Some(Bins { count, .. }) => format!("{outputs}x{count}"),
                None => outputs.to_string(),
            };
            write!(formatter, "{trunk}-{outputs}")
        } else if self.outputs.has_critics() {
            let features = self.input.features();
            let (hidden, inputs) = (&trunk[features.to_string().len()..], features + self.head.components());
            write!(formatter, "{trunk}-{outputs} and two of {inputs}{hidden}-{value}")
        } else if self.shared_trunk {
            write!(formatter, "{trunk}-({outputs}+{value})")
        } else {
            write!(formatter, "{trunk}-{outputs} and {trunk}-{value}")
        }
    }
}
