//! Updates on the device compared with the CPU's, over the same samples.

use operant_cuda::Device;
use operant_env::AnyEnv;
use operant_learn::LearnerState;
use operant_learn::cpu::batch::Batch;
use operant_learn::cpu::update::Learner;
use operant_learn::cuda::{CudaLearner, CudaRollout, Kernels, NetworkOptions, UpdateReport};
use operant_learn::network::{Form, init_params};
use operant_learn::{Config, LearnError, Precision};
use operant_metrics::METRICS;

use super::{norm_of, tolerance};

/// Tolerance of parameters after the first update in single precision; each further update adds three times as much. Moments
/// may differ by twenty times as much, because Adam does not normalise them.
const PARAMETERS: f64 = 1e-5;
/// Tolerance of the reported statistics.
const REPORTED: f64 = 2e-3;

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateParity {
    /// Descriptions of the differences; empty if the device agrees with the CPU.
    pub problems: Vec<String>,
    /// The learner's state on the device after the last update.
    pub state: LearnerState,
}

/// The update kernels to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdatePath {
    /// The fused kernels in one cooperative launch.
    Fused,
    /// The fused kernels with a launch per phase, as on devices without cooperative launches.
    Phases,
    /// The GEMM path, for the rollout too.
    Gemm,
}

impl UpdatePath {
    fn kernels(self) -> Kernels {
        match self {
            UpdatePath::Fused | UpdatePath::Phases => Kernels::Fused,
            UpdatePath::Gemm => Kernels::Gemm,
        }
    }
}

/// A rollout's samples, and weights other than those that played it, so that some ratios are clipped.
fn prepared(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    kernels: Kernels,
) -> Result<(CudaRollout, LearnerState), LearnError> {
    let rollout =
        CudaRollout::new(device, env, config, NetworkOptions { precision: Precision::F32, kernels })?;
    let mut params = init_params(rollout.network(), 2);
    rollout.set_params(&params)?;
    // With memory twice, so that the initial states are not zero.
    for _ in 0..if rollout.network().states > 0 { 2 } else { 1 } {
        rollout.roll()?;
    }
    params.iter_mut().enumerate().for_each(|(k, w)| *w += 0.05 * (k as f32 * 0.7).sin());
    Ok((rollout, LearnerState::new(params)))
}

/// The samples of a rollout as the CPU keeps them. Without memory and outcomes one step of B environments has the device's order of samples; with it,
/// both number sequences environment by environment. With outcomes and without memory the order is the same for up to 16 environments.
///
/// # Errors
/// When the device fails.
pub fn batch_of(rollout: &CudaRollout, config: &Config) -> Result<Batch, LearnError> {
    let (layout, states) = (rollout.layout(), rollout.network().states);
    let (n, steps) = if states > 0 || config.recomputes() {
        (config.num_envs, config.num_steps)
    } else {
        (config.num_envs * config.num_steps, 1)
    };
    let mut batch = Batch::new(layout.clone(), n, steps).with_outcomes(config.recomputes());
    let all = rollout.samples()?;
    let (samples, first_states) = all.split_at(n * steps * layout.stride);
    let mut first = 0;
    for tile in batch.tiles_mut(1) {
        let row = tile.lanes * layout.stride;
        for (t, words) in tile.words.chunks_exact_mut(row).enumerate() {
            words.copy_from_slice(&samples[(t * n + first) * layout.stride..][..row]);
        }
        first += tile.lanes;
    }
    if states > 0 {
        // `(sequences of an environment, N, states)` there, `(N, sequences of an environment, states)` here.
        let parts = steps / config.sequence();
        let of = |sequence: usize| {
            let at = (sequence % parts * n + sequence / parts) * states;
            first_states[at..at + states].iter().map(|word| f32::from_bits(*word))
        };
        batch = batch.with_states(config.sequence(), states);
        batch.states_mut().iter_mut().zip((0..n * parts).flat_map(of)).for_each(|(to, from)| *to = from);
    }
    if config.recomputes() {
        let float = |word: &u32| f32::from_bits(*word);
        let outcomes = &all[all.len() - n * (2 * steps + 1)..];
        let ended = outcomes[..2 * n * steps].as_chunks().0;
        for env in 0..n {
            let [first, stride] = batch.samples_of(env);
            for t in 0..steps {
                let [reward, goes_on] = ended[t * n + env];
                batch.set_outcome(first + t * stride, [float(&reward), 1.0 - float(&goes_on)]);
            }
        }
        batch.set_next_values(outcomes[2 * n * steps..].iter().map(float));
    }
    Ok(batch)
}

/// Whether `got` is at most `most`; false for NaN.
fn within(got: f64, most: f64) -> bool {
    got <= most
}

