//! The loop of the CUDA backend: rollouts that overlap updates, reports in a separate stream, no allocations. Where a test asks for
//! it, streams run in other orders than that of the calls.

use operant_cuda::Device;
use operant_learn::LearnerState;
use operant_learn::cuda::footprint::Footprint;
use operant_learn::cuda::{CudaLearner, CudaRollout, GpuOptions, Kernels, NetworkOptions};
use operant_learn::network::init_params;
use operant_learn::{Backend, Config, LearnError, Optimizer, Precision, Snapshot, UpdateStats, cuda};

use crate::support::gpu::{device, gemm, little_device, stand_in};
use crate::support::locks::Locks;
use crate::support::parts::Part;
use crate::support::{self, assert_same, run, shared};

fn options(network: impl Into<NetworkOptions>, overlap: bool) -> GpuOptions {
    GpuOptions { network: network.into(), overlap, ..GpuOptions::default() }
}

fn config() -> Config {
    Config {
        seed: 4,
        num_envs: 20,
        num_steps: 8,
        num_minibatches: 2,
        update_epochs: 2,
        total_timesteps: 20 * 8 * 50,
        learning_rate: 1e-2,
        hidden: vec![32],
        norm_obs: true,
        norm_reward: true,
        ..Config::default()
    }
}

fn backend(device: &Device, network: impl Into<NetworkOptions>, overlap: bool) -> Box<dyn Backend> {
    cuda::backend(shared(Locks), &config(), device, options(network, overlap)).expect("a backend")
}

/// The parameters of a snapshot, in its order, which is that of the network's tensors.
fn params(snapshot: &Snapshot) -> Vec<u8> {
    let own = snapshot.tensors.iter().filter(|tensor| tensor.name.starts_with("params."));
    own.flat_map(|tensor| tensor.data.clone()).collect()
}

/// That numbers of the rollout and of the update are the same in every report.
fn assert_same_reports(a: &[UpdateStats], b: &[UpdateStats]) {
    let numbers = |stats: &UpdateStats| {
        [
            stats.metrics.policy_loss,
            stats.metrics.value_loss,
            stats.metrics.grad_norm,
            stats.metrics.episodic_return,
            stats.metrics.episodic_length,
        ]
        .map(f64::to_bits)
    };
    for (a, b) in a.iter().zip(b) {
        assert_eq!((a.ticket, a.episodes, numbers(a)), (b.ticket, b.episodes, numbers(b)));
    }
    assert_eq!(a.len(), b.len());
}

/// The parameters after `updates` updates one after the other, where rollout k plays with those after update k - 2; and what
/// rollout k counted of episodes.
fn one_update_old(device: &Device, how: NetworkOptions, updates: usize) -> (Vec<f32>, Vec<u64>) {
    let config = config();
    let rollout = CudaRollout::new(device, &Locks, &config, how).expect("a rollout");
    let (network, stream) = (rollout.network().clone(), rollout.stream());
    let learner = CudaLearner::new(device, stream, &Locks, &network, &config, how).expect("a learner");
    let state = LearnerState::new(init_params(&network, config.seed));
    learner.load(stream, &state, 0, 0).expect("parameters");
    let (mut history, mut episodes) = (vec![state.params.clone(), state.params], Vec::new());
    for update in 0..updates {
        rollout.set_params(&history[update]).expect("parameters");
        rollout.roll().expect("a horizon");
        episodes.push(rollout.episodes().expect("episodes").count as u64);
        learner.update(stream, rollout.samples_buffer()).expect("an update");
        history.push(learner.state(stream).expect("parameters").params);
    }
    (history.pop().expect("the last"), episodes)
}

/// Trains with overlap, again and again; each time streams may run in another order.
fn overlap_plays_with_weights_one_update_old(device: &Device, how: NetworkOptions, times: usize) {
    const UPDATES: usize = 7;
    let (expected, episodes) = one_update_old(device, how, UPDATES);
    let expected: Vec<u8> = expected.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut first = None;
    for _ in 0..times {
        let mut backend = backend(device, how, true);
        let stats = run(&mut *backend, UPDATES);
        let snapshot = backend.save().expect("a snapshot");
        assert!(
            params(&snapshot) == expected,
            "parameters differ from those of rollouts and updates in turn"
        );
        assert_eq!(stats.iter().map(|stats| stats.episodes).collect::<Vec<_>>(), episodes);
        assert!(stats.iter().all(|stats| stats.metrics.bytes_h2d + stats.metrics.bytes_d2h <= 4_096.0));
        let (first_stats, first_snapshot) = first.get_or_insert_with(|| (stats.clone(), snapshot.clone()));
        assert_same_reports(first_stats, &stats);
        assert_same(first_snapshot, &snapshot, "trained again");
    }
}

