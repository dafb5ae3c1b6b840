//! Exported C files compute what the policy computes, for every kind of network, by every C compiler of this machine.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use operant_env::{ActionSpace, ObsSpace};
use operant_learn::TrainedPolicy;
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_learn::network::Outputs;
use operant_run::SavedPolicy;
use operant_run::export::c::{Header, Weights, rounded};

use crate::networks;

/// Episodes, which are played together.
const EPISODES: usize = 16;
/// Their steps: 10,000 observations, and where these take too long for every test, 1,600.
const STEPS: usize = 625;
const FEW_STEPS: usize = 100;
/// All compilers but gcc compile one network in this many.
const EVERY: usize = 4;

const STRICT: [&str; 6] = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Reads observations and masks, and writes actions and fields: FIELDS stands for statements that write these, MASK for the mask's bytes.
const DRIVER: &str = r#"
#include "policy.h"
#include <stdio.h>

static struct policy policies[EPISODES];

int main(void)
{
    float observation[POLICY_OBSERVATIONS], action[POLICY_ACTIONS];
    unsigned char legal[MASK + 1];
    for (long row = 0; fread(observation, sizeof observation, 1, stdin) == 1; row++) {
        if (fread(legal, 1, MASK, stdin) != MASK)
            return 1;
        struct policy *policy = &policies[row % EPISODES];
        if (row < EPISODES)
            policy_reset(policy);
        policy_act(policy, observation, legal, action);
        fwrite(action, sizeof action, 1, stdout);
        FIELDS
    }
    return 0;
}
"#;

/// What the engine computes, a row for each `(step, episode)`.
struct Expected {
    inputs: Vec<u8>,
    actions: Vec<f32>,
    outputs: Vec<f32>,
    values: Vec<f32>,
    legal: Vec<i8>,
}

/// Greedy episodes of random observations, with the engine's actions.
fn expected(saved: &SavedPolicy, steps: usize) -> Expected {
    let policy = &saved.policy;
    let (rows, width, choices) = (EPISODES * steps, policy.obs.words(), policy.network.policy_outputs());
    let words = networks::observations(&policy.obs, rows, |_, _| {});
    let masked = if policy.masked { choices } else { 0 };
    // At least one choice of each component is legal: every third and every fifth.
    let legal: Vec<i8> = (0..rows * masked)
        .map(|i| i8::from((i % choices).is_multiple_of(3) || i.is_multiple_of(5)))
        .collect();
    let mut inputs = Vec::new();
    for row in 0..rows {
        let numbers = policy.obs.unpack(&words[row * width..(row + 1) * width]);
        inputs.extend(numbers.iter().flat_map(|x| (*x as f32).to_le_bytes()));
        inputs.extend(legal[row * masked..(row + 1) * masked].iter().map(|x| *x as u8));
    }
    let inference = Inference::new(policy.clone());
    let components = policy.actions.components();
    let (mut actions, mut outputs) = (vec![0.0; rows * components], vec![0.0; rows * choices]);
    let mut values = vec![0.0; rows];
    let mut acting = vec![0.0; EPISODES * inference.states()];
    let mut valuing = acting.clone();
    for first in (0..rows).step_by(EPISODES) {
        let of = |width: usize| first * width..(first + EPISODES) * width;
        let (obs, mask) = (ObsRows::Words(&words[of(width)]), policy.masked.then_some(&legal[of(masked)]));
        inference.act(obs, mask, Choice::Greedy, &mut acting, &mut actions[of(components)]);
        inference.evaluate(obs, &mut valuing, &mut outputs[of(choices)], &mut values[of(1)]);
    }
    Expected { inputs, actions, outputs, values, legal }
}

/// The fields of the struct that hold results, with their sizes.
fn fields(text: &str) -> Vec<(String, usize)> {
    let declared = |line: &str| {
        let (name, size) = line.trim().strip_prefix("float ")?.split_once("];")?.0.split_once('[')?;
        Some((name.to_owned(), size.parse().ok()?))
    };
    let (_, after) = text.split_once("struct policy {\n").expect("a struct");
    let (of_struct, _) = after.split_once("};").expect("its end");
    of_struct.lines().filter_map(declared).filter(|(name, _)| name != "memory" && name != "work").collect()
}

fn has(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn compile(dir: &Path, compiler: &str, args: &[&str]) {
    let compiled = Command::new(compiler).args(args).current_dir(dir).output().expect("started");
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success() && errors.is_empty(), "{compiler} {args:?}: {errors}");
}

