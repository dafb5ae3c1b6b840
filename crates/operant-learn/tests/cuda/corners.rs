//! Corners of the GPU's rollout that the shipped environments and small grids do not reach: odd numbers of real actions, many
//! components, masks of two words, bootstraps over bits, clock beyond 32 bits, blocks of several warps, broken weights.

use operant_cuda::Device;
use operant_env::cartpole::CartPole;
use operant_env::{ActionSpace, Clock, Current, Env, Rows, RowsMut};
use operant_lane::bundle::leaves_of;
use operant_lane::draws::unit;
use operant_lane::{ActionDraws, Bundle, Packed, Purpose, Source};
use operant_learn::cuda::{CudaPlay, CudaRollout, PlayOptions};
use operant_learn::cuda::{EpisodeTotals, RunningNorm};
use operant_learn::{Activation, Config, Precision};
use operant_parity::{compare_rollout, differing_environments};

use crate::support::cards::{Cards, MixedCards};
use crate::support::crane::{Crane, HIGH, LOW};
use crate::support::gpu::{config, device, params, rollout_agrees, sanitized};
use crate::support::locks::Locks;
use crate::support::parts::Part;
use crate::support::random_play;
use crate::support::switchboard::Switchboard;

in_parts! { odd_and_many_actions_follow_the_cpu }

fn odd_and_many_actions_follow_the_cpu(part: Part) {
    for (ordinal, precision) in part.of(3, Precision::ALL.into_iter().enumerate()) {
        let Some(device) = device(ordinal) else { return };
        // Bounds of normalised values so near that values are clipped.
        let near = Config {
            norm_obs: true,
            norm_reward: true,
            clip_obs: 0.75,
            clip_reward: 0.5,
            ..config(33, 1, &[20])
        };
        rollout_agrees(&device, &Crane, &near, precision, 24);
        rollout_agrees(&device, &Switchboard, &config(33, 1, &[20]), precision, 24);
        rollout_agrees(&device, &Cards, &config(33, 1, &[20]), precision, 24);
        rollout_agrees(&device, &MixedCards, &config(17, 1, &[20]), precision, 24);
    }
    let Some(device) = device(2) else { return };
    // Bits straight into the last layer, and two chains over the same bits.
    rollout_agrees(&device, &Switchboard, &config(17, 1, &[]), Precision::Bf16, 12);
    let apart = Config { shared_trunk: false, activation: Activation::Relu, ..config(17, 1, &[40, 24]) };
    rollout_agrees(&device, &Switchboard, &apart, Precision::Tf32, 12);
    for differing in [
        differing_environments(&device, &Crane, 33, 64).expect("random play"),
        differing_environments(&device, &Switchboard, 33, 64).expect("random play"),
    ] {
        assert!(differing.is_empty(), "environments {differing:?}");
    }
}

// ---- horizons, step by step on the scalar lane -----------------------------------------------------------------------

/// The action that a sample holds, as the environment gets it: real ones clipped to their box.
struct Taken<'a> {
    values: &'a [u32],
    space: &'a ActionSpace,
    component: usize,
}

impl Source<f32> for Taken<'_> {
    fn float(&mut self) -> f32 {
        let (value, k) = (f32::from_bits(self.values[self.component]), self.component);
        self.component += 1;
        let ActionSpace::Box { low, high } = self.space else { unreachable!("a float acts in a box") };
        value.clamp(low[k] as f32, high[k] as f32)
    }
    fn uint(&mut self) -> <f32 as operant_lane::Lane>::Uint {
        self.component += 1;
        f32::load_uint(&[f32::from_bits(self.values[self.component - 1]) as u32])
    }
    fn int(&mut self) -> <f32 as operant_lane::Lane>::Int {
        unreachable!("no environment acts in signed integers")
    }
    fn mask(&mut self) -> bool {
        unreachable!("no environment acts in truth values")
    }
}

fn words(bundle: &impl Bundle<f32>, count: usize) -> Vec<u32> {
    let mut words = vec![0; count];
    bundle.store(&mut RowsMut::new(&mut words, 1, 0));
    words
}