#[test]
fn an_overlap_without_free_resources_is_reported() {
    let Some(device) = device(0) else { return };
    let how = |device: &Device, num_envs, width, overlap| {
        let config = Config {
            num_envs,
            num_steps: 16,
            num_minibatches: 1,
            hidden: vec![width, width],
            shared_trunk: true,
            ..config()
        };
        let options = options(Precision::F32, overlap);
        let backend = cuda::backend(shared(Locks), &config, device, options).expect("a backend");
        backend.how().expect("why these kernels")
    };
    // 32,768 samples take a block of every multiprocessor, whose shared memory 128-128 fills and 64-64 does not.
    let full = how(&device, 2_048, 128, true);
    assert!(full.contains("; overlap has no effect: the update's "), "{full}");
    assert!(full.contains("bytes of shared memory of every multiprocessor"), "{full}");
    for quiet in [how(&device, 2_048, 128, false), how(&device, 2_048, 64, true), how(&device, 20, 64, true)]
    {
        assert!(!quiet.contains("overlap"), "{quiet}");
    }
    // Without cooperative launches an update is many launches, and a rollout's blocks run between them.
    let Some(phases) = support::gpu::device(4) else { return };
    assert!(!how(&phases, 2_048, 128, true).contains("overlap"));
}

#[test]
fn with_overlap_a_rollout_plays_with_weights_one_update_old() {
    for (ordinal, precision) in [(0, Precision::F32), (2, Precision::Bf16), (4, Precision::F32)] {
        let Some(device) = device(ordinal) else { return };
        overlap_plays_with_weights_one_update_old(&device, precision.into(), 1);
    }
    let Some(device) = device(1) else { return };
    overlap_plays_with_weights_one_update_old(&device, gemm(Precision::Bf16), 1);
}

in_parts! { the_order_of_streams_changes_no_bit, the_loop_allocates_nothing_and_construction_the_predicted_bytes }

fn the_order_of_streams_changes_no_bit(part: Part) {
    if !stand_in::is_child() {
        for seed in part.of(3, ["1", "2", "3"]) {
            let streams = [("OPERANT_HOST_STREAMS", seed.to_owned())];
            let test = "cuda::training_loop::few_cases::the_order_of_streams_changes_no_bit";
            let Some(output) = stand_in::rerun_with(test, &streams) else { return };
            stand_in::must_pass(&output);
        }
        return;
    }
    for (ordinal, how, times) in
        [(0, Precision::F32.into(), 5), (4, Precision::F32.into(), 2), (0, gemm(Precision::F32), 3)]
    {
        let Some(device) = device(ordinal) else { return };
        overlap_plays_with_weights_one_update_old(&device, how, times);
        // Without overlap only the reports have their own stream.
        let runs: Vec<_> = (0..times)
            .map(|_| {
                let mut backend = backend(&device, how, false);
                // Asking for the scene has it recorded.
                backend.scene();
                let stats = run(&mut *backend, 9);
                (stats, backend.save().expect("a snapshot"), backend.scene())
            })
            .collect();
        for (stats, snapshot, scene) in &runs {
            assert_same_reports(stats, &runs[0].0);
            assert_same(snapshot, &runs[0].1, "trained again");
            assert!(scene.is_some() && *scene == runs[0].2);
        }
    }
}

#[test]
fn a_restored_overlap_continues_bit_for_bit() {
    for (ordinal, precision) in [(2, Precision::F32), (0, Precision::Bf16)] {
        let Some(device) = device(ordinal) else { return };
        let mut straight = backend(&device, precision, true);
        run(&mut *straight, 6);
        let mut first = backend(&device, precision, true);
        run(&mut *first, 3);
        let saved = first.save().expect("a snapshot");
        let mut second = backend(&device, precision, true);
        run(&mut *second, 2);
        // Its report is never polled.
        second.enqueue_update().expect("an update");
        second.load(&saved).expect("the same environment and configuration");
        assert_same(&second.save().expect("a snapshot"), &saved, "what was loaded");
        run(&mut *second, 3);
        assert_same(&second.save().expect("a snapshot"), &straight.save().expect("a snapshot"), "continued");
    }
}

