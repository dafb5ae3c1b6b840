//! First states that were made ahead of time are taken. A step that finds none makes one with the same bits, so here those of `make_ahead` are
//! marked, in a word that the rules never read.

use std::sync::Arc;

use operant_env::{AnyEnv, Autoreset, EnvOptions, EnvSpec, OptionError, Scene, StepError, Stepper, TileSpec};
use operant_lane::Leaf;
use operant_learn::Precision;
use operant_learn::cuda::{CudaEnvs, CudaPlay, CudaRollout, GivenActions, NetworkOptions, PlayOptions};

use crate::support::fuses::Fuses;
use crate::support::gpu::{config, device, gemm, params};

/// The word of a state that is marked, the last of the wall.
const MARKED: usize = 79;

/// N.
const N: usize = 33;

/// [`Fuses`] with that mark.
struct MarkedFuses;

impl AnyEnv for MarkedFuses {
    fn spec(&self) -> EnvSpec {
        AnyEnv::spec(&Fuses)
    }

    fn leaves(&self) -> Vec<Leaf> {
        Fuses.leaves()
    }

    fn ahead(&self) -> bool {
        true
    }

    fn with_options(&self, _: &EnvOptions) -> Result<Arc<dyn AnyEnv>, OptionError> {
        Ok(Arc::new(Self))
    }

    fn stepper(&self, tile: TileSpec) -> Result<Box<dyn Stepper>, StepError> {
        Fuses.stepper(tile)
    }

    fn picture(&self, state: &[u32]) -> Scene {
        Fuses.picture(state)
    }

    fn emit(&self) -> Option<String> {
        // `ahead.cu` alone is compiled with EVERY.
        let marking = format!(
            "
            __device__ void env_reset(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, EnvState& next) {{
                plain_reset(a, b, c, d, e, f, next);
            #ifdef EVERY
                next.wall[{MARKED}] = 0xffffffffu;
            #endif
            }}
            "
        );
        Some(Fuses.emit()?.replace("void env_reset(", "void plain_reset(") + &marking)
    }
}

/// Checks which episodes begin with marked states in rollouts of T steps, a divisor of 16: those that follow an episode with a 16th step, before which
/// states are made. `roll` returns the running environments, `(leaves + 2, N)`, and whether an episode ended, `(T, N)`.
fn takes_what_is_made(path: &str, num_steps: u64, mut roll: impl FnMut() -> (Vec<u32>, Vec<bool>)) {
    let mut began = [0; N];
    let mut counts = [0; 2];
    for first in (0..240).step_by(num_steps as usize) {
        let (running, ended) = roll();
        for (row, began) in began.iter_mut().enumerate() {
            let mut last = None;
            for time in (first..first + num_steps).filter(|time| ended[(time - first) as usize * N + row]) {
                last = Some(time / 16 * 16 >= *began);
                *began = time + 1;
            }
            let Some(expected) = last else { continue };
            let is_marked = running[MARKED * N + row] == u32::MAX;
            assert_eq!(is_marked, expected, "{path}, {num_steps} steps from {first}, environment {row}");
            counts[usize::from(is_marked)] += 1;
        }
    }
    assert!(counts[0] > 20 && counts[1] > 20, "{path}: {counts:?}");
}

/// Whether episodes ended in the last step of all.
fn ended(running: &[u32]) -> Vec<bool> {
    running[Fuses.leaves().len() * N..][..N].iter().map(|elapsed| *elapsed == 0).collect()
}

#[test]
fn random_play_takes_them() {
    let Some(device) = device(2) else { return };
    for num_steps in [1, 4] {
        let options = PlayOptions { writes: Some(num_steps), ..PlayOptions::new(3) };
        let play = CudaPlay::new(&device, &MarkedFuses, N, options).expect("environments");
        takes_what_is_made("random play", num_steps as u64, || {
            play.play(num_steps).expect("a rollout");
            let (_, _, flags) = play.outputs().expect("outputs").expect("requested outputs");
            (play.environments().expect("environments"), flags.iter().map(|flags| *flags != 0).collect())
        });
    }
}

#[test]
fn rollouts_take_them() {
    let Some(device) = device(1) else { return };
    let config = config(N, 1, &[8]);
    let paths: [(&str, NetworkOptions); 2] =
        [("fused", Precision::F32.into()), ("gemm", gemm(Precision::F32))];
    for (path, options) in paths {
        let rollout = CudaRollout::new(&device, &MarkedFuses, &config, options).expect("a rollout");
        rollout.set_params(&params(&MarkedFuses, &config)).expect("parameters");
        takes_what_is_made(path, 1, || {
            rollout.roll().expect("a rollout");
            let running = rollout.environments().expect("environments");
            let ended = ended(&running);
            (running, ended)
        });
    }
}

#[test]
fn steps_with_given_actions_take_them() {
    let Some(device) = device(0) else { return };
    let mut envs = CudaEnvs::new(&device, &MarkedFuses, N, Autoreset::SameStep, 2).expect("environments");
    let mut arrays = envs.arrays().expect("arrays");
    envs.reseed(5, &arrays).expect("new episodes");
    let words = device.alloc(N).expect("memory");
    words.write(envs.stream(), &[0; N]).expect("a copy");
    takes_what_is_made("steps", 1, || {
        envs.step(GivenActions { words: &words, wide: false }, &mut arrays).expect("a step");
        let running = envs.environments().expect("environments");
        let ended = ended(&running);
        (running, ended)
    });
}
