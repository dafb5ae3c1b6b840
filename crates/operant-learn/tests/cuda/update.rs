//! The fused update against the CPU's learner over the same samples.

use operant_learn::LearnerState;
use operant_learn::cuda::{CudaLearner, CudaRollout};
use operant_learn::network::init_params;
use operant_learn::{Activation, Config, Encoder, LrSchedule, Precision};
use operant_parity::UpdatePath;

use super::{ORDERS, precisions};
use crate::support::gpu::{config, device, gradient_agrees, sanitized, updates_agree};
use crate::support::locks::Locks;
use crate::support::parts::Part;
use crate::support::world;

in_parts! {
    updates_follow_the_cpu,
    embeddings_follow_the_cpu,
    gradients_on_tensor_cores_are_those_of_single_precision,
    orders_of_threads_and_ways_of_launching_give_the_same_bits,
}

fn updates_follow_the_cpu(part: Part) {
    let Some(device) = device(0) else { return };
    let base = |envs: usize, steps: usize, hidden: &[usize]| config(envs, steps, hidden);
    let cases = [
        ("cartpole", base(16, 16, &[64, 64])),
        (
            "cartpole",
            Config { num_minibatches: 3, ..base(17, 9, &[64, 64]) }.ppo(|ppo| ppo.clip_vloss = false),
        ),
        ("minatar_breakout", Config { activation: Activation::Relu, ..base(16, 8, &[64]) }),
        ("pendulum", Config { shared_trunk: false, ..base(16, 16, &[32]) }.ppo(|ppo| ppo.norm_adv = false)),
        ("acrobot", Config { num_minibatches: 1, lr_schedule: LrSchedule::Constant, ..base(1, 65, &[]) }),
        ("locks", Config { shared_trunk: false, ..base(33, 8, &[20, 40]) }.ppo(|ppo| ppo.ent_coef = 0.1)),
        ("locks", Config { max_grad_norm: 0.01, ..base(65, 4, &[128, 32]) }.ppo(|ppo| ppo.target_kl = 1e-4)),
        ("cards", base(17, 8, &[20])),
        ("mixed_cards", base(17, 8, &[20])),
    ];
    for (name, config) in part.of(5, cases) {
        updates_agree(&device, &*world(name), &config, 2, UpdatePath::Fused);
    }
}

