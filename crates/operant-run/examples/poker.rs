//! How exploitable agents are in Kuhn or Leduc poker, exactly: the mean of what a best response wins more than the agent from each seat, in chips a game.
//!
//! ```text
//! cargo run --release -p operant-run --example poker -- RUN|RUN@STEP|CHECKPOINT..
//! ```

use std::path::Path;

use operant_env::exploitability::{Exploitability, InformationSet, exploitability};
use operant_env::kuhn_poker::KuhnPoker;
use operant_env::leduc_poker::LeducPoker;
use operant_env::{AnyEnv, builtin};
use operant_learn::cpu::inference::{Inference, ObsRows};
use operant_run::SavedPolicy;

fn solved(game: &dyn AnyEnv, strategy: impl FnMut(&InformationSet) -> Vec<f64>) -> Exploitability {
    let deals = match game.spec().name.as_str() {
        "kuhn_poker" => KuhnPoker::deals(),
        "leduc_poker" => LeducPoker::deals(),
        other => panic!("{other} is neither kuhn_poker nor leduc_poker"),
    };
    exploitability(game, &deals, strategy).expect("a small game")
}

/// The probabilities with which an agent takes the legal choices.
fn probabilities(agent: &Inference, choices: usize, set: &InformationSet) -> Vec<f64> {
    let (mut logits, mut values) = (vec![0.0; choices], [0.0]);
    agent.evaluate(ObsRows::Words(&set.obs), &mut [], &mut logits, &mut values);
    let weights = set.legal.iter().map(|choice| f64::from(logits[*choice as usize]).exp());
    let sum: f64 = weights.clone().sum();
    weights.map(|weight| weight / sum).collect()
}

fn print(who: &str, result: &Exploitability) {
    println!(
        "{who}: exploitability {:.4}, value of the first seat {:.4}",
        result.exploitability(),
        result.value
    );
}

fn main() {
    let registry = builtin();
    for run in std::env::args().skip(1) {
        let saved = SavedPolicy::load(&registry, Path::new("runs"), &run).expect("a run");
        let game = saved.env;
        let choices = saved.policy.network.policy_outputs();
        let agent = Inference::new(saved.policy);
        assert!(agent.states() == 0, "{run} has memory, and an information set does not say what it holds");
        let uniform = solved(&*game, |set| vec![1.0 / set.legal.len() as f64; set.legal.len()]);
        print("random moves", &uniform);
        let own = solved(&*game, |set| probabilities(&agent, choices, set));
        print(&format!("{run} at {} steps", saved.env_steps), &own);
    }
}
