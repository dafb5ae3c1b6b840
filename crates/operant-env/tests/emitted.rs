//! The CUDA C++ that environments become: checked in under kernels/envs, and, compiled for the host, equal to the scalar
//! f32 lane bit for bit over 65 environments x 4,096 steps with auto-reset.

#[path = "../../operant-lane/tests/support/cxx.rs"]
mod cxx;
#[path = "support/locks.rs"]
mod locks;
#[path = "support/random_play.rs"]
mod random_play;

use std::path::Path;

use operant_env::emit::emit;
use operant_env::{ActionSpace, Clock, Current, Env, ObsSpace, RowsMut, Visitor, registry};
use operant_lane::bundle::leaves_of;
use operant_lane::{ActionDraws, Bundle, Kind, Packed, Purpose};
use random_play::{HASH, fold};

const ENVIRONMENTS: u32 = 65;
const STEPS: u64 = 4096;

/// Plays on the scalar lane: the actions taken, and one hash per environment over states, observations and outcomes.
fn scalar<E: Env>(env: &E) -> (Vec<u32>, Vec<u64>) {
    let limit = env.spec().time_limit;
    let (mut actions, mut hashes) = (Vec::new(), Vec::new());
    let sizes = [
        leaves_of::<f32, E::Action<f32>>().len(),
        leaves_of::<f32, E::State<f32>>().len() + leaves_of::<f32, E::Obs<f32>>().len() + 4,
    ];
    for number in 0..ENVIRONMENTS {
        let environment = f32::load_uint(&[number]);
        let clock = |step| Clock { seed: 7, environment, step, evaluation: false };
        let mut current = Current::<f32, E>::start(env, &clock(0));
        let mut draws = ActionDraws::new(7, environment, Purpose::RandomAction);
        let mut hash = HASH;
        for step in 0..STEPS {
            let action = random_play::action(env, &current.state, &mut draws, step);
            let mut words = vec![0u32; sizes[0]];
            Bundle::<f32>::store(&action, &mut RowsMut::new(&mut words, 1, 0));
            actions.extend(&words);
            let t = current.step(env, limit, &action, &clock(step));
            let mut words = vec![0u32; sizes[1]];
            let mut rows = RowsMut::new(&mut words, 1, 0);
            Bundle::<f32>::store(&(t.reward, t.terminated, (t.truncated, t.obs)), &mut rows);
            Bundle::<f32>::store(&current.state, &mut rows);
            words.truncate(sizes[1] - 1);
            words.iter().for_each(|&word| fold(&mut hash, word));
        }
        hashes.push(hash);
    }
    (actions, hashes)
}

/// A program that plays the same with the emitted functions, reading the actions and printing the hashes.
fn driver<E: Env>(env: &E) -> String {
    let spec = env.spec();
    let words = leaves_of::<f32, E::Action<f32>>();
    let count = words.len();
    let kind = if words[0].kind == Kind::Float { "float" } else { "unsigned" };
    let obs = if matches!(spec.obs, ObsSpace::Box { .. }) { "float" } else { "unsigned" };
    let fold_state: String = leaves_of::<f32, E::State<f32>>()
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
        emitted = emit(env).replace("#pragma once\n", ""),
    )
}

fn agrees<E: Env>(env: &E) {
    let name = env.spec().name;
    let Some(compiler) = cxx::compiler(&format!("emitted {name}")) else { return };
    let (actions, expected) = scalar(env);
    let input: Vec<u8> = actions.iter().flat_map(|word| word.to_le_bytes()).collect();
    let output = cxx::run(&compiler, name, &driver(env), &input);
    let got: Vec<u64> = output
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        .collect();
    assert_eq!(got, expected, "{name}: emitted code and scalar lane");
}

struct Agrees;

impl Visitor for Agrees {
    type Output = ();
    fn visit<E: Env>(self, env: E) {
        agrees(&env);
    }
}

#[test]
fn emitted_code_gives_the_bits_of_the_scalar_lane() {
    for name in registry::names() {
        registry::with_env(name, &Default::default(), Agrees).expect("a registered name");
    }
    let sticky = [("sticky_action_prob".to_owned(), 0.1)].into();
    registry::with_env("minatar_breakout", &sticky, Agrees).expect("a known option");
    agrees(&locks::Locks);
}

#[test]
fn emitted_masks_are_those_of_the_scalar_lane() {
    let text = emit(&locks::Locks);
    assert!(text.contains("legal[0] = !state.open[0];"), "{text}");
    assert!(text.contains("legal[6] = true;"), "{text}");
    let ActionSpace::Discrete(choices) = locks::Locks.spec().actions else { panic!("discrete") };
    assert_eq!(text.matches("    legal[").count(), choices.iter().sum::<usize>());
}

struct Golden {
    name: &'static str,
}

impl Visitor for Golden {
    type Output = ();
    fn visit<E: Env>(self, env: E) {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../kernels/envs/{}.cuh", self.name));
        let text = emit(&env);
        if std::env::var_os("OPERANT_WRITE_GOLDENS").is_some() {
            std::fs::write(&path, &text).expect("the golden can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            golden == text,
            "kernels/envs/{}.cuh is stale or missing: read the difference, then run \
             `OPERANT_WRITE_GOLDENS=1 cargo test -p operant-env --test emitted`",
            self.name
        );
    }
}

#[test]
fn checked_in_kernels_are_what_the_environments_emit() {
    for name in registry::names() {
        registry::with_env(name, &Default::default(), Golden { name }).expect("a registered name");
    }
}
