//! Settings of the optimiser against the reference in f64, one by one.

use operant_learn::cpu::update::Learner;
use operant_learn::network::{Head, Input};
use operant_learn::{ClipGrad, Config, LearnerState, LrSchedule, Optimizer, UpdateStats};
use operant_parity::{distance, reference};
use rayon::ThreadPoolBuilder;

use crate::cases::{self, Case};

fn run(case: &Case, threads: usize) -> (LearnerState, UpdateStats) {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let mut learner = Learner::new(case.network.clone(), case.layout.clone(), case.config.clone());
    let mut state = LearnerState::new(case.params.clone());
    let report = pool.install(|| learner.update(&mut state, &mut case.batch.clone(), 0).unwrap());
    (state, report)
}

/// A name, and the change of a configuration.
type Setting = (&'static str, fn(&mut Config));

/// Each changes what the default does. Some only concern separate networks.
const SETTINGS: &[Setting] = &[
    ("kl above", |config| (config.lr_schedule, config.desired_kl) = (LrSchedule::Kl, 1e-4)),
    ("kl below", |config| (config.lr_schedule, config.desired_kl) = (LrSchedule::Kl, 10.0)),
    ("lr_warmup", |config| config.lr_warmup = 0.5),
    ("weight_decay", |config| config.weight_decay = 0.3),
    ("clip_grad", |config| (config.clip_grad, config.max_grad_norm) = (ClipGrad::Network, 0.05)),
    ("vf_learning_rate", |config| config.vf_learning_rate = 3e-3),
    ("vf_learning_rate with kl", |config| {
        (config.lr_schedule, config.vf_learning_rate, config.weight_decay) = (LrSchedule::Kl, 3e-3, 0.1);
    }),
    ("muon", |config| config.optimizer = Optimizer::Muon),
    ("muon with all else", |config| {
        (config.optimizer, config.weight_decay, config.lr_warmup) = (Optimizer::Muon, 0.1, 0.2);
        (config.clip_grad, config.vf_learning_rate) = (ClipGrad::Network, 3e-3);
    }),
];

/// Two of the cases for each setting, in turn.
#[test]
fn each_setting_follows_the_reference_and_threads_change_no_bit() {
    let all = cases::all();
    for (number, (setting, change)) in SETTINGS.iter().enumerate() {
        let changed = |mut case: Case| {
            change(&mut case.config);
            case
        };
        let fits = |case: &Case| {
            case.config.optimiser_problem().is_none() && case.network.hidden_matrices().next().is_some()
        };
        let plain: Vec<&Case> = all.iter().filter(|case| fits(&changed((*case).clone()))).collect();
        for plain in plain.into_iter().cycle().skip(2 * number).take(2) {
            let case = changed(plain.clone());
            let expected = reference::update(&case.network, &case.config, &case.params, &case.batch, 0);
            let (state, report) = run(&case, 2);
            let error = distance(&state.params, &expected.params);
            assert!(error < 1e-5, "{}, {setting}: parameters {error:e}", case.name);
            let rate = report.metrics.learning_rate / expected.rate;
            assert!((rate - 1.0).abs() < 1e-12, "{}, {setting}: {rate}", case.name);
            assert_ne!(state.params, run(plain, 1).0.params, "{}, {setting}", case.name);
            let other = run(&case, 5);
            assert!(other.0 == state, "{}, {setting}: threads", case.name);
            assert_eq!(format!("{:?}", other.1), format!("{report:?}"), "{}, {setting}", case.name);
        }
    }
}

#[test]
fn muon_of_a_large_network_is_the_same_on_any_number_of_threads() {
    let config = Config {
        hidden: vec![256, 256],
        optimizer: Optimizer::Muon,
        update_epochs: 1,
        ..cases::config(32, 16, 2)
    };
    let case = Case::new("large", config, Input::Dense(4), Head::MultiDiscrete(vec![3]), false);
    assert!(case.network.len() > 1 << 16, "steps are spread over threads");
    assert!(run(&case, 1).0 == run(&case, 4).0);
}