/// Plays one rollout on the device from global step `start`, and repeats it on the scalar lane with the same actions:
/// observations, flags, rewards, states and episodes must be equal, and with zero weights the actions must equal the
/// draws. Returns how often each kind of flag occurred.
fn by_hand<E: Env>(device: &Device, env: &E, config: &Config, start: u64) -> [usize; 4] {
    let spec = env.spec();
    let rollout = CudaRollout::new(device, env, config, Precision::F32).expect("a rollout");
    let mut weights = vec![0.0; rollout.network().len()];
    if let Some(first) = rollout.network().log_std {
        weights[first..].iter_mut().zip([0.25, -0.25, -0.75]).for_each(|(to, s)| *to = s);
    }
    rollout.set_params(&weights).expect("parameters");
    let mut running = rollout.environments().expect("environments");
    rollout.set_environments(&running, start).expect("a later clock");
    let leaves = leaves_of::<f32, E::State<f32>>().len() + 2;
    let (n, steps, layout) = (config.num_envs, config.num_steps, rollout.layout().clone());
    let (mut kinds, mut discounted) = ([0; 4], vec![0.0; n]);
    let mut norms = rollout.running_norms().expect("statistics");
    // The second rollout continues where the first ended.
    for horizon in 0..2 {
        rollout.poison(0xff).and_then(|()| rollout.roll()).expect("a horizon");
        let (samples, returns) = (rollout.samples().expect("samples"), rollout.returns().expect("returns"));
        let mut frozen = Frozen { norms, seen: Vec::new() };
        let (mut length, mut sums) = (0.0, Vec::new());
        for environment in 0..n {
            let number = f32::load_uint(&[environment as u32]);
            let mut current: Current<f32, E> = Current::load(&mut Rows::new(&running, n, environment));
            let mut draws = ActionDraws::<f32>::new(config.seed, number, Purpose::Action);
            for t in 0..steps {
                let (at, step) = (t * n + environment, start + (horizon * steps + t) as u64);
                let sample = &samples[at * layout.stride..][..layout.stride];
                let place = format!("{}: environment {environment}, step {step}", spec.name);
                let obs = words(&env.observe(&current.state), layout.obs_words);
                let obs = frozen.obs(&obs, config);
                assert_eq!(sample[..layout.obs_words], obs, "{place}");
                let values = &sample[layout.actions..][..layout.components];
                drawn(env, &current.state, &spec.actions, &mut draws, step, values, &place);
                let action = E::Action::load(&mut Taken { values, space: &spec.actions, component: 0 });
                let clock = Clock::new(config.seed, number, step);
                let went = current.step(env, spec.time_limit, &action, &clock);
                let flags = u8::from(went.terminated) | u8::from(went.truncated) << 1;
                assert_eq!(returns.flags[at], flags, "{place}");
                let reward = frozen.reward(went.reward, flags != 0, config, &mut discounted[environment]);
                assert_eq!(returns.rewards[at].to_bits(), reward.to_bits(), "{place}");
                kinds[flags as usize] += 1;
                if flags != 0 {
                    length += length_of(went.episodic_length);
                    sums.push(f64::from(went.episodic_return));
                }
            }
            let column = words_of(&current, leaves);
            (0..leaves).for_each(|row| running[row * n + environment] = column[row]);
        }
        assert_eq!(rollout.environments().expect("environments"), running, "{}", spec.name);
        same_episodes(&rollout.episodes().expect("episodes"), &sums, length);
        norms = rollout.running_norms().expect("statistics");
        frozen.leads_to(&norms);
        if config.norm_reward {
            assert_eq!(rollout.discounted().expect("discounted returns"), discounted);
        }
    }
    kinds
}

/// The statistics of a horizon, and what is seen during it.
struct Frozen {
    norms: Vec<RunningNorm>,
    seen: Vec<Vec<f64>>,
}

impl Frozen {
    fn see(&mut self, quantity: usize, value: f32) {
        self.seen.resize(self.norms.len(), Vec::new());
        self.seen[quantity].push(f64::from(value));
    }

    fn scale(&self, quantity: usize) -> f32 {
        (1.0 / (self.norms[quantity].var + 1e-8).sqrt()) as f32
    }

    /// The observation as the policy sees it.
    fn obs(&mut self, obs: &[u32], config: &Config) -> Vec<u32> {
        if !config.norm_obs {
            return obs.to_vec();
        }
        let limit = config.clip_obs as f32;
        let normalised = obs.iter().enumerate().map(|(k, word)| {
            let x = f32::from_bits(*word);
            self.see(k, x);
            ((x - self.norms[k].mean as f32) * self.scale(k)).clamp(-limit, limit).to_bits()
        });
        normalised.collect()
    }

