//! How close the learner comes to the machine's limit: the forward pass, forward and backward, and the whole update of
//! PPO, each as a fraction of the multiply-add peak measured in the same run. `cargo bench -p benches --bench learner`
//!
//! CartPole's network: 4 observations, 64-64 tanh, 2 actions, shared trunk. Only the multiply-adds of matrices are
//! counted; a fraction above 1 means that the peak or the count is wrong, and fails.

use std::hint::black_box;
use std::process::ExitCode;

use benches::{CHAINS, Spread, peak_flops, time};
use operant_learn::Config;
use operant_learn::LearnerState;
use operant_learn::cpu::batch::Batch;
use operant_learn::cpu::network::policy::{Activations, Observation, Policy};
use operant_learn::cpu::network::tile::{Row, all_lanes};
use operant_learn::cpu::update::Learner;
use operant_learn::network::{Architecture, Head, Input, Network, init_params};
use operant_learn::sample::SampleLayout;
use rayon::prelude::*;
use wide::f32x16;

/// Repetitions of every measurement, interleaved, so that all see the same clock.
const REPS: usize = 7;

fn main() -> ExitCode {
    let setups =
        [("minibatch 32768", 1_024, 128, 4), ("minibatch 2048", 64, 128, 4), ("minibatch 256", 16, 64, 4)];
    let mut ok = true;
    println!(
        "threads {}, {CHAINS} chains a core, {REPS} repetitions: median (min .. max)",
        rayon::current_num_threads()
    );
    for (name, num_envs, num_steps, num_minibatches) in setups {
        ok &= measure(name, &config(num_envs, num_steps, num_minibatches));
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(name: &str, config: &Config) -> bool {
    let architecture = Architecture::new(config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
    let layout = SampleLayout::new(&architecture, false);
    let network = Network::new(architecture);
    let batch = batch(config, &layout);
    let params = init_params(&network, 1);
    let mut policy = Policy::new(&network);
    policy.pack(&params);
    // The whole batch as one minibatch, once: forward, loss and backward, with one step of Adam for all of it.
    let once = Config { num_minibatches: 1, update_epochs: 1, norm_adv: false, ..config.clone() };
    let mut gradient = Learner::new(network.clone(), layout.clone(), once);
    let mut learner = Learner::new(network.clone(), layout, config.clone());
    let both = network.forward_backward_flops() as f64;
    let repeats = ((1 << 19) / (batch.len() * config.update_epochs)).max(1);

    let mut peaks = Vec::new();
    let mut rates: [Vec<f64>; 3] = Default::default();
    for _ in 0..REPS {
        peaks.push(peak_flops(None));
        let samples = 1 << 18;
        let seconds = time(|| forward(&policy, &network, samples));
        rates[0].push(network.forward_flops() as f64 * samples as f64 / seconds);
        let run = |learner: &mut Learner, times: usize| {
            // A fresh state each time: the same work in every repetition.
            let mut state = LearnerState::new(params.clone());
            time(|| {
                for update in 0..times {
                    black_box(learner.update(&mut state, &batch, update as u64).expect("alone"));
                }
            })
        };
        let work = both * (batch.len() * config.update_epochs * repeats) as f64;
        rates[1].push(work / run(&mut gradient, repeats * config.update_epochs));
        rates[2].push(work / run(&mut learner, repeats));
    }

    println!("{name}: {} samples, {} epochs", batch.len(), config.update_epochs);
    println!("  peak              {} GFLOP/s", Spread::of(peaks.clone()).scaled(1e-9));
    let mut ok = true;
    for (what, rates) in ["forward", "forward, backward", "whole update"].into_iter().zip(&rates) {
        // Each repetition against its own peak: the clock and the neighbours change in between.
        let fraction = Spread::of(rates.iter().zip(&peaks).map(|(rate, peak)| rate / peak).collect()).median;
        let rate = Spread::of(rates.clone()).scaled(1e-9);
        println!("  {what:17} {rate} GFLOP/s, {:.1}% of peak", 100.0 * fraction);
        if fraction > 1.0 {
            eprintln!(
                "error: {what} is above the measured peak: the peak or the count of operations is wrong"
            );
            ok = false;
        }
    }
    let updates = Spread::of(rates[2].clone()).median / both;
    println!("  whole update      {:7.2} M samples x epochs a second", updates / 1e6);
    ok
}

/// Forward passes of `samples` samples over all threads.
fn forward(policy: &Policy, network: &Network, samples: usize) {
    let threads = rayon::current_num_threads();
    rayon::broadcast(|context| {
        let mut activations = Activations::<4>::new(network);
        let mut obs: Vec<Row<4>> = vec![[f32x16::splat(0.1); 4]; 4];
        let tiles = samples / 64;
        for tile in context.index() * tiles / threads..(context.index() + 1) * tiles / threads {
            obs[0][0] = f32x16::splat(tile as f32 * 1e-6);
            policy.forward(Observation::Dense(black_box(&obs)), all_lanes(), &[], &mut activations);
            black_box(activations.value());
        }
    });
}

/// A batch of plausible samples: what matters is that advantages vary and ratios stay near 1.
fn batch(config: &Config, layout: &SampleLayout) -> Batch {
    let mut batch = Batch::new(layout.clone(), config.num_envs, config.num_steps);
    let fields = layout.clone();
    batch.tiles_mut(4).into_par_iter().enumerate().for_each(|(k, mut tile)| {
        for t in 0..tile.num_steps() {
            let number = |salt: usize| -> Row<4> {
                core::array::from_fn(|v| {
                    f32x16::new(core::array::from_fn(|l| {
                        let x =
                            (((k * 64 + v * 16 + l) * 131 + t) * 7 + salt).wrapping_mul(0x9E37_79B9) as u32;
                        (x >> 8) as f32 / 16_777_216.0 - 0.5
                    }))
                })
            };
            for o in 0..4 {
                tile.put(t, fields.obs + o, &number(o));
            }
            tile.put(t, fields.actions, &number(4).map(|x| x.fast_max(f32x16::ZERO).ceil()));
            tile.put(t, fields.logprob, &[f32x16::splat(0.5f32.ln()); 4]);
            tile.put(t, fields.value, &number(5));
            tile.put(t, fields.advantage, &number(6));
        }
    });
    batch
}

fn config(num_envs: usize, num_steps: usize, num_minibatches: usize) -> Config {
    Config {
        total_timesteps: 1 << 30,
        num_envs,
        num_steps,
        anneal_lr: false,
        num_minibatches,
        shared_trunk: true,
        ..Config::default()
    }
}