/// Compiles the header and returns the numbers that the program writes.
fn run(dir: &Path, compiler: &str, inputs: &[u8]) -> Vec<f32> {
    compile(dir, compiler, &[&STRICT[..], &["driver.c", "-o", "driver"]].concat());
    std::fs::write(dir.join("inputs"), inputs).expect("written");
    let inputs = std::fs::File::open(dir.join("inputs")).expect("written");
    let ran = Command::new(dir.join("driver")).stdin(inputs).output().expect("started");
    assert!(ran.status.success(), "{:?}", ran.status);
    ran.stdout.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Compares the C file's results with those of the engine; returns the rows whose choices differ.
fn compare(saved: &SavedPolicy, weights: &Weights, expected: &Expected, compilers: &[&str]) -> usize {
    let header = Header::of(saved, "policy", weights).expect("exported");
    let fields = fields(header.text());
    let dir = tempfile::tempdir().expect("a directory");
    let choices = saved.policy.network.policy_outputs();
    let mask = if saved.policy.masked { choices } else { 0 };
    let writes: String = fields
        .iter()
        .map(|(name, _)| format!("fwrite(policy->{name}, sizeof policy->{name}, 1, stdout);"))
        .collect();
    let driver = DRIVER.replace("MASK", &mask.to_string()).replace("EPISODES", &EPISODES.to_string());
    std::fs::write(dir.path().join("driver.c"), driver.replace("FIELDS", &writes)).expect("written");
    header.write(&dir.path().join("policy.h")).expect("written");
    let mut differ = 0;
    for compiler in compilers {
        match *compiler {
            "arm-none-eabi-gcc" => {
                let target = ["-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-ffreestanding"];
                std::fs::write(dir.path().join("m4.c"), M4).expect("written");
                let args = [&STRICT[..], &target, &["-c", "m4.c", "-o", "m4.o"]].concat();
                compile(dir.path(), compiler, &args);
            }
            "g++" => {
                let args =
                    ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c++", "driver.c"];
                compile(dir.path(), compiler, &args);
            }
            _ => differ += check(saved, expected, &fields, &run(dir.path(), compiler, &expected.inputs)),
        }
    }
    differ
}

/// A program for a microcontroller.
const M4: &str = r#"
#include "policy.h"
extern struct policy policy;
void step(const float *observation, float *action);
void step(const float *observation, float *action)
{
    policy_reset(&policy);
    policy_act(&policy, observation, 0, action);
}
"#;

fn check(saved: &SavedPolicy, expected: &Expected, fields: &[(String, usize)], got: &[f32]) -> usize {
    let policy = &saved.policy;
    let (components, choices) = (policy.actions.components(), policy.network.policy_outputs());
    let width = components + fields.iter().map(|(_, size)| size).sum::<usize>();
    assert_eq!(got.len(), expected.values.len() * width);
    let scale = |all: &[f32]| all.iter().fold(1.0f32, |most, x| most.max(x.abs()));
    // What a state was rounded by stays in it.
    let steps = (expected.values.len() / EPISODES) as f32;
    let share = if policy.network.states > 0 { 1e-5f32.max(2e-7 * steps) } else { 1e-5 };
    let noise = share * scale(&expected.outputs);
    let close = |ours: f32, theirs: f32, noise: f32, what: &str| {
        assert!(
            (ours - theirs).abs() <= noise,
            "{what}: {ours} and {theirs}; {}",
            policy.network.architecture
        );
    };
    let mut differ = 0;
    for (row, got) in got.chunks_exact(width).enumerate() {
        let outputs = &expected.outputs[row * choices..(row + 1) * choices];
        let actions = &expected.actions[row * components..(row + 1) * components];
        let (chosen, mut rest) = got.split_at(components);
        match &policy.actions {
            ActionSpace::Discrete(counts) => {
                let mut first = 0;
                for ((ours, theirs), count) in actions.iter().zip(chosen).zip(counts) {
                    let [a, b] = [ours, theirs].map(|choice| outputs[first + *choice as usize]);
                    close(a, b, 2.0 * noise, "choices");
                    differ += usize::from(ours != theirs);
                    first += count;
                }
            }
            ActionSpace::Box { .. } => {
                let noise = share * scale(&expected.actions);
                actions.iter().zip(chosen).for_each(|(ours, theirs)| close(*ours, *theirs, noise, "action"));
            }
        }
        for (name, size) in fields {
            let (field, after) = rest.split_at(*size);
            rest = after;
            let is_values = policy.network.architecture.outputs == Outputs::ActionValues;
            match name.as_str() {
                // Of action values it is that of all choices, also of those that are illegal.
                "value" if !is_values => {
                    close(expected.values[row], field[0], share * scale(&expected.values), name);
                }
                "logits" | "q_values" | "mean" => {
                    for (k, (ours, theirs)) in outputs.iter().zip(field).enumerate() {
                        let is_legal = !policy.masked || expected.legal[row * choices + k] == 1;
                        close(if is_legal { *ours } else { -1e8 }, *theirs, noise, name);
                    }
                }
                _ => {}
            }
        }
    }
    differ
}

/// The compilers of this machine, the first of which has to be there.
fn compilers() -> Vec<&'static str> {
    let (found, missing): (Vec<&str>, Vec<&str>) =
        ["gcc", "clang", "g++", "arm-none-eabi-gcc"].into_iter().partition(|compiler| has(compiler));
    assert!(found.contains(&"gcc"), "gcc is needed");
    for compiler in missing {
        let _ = writeln!(std::io::stderr(), "SKIPPED C files by {compiler}: it is not installed");
    }
    found
}

