//! Trains the quadrotor, hovering or along the lemniscate, and prints how far off its target it is after two seconds, from 1,000
//! starts: `cargo run --release -p operant-run --example quadrotor -- hover|lemniscate [SEED...] [KEY=VALUE...]`.

use std::path::Path;

use operant_env::play::Outputs;
use operant_env::{AnyEnv, StepError, TileSpec, builtin};
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_run::{CommandLine, EnvFacts, Job, RunResult, SavedPolicy, backend, config, train};

/// Starts, 16 at a time.
const STARTS: usize = 1000;
const ROWS: usize = 16;
/// Steps of two seconds.
const TWO_SECONDS: usize = 200;
/// The seed of the starts, none of training.
const STARTS_SEED: u64 = 1_000_003;

/// Trains with these settings on top of the preset.
fn learn(env: &str, settings: Vec<String>) -> operant_run::Result<RunResult> {
    let registry = builtin();
    let line = CommandLine { set: settings, ..CommandLine::default() };
    let requested = config::requested(EnvFacts::registered(&registry, env)?, &line, None)?;
    let env = registry.find(env).expect("built in");
    Ok(train(Job::new(requested), |requested, device| backend(env, requested, device))?.result)
}

/// Distances from the target, m, `(start, step)`; infinite from the end of an episode on.
fn fly(env: &dyn AnyEnv, policy: &Inference) -> Result<Vec<Vec<f32>>, StepError> {
    let spec = env.spec();
    let (words, components) = (spec.obs.words(), spec.actions.components());
    let mut flights = Vec::new();
    for first in (0..STARTS).step_by(ROWS) {
        let tile = TileSpec { evaluation: true, ..TileSpec::new(STARTS_SEED, first as u32, ROWS) };
        let mut stepper = env.stepper(tile)?;
        let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
        let (mut obs, mut chosen) = (vec![0; words * ROWS], vec![0.0; components * ROWS]);
        let mut actions = chosen.clone();
        let mut of_tile = vec![Vec::new(); ROWS];
        let mut over = [false; ROWS];
        stepper.observe(outputs.seen())?;
        // The last step ends the episode and shows the next one.
        for step in 0..u64::from(spec.time_limit) - 1 {
            (0..obs.len()).for_each(|k| obs[k % ROWS * words + k / ROWS] = outputs.obs[k]);
            policy.act(ObsRows::Words(&obs), None, Choice::Greedy, &mut chosen);
            (0..actions.len()).for_each(|k| actions[k] = chosen[k % ROWS * components + k / ROWS]);
            stepper.submit(&actions, step)?;
            stepper.collect(outputs.stepped())?;
            for (row, flight) in of_tile.iter_mut().enumerate() {
                over[row] |= outputs.ended(row) != [false, false];
                // An observation begins with the way to the target.
                let error = [0, 1, 2].map(|axis| f32::from_bits(outputs.obs[axis * ROWS + row]));
                let distance = error.map(|part| part * part).iter().sum::<f32>().sqrt();
                flight.push(if over[row] { f32::INFINITY } else { distance });
            }
        }
        flights.extend(of_tile);
    }
    flights.truncate(STARTS);
    Ok(flights)
}

/// The share of the starts that is below 5 cm, and the distances, cm, that half and 99% of them do not exceed.
fn summary(mut distances: Vec<f32>) -> String {
    distances.sort_by(f32::total_cmp);
    let below = distances.partition_point(|distance| *distance < 0.05) as f64 / STARTS as f64;
    let quantile = |share: f64| 100.0 * distances[(share * STARTS as f64).ceil() as usize - 1];
    format!("{:.1}% below 5 cm (median {:.1} cm, 99% {:.1} cm)", 100.0 * below, quantile(0.5), quantile(0.99))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().ok_or("which task: hover or lemniscate?")?;
    let env = format!("quadrotor_{task}");
    let (settings, mut seeds): (Vec<String>, Vec<String>) =
        arguments.partition(|argument| argument.contains('='));
    if seeds.is_empty() {
        seeds = ["1", "2", "3"].map(str::to_owned).to_vec();
    }
    for seed in seeds {
        let with_seed = settings.iter().cloned().chain([format!("seed={seed}")]).collect();
        let result = learn(&env, with_seed)?;
        let checkpoint = result.checkpoint.as_ref().ok_or("the run was stopped")?;
        let saved = SavedPolicy::load(&builtin(), Path::new("runs"), checkpoint)?;
        let world = builtin().make(&env, &saved.env_options)?;
        let flights = fly(&*world, &Inference::new(saved.policy))?;
        let at = |step: usize| flights.iter().map(|flight| flight[step]).collect();
        let worst = |flight: &Vec<f32>| flight[TWO_SECONDS - 1..].iter().copied().fold(0.0, f32::max);
        println!(
            "seed {seed}: {} steps in {:.0} s, return {:.1}; at 2 s {}; from 2 s on at worst {}; {} ended early",
            result.env_steps,
            result.train_s,
            result.eval_return_mean.unwrap_or(f64::NAN),
            summary(at(TWO_SECONDS - 1)),
            summary(flights.iter().map(worst).collect()),
            flights.iter().filter(|flight| flight.ends_with(&[f32::INFINITY])).count(),
        );
    }
    Ok(())
}
