//! Searches on functions of known maxima: what they decide, and that they decide the same again.

use operant_sweep::search::{Decision, Trial, TrialResult, WHOLE, decide};
use operant_sweep::space::number;
use operant_sweep::{Given, Spec};

/// The specification of a text for cartpole.
fn spec(text: &str) -> Spec {
    Spec::parse(&format!("env = \"cartpole\"\n{text}"), "a test", &Given::default()).expect("valid")
}

/// Carries out decisions with `side` trials at a time; a trial's objective is a function of its values and steps.
fn search(spec: &Spec, steps: u64, side: usize, objective: impl Fn(&[f64], u64) -> f64) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    let mut running: Vec<(usize, u64)> = Vec::new();
    loop {
        while running.len() < side {
            let known: Vec<&Trial> = trials.iter().collect();
            match decide(&spec.search, &spec.axes, &known, steps) {
                Decision::Begin { point, parent, until, .. } => {
                    let id = trials.len();
                    trials.push(Trial { id, env: 0, point, parent, until, results: Vec::new() });
                    running.push((id, until));
                }
                Decision::Continue { trial, until } => {
                    assert!(until > trials[trial].until, "it goes on");
                    trials[trial].until = until;
                    running.push((trial, until));
                }
                Decision::Wait => {
                    assert!(!running.is_empty(), "nothing would ever end the waiting");
                    break;
                }
                Decision::End => break,
            }
        }
        if running.is_empty() {
            return trials;
        }
        let (trial, until) = running.remove(0);
        let values: Vec<f64> = trials[trial].point.iter().filter_map(number).collect();
        let objective = objective(&values, until);
        trials[trial].results.push(TrialResult { until, objective, seconds: 1.0 });
    }
}

fn best(trials: &[Trial]) -> f64 {
    let last = trials.iter().filter_map(|trial| trial.results.last());
    last.map(|result| result.objective).fold(f64::NEG_INFINITY, f64::max)
}

/// Highest, at 0, where the learning rate is 1e-3 and gamma 0.98.
fn hill(values: &[f64], _: u64) -> f64 {
    // Axes are in alphabetical order.
    let (gamma, rate) = (values[0], values[1]);
    -((rate / 1e-3).log10().powi(2) + ((gamma - 0.98) / 0.02).powi(2))
}

const RANGES: &str =
    "[vary]\nlearning_rate = { log_uniform = [1e-5, 1e-1] }\ngamma = { uniform = [0.9, 0.999] }\n";

#[test]
fn a_grid_has_every_combination_once() {
    let spec = spec("[vary]\nlearning_rate = [1e-3, 1e-2]\ngamma = [0.9, 0.95, 0.99]");
    let trials = search(&spec, 1000, 2, hill);
    assert_eq!(trials.len(), 6);
    for trial in &trials {
        assert_eq!(trials.iter().filter(|other| other.point == trial.point).count(), 1);
        assert_eq!(trial.until, WHOLE);
    }
}

#[test]
fn the_model_finds_a_maximum_that_random_values_miss() {
    let random = search(&spec(&format!("{RANGES}[search]\nmethod = \"random\"\ntrials = 30")), 1000, 2, hill);
    let bayes = search(&spec(&format!("{RANGES}[search]\nmethod = \"bayes\"\ntrials = 30")), 1000, 2, hill);
    assert_eq!((random.len(), bayes.len()), (30, 30));
    assert!(best(&bayes) > -0.02, "{}", best(&bayes));
    assert!(
        best(&bayes) > 5.0 * best(&random).min(-1e-9) && best(&bayes) > best(&random),
        "{} {}",
        best(&bayes),
        best(&random)
    );
}