#[test]
fn overlap_starts_with_the_current_weights_and_changes_no_others() {
    let Some(device) = device(0) else { return };
    let names = |snapshot: &Snapshot| -> Vec<String> {
        snapshot.tensors.iter().map(|tensor| tensor.name.clone()).collect()
    };
    let mut plain = backend(&device, Precision::F32, false);
    run(&mut *plain, 2);
    let without = plain.save().expect("a snapshot");
    assert!(!names(&without).contains(&"rollout.params".to_owned()));

    let mut overlap = backend(&device, Precision::F32, true);
    overlap.load(&without).expect("a snapshot without the rollout's weights");
    let with = overlap.save().expect("a snapshot");
    let playing = with.tensors.iter().find(|tensor| tensor.name == "rollout.params").expect("its weights");
    assert_eq!(playing.data, params(&without));
    // The first rollout plays with them as without overlap it would.
    let (a, b) = (run(&mut *overlap, 1), run(&mut *plain, 1));
    assert_same_reports(&a, &b);
    run(&mut *overlap, 2);
    let saved = overlap.save().expect("a snapshot");
    let playing = saved.tensors.iter().find(|tensor| tensor.name == "rollout.params").expect("its weights");
    assert_ne!(playing.data, params(&saved), "they are one update old");

    let mut other = backend(&device, Precision::F32, false);
    other.load(&saved).expect("a snapshot with the rollout's weights");
    assert_eq!(params(&other.save().expect("a snapshot")), params(&saved));
    run(&mut *other, 1);

    let mut broken = saved.clone();
    broken.tensors.last_mut().expect("tensors").shape[0] += 1;
    let error = overlap.load(&broken).expect_err("the rollout's weights are of another network");
    assert!(error.to_string().contains("rollout.params"), "{error}");
}

#[test]
fn seven_enqueued_updates_report_as_seven_polled_ones() {
    let Some(device) = device(1) else { return };
    for overlap in [false, true] {
        let (mut eager, mut reference) =
            (backend(&device, Precision::F32, overlap), backend(&device, Precision::F32, overlap));
        for update in 0..7 {
            assert_eq!(eager.enqueue_update().expect("an update").0, update);
        }
        let mut stats = Vec::new();
        while let Some(one) = eager.poll(true).expect("a report") {
            stats.push(one);
        }
        assert_same_reports(&stats, &run(&mut *reference, 7));
    }
}

fn the_loop_allocates_nothing_and_construction_the_predicted_bytes(part: Part) {
    const PINNED: u64 = 3 * 4;
    use Kernels::{Fused, Gemm};
    use Precision::{Bf16, F32, Tf32};
    if !stand_in::is_child() {
        // By itself: other tests would take memory of the same device.
        let cases = if part == Part::Few { "few_cases" } else { "other_cases" };
        let test = "the_loop_allocates_nothing_and_construction_the_predicted_bytes";
        let Some(output) = stand_in::rerun(&format!("cuda::training_loop::{cases}::{test}")) else { return };
        return stand_in::must_pass(&output);
    }
    let plain = config();
    let bare =
        Config { norm_obs: false, norm_reward: false, shared_trunk: false, hidden: vec![], ..config() };
    let wide = Config { num_envs: 300, num_minibatches: 1, hidden: vec![64, 64], ..config() };
    let apart = Config { shared_trunk: false, norm_obs: false, ..wide.clone() };
    let drawn = apart.clone().ppo(|ppo| (ppo.prio_alpha, ppo.norm_value, ppo.vf_epochs) = (0.5, true, 1));
    let muon = Config { optimizer: Optimizer::Muon, ..config() };
    let cases = [
        (0, &plain, Fused, F32, false),
        (4, &plain, Fused, F32, true),
        (0, &plain, Fused, Bf16, true),
        (0, &bare, Fused, F32, true),
        (0, &wide, Fused, Tf32, false),
        (0, &wide, Fused, Bf16, true),
        (0, &muon, Gemm, F32, false),
        (0, &apart, Gemm, Bf16, true),
        (0, &drawn, Gemm, F32, false),
        (0, &plain, Gemm, F32, false),
    ];
    for (ordinal, config, kernels, precision, overlap) in part.of(3, cases) {
        let Some(device) = device(ordinal) else { return };
        let network = NetworkOptions { precision, kernels };
        let options = GpuOptions { network, ..options(precision, overlap) };
        let predicted = Footprint::new(&Locks, config, options, device.properties()).expect("a footprint");
        let predicted = predicted.of(config.num_envs).expect("kernels for it");
        let before = (device.allocations(), device.memory().expect("a size").free);
        let mut backend = cuda::backend(shared(Locks), config, &device, options).expect("a backend");
        let after = (device.allocations(), device.memory().expect("a size").free);
        // Each library for products has memory to work in.
        let (libraries, room) = if kernels == Gemm { (2, 2 << 25) } else { (0, 0) };
        assert_eq!(after.0 - before.0, 1 + PINNED + libraries, "one arena, and where reports arrive");
        assert_eq!((before.1 - after.1) as usize, predicted + room);
        run(&mut *backend, 2);
        backend.scene();
        run(&mut *backend, 3);
        assert_eq!(device.allocations(), after.0, "the loop allocates");
        drop(backend);
        assert_eq!(device.memory().expect("a size").free, before.1);
    }
}

