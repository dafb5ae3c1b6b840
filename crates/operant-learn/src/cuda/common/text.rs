//! The texts in `kernels/`, embedded in the program, and their assembly to a [`Program`].

use operant_cuda::{Declarations, Program};

use super::env::KernelEnv;
use crate::config::ActionDistribution;
use crate::network::{BETA_ROUNDS, Head, Input, Network};

/// A kernel file.
#[derive(Debug, Clone, Copy)]
pub struct KernelText {
    /// Its name in messages: folder and file.
    pub name: &'static str,
    /// The file.
    pub source: &'static str,
    /// The text that it includes as `loss.cuh`, if it does.
    pub loss: &'static str,
    /// Declares the structs that its kernels take.
    pub params: fn(&mut Declarations),
}

/// A [`KernelText`] of a file in `kernels/`, of the structs that its kernels take, and of others that its headers name.
macro_rules! kernel_text {
    ($name:literal, $file:literal, [$($params:ident),*] $(, [$($named:ident),*])?) => {
        $crate::cuda::common::text::KernelText {
            name: $name,
            source: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/", $file)),
            loss: "",
            params: |to| {
                $( <$params<'static> as operant_cuda::Params>::declare(to); )*
                $( $( <$named as operant_cuda::CudaType>::declare(to); )* )?
            },
        }
    };
}
pub(in crate::cuda) use kernel_text;

macro_rules! headers {
    ($($name:literal),* $(,)?) => {
        &[$( ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/", $name))) ),*]
    };
}

/// Headers that kernel files include by name.
const HEADERS: &[(&str, &str)] = headers![
    "algorithms/ppo.cuh",
    "common/activation.cuh",
    "common/adam.cuh",
    "common/beta.cuh",
    "common/common.cuh",
    "common/episode.cuh",
    "common/gae.cuh",
    "common/head.cuh",
    "common/mma.cuh",
    "common/normalise.cuh",
    "common/packing.cuh",
    "common/philox.cuh",
    "common/sample.cuh",
    "common/shuffle.cuh",
    "common/update.cuh",
    "fused/actor_critic.cuh",
    "fused/gradient.cuh",
    "fused/gradient_fragments.cuh",
    "fused/gradient_rows.cuh",
    "fused/repack.cuh",
    "fused/tables.cuh",
    "gemm/action_values.cuh",
    "gemm/counts.cuh",
    "gemm/draws.cuh",
    "gemm/element.cuh",
    "gemm/layout.cuh",
    "gemm/minibatch_choices.cuh",
    "gemm/minibatch_critics.cuh",
    "gemm/muon.cuh",
    "gemm/priorities.cuh",
    "gemm/replay_steps.cuh",
    "gemm/ring.cuh",
    "gemm/units.cuh",
    "gemm/value.cuh",
    "play/observe.cuh",
];

/// A kernel file, specialised.
#[derive(Debug, Clone)]
pub struct ProgramText<'a> {
    /// The file.
    pub kernel: KernelText,
    /// Its name in messages, such as the environment's.
    pub name: &'a str,
    /// The emitted text of the environment, `env.cuh`; None for kernels that have none.
    pub environment: Option<&'a str>,
    /// Defines, in the order in which they enter the cache's key.
    pub defines: Vec<(String, String)>,
}

impl ProgramText<'_> {
    /// A kernel file for an environment.
    pub fn of(kernel_env: &KernelEnv, kernel: KernelText, defines: Vec<(String, String)>) -> Program {
        ProgramText { kernel, name: &kernel_env.spec.name, environment: Some(&kernel_env.text), defines }
            .program()
    }

    /// The compiler's input: the file, the headers that it includes, directly or not, the structs that its kernels take
    /// (`params.cuh`), and the defines.
    pub fn program(&self) -> Program {
        let source = self.kernel.source;
        let mut declarations = Declarations::default();
        (self.kernel.params)(&mut declarations);
        let params = declarations.header();
        let mut pending = included(source);
        let mut headers: Vec<(String, String)> = Vec::new();
        while let Some(name) = pending.pop() {
            if headers.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let known = HEADERS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
            let text = match name.as_str() {
                "env.cuh" => self.environment,
                "params.cuh" => Some(params.as_str()),
                "loss.cuh" => Some(self.kernel.loss),
                _ => known,
            };
            if let Some(text) = text {
                pending.extend(included(text));
                headers.push((name, text.to_owned()));
            }
        }
        headers.sort();
        Program {
            name: format!("{} for {}", self.kernel.name, self.name),
            source: source.to_owned(),
            headers,
            defines: self.defines.clone(),
        }
    }
}

/// Defines as programs take them.
pub fn owned(
    defines: impl IntoIterator<Item = (&'static str, String)>,
) -> impl Iterator<Item = (String, String)> {
    defines.into_iter().map(|(name, value)| (name.to_owned(), value))
}

/// The defines of a network's shape, which the fused kernels and those of the GEMM path begin with.
pub fn shape_defines(network: &Network) -> Vec<(String, String)> {
    let architecture = &network.architecture;
    let widths = std::iter::once(architecture.input.features()).chain(architecture.hidden.iter().copied());
    let widths: Vec<String> = widths.map(|width| format!("{width}u")).collect();
    let bits = u8::from(matches!(architecture.input, Input::Bits(_)));
    let (computes, distribution) = match architecture.head {
        Head::Continuous(of) => (of.computes_log_std(), of.distribution),
        Head::MultiDiscrete(_) => (false, ActionDistribution::Normal),
    };
    owned([
        ("WIDTHS", format!("{{{}}}", widths.join(", "))),
        ("LAYERS", format!("{}u", architecture.hidden.len())),
        ("OUTPUTS", format!("{}u", architecture.head.outputs())),
        ("CHAINS", format!("{}u", network.chains.len())),
        ("OBS_BITS", bits.to_string()),
        ("LOG_STDS", format!("{}u", network.log_std.map_or(0, |_| architecture.head.components()))),
        ("LOG_STD_NETWORK", u8::from(computes).to_string()),
        ("SQUASHED", u8::from(distribution == ActionDistribution::Tanh).to_string()),
        ("IS_BETA", u8::from(distribution == ActionDistribution::Beta).to_string()),
        ("BETA_ROUNDS", format!("{BETA_ROUNDS}u")),
    ])
    .collect()
}

/// The names in `#include "..."` lines.
fn included(text: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("#include \"")?.split_once('"')?.0.to_owned());
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::common::ahead::AHEAD;
    use crate::cuda::common::gae::GAE;
    use crate::cuda::fused::rollout::{PACK, ROLLOUT};
    use crate::cuda::fused::update::UPDATE;
    use crate::cuda::gemm::{math::MATH, minibatch::MINIBATCH, muon::MUON, rnd::RND};
    use crate::cuda::gemm::{rollout::GEMM_ROLLOUT, update::GEMM_UPDATE};
    use crate::cuda::play::{random_play::RANDOM_PLAY, replay::REPLAY, step::STEP};

    const KERNELS: [KernelText; 14] = [
        ROLLOUT,
        PACK,
        UPDATE,
        MATH,
        GEMM_ROLLOUT,
        GEMM_UPDATE,
        MINIBATCH,
        RND,
        MUON,
        GAE,
        RANDOM_PLAY,
        REPLAY,
        STEP,
        AHEAD,
    ];

    #[test]
    fn a_program_carries_what_it_includes_and_nothing_else() {
        let text = ProgramText { kernel: PACK, name: "a", environment: None, defines: Vec::new() };
        let names: Vec<String> = text.program().headers.into_iter().map(|(name, _)| name).collect();
        let included =
            ["common/common.cuh", "common/mma.cuh", "common/packing.cuh", "fused/tables.cuh", "params.cuh"];
        assert_eq!(names, included);
    }

    #[test]
    fn every_included_header_is_known() {
        for kernel in KERNELS {
            let text = ProgramText { kernel, name: "a", environment: Some("// rules"), defines: Vec::new() };
            let program = text.program();
            for name in included(&program.source) {
                assert!(program.headers.iter().any(|(known, _)| *known == name), "{}: {name}", program.name);
            }
        }
    }
}