/// Networks with embeddings, whose tables and first layer the kernels run as one layer.
fn with_tables() -> [(&'static str, Config); 8] {
    let base = || Config { encoder: Encoder::Embed, embed_width: 6, ..config(17, 8, &[24]) };
    [
        ("minigrid_empty_8x8", base()),
        ("minigrid_empty_8x8", Config { encoder: Encoder::EmbedMean, embed_width: 9, ..base() }),
        ("taxi", Config { encoder: Encoder::EmbedSum, shared_trunk: false, hidden: vec![20, 33], ..base() }),
        // Bits between two parts with indices.
        ("cards", base()),
        ("cards", Config { encoder: Encoder::EmbedSum, shared_trunk: false, ..base() }),
        // log_std follows the layers.
        ("needle", Config { shared_trunk: false, ..base() }),
        ("frozen_lake", Config { hidden: vec![], ..base() }),
        ("frozen_lake", Config { hidden: vec![], shared_trunk: false, ..base() }),
    ]
}

/// Updates in single precision, gradients in others.
fn embeddings_follow_the_cpu(part: Part) {
    let cases = with_tables().into_iter().flat_map(|case| precisions().map(|how| (case.clone(), how)));
    for ((name, config), (ordinal, precision)) in part.of(16, cases) {
        let Some(device) = device(ordinal) else { return };
        if precision == Precision::F32 {
            updates_agree(&device, &*world(name), &config, 10, UpdatePath::Fused);
        } else {
            gradient_agrees(&device, &*world(name), &config, precision);
        }
    }
}

fn gradients_on_tensor_cores_are_those_of_single_precision(part: Part) {
    let base = |hidden: &[usize]| config(17, 9, hidden);
    let cases = [
        ("cartpole", base(&[64, 64])),
        // A minibatch for blocks of eight warps, of whose tiles the last is short.
        ("cartpole", Config { num_minibatches: 1, ..config(601, 29, &[64, 64]) }),
        ("cartpole", base(&[])),
        ("pendulum", base(&[32])),
        ("acrobot", Config { shared_trunk: false, ..base(&[33, 20]) }),
        ("minatar_breakout", Config { activation: Activation::Relu, ..base(&[40, 32]) }),
        ("locks", base(&[20, 40])),
        ("cards", base(&[20])),
        ("mixed_cards", base(&[20])),
    ];
    let cores = [(0, Precision::Bf16), (2, Precision::Tf32)];
    let cases = cases.into_iter().flat_map(|case| cores.map(|how| (case.clone(), how)));
    for ((name, config), (ordinal, precision)) in part.of(9, cases) {
        let Some(device) = device(ordinal) else { return };
        gradient_agrees(&device, &*world(name), &config, precision);
    }
}

#[test]
fn gradients_too_large_for_registers_are_added_up_in_memory() {
    let Some(device) = device(1) else { return };
    let wide = Config { shared_trunk: false, ..config(17, 9, &[128, 128]) };
    gradient_agrees(&device, &Locks, &wide, Precision::Bf16);
}

#[test]
fn the_order_of_threads_changes_no_bit_on_tensor_cores() {
    let config = config(33, 8, &[64, 32]);
    let mut states = Vec::new();
    for ordinal in ORDERS {
        let Some(device) = device(ordinal) else { return };
        let rollout = CudaRollout::new(&device, &Locks, &config, Precision::F32).expect("a rollout");
        let network = rollout.network().clone();
        let params = init_params(&network, 2);
        rollout.set_params(&params).and_then(|()| rollout.roll()).expect("a horizon");
        let stream = rollout.stream();
        let learner =
            CudaLearner::new(&device, stream, &Locks, &network, &config, Precision::Bf16).expect("a learner");
        learner.load(stream, &LearnerState::new(params), 0, 0).expect("a state");
        for _ in 0..2 {
            learner.update(stream, rollout.samples_buffer()).expect("an update");
        }
        states.push(learner.state(stream).expect("state"));
    }
    assert!(states.iter().all(|state| *state == states[0]), "bits differ");
}

#[test]
fn ten_updates_in_a_row_follow_the_cpu() {
    let Some(device) = device(2) else { return };
    let config = Config { learning_rate: 1e-3, ..config(16, 32, &[64, 64]) };
    updates_agree(&device, &*world("cartpole"), &config, 10, UpdatePath::Fused);
}

fn orders_of_threads_and_ways_of_launching_give_the_same_bits(part: Part) {
    let (whole, phases) = (UpdatePath::Fused, UpdatePath::Phases);
    let [tables, _, _, _, apart, ..] = with_tables();
    // Blocks that are ahead must not see that the next epoch is the last.
    let stopping = config(33, 8, &[32, 32]).ppo(|ppo| (ppo.target_kl, ppo.norm_adv) = (1e-4, false));
    let cases = [("locks", config(33, 8, &[32, 32])), tables, apart, ("locks", stopping)];
    for (name, config) in part.of(3, cases) {
        let mut states = Vec::new();
        for (ordinal, how) in [(0, whole), (1, whole), (2, whole), (0, phases), (4, whole)] {
            let Some(device) = device(ordinal) else { return };
            states.push(updates_agree(&device, &*world(name), &config, 2, how));
        }
        assert!(states.iter().all(|state| *state == states[0]), "bits differ in {name}");
    }
}

#[test]
fn a_minibatch_that_is_not_finite_is_skipped_and_counted() {
    let Some(device) = device(0) else { return };
    let config = Config { num_minibatches: 4, update_epochs: 2, ..config(16, 8, &[16]) };
    let rollout = CudaRollout::new(&device, &Locks, &config, Precision::F32).expect("a rollout");
    let network = rollout.network().clone();
    let params = init_params(&network, 2);
    rollout.set_params(&params).and_then(|()| rollout.roll()).expect("a horizon");
    let (stream, layout) = (rollout.stream(), rollout.layout());
    let mut samples = rollout.samples().expect("samples");
    samples[layout.logprob.expect("of a policy")] = f32::NAN.to_bits();
    rollout.samples_buffer().write(stream, &samples).expect("samples");
    let learner =
        CudaLearner::new(&device, stream, &Locks, &network, &config, Precision::F32).expect("a learner");
    learner.load(stream, &LearnerState::new(params), 0, 0).expect("a state");
    for update in 1..=2 {
        learner.update(stream, rollout.samples_buffer()).expect("an update");
        let (report, progress) =
            (learner.report(stream).expect("report"), learner.progress(stream).expect("progress"));
        assert_eq!((report.nonfinite, report.minibatches), (2, 3.0));
        assert_eq!((progress.nonfinite_in_a_row, progress.adam_steps), (update, 6 * update));
        assert!(learner.state(stream).expect("state").params.iter().all(|w| w.is_finite()));
    }
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_the_update_stays_within_its_memory_and_the_language() {
    sanitized(&[
        "cuda::update::a_minibatch_that_is_not_finite_is_skipped_and_counted",
        "cuda::update::the_order_of_threads_changes_no_bit_on_tensor_cores",
        "cuda::update::few_cases::orders_of_threads_and_ways_of_launching_give_the_same_bits",
        "cuda::update::other_cases::orders_of_threads_and_ways_of_launching_give_the_same_bits",
    ]);
}
