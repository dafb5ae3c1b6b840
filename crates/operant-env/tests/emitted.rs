//! The CUDA C++ that environments become: checked in under kernels/envs, and, compiled for the host, equal to the scalar
//! f32 lane bit for bit over 65 environments x 4,096 steps with auto-reset.

#[path = "../../operant-lane/tests/support/cxx.rs"]
mod cxx;
#[path = "support/locks.rs"]
mod locks;
#[path = "support/random_play.rs"]
mod random_play;

use std::path::Path;

use operant_env::{ActionSpace, AnyEnv, LaneWidth, ObsSpace, TileSpec, builtin};
use random_play::{HASH, RandomPlay, fold};

const ENVIRONMENTS: usize = 65;
const STEPS: usize = 4096;

/// Plays on the scalar lane: the words of the actions taken, environment by environment, and one hash of each over states,
/// observations and outcomes.
fn scalar(env: &dyn AnyEnv) -> (Vec<u32>, Vec<u64>) {
    let discrete = matches!(env.spec().actions, ActionSpace::Discrete(_));
    let word = |action: f32| if discrete { action as u32 } else { action.to_bits() };
    let tile = TileSpec::new(7, 0, ENVIRONMENTS.next_multiple_of(16));
    let mut play = RandomPlay::new(env, TileSpec { lanes: LaneWidth::One, ..tile });
    let (mut actions, mut hashes) = (vec![Vec::new(); ENVIRONMENTS], vec![HASH; ENVIRONMENTS]);
    for _ in 0..STEPS {
        play.step();
        for (row, (actions, hash)) in actions.iter_mut().zip(&mut hashes).enumerate() {
            actions.extend(play.action(row).into_iter().map(word));
            fold(hash, &play.words(row));
        }
    }
    (actions.concat(), hashes)
}

/// A program that plays the same with the emitted functions, reading the actions and printing the hashes.
fn driver(env: &dyn AnyEnv) -> String {
    let spec = env.spec();
    let count = spec.actions.components();
    let kind = if matches!(spec.actions, ActionSpace::Box { .. }) { "float" } else { "unsigned" };
    let obs = if matches!(spec.obs, ObsSpace::Box { .. }) { "float" } else { "unsigned" };
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
    for (int i = 0; i < 4; ++i) hash = (hash ^ ((word >> (8 * i)) & 255u)) * 0x100000001b3ull;
}}
int main() {{
    for (unsigned environment = 0; environment < {ENVIRONMENTS}u; ++environment) {{
        uint64_t hash = 0x{HASH:x}ull;
        EnvState state;
        env_reset(7u, 0u, environment, 0u, 0u, 0u, state);
        unsigned elapsed = 0;
        for (unsigned step = 0; step < {STEPS}u; ++step) {{
            {kind} action[{count}];
            if (fread(action, 4, {count}, stdin) != {count}) return 1;
            EnvState next;
            float reward;
            bool terminated;
            env_step(state, action, 7u, 0u, environment, step, 0u, 2u, next, reward, terminated);
            const bool truncated = ++elapsed >= ENV_TIME_LIMIT;
            if (terminated || truncated) {{
                env_reset(7u, 0u, environment, step, 0u, 1u, next);
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
        emitted = env.emit().expect("every `Env` is emitted").replace("#pragma once\n", ""),
    )
}

fn agrees(env: &dyn AnyEnv) {
    let name = env.spec().name;
    let Some(compiler) = cxx::compiler(&format!("emitted {name}")) else { return };
    let (actions, expected) = scalar(env);
    let input: Vec<u8> = actions.iter().flat_map(|word| word.to_le_bytes()).collect();
    let output = cxx::run(&compiler, &name, &driver(env), &input);
    let got: Vec<u64> = output
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        .collect();
    assert_eq!(got, expected, "{name}: emitted code and scalar lane");
}

#[test]
fn emitted_code_gives_the_bits_of_the_scalar_lane() {
    for env in builtin().envs() {
        for options in env.spec().variants() {
            agrees(&*env.with_options(&options).expect("known options"));
        }
    }
    agrees(&locks::Locks);
}

#[test]
fn emitted_masks_are_those_of_the_scalar_lane() {
    let text = locks::Locks.emit().expect("every `Env` is emitted");
    assert!(text.contains("legal[0] = !state.open[0];"), "{text}");
    assert!(text.contains("legal[6] = true;"), "{text}");
    let ActionSpace::Discrete(choices) = AnyEnv::spec(&locks::Locks).actions else { panic!("discrete") };
    assert_eq!(text.matches("    legal[").count(), choices.iter().sum::<usize>());
}

#[test]
fn checked_in_kernels_are_what_the_environments_emit() {
    for env in builtin().envs() {
        let name = env.spec().name;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../kernels/envs/{name}.cuh"));
        let text = env.emit().expect("every built-in environment is emitted");
        if std::env::var_os("OPERANT_WRITE_GOLDENS").is_some() {
            std::fs::write(&path, &text).expect("the golden can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            golden == text,
            "kernels/envs/{name}.cuh is stale or missing: read the difference, then run \
             `OPERANT_WRITE_GOLDENS=1 cargo test -p operant-env --test emitted`",
        );
    }
}