#[test]
fn a_slower_trial_is_proposed_less() {
    // Where gamma is high, a trial takes a hundred times as long and is as good.
    let spec = spec(&format!("{RANGES}[search]\nmethod = \"bayes\"\ntrials = 24"));
    let mut trials: Vec<Trial> = Vec::new();
    for id in 0..24 {
        let known: Vec<&Trial> = trials.iter().collect();
        let Decision::Begin { point, .. } = decide(&spec.search, &spec.axes, &known, 1000) else {
            panic!("{id}")
        };
        let values: Vec<f64> = point.iter().filter_map(number).collect();
        let objective = -(values[1] / 1e-3).log10().powi(2);
        let seconds = if values[0] > 0.95 { 100.0 } else { 1.0 };
        let results = vec![TrialResult { until: WHOLE, objective, seconds }];
        trials.push(Trial { id, env: 0, point, parent: None, until: WHOLE, results });
    }
    let slow = |trials: &[Trial]| trials.iter().filter(|trial| trial.results[0].seconds > 1.0).count();
    assert!(slow(&trials[4..]) < 5, "{} of 20", slow(&trials[4..]));
}

#[test]
fn failed_trials_do_not_stop_a_search() {
    for method in ["random", "bayes"] {
        let spec = spec(&format!("{RANGES}[search]\nmethod = \"{method}\"\ntrials = 12"));
        let trials =
            search(&spec, 1000, 2, |values, _| if values[1] > 1e-4 { f64::NEG_INFINITY } else { 1.0 });
        assert_eq!(trials.len(), 12, "{method}");
    }
}

#[test]
fn halving_keeps_one_in_three_and_decides_the_same_for_any_number_side_by_side() {
    let spec = spec(&format!(
        "{RANGES}[search]\nmethod = \"random\"\ntrials = 11\nhalving = {{ first_steps = 100 }}"
    ));
    let runs = [1, 2, 7].map(|side| search(&spec, 1000, side, hill));
    assert!(runs.iter().all(|trials| *trials == runs[0]));
    let reached = |until: u64| {
        runs[0].iter().filter(|trial| trial.results.iter().any(|result| result.until == until)).count()
    };
    assert_eq!([100, 300, 900, WHOLE].map(reached), [11, 4, 2, 1]);
    let winner = runs[0].iter().find(|trial| trial.until == WHOLE).expect("one");
    assert_eq!(winner.results[0].objective, best(&runs[0]), "the best of all went on");
}

#[test]
fn a_population_replaces_its_worst_quarter_by_copies_of_its_best() {
    let spec = spec(
        "[vary]\nlearning_rate = { log_uniform = [1e-5, 1e-1] }\ngamma = { uniform = [0.9, 0.999] }\n\
         [search]\nmethod = \"pbt\"\ntrials = 8\ninterval = 250",
    );
    let runs = [1, 2, 8].map(|side| search(&spec, 1000, side, hill));
    assert!(runs.iter().all(|trials| *trials == runs[0]));
    let trials = &runs[0];
    assert_eq!(trials.len(), 8 + 3 * 2, "two copies after each of three generations");
    for copy in &trials[8..] {
        let parent = &trials[copy.parent.expect("a parent")];
        let after = copy.results[0].until;
        let before = parent.results.iter().rfind(|result| result.until < after).expect("it was compared");
        let beaten = trials.iter().filter(|other| {
            other
                .results
                .iter()
                .any(|result| result.until == before.until && result.objective > before.objective)
        });
        assert!(beaten.count() < 2, "it is one of the best two");
        assert_ne!(copy.point, parent.point);
    }
    assert_eq!(trials.iter().filter(|trial| trial.until == WHOLE).count(), 8);
}

#[test]
fn keys_of_info_are_one_value() {
    let listed = spec("[set]\nenv.metrics = [\"success\", \"score\"]");
    let flag = ("env.metrics=success,score".to_owned(), "--set".to_owned());
    let given = Given { set: vec![flag], ..Given::default() };
    let set = vec![("env.metrics".to_owned(), toml::Value::from("success,score"))];
    assert_eq!(listed.set, set);
    assert_eq!(Spec::of_environments(&["cartpole"], &given).expect("valid").set, set);
}