#[test]
fn too_many_environments_with_overlap_are_refused_with_the_maximum() {
    let Some((_alone, device)) = little_device() else { return };
    let most = [false, true].map(|overlap| {
        let options = options(Precision::F32, overlap);
        let config = Config { num_envs: 8_190, num_minibatches: 3, ..config() };
        let error =
            cuda::backend(shared(Locks), &config, &device, options).err().expect("no room").to_string();
        assert_eq!(error.contains("with overlap"), overlap, "{error}");
        let most = error.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
        let most: usize = most.parse().expect("a number");
        let config = Config { num_envs: most, ..config };
        let mut backend =
            cuda::backend(shared(Locks), &config, &device, options).expect("as many as it said");
        run(&mut *backend, 2);
        drop(backend);
        let config = Config { num_envs: most + 3, ..config };
        cuda::backend(shared(Locks), &config, &device, options).err().expect("no more than it said");
        most
    });
    assert!(most[1] < most[0], "{most:?}");
}

#[test]
fn as_many_environments_as_fit_or_as_learn_are_chosen() {
    let Some((_alone, little)) = little_device() else { return };
    let Some(plenty) = device(0) else { return };
    let choose = |device: &Device, config: &Config, overlap: bool| {
        let options = options(Precision::F32, overlap);
        cuda::choose_num_envs(&Locks, config, device, options, 1 << 20).expect("a number")
    };
    // 16 environments for each of 132 multiprocessors.
    let wave = 16 * 132;
    let config = Config { total_timesteps: 100 * 8 * (3 * wave + 7), ..config() };
    let chosen = choose(&plenty, &config, false);
    assert_eq!(chosen.num_envs, 3 * wave as usize);
    assert!(chosen.reason.contains("100 updates within total_timesteps"), "{}", chosen.reason);
    // Too few for that, and samples must still divide into the minibatches.
    let few = Config { total_timesteps: 100 * 8 * 50, num_minibatches: 3, ..config.clone() };
    assert_eq!(choose(&plenty, &few, false).num_envs, 48);
    let fewer = Config { total_timesteps: 100 * 8 * 10, num_minibatches: 3, ..config.clone() };
    assert_eq!(choose(&plenty, &fewer, false).num_envs, 9);
    let none = Config { total_timesteps: 1, num_minibatches: 3, ..config.clone() };
    assert_eq!(choose(&plenty, &none, false).num_envs, 3);

    let chosen = choose(&little, &config, false);
    assert!(chosen.num_envs.is_multiple_of(16) && chosen.reason.contains("of memory"), "{chosen:?}");
    assert!(choose(&little, &config, true).num_envs < chosen.num_envs);
    let config = Config { num_envs: chosen.num_envs, ..config };
    let mut backend =
        cuda::backend(shared(Locks), &config, &little, options(Precision::F32, false)).expect("it fits");
    run(&mut *backend, 1);
}

#[test]
fn a_device_lost_in_the_midst_of_overlap_is_an_error_and_never_a_hang() {
    let test = "cuda::training_loop::a_device_lost_in_the_midst_of_overlap_is_an_error_and_never_a_hang";
    if !stand_in::is_child() {
        for streams in [vec![], vec![("OPERANT_HOST_STREAMS", "5".to_owned())]] {
            let Some(output) = stand_in::rerun_with(test, &streams) else { return };
            stand_in::must_pass(&output);
        }
        return;
    }
    let Some(device) = device(5) else { return };
    let outcome = cuda::backend(shared(Locks), &config(), &device, options(Precision::F32, true)).and_then(
        |mut backend| {
            for _ in 0..4 {
                backend.enqueue_update()?;
                backend.enqueue_update()?;
                backend.poll(true)?;
            }
            Ok(())
        },
    );
    let error = outcome.expect_err("its launches fail");
    assert!(matches!(&error, LearnError::Cuda(error) if error.is_lost()), "{error}");
}
