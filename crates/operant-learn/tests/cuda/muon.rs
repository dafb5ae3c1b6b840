//! `optimizer = "muon"` on the GEMM path: the kernels' steps of hidden matrices against the CPU's, which `tests/optimiser.rs` compares with a
//! reference in f64.

use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::{
    CudaLearner, CudaRollout, GpuOptions, Kernels, NetworkOptions, choose, specialise,
};
use operant_learn::network::{Architecture, Network, init_params};
use operant_learn::{
    Activation, ClipGrad, Config, CoreKind, LearnerState, LrSchedule, Optimizer, Precision, ShuffleKind, cuda,
};
use operant_parity::UpdatePath;

use super::ORDERS;
use crate::support::gpu::{config, device, gemm, same_bits_in_every_order, sanitized, updates_agree};
use crate::support::locks::Locks;
use crate::support::parts::Part;
use crate::support::{assert_same, run, world};

fn muon(config: Config) -> Config {
    Config { optimizer: Optimizer::Muon, ..config }
}

/// With all that distinguishes the value's steps.
fn apart(config: Config) -> Config {
    let value = Config { vf_learning_rate: 3e-3, clip_grad: ClipGrad::Network, ..muon(config) };
    Config { shared_trunk: false, max_grad_norm: 0.05, weight_decay: 0.1, lr_warmup: 0.2, ..value }
}

fn with_memory(core: CoreKind) -> Config {
    muon(Config { core, core_width: 13, sequence_length: 4, ..config(8, 8, &[20]) })
}

in_parts! { updates_follow_the_cpu, the_order_of_threads_changes_no_bit, a_restored_backend_continues_bit_for_bit }

/// Several minibatches: parameters differ by at most 1e-5 of their norm after one update, and 4e-5 after two.
fn updates_follow_the_cpu(part: Part) {
    // Tiles that are whole and that are not, of tall and of wide matrices, and matrices of one tile.
    let dense = apart(config(9, 8, &[70, 33]));
    let conv = muon(Config { conv: vec![[5, 3, 1]], activation: Activation::Relu, ..config(8, 8, &[24]) });
    let residual = muon(Config { hidden: vec![20], residual_blocks: 2, ..config(8, 8, &[]) });
    let kl = |config| Config { lr_schedule: LrSchedule::Kl, desired_kl: 1e-4, ..muon(config) };
    let pqn = Config { algorithm: Algorithm::Pqn, layer_norm: true, ..muon(config(8, 8, &[24, 16])) };
    let cases = [
        ("cartpole", dense),
        ("minatar_breakout", conv),
        ("t_maze", with_memory(CoreKind::Gru)),
        ("cartpole_no_velocity", Config { core_width: 0, ..with_memory(CoreKind::MinGru) }),
        ("cartpole", residual),
        ("locks", pqn),
        ("pendulum", Config { shuffle: ShuffleKind::Blocks, ..apart(config(16, 16, &[24])) }),
        ("pendulum", kl(config(8, 8, &[24]))),
        ("cartpole", kl(Config { vf_learning_rate: 3e-3, shared_trunk: false, ..config(8, 8, &[40]) })),
        ("repeat_previous", with_memory(CoreKind::Lstm)),
        ("locks", muon(config(9, 4, &[160, 100]))),
    ];
    // By default one of each kind.
    let is_mine = |k: usize| (k < 6) == (part == Part::Few);
    for (case, (name, config)) in cases.into_iter().enumerate().filter(|(k, _)| is_mine(*k)) {
        let Some(device) = device(ORDERS[case % 3]) else { return };
        assert_eq!(config.optimiser_problem(), None);
        updates_agree(&device, &*world(name), &config, 2, UpdatePath::Gemm);
    }
}

fn the_order_of_threads_changes_no_bit(part: Part) {
    let gru = with_memory(CoreKind::Gru);
    let cases = [("locks", Precision::Bf16, apart(config(9, 8, &[40]))), ("t_maze", Precision::F32, gru)];
    for (name, precision, config) in part.of(2, cases) {
        same_bits_in_every_order(&*world(name), &config, gemm(precision));
    }
}