/// Compares `updates` consecutive updates in single precision over the same rollout: parameters, moments and all statistics.
///
/// # Errors
/// When the configuration cannot be trained there, or the device fails.
pub fn compare_update(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    updates: u64,
    how: UpdatePath,
) -> Result<UpdateParity, LearnError> {
    let options = NetworkOptions { precision: Precision::F32, kernels: how.kernels() };
    let (rollout, mut state) = prepared(device, env, config, options.kernels)?;
    let (stream, network) = (rollout.stream(), rollout.network().clone());
    let mut learner = CudaLearner::new(device, stream, env, &network, config, options)?;
    if how == UpdatePath::Phases {
        learner.without_cooperative_launch();
    }
    learner.load(stream, &state, 0, 0)?;

    let mut batch = batch_of(&rollout, config)?;
    let mut cpu = Learner::new(network, rollout.layout().clone(), config.clone());
    let mut problems = Vec::new();
    for update in 0..updates {
        learner.update(stream, rollout.samples_buffer())?;
        let expected = cpu.update(&mut state, &mut batch, update)?;
        let (got, report) = (learner.state(stream)?, learner.report(stream)?);
        // Differences grow with Adam's steps; the first ones divide small numbers by small ones.
        let most = PARAMETERS * (1.0 + 3.0 * update as f64);
        for (name, got, expected, most) in [
            ("parameters", &got.params, &state.params, most),
            ("first moments", &got.exp_avg, &state.exp_avg, 20.0 * most),
            ("second moments", &got.exp_avg_sq, &state.exp_avg_sq, 20.0 * most),
        ] {
            let distance = norm_of(got, expected).relative();
            if !within(distance, most) {
                problems
                    .push(format!("update {update}: {name} differ by {distance:.2e}, more than {most:.0e}"));
            }
        }
        let norms =
            [&got.value_norm, &state.value_norm].map(|norm| [norm.mean.clone(), norm.var.clone()].concat());
        let near = norms[0]
            .iter()
            .zip(&norms[1])
            .all(|(got, expected)| within((got - expected).abs(), 1e-5 * expected.abs().max(1.0)));
        if norms[0].len() != norms[1].len() || !near {
            problems.push(format!("update {update}: statistics of returns are {norms:?}"));
        }
        let counts = [got.step, report.nonfinite, report.epochs];
        if counts != [state.step, expected.nonfinite, expected.epochs as u64] {
            problems.push(format!("update {update}: steps, skipped minibatches or epochs are {counts:?}"));
        }
        let metrics = UpdateReport::metrics(&[report], config, update);
        let both = metrics.values().into_iter().zip(expected.metrics.values());
        for (metric, (got, expected)) in METRICS.iter().zip(both) {
            let name = metric.name;
            if got.is_nan() && expected.is_nan() {
                continue;
            }
            if !within((got - expected).abs(), REPORTED * expected.abs() + REPORTED / 100.0) {
                problems.push(format!("update {update}: {name} is {got}, on the CPU {expected}"));
            }
        }
    }
    Ok(UpdateParity { problems, state: learner.state(stream)? })
}

/// Compares one minibatch's gradient in another precision with single precision: as a whole, and matrix by matrix, so that
/// errors of small matrices are not hidden by large ones. Returns descriptions of the differences.
///
/// # Errors
/// Same as [`compare_update`].
pub fn compare_gradient(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    options: impl Into<NetworkOptions>,
) -> Result<Vec<String>, LearnError> {
    let NetworkOptions { precision, kernels } = options.into();
    // After one unclipped step the first moments are a tenth of the gradient. Normalised advantages sum to zero, and if
    // observations are nearly equal so does their gradient; the rest has no meaningful relative error. A ratio at the edge of
    // the clipping range could be clipped in one precision and not in the other.
    let config = Config { num_minibatches: 1, update_epochs: 1, max_grad_norm: 1e9, ..config.clone() }
        .ppo(|ppo| (ppo.norm_adv, ppo.clip_coef) = (false, 1e6));
    let (rollout, state) = prepared(device, env, &config, kernels)?;
    let (stream, network) = (rollout.stream(), rollout.network());
    let updated = |precision: Precision| {
        let options = NetworkOptions { precision, kernels };
        let learner = CudaLearner::new(device, stream, env, network, &config, options)?;
        learner.load(stream, &state, 0, 0)?;
        learner.update(stream, rollout.samples_buffer())?;
        Ok::<_, LearnError>((learner.state(stream)?.exp_avg, learner.report(stream)?))
    };
    let ((got, report), (expected, exact)) = (updated(precision)?, updated(Precision::F32)?);
    // Each product rounds its operands, and networks with other layers have more products between the loss and a weight.
    let is_connected = network.layers().all(|layer| matches!(layer.form, Form::Dense(_)));
    let most = tolerance(precision) * if is_connected { 1.0 } else { 3.0 };
    let mut problems = Vec::new();
    let whole = norm_of(&got, &expected).relative();
    if !within(whole, most) {
        problems.push(format!("the gradient differs by {whole:.2e}, more than {most:.0e}"));
    }
    if whole == 0.0 && precision != Precision::F32 {
        problems.push("the gradient was not computed in another precision".to_owned());
    }
    for tensor in network.tensors.iter().filter(|tensor| tensor.shape.len() == 2) {
        let distance = norm_of(&got[tensor.range()], &expected[tensor.range()]).relative();
        if !within(distance, 3.0 * most) {
            problems.push(format!("the gradient of {} differs by {distance:.2e}", tensor.name));
        }
    }
    // The losses themselves, and not what is counted or nearly zero.
    for (k, (got, exact)) in report.losses.into_iter().zip(exact.losses).enumerate().take(3) {
        if !within((got - exact).abs(), most * exact.abs() + 1e-3) {
            problems.push(format!("sum {k} of the loss is {got}, in single precision {exact}"));
        }
    }
    Ok(problems)
}
