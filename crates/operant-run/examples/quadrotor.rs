//! Trains the quadrotor to hover and prints how far off it is after two seconds, from 1,000 starts:
//! `cargo run --release -p operant-run --example quadrotor -- [SEED...] [KEY=VALUE...]`.

use std::path::Path;

use operant_env::play::Outputs;
use operant_env::{AnyEnv, TileSpec, builtin};
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_run::{CommandLine, EnvFacts, Job, RunResult, SavedPolicy, backend, config, train};

const ENV: &str = "quadrotor_hover";
/// Starts: a multiple of 16 is played.
const STARTS: usize = 1000;
const ROWS: usize = 16;
/// Steps of two seconds, and of the longest episode.
const TWO_SECONDS: usize = 200;
const STEPS: usize = 499;
/// The seed of the starts, none of training.
const STARTS_SEED: u64 = 1_000_003;

/// Trains with these settings on top of the preset.
fn learn(settings: &[String]) -> operant_run::Result<RunResult> {
    let registry = builtin();
    let line = CommandLine { set: settings.to_vec(), ..CommandLine::default() };
    let requested = config::requested(EnvFacts::registered(&registry, ENV)?, &line, None)?;
    let env = registry.find(ENV).expect("built in");
    Ok(train(Job::new(requested), |requested, device| backend(env, requested, device))?.result)
}

/// Distances from the target, m, `(start, step)`; infinite from the end of an episode on.
fn fly(env: &dyn AnyEnv, policy: &Inference) -> Result<Vec<Vec<f32>>, operant_env::StepError> {
    let spec = env.spec();
    let words = spec.obs.words();
    let mut flights = Vec::new();
    for first in (0..STARTS).step_by(ROWS) {
        let tile = TileSpec { evaluation: true, ..TileSpec::new(STARTS_SEED, first as u32, ROWS) };
        let mut stepper = env.stepper(tile)?;
        let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
        let mut tile_flights = vec![Vec::new(); ROWS];
        let (mut row_major, mut chosen) = (vec![0; words * ROWS], vec![0.0; 4 * ROWS]);
        let (mut actions, mut state) = (vec![0.0; 4 * ROWS], vec![0; env.leaves().len()]);
        let mut memory = vec![0.0; policy.states() * ROWS];
        let mut over = [false; ROWS];
        stepper.observe(outputs.seen())?;
        for step in 0..STEPS {
            (0..words * ROWS).for_each(|k| row_major[k % ROWS * words + k / ROWS] = outputs.obs[k]);
            policy.act(ObsRows::Words(&row_major), None, Choice::Greedy, &mut memory, &mut chosen);
            (0..4 * ROWS).for_each(|k| actions[k] = chosen[k % ROWS * 4 + k / ROWS]);
            stepper.submit(&actions, step as u64)?;
            stepper.collect(outputs.stepped())?;
            for (row, flight) in tile_flights.iter_mut().enumerate() {
                over[row] |= outputs.ended(row) != [false, false];
                stepper.state(row, &mut state);
                let square = |word: &u32| f32::from_bits(*word).powi(2);
                let distance = state[..3].iter().map(square).sum::<f32>().sqrt();
                flight.push(if over[row] { f32::INFINITY } else { distance });
            }
        }
        flights.extend(tile_flights);
    }
    flights.truncate(STARTS);
    Ok(flights)
}

/// The least distance that is not exceeded by `share` of them.
fn quantile(mut distances: Vec<f32>, share: f64) -> f32 {
    distances.sort_by(f32::total_cmp);
    distances[(share * distances.len() as f64).ceil() as usize - 1]
}

fn report(flights: &[Vec<f32>]) -> String {
    let at_two: Vec<f32> = flights.iter().map(|flight| flight[TWO_SECONDS - 1]).collect();
    let worst_later = |flight: &Vec<f32>| flight[TWO_SECONDS - 1..].iter().copied().fold(0.0, f32::max);
    let later: Vec<f32> = flights.iter().map(worst_later).collect();
    let last: Vec<f32> = flights.iter().map(|flight| flight[STEPS - 1]).collect();
    let below = |all: &[f32]| {
        100.0 * all.iter().filter(|distance| **distance < 0.05).count() as f64 / all.len() as f64
    };
    let crashed = flights.iter().filter(|flight| flight[STEPS - 1].is_infinite()).count();
    format!(
        "below 5 cm: {:.1}% at 2 s, {:.1}% from 2 s to 5 s throughout; at 2 s median {:.1} cm, 99% {:.1} cm; \
         at 5 s median {:.1} cm; {crashed} ended early",
        below(&at_two),
        below(&later),
        100.0 * quantile(at_two, 0.5),
        100.0 * quantile(later, 0.99),
        100.0 * quantile(last, 0.5),
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (settings, seeds): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.contains('='));
    let seeds = if seeds.is_empty() { ["1", "2", "3"].map(str::to_owned).to_vec() } else { seeds };
    for seed in seeds {
        let mut settings = settings.clone();
        settings.push(format!("seed={seed}"));
        let result = learn(&settings)?;
        let checkpoint = result.checkpoint.clone().ok_or("the run was stopped")?;
        let saved = SavedPolicy::load(&builtin(), Path::new("runs"), &checkpoint)?;
        let env = builtin().make(ENV, &saved.env_options)?;
        let flights = fly(&*env, &Inference::new(saved.policy))?;
        let score = result.eval_return_mean.unwrap_or(f64::NAN);
        println!(
            "seed {seed}: {} steps in {:.1} s, return {score:.1}; {}",
            result.env_steps,
            result.wall_s,
            report(&flights)
        );
    }
    Ok(())
}
