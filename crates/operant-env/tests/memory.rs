//! Worlds that need memory: what they hide, and what they ask for later.

use std::collections::BTreeSet;

use operant_env::replay::{Arithmetic, Case, Outcome};
use operant_env::{EnvOptions, OptionValue, builtin};

fn options(values: &[(&str, OptionValue)]) -> EnvOptions {
    values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn play(
    env: &str,
    values: &[(&str, OptionValue)],
    state: &[f64],
    actions: &[u32],
    draws: Option<&[f64]>,
) -> Outcome {
    let env = builtin().make(env, &options(values)).expect("a known environment");
    let actions = actions.iter().map(|action| vec![f64::from(*action)]).collect();
    let draws = draws.map(|draws| draws.iter().map(|draw| vec![*draw]).collect());
    env.replay(Arithmetic::Wide, &Case { state: state.to_vec(), actions, draws }).expect("a good case")
}

#[test]
fn hidden_velocities_are_missing_and_nothing_else_changes() {
    let ids = [
        ("CartPole-v1", "CartPoleNoVel-v1", vec![0.01, 0.02, 0.03, 0.04], vec![0, 2]),
        ("Pendulum-v1", "PendulumNoVel-v1", vec![1.0, 0.5], vec![0, 1]),
        ("MountainCar-v0", "MountainCarNoVel-v0", vec![-0.5, 0.01], vec![0]),
        ("MountainCarContinuous-v0", "MountainCarContinuousNoVel-v0", vec![-0.5, 0.01], vec![0]),
    ];
    for (id, hidden_id, state, seen) in ids {
        let full = play(id, &[], &state, &[1, 0, 1], None);
        let hidden = play(hidden_id, &[], &state, &[1, 0, 1], None);
        let shown = |obs: &Vec<f64>| seen.iter().map(|k| obs[*k]).collect::<Vec<f64>>();
        assert_eq!(hidden.obs, full.obs.iter().map(shown).collect::<Vec<_>>(), "{hidden_id}");
        assert_eq!((hidden.state, hidden.reward), (full.state, full.reward), "{hidden_id}");
        let by_option =
            builtin().make(id, &options(&[("hide", "velocity".into())])).expect("an option").spec();
        let by_name = builtin().make(hidden_id, &EnvOptions::new()).expect("a name").spec();
        assert_eq!(by_option, by_name);
        assert_eq!(by_name.obs.size(), seen.len());
        let preset = by_name.preset.expect("settings");
        // Without memory no threshold is reached.
        let (has_memory, is_solved) = (preset.contains("\ncore = "), preset.contains("solved_at"));
        assert!(preset.contains("\ngamma = ") && (has_memory || !is_solved), "{preset}");
        assert!(by_name.rules.ends_with("Solving it requires a policy with memory."), "{}", by_name.rules);
    }
}

#[test]
fn a_t_maze_asks_for_the_cue_at_its_end() {
    let length = [("length", 3.0.into())];
    for (cue, right, wrong) in [(0.0, 0, 2), (1.0, 2, 0)] {
        let walk = |turn| play("t_maze", &length, &[cue, 0.0], &[3, 0, 1, 3, 1, 1, 1, 1, turn], None);
        let won = walk(right);
        let seen: Vec<f64> = won.obs.iter().map(|obs| obs[0]).collect();
        // Two bumps at the start, there and back, the corridor, and a bump at the junction.
        assert_eq!(seen, [cue, cue, 2.0, cue, 2.0, 2.0, 3.0, 3.0, 3.0]);
        let reward: Vec<i64> = won.reward.iter().map(|reward| (reward * 10.0).round() as i64).collect();
        assert_eq!(reward, [-1, -1, 0, 0, 0, 0, 0, -1, 40]);
        assert_eq!(won.terminated.iter().position(|ended| *ended), Some(8));
        let lost = walk(wrong);
        assert!(lost.terminated[8] && (lost.reward[8] + 0.1).abs() < 1e-6);
    }
}

#[test]
fn repeat_previous_pays_for_the_symbol_of_k_steps_ago() {
    let symbols: Vec<u32> = (0..130u32).map(|step| (step * step + step / 3) % 4).collect();
    assert_eq!(symbols.iter().collect::<BTreeSet<_>>().len(), 4);
    for k in [1usize, 4, 16, 17, 64] {
        let steps = k + 64;
        let draws: Vec<f64> = symbols[1..=steps].iter().map(|symbol| f64::from(*symbol)).collect();
        let start = [f64::from(symbols[0]), 0.0, 0.0, 0.0, 0.0, 0.0];
        let name = |right: u32| -> Vec<u32> {
            (0..steps).map(|step| if step < k { 0 } else { (symbols[step - k] + right) % 4 }).collect()
        };
        let played = |right| {
            let value = [("k", (k as f64).into())];
            play("repeat_previous", &value, &start, &name(right), Some(&draws))
        };
        let outcome = played(0);
        assert_eq!(outcome.reward.iter().sum::<f64>(), 64.0, "k = {k}");
        assert!(outcome.reward[..k].iter().all(|reward| *reward == 0.0), "k = {k}");
        assert_eq!(outcome.terminated.iter().position(|ended| *ended), Some(steps - 1), "k = {k}");
        assert_eq!(played(1).reward.iter().sum::<f64>(), 0.0, "k = {k}");
    }
}