    /// The reward as the learner sees it.
    fn reward(&mut self, reward: f32, done: bool, config: &Config, discounted: &mut f32) -> f32 {
        if !config.norm_reward {
            return reward;
        }
        let (last, limit) = (self.norms.len() - 1, config.clip_reward as f32);
        *discounted = discounted.mul_add(config.gamma as f32, reward);
        self.see(last, *discounted);
        if done {
            *discounted = 0.0;
        }
        (reward * self.scale(last)).clamp(-limit, limit)
    }

    /// Whether what was seen makes `after` of the statistics.
    fn leads_to(&self, after: &[RunningNorm]) {
        for ((before, seen), after) in self.norms.iter().zip(&self.seen).zip(after) {
            let (n, total) = (seen.len() as f64, before.count + seen.len() as f64);
            let mean = seen.iter().sum::<f64>() / n;
            let spread = seen.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let delta = mean - before.mean;
            let var = (before.var * before.count + spread + delta * delta * before.count * n / total) / total;
            let mean = before.mean + delta * n / total;
            assert!((after.count - total).abs() < 1e-6, "{after:?}");
            assert!((after.mean - mean).abs() < 1e-5 * (1.0 + mean.abs()), "{after:?} {mean}");
            assert!((after.var - var).abs() < 1e-4 * var, "{after:?} {var}");
        }
    }
}

fn length_of(length: <f32 as operant_lane::Lane>::Uint) -> f64 {
    let mut word = [0];
    f32::store_uint(length, &mut word);
    f64::from(word[0])
}

fn words_of<E: Env>(current: &Current<f32, E>, leaves: usize) -> Vec<u32> {
    let mut words = vec![0; leaves];
    current.store(&mut RowsMut::new(&mut words, 1, 0));
    words
}