/// Loading packs all parameters for the products, so this also compares what Muon's kernels pack.
fn a_restored_backend_continues_bit_for_bit(part: Part) {
    let Some(device) = device(2) else { return };
    let plain = Config { norm_obs: true, norm_reward: true, ..apart(config(8, 8, &[40])) };
    let cases = [(Precision::Bf16, true, plain), (Precision::F32, false, with_memory(CoreKind::Gru))];
    for (precision, overlap, config) in part.of(2, cases) {
        let env = world("locks");
        let backend = || {
            let options = GpuOptions { network: precision.into(), overlap, ..GpuOptions::default() };
            cuda::backend(env.clone(), &config, &device, options).expect("a backend")
        };
        let [mut straight, mut first, mut second] = [backend(), backend(), backend()];
        run(&mut *straight, 4);
        run(&mut *first, 2);
        let saved = first.save().expect("a snapshot");
        run(&mut *second, 1);
        second.load(&saved).expect("the same environment and configuration");
        run(&mut *second, 2);
        let [second, straight] = [second, straight].map(|mut backend| backend.save().expect("a snapshot"));
        assert_same(&second, &straight, "continued");
    }
}

#[test]
fn a_minibatch_that_is_not_finite_leaves_all_unchanged() {
    let Some(device) = device(0) else { return };
    let config = muon(Config { num_minibatches: 1, update_epochs: 2, ..config(8, 8, &[16]) });
    let options = gemm(Precision::F32);
    let rollout = CudaRollout::new(&device, &Locks, &config, options).expect("a rollout");
    let (network, stream) = (rollout.network().clone(), rollout.stream());
    let params = init_params(&network, 2);
    rollout.set_params(&params).and_then(|()| rollout.roll()).expect("a horizon");
    let learner = CudaLearner::new(&device, stream, &Locks, &network, &config, options).expect("a learner");
    learner.load(stream, &LearnerState::new(params), 0, 0).expect("a state");
    learner.update(stream, rollout.samples_buffer()).expect("an update");
    let before = learner.state(stream).expect("a state");
    let mut samples = rollout.samples().expect("samples");
    samples[rollout.layout().logprob.expect("of a policy")] = f32::NAN.to_bits();
    rollout.samples_buffer().write(stream, &samples).expect("samples");
    learner.update(stream, rollout.samples_buffer()).expect("an update");
    assert_eq!(learner.report(stream).expect("a report").nonfinite, 2);
    assert_eq!((learner.state(stream).expect("a state"), before.step), (before, 2));
}

#[test]
fn the_fused_kernels_refuse_it_and_auto_takes_products() {
    let Some(device) = device(0) else { return };
    let config = muon(config(16, 16, &[24]));
    let network = Network::new(Architecture::of(&world("cartpole").spec(), &config).expect("a network"));
    let limits = specialise::Limits { shared: 232_448, multiprocessors: 132 };
    let of = |kernels| {
        let options = NetworkOptions { kernels, precision: Precision::F32 };
        choose(&network, &config, options, limits, || device.has_blas())
    };
    let error = of(Kernels::Fused).expect_err("refused").to_string();
    assert!(error.contains("do not support optimizer = \"muon\"; set kernels = \"gemm\""), "{error}");
    let chosen = of(Kernels::Auto).expect("products run it");
    assert_eq!(chosen.kernels, Kernels::Gemm);
    assert!(chosen.reason.contains("optimizer = \"muon\""), "{}", chosen.reason);
    let blocks = Config { shuffle: ShuffleKind::Blocks, ..config };
    let options = GpuOptions { deterministic: true, ..GpuOptions::default() };
    let error = cuda::backend(world("cartpole"), &blocks, &device, options).err().expect("refused");
    assert!(error.to_string().starts_with("deterministic: "), "{error}");
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_muon_stays_within_its_memory_and_the_language() {
    sanitized(&[
        "cuda::muon::few_cases::the_order_of_threads_changes_no_bit",
        "cuda::muon::few_cases::updates_follow_the_cpu",
    ]);
}
