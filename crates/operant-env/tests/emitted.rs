//! The CUDA C++ that environments become, compiled for the host, equals the scalar f32 lane bit for bit with auto-reset. Each world
//! walks briefly; with every option, and for 65 environments x 4,096 steps, in `cargo xtask test --all`.

use operant_env::play::{Outputs, RandomActions};
use operant_env::{ActionSpace, AnyEnv, LaneWidth, TileSpec, builtin, running_words};

use crate::hash::{HASH, fold, fold_rows};
use crate::lanes::{LONG, SHORT, Walk};
use crate::{cards, cxx, locks, python_worlds};

/// Environments of a tile.
const ROWS: usize = 16;

/// Plays on the scalar lane: the actions taken, and one hash per environment over states, observations and outcomes.
fn scalar(env: &dyn AnyEnv, walk: Walk) -> (Vec<u32>, Vec<u64>) {
    let spec = env.spec();
    let (leaves, components) = (env.leaves().len(), spec.actions.components());
    let discrete = matches!(spec.actions, ActionSpace::Discrete(_));
    let (mut taken, mut hashes) = (Vec::new(), Vec::new());
    for first in (0..walk.environments).step_by(ROWS) {
        let tile = TileSpec { lanes: LaneWidth::One, ..TileSpec::new(7, first, ROWS) };
        let mut stepper = env.stepper(tile).expect("made of lanes");
        let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
        let mut random = RandomActions::new(spec.actions.clone(), 7, first, ROWS);
        let mut actions = vec![0.0f32; components * ROWS];
        let mut states = vec![0; running_words(env) * ROWS];
        let mut tile_hashes = [HASH; ROWS];
        let mut tile_taken = vec![Vec::new(); ROWS];
        stepper.observe(outputs.seen()).expect("made of lanes");
        for step in 0..walk.steps {
            random.fill(step, &outputs.legal, &mut actions);
            if !discrete {
                // Also beyond the bounds.
                actions.iter_mut().for_each(|action| *action *= 1.5);
            }
            stepper.submit(&actions, step).expect("made of lanes");
            stepper.collect(outputs.stepped()).expect("made of lanes");
            stepper.save(&mut states);
            for (row, hash) in tile_hashes.iter_mut().enumerate() {
                let action = actions.iter().skip(row).step_by(ROWS);
                tile_taken[row].extend(action.map(|a| if discrete { *a as u32 } else { a.to_bits() }));
                fold(hash, outputs.rewards[row].to_bits());
                outputs.ended(row).into_iter().for_each(|ended| fold(hash, u32::from(ended)));
            }
            fold_rows(&mut tile_hashes, &outputs.obs);
            fold_rows(&mut tile_hashes, &states[..leaves * ROWS]);
        }
        taken.extend(tile_taken);
        hashes.extend(tile_hashes);
    }
    taken.truncate(walk.environments as usize);
    hashes.truncate(walk.environments as usize);
    (taken.concat(), hashes)
}

/// A program that plays the same with the emitted functions, reading the actions and printing the hashes.
fn driver(env: &dyn AnyEnv, Walk { environments, steps }: Walk) -> String {
    let spec = env.spec();
    let count = spec.actions.components();
    let kind = if matches!(spec.actions, ActionSpace::Box { .. }) { "float" } else { "unsigned" };
    let obs = if spec.obs.is_real() { "float" } else { "unsigned" };
    let fold_state: String = env
        .leaves()
        .iter()
        .map(|leaf| format!("            fold(hash, word(state.{}));\n", leaf.name))
        .collect();
    format!(
        r#"#include <cstdio>
#include "intrinsics.h"
{emitted}
static unsigned word(float x) {{ return __float_as_uint(x); }}
static unsigned word(unsigned x) {{ return x; }}
static unsigned word(int x) {{ return (unsigned)x; }}
static unsigned word(bool x) {{ return x ? 1u : 0u; }}
static void fold(uint64_t& hash, unsigned word) {{
    hash = (hash ^ word) * 0x100000001b3ull;
}}
int main() {{
    for (unsigned environment = 0; environment < {environments}u; ++environment) {{
        uint64_t hash = 0x{HASH:x}ull;
        EnvState state;
        env_reset(7u, 0u, environment, 0u, 0u, 0u, state);
        unsigned elapsed = 0;
        for (unsigned step = 0; step < {steps}u; ++step) {{
            {kind} action[{count}];
            if (fread(action, 4, {count}, stdin) != {count}) return 1;
            EnvState next;
            float reward;
            bool terminated;
            env_step(state, action, 7u, 0u, environment, step, 0u, 2u, next, reward, terminated);
            const bool truncated = ++elapsed >= ENV_TIME_LIMIT;
            if (terminated || truncated) {{
                env_reset(7u, 0u, environment, {reset_step}, 0u, 1u, next);
                elapsed = 0;
            }}
            state = next;
            {obs} obs[ENV_OBS_WORDS];
            env_observe(state, obs);
            fold(hash, word(reward));
            fold(hash, word(terminated));
            fold(hash, word(truncated));
            for ({obs} o : obs) fold(hash, word(o));
{fold_state}        }}
        fwrite(&hash, 8, 1, stdout);
    }}
}}
"#,
        emitted = emitted(env).replace("#pragma once\n", ""),
        reset_step =
            if env.world().is_some_and(|world| world.ahead) { "step + 1u - elapsed" } else { "step" },
    )
}