/// Compares every network over this many steps; those of the first plain network may be others.
fn compare_all(steps: impl Fn(bool) -> usize + Sync) {
    let (all, compilers) = (networks::all(), compilers());
    let plain = all.iter().position(|saved| {
        let TrainedPolicy { obs, actions, network, .. } = &saved.policy;
        obs.is_real() && network.states == 0 && matches!(actions, ActionSpace::Discrete(_))
    });
    let compare_one = |k: usize| {
        let compilers = if k.is_multiple_of(EVERY) { &compilers[..] } else { &["gcc"] };
        compare(&all[k], &Weights::Float, &expected(&all[k], steps(Some(k) == plain)), compilers)
    };
    let part = |first: usize| (first..all.len()).step_by(2).map(compare_one).sum::<usize>();
    let differ: usize = std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        part(0) + other.join().expect("equal")
    });
    // Choices whose values differ by rounding alone.
    assert!(differ <= all.len(), "{differ} choices differ");
}

#[test]
fn c_files_compute_what_the_engine_does() {
    compare_all(|is_plain| if is_plain { STEPS } else { FEW_STEPS });
}

#[test]
#[ignore = "a minute: 10,000 observations of every kind of network"]
fn c_files_compute_what_the_engine_does_over_10_000_observations() {
    compare_all(|_| STEPS);
}

#[test]
fn weights_of_int8_are_those_that_the_engine_can_take() {
    let floats = Weights::Float;
    let weights = Weights::Int8 { loss: "not measured".to_owned() };
    let kinds: [fn(&SavedPolicy) -> bool; 4] = [
        |saved| saved.policy.obs.is_real(),
        |saved| !saved.policy.network.architecture.conv.is_empty(),
        |saved| saved.policy.network.architecture.embed.is_some(),
        |saved| saved.policy.network.states > 0,
    ];
    let all = networks::all();
    for kind in kinds {
        let saved = all.iter().find(|saved| kind(saved)).expect("one of each kind");
        let rounded = rounded(saved).expect("finite");
        assert_ne!(rounded.policy.params, saved.policy.params);
        compare(saved, &weights, &expected(&rounded, FEW_STEPS), &["gcc"]);
        let [int8, float] = [&weights, &floats]
            .map(|weights| Header::of(saved, "policy", weights).expect("exported").constants);
        assert!(int8 < float, "{int8} and {float} bytes");
    }
}

#[test]
fn names_begin_with_the_given_one() {
    let saved = networks::all().into_iter().find(|saved| saved.policy.masked).expect("one with a mask");
    let header = Header::of(&saved, "quad", &Weights::Float).expect("exported");
    let text = header.text();
    for part in
        ["#define QUAD_CHOICES 4\n", "struct quad {\n", "static inline void quad_act(struct quad *policy,"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('$') && !text.contains("policy_act"), "{text}");
    assert!(
        text.lines().take_while(|line| !line.contains("*/")).all(|line| line.chars().count() <= 103),
        "{text}"
    );
    for name in ["", "2", "a-b", "\u{e9}"] {
        let refused = Header::of(&saved, name, &Weights::Float).expect_err("not a name");
        assert!(refused.what.contains("is not a name in C"), "{refused}");
    }
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let mut saved = networks::all().remove(0);
    assert!(matches!(saved.policy.obs, ObsSpace::Index { .. }));
    saved.policy.params[3] = f32::NAN;
    let refused = Header::of(&saved, "policy", &Weights::Float).expect_err("not finite");
    assert!(refused.what.contains("not finite") && refused.remedy.is_some(), "{refused}");
}
