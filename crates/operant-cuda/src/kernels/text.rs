//! The texts in `kernels/`, built into the program, and how they become a [`Program`].

use crate::Program;

/// A kernel file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelText {
    /// `rollout.cu`: a horizon with the policy.
    Rollout,
    /// `random_play.cu`: first states, and horizons of random actions.
    RandomPlay,
    /// `replay.cu`: given actions from given states.
    Replay,
    /// `pack.cu`: parameters into the form that kernels read.
    Pack,
    /// `gae.cu`: advantages alone.
    Gae,
    /// `ppo_update.cu`: all epochs and minibatches over a horizon.
    Update,
    /// `peak.cu`: what the device itself can do at most.
    Peak,
    /// `layers.cu`: what matrix products leave to do between layers.
    Layers,
    /// `layers_rollout.cu`: what a rollout does between the products of two steps.
    LayersRollout,
    /// `layers_update.cu`: what an update does around its products.
    LayersUpdate,
}

impl KernelText {
    /// Every kernel file.
    pub const ALL: [KernelText; 10] = [
        Self::Rollout,
        Self::RandomPlay,
        Self::Replay,
        Self::Pack,
        Self::Gae,
        Self::Update,
        Self::Peak,
        Self::Layers,
        Self::LayersRollout,
        Self::LayersUpdate,
    ];

    /// The file's name without its ending.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::RandomPlay => "random_play",
            Self::Replay => "replay",
            Self::Pack => "pack",
            Self::Gae => "gae",
            Self::Update => "ppo_update",
            Self::Peak => "peak",
            Self::Layers => "layers",
            Self::LayersRollout => "layers_rollout",
            Self::LayersUpdate => "layers_update",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Rollout => include_str!("../../../../kernels/rollout.cu"),
            Self::RandomPlay => include_str!("../../../../kernels/random_play.cu"),
            Self::Replay => include_str!("../../../../kernels/replay.cu"),
            Self::Pack => include_str!("../../../../kernels/pack.cu"),
            Self::Gae => include_str!("../../../../kernels/gae.cu"),
            Self::Update => include_str!("../../../../kernels/ppo_update.cu"),
            Self::Peak => include_str!("../../../../kernels/peak.cu"),
            Self::Layers => include_str!("../../../../kernels/layers.cu"),
            Self::LayersRollout => include_str!("../../../../kernels/layers_rollout.cu"),
            Self::LayersUpdate => include_str!("../../../../kernels/layers_update.cu"),
        }
    }
}

/// Headers that kernel files include by name.
const HEADERS: [(&str, &str); 20] = [
    ("actor_critic.cuh", include_str!("../../../../kernels/actor_critic.cuh")),
    ("common.cuh", include_str!("../../../../kernels/common.cuh")),
    ("gae.cuh", include_str!("../../../../kernels/gae.cuh")),
    ("head.cuh", include_str!("../../../../kernels/head.cuh")),
    ("mma.cuh", include_str!("../../../../kernels/mma.cuh")),
    ("normalise.cuh", include_str!("../../../../kernels/normalise.cuh")),
    ("packing.cuh", include_str!("../../../../kernels/packing.cuh")),
    ("philox.cuh", include_str!("../../../../kernels/philox.cuh")),
    ("sample.cuh", include_str!("../../../../kernels/sample.cuh")),
    ("adam.cuh", include_str!("../../../../kernels/adam.cuh")),
    ("gradient.cuh", include_str!("../../../../kernels/gradient.cuh")),
    ("gradient_fragments.cuh", include_str!("../../../../kernels/gradient_fragments.cuh")),
    ("gradient_rows.cuh", include_str!("../../../../kernels/gradient_rows.cuh")),
    ("loss.cuh", include_str!("../../../../kernels/loss.cuh")),
    ("shuffle.cuh", include_str!("../../../../kernels/shuffle.cuh")),
    ("activation.cuh", include_str!("../../../../kernels/activation.cuh")),
    ("layers.cuh", include_str!("../../../../kernels/layers.cuh")),
    ("repack.cuh", include_str!("../../../../kernels/repack.cuh")),
    ("update.cuh", include_str!("../../../../kernels/update.cuh")),
    ("play.cuh", include_str!("../../../../kernels/play.cuh")),
];

/// A kernel file, specialised.
#[derive(Debug, Clone)]
pub struct ProgramText<'a> {
    /// Which file.
    pub kernel: KernelText,
    /// What it is called in messages: the environment's name, say.
    pub name: &'a str,
    /// The emitted text of the environment, `env.cuh`; None for kernels that have none.
    pub environment: Option<&'a str>,
    /// Defines, in the order in which they enter the cache's key.
    pub defines: Vec<(String, String)>,
}

impl ProgramText<'_> {
    /// What the compiler gets: the file, the headers that it includes, directly or not, and the defines.
    pub fn program(&self) -> Program {
        let source = self.kernel.source();
        let mut wanted = included(source);
        let mut headers: Vec<(String, String)> = Vec::new();
        while let Some(name) = wanted.pop() {
            if headers.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let known = HEADERS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
            let text = if name == "env.cuh" { self.environment } else { known };
            if let Some(text) = text {
                wanted.extend(included(text));
                headers.push((name, text.to_owned()));
            }
        }
        headers.sort();
        Program {
            name: format!("{} for {}", self.kernel.name(), self.name),
            source: source.to_owned(),
            headers,
            defines: self.defines.clone(),
        }
    }
}

/// The names in `#include "..."` lines.
fn included(text: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("#include \"")?.split_once('"')?.0.to_owned());
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_carries_what_it_includes_and_nothing_else() {
        let text =
            ProgramText { kernel: KernelText::Pack, name: "a", environment: None, defines: Vec::new() };
        let names: Vec<String> = text.program().headers.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["common.cuh", "mma.cuh", "packing.cuh"]);
    }

    #[test]
    fn every_included_header_is_known() {
        for kernel in KernelText::ALL {
            let text = ProgramText { kernel, name: "a", environment: Some("// rules"), defines: Vec::new() };
            let program = text.program();
            for name in included(&program.source) {
                assert!(program.headers.iter().any(|(known, _)| *known == name), "{}: {name}", program.name);
            }
        }
    }
}