/// The episodes of a horizon by their returns.
fn same_episodes(got: &EpisodeTotals, returns: &[f64], length: f64) {
    assert_eq!((got.count, got.length), (returns.len() as f64, length));
    let near = |got: f64, expected: f64| {
        assert!((got - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{got} {expected}")
    };
    near(got.sum, returns.iter().sum());
    near(got.squares, returns.iter().map(|x| x * x).sum());
    assert_eq!(f64::from(got.min), returns.iter().copied().fold(f64::INFINITY, f64::min));
    assert_eq!(f64::from(got.max), returns.iter().copied().fold(f64::NEG_INFINITY, f64::max));
}

/// With zero weights every legal choice is as likely as another, and means are zero: what the draws must have given.
fn drawn<E: Env>(
    env: &E,
    state: &E::State<f32>,
    space: &ActionSpace,
    draws: &mut ActionDraws<f32>,
    step: u64,
    values: &[u32],
    place: &str,
) {
    let count = values.len() as u32;
    match space {
        ActionSpace::Discrete(choices) => {
            for (component, &choices) in choices.iter().enumerate() {
                let draw = f64::from(unit::<f32>(draws.bits(step, component as u32, count)));
                let legal = |k: &usize| !E::MASKED || env.legal::<f32>(state, component, *k);
                let legal: Vec<usize> = (0..choices).filter(legal).collect();
                let among = draw * legal.len() as f64;
                let got = f32::from_bits(values[component]) as usize;
                let at = legal.iter().position(|&k| k == got);
                let Some(at) = at else {
                    panic!("{place}: choice {got} of component {component} is illegal")
                };
                // A draw on a border may fall to either side.
                let good = at as f64 - 1e-5 <= among && among <= (at + 1) as f64 + 1e-5;
                assert!(good, "{place}: choice {got} of component {component} by draw {draw}");
            }
        }
        ActionSpace::Box { .. } => {
            let words = count.next_multiple_of(2);
            for (k, log_std) in (0..count).zip([0.25f64, -0.25, -0.75]) {
                let mut draw = |k| f64::from(unit::<f32>(draws.bits(step, k, words)));
                let radius = (-2.0 * (1.0 - draw(k / 2 * 2)).ln()).sqrt();
                let angle = core::f64::consts::TAU * draw(k / 2 * 2 + 1);
                let normal = radius * if k % 2 == 0 { angle.cos() } else { angle.sin() };
                let got = f64::from(f32::from_bits(values[k as usize]));
                assert!((got - log_std.exp() * normal).abs() < 1e-5, "{place}: action {k} is {got}");
            }
        }
    }
}

/// A global step whose low word overflows during the rollout and that is not a multiple of four.
const LATE: u64 = (7 << 32) - 6;

#[test]
fn rollouts_across_a_32_bit_global_step_equal_the_scalar_lane() {
    let Some(device) = device(2) else { return };
    by_hand(&device, &CartPole::default(), &config(17, 9, &[]), LATE - 1);
    by_hand(&device, &Locks, &config(17, 30, &[]), LATE);
    // Zero weights: a bootstrap adds nothing.
    let kinds = [
        by_hand(&device, &Crane, &config(33, 9, &[]), LATE),
        by_hand(&device, &Switchboard, &config(33, 9, &[]), LATE),
    ];
    by_hand(&device, &Cards, &config(33, 30, &[]), LATE);
    for kinds in kinds {
        assert!(kinds.iter().all(|&count| count > 0), "not every kind of end came up: {kinds:?}");
    }
}

/// More blocks than a block has threads, and several warps per block: the merged statistics include all of them.
#[test]
fn many_blocks_of_many_warps_are_merged() {
    let Some(device) = device(2) else { return };
    // One warp a block, 133 blocks.
    by_hand(&device, &Locks, &config(2_113, 25, &[]), 0);
    // Four warps a block, 100 blocks.
    let config = config(6_337, 7, &[]);
    // Bounds so near that values are clipped.
    let normed = Config { norm_obs: true, norm_reward: true, clip_obs: 1.5, clip_reward: 0.75, ..config };
    by_hand(&device, &Crane, &normed, LATE);
    let rollout = CudaRollout::new(&device, &Crane, &normed, Precision::F32).expect("a rollout");
    let specialisation = rollout.specialisation();
    let blocks = rollout.kernel().map(|(_, grid)| grid.blocks);
    assert!(specialisation.is_some_and(|it| it.warps == 4) && blocks > Some(32), "{specialisation:?}");
    rollout_agrees(&device, &Crane, &normed, Precision::F32, 8);
}

/// The outputs that random play writes for benchmarks, and its episode counts, equal the scalar lane.
#[test]
fn random_play_writes_what_the_scalar_lane_gives() {
    fn check<E: Env>(device: &Device, env: &E) {
        // 129 blocks of 64 threads.
        let (n, steps, seed, spec) = (8_200, 26, 5, env.spec());
        let options = PlayOptions { writes: Some(steps), ..PlayOptions::new(seed) };
        let play = CudaPlay::new(device, env, n, options).expect("environments");
        play.play(steps).expect("a horizon");
        let (obs, rewards, flags) = play.outputs().expect("outputs").expect("requested outputs");
        let (obs_words, leaves) = (spec.obs.words(), leaves_of::<f32, E::State<f32>>().len() + 2);
        let (mut returns, mut length) = (Vec::new(), 0.0);
        let running = play.environments().expect("environments");
        for environment in 0..n {
            let number = f32::load_uint(&[environment as u32]);
            let clock = |step| Clock::new(seed, number, step);
            let mut current = Current::<f32, E>::start(env, &clock(0));
            let mut draws = ActionDraws::new(seed, number, Purpose::RandomAction);
            for t in 0..steps {
                let action = random_play::action(env, &current.state, &mut draws, t as u64);
                let went = current.step(env, spec.time_limit, &action, &clock(t as u64));
                let at = t * n + environment;
                let place = format!("{}: environment {environment}, step {t}", spec.name);
                let row = (0..obs_words).map(|word| obs[(t * obs_words + word) * n + environment]);
                assert!(row.eq(words(&went.obs, obs_words)), "{place}");
                assert_eq!(rewards[at].to_bits(), went.reward.to_bits(), "{place}");
                let ended = u8::from(went.terminated) | u8::from(went.truncated) << 1;
                assert_eq!(flags[at], ended, "{place}");
                if ended != 0 {
                    returns.push(f64::from(went.episodic_return));
                    length += length_of(went.episodic_length);
                }
            }
            let column = running.iter().skip(environment).step_by(n).copied();
            assert!(column.eq(words_of(&current, leaves)), "{}: environment {environment}", spec.name);
        }
        same_episodes(&play.episodes().expect("episodes"), &returns, length);
    }
    let Some(device) = device(1) else { return };
    check(&device, &Locks);
    check(&device, &Switchboard);
}

/// A draw of exactly zero takes the first choice that is legal, not the first.
#[test]
fn the_least_draw_takes_a_legal_choice() {
    const STEP: u64 = 210_190;
    const ENVIRONMENT: usize = 2;
    const SEED: u64 = 3;
    let mut draws = ActionDraws::<f32>::new(SEED, f32::load_uint(&[ENVIRONMENT as u32]), Purpose::Action);
    assert_eq!(unit::<f32>(draws.bits(STEP, 0, 5)), 0.0, "the step was chosen for its draw");
    let Some(device) = device(0) else { return };
    let config = Config { seed: SEED, ..config(17, 1, &[]) };
    let rollout = CudaRollout::new(&device, &Switchboard, &config, Precision::F32).expect("a rollout");
    let mut running = rollout.environments().expect("environments");
    // The first three lamps of the first panel are on.
    running[ENVIRONMENT] = 7;
    rollout.set_environments(&running, STEP).and_then(|()| rollout.roll()).expect("a step");
    let (samples, layout) = (rollout.samples().expect("samples"), rollout.layout());
    let choice = f32::from_bits(samples[ENVIRONMENT * layout.stride + layout.actions]);
    assert_eq!(choice, 3.0);
}

/// A diverged network must be detected: in every precision NaN reaches values and log-probabilities, and actions remain in
/// their space. Large weights saturate and remain finite.
#[test]
fn broken_and_great_weights_are_what_they_are_on_the_cpu() {
    let Some(device) = device(1) else { return };
    for (activation, precision) in [
        (Activation::Tanh, Precision::F32),
        (Activation::Relu, Precision::F32),
        (Activation::Tanh, Precision::Bf16),
        (Activation::Relu, Precision::Tf32),
    ] {
        let config = Config { activation, ..config(17, 2, &[20]) };
        let rollout = CudaRollout::new(&device, &Locks, &config, precision).expect("a rollout");
        let mut broken = params(&Locks, &config);
        broken[0] = f32::NAN;
        rollout.set_params(&broken).and_then(|()| rollout.roll()).expect("a horizon");
        let (samples, layout) = (rollout.samples().expect("samples"), rollout.layout().clone());
        for sample in samples.chunks_exact(layout.stride) {
            let float = |at: usize| f32::from_bits(sample[at]);
            assert!(
                float(layout.value).is_nan() && float(layout.logprob.expect("of a policy")).is_nan(),
                "{activation:?} {precision}"
            );
            assert!(
                float(layout.actions) < 3.0 && float(layout.actions + 1) < 4.0,
                "{activation:?} {precision}"
            );
        }
        let mut great = params(&Locks, &config);
        let weights = rollout.network().tensors[0].range();
        great[weights].iter_mut().for_each(|w| *w *= 300.0);
        let found = compare_rollout(&device, &Locks, &config, precision, &great, 12).expect("a rollout");
        let problems = found.problems(precision);
        // Rounded inputs flip the sign of what is nearly zero, so that only fp32 is held to its tolerance here.
        assert!(
            precision != Precision::F32 || problems.is_empty(),
            "{activation:?}: {problems:#?} {found:?}"
        );
        assert!(found.values.relative().is_finite(), "{activation:?} {precision}: {found:?}");
    }
}

#[test]
fn the_boxes_of_the_crane_are_not_alike() {
    assert!(LOW.iter().zip(HIGH).all(|(low, high)| *low < high && *low != -high));
}

/// What the sanitizers run: bootstraps over bits, odd actions, blocks of several warps.
#[test]
fn corners_of_every_kind() {
    let Some(device) = device(2) else { return };
    by_hand(&device, &Crane, &config(17, 7, &[]), LATE);
    by_hand(&device, &Switchboard, &config(6_337, 6, &[]), LATE);
}

/// The only kernels of the learner that `--all` runs under sanitizers; the others are in `--nightly`.
#[test]
#[ignore = "cargo xtask test --all"]
fn corners_stay_within_their_memory_and_the_language() {
    sanitized(&[
        "cuda::corners::corners_of_every_kind",
        "cuda::corners::the_least_draw_takes_a_legal_choice",
    ]);
}
