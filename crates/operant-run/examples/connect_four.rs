//! How often an agent's most probable move is optimal in Connect Four, over the 1,000 positions that `connect_four_positions` of operant-env found.
//!
//! ```text
//! cargo run --release -p operant-run --example connect_four -- RUN|CHECKPOINT..
//! ```

use std::io::Read as _;
use std::path::Path;

use operant_env::play::Outputs;
use operant_env::{Autoreset, EnvOptions, TileSpec, builtin};
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_run::SavedPolicy;

const ROWS: usize = 16;

/// The columns that were played, and the optimal ones.
fn positions() -> Vec<(Vec<u8>, Vec<u8>)> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../operant-env/tests/data/connect_four.positions.gz");
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("positions");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("text");
    let columns = |text: &str| text.bytes().map(|digit| digit - b'0').collect();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(played, best)| (columns(played), columns(best)))
        .collect()
}

fn main() {
    let registry = builtin();
    let game = registry.make("connect_four", &EnvOptions::new()).expect("the game");
    let positions = positions();
    // The observation and the legal moves of each position.
    let (mut obs, mut legal) = (Vec::new(), Vec::new());
    for (played, _) in &positions {
        let tile = TileSpec { autoreset: Autoreset::Disabled, ..TileSpec::new(1, 0, ROWS) };
        let mut stepper = game.stepper(tile).expect("a tile");
        let mut out = Outputs::new(&game.spec(), true, ROWS);
        for (step, column) in played.iter().enumerate() {
            stepper.submit(&[f32::from(*column); ROWS], step as u64).expect("a step");
            stepper.collect(out.stepped()).expect("a step");
        }
        obs.extend(out.obs.iter().step_by(ROWS));
        legal.extend((0..7).map(|column| (out.legal[0] >> column & 1) as i8));
    }
    let legal_moves = |at: usize| legal[7 * at..][..7].iter().filter(|legal| **legal == 1).count();
    let chance: f64 =
        positions.iter().enumerate().map(|(at, (_, best))| best.len() as f64 / legal_moves(at) as f64).sum();
    println!(
        "random moves: {:.1}% of {} positions",
        100.0 * chance / positions.len() as f64,
        positions.len()
    );
    for run in std::env::args().skip(1) {
        let saved = SavedPolicy::load(&registry, Path::new("runs"), &run).expect("a run");
        let inference = Inference::new(saved.policy);
        assert!(inference.states() == 0, "{run} has memory, and a position does not say what it holds");
        let mut actions = vec![0.0; positions.len()];
        inference.act(ObsRows::Words(&obs), Some(&legal), Choice::Greedy, &mut [], &mut actions);
        let optimal =
            positions.iter().zip(&actions).filter(|((_, best), action)| best.contains(&(**action as u8)));
        println!(
            "{run} at {} steps: {:.1}%",
            saved.env_steps,
            100.0 * optimal.count() as f64 / positions.len() as f64
        );
    }
}