/// The CUDA source of an environment.
fn emitted(env: &dyn AnyEnv) -> String {
    env.emit().expect("made of lanes")
}

fn agrees(env: &dyn AnyEnv, walk: Walk) {
    let name = env.spec().name;
    let Some(compiler) = cxx::compiler(&format!("emitted {name}")) else { return };
    let (actions, expected) = scalar(env, walk);
    let input: Vec<u8> = actions.iter().flat_map(|word| word.to_le_bytes()).collect();
    let output = cxx::run(&compiler, &format!("{name}-{}", walk.steps), &driver(env, walk), &input);
    let got: Vec<u64> = output
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        .collect();
    assert_eq!(got, expected, "{name}: emitted code and scalar lane");
}

/// Variants have the rules of their base with another size, action set or layout: these stand for them.
fn variants_agree(walk: Walk) {
    for name in ["minatar_breakout_minimal", "minigrid_doorkey_16x16", "minigrid_memory_s13_random"] {
        agrees(&**builtin().find(name).expect("a world"), walk);
    }
}

fn masks_and_parts_agree(walk: Walk) {
    agrees(&locks::Locks, walk);
    agrees(&cards::Cards, walk);
    agrees(&cards::MixedCards, walk);
}

fn worlds_from_python_agree(walk: Walk) {
    python_worlds::NAMES.into_iter().for_each(|name| agrees(&python_worlds::load(name), walk));
}

mod briefly {
    use super::*;

    fn check(name: &str) {
        agrees(&**builtin().find(name).expect("a world"), SHORT);
    }

    each_world! { check }

    #[test]
    fn variants() {
        variants_agree(SHORT);
    }

    #[test]
    fn worlds_with_masks_and_parts() {
        masks_and_parts_agree(SHORT);
    }

    #[test]
    fn worlds_recorded_from_python() {
        worlds_from_python_agree(SHORT);
    }
}

mod at_length {
    use super::*;

    fn check(name: &str) {
        let registry = builtin();
        let env = registry.find(name).expect("a world");
        for options in env.spec().variants() {
            agrees(&*env.with_options(&options).expect("known options"), LONG);
        }
    }

    each_world! { #[ignore = "cargo xtask test --all"] check }

    #[test]
    #[ignore = "cargo xtask test --all"]
    fn variants() {
        variants_agree(LONG);
    }

    #[test]
    #[ignore = "cargo xtask test --all"]
    fn worlds_with_masks_and_parts() {
        masks_and_parts_agree(LONG);
    }

    #[test]
    #[ignore = "cargo xtask test --all"]
    fn worlds_recorded_from_python() {
        worlds_from_python_agree(LONG);
    }
}

#[test]
fn masks_are_those_of_the_scalar_lane() {
    let text = emitted(&locks::Locks);
    assert!(text.contains("legal[0] = !state.open[0];"), "{text}");
    assert!(text.contains("legal[6] = true;"), "{text}");
    let ActionSpace::Discrete(choices) = AnyEnv::spec(&locks::Locks).actions else { panic!("discrete") };
    assert_eq!(text.matches("    legal[").count(), choices.iter().sum::<usize>());
}
