//! Environments that are stepped with given actions: the same bits as on the CPU, for every environment and mode.

use operant_cuda::{Buffer, Device};
use operant_env::play::{Outputs, RandomActions};
use operant_env::world::{World, WorldEnv};
use operant_env::{ActionSpace, AnyEnv, Autoreset, ObsSpace, Stepper, TileSpec, builtin};
use operant_learn::cuda::{BadAction, CudaEnvs, EnvArrays, GivenActions};

use crate::support::fuses::Fuses;
use crate::support::gpu::{device, little_device, sanitized, stand_in};
use crate::support::locks::Locks;
use crate::support::switchboard::Switchboard;
use crate::support::world;
use crate::support::worlds::number;

const MODES: [Autoreset; 3] = [Autoreset::SameStep, Autoreset::NextStep, Autoreset::Disabled];

/// One tile of the CPU's environments, of which the first N are compared.
struct Tile {
    stepper: Box<dyn Stepper>,
    outputs: Outputs,
    rows: usize,
}

impl Tile {
    fn new(env: &dyn AnyEnv, num_envs: usize, seed: u64, autoreset: Autoreset) -> Self {
        let rows = num_envs.next_multiple_of(16);
        let stepper =
            env.stepper(TileSpec { autoreset, ..TileSpec::new(seed, 0, rows) }).expect("made of lanes");
        Tile { stepper, outputs: Outputs::new(&env.spec(), env.masked(), rows), rows }
    }

    fn row(&self, words: &[u32], row: usize) -> Vec<u32> {
        words.iter().skip(row).step_by(self.rows).copied().collect()
    }
}

/// An observation as the arrays have it: bytes of numbers, or a byte for each bit.
fn bytes_of(space: &ObsSpace, words: &[u32]) -> Vec<u8> {
    match space {
        ObsSpace::Box { .. } => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        _ => (0..space.size()).map(|bit| (words[bit / 32] >> (bit % 32) & 1) as u8).collect(),
    }
}

/// Actions `(components, rows)` on the device, as `(N, components)`.
fn upload(
    envs: &CudaEnvs,
    device: &Device,
    actions: &[f32],
    rows: usize,
    num_envs: usize,
    wide: bool,
) -> Buffer<u32> {
    let components = actions.len() / rows;
    let is_discrete = matches!(envs.spec().actions, ActionSpace::Discrete(_));
    let mut words = Vec::new();
    for row in 0..num_envs {
        for component in 0..components {
            let value = actions[component * rows + row];
            words.push(if is_discrete { value as u32 } else { value.to_bits() });
            words.extend(wide.then_some(0));
        }
    }
    let buffer = device.alloc(words.len()).expect("memory");
    buffer.write(envs.stream(), &words).expect("a copy");
    buffer
}

/// Everything that a step wrote, against the CPU's.
fn compare(
    env: &dyn AnyEnv,
    envs: &CudaEnvs,
    arrays: &EnvArrays,
    tile: &Tile,
    num_envs: usize,
    place: &str,
) -> usize {
    let (stream, out, space) = (envs.stream(), &tile.outputs, env.spec().obs);
    let obs = arrays.obs.read(stream).expect("observations");
    let finals = arrays.final_obs.as_ref().map(|finals| finals.read(stream).expect("observations"));
    let rewards = arrays.rewards.read(stream).expect("rewards");
    let flags = [&arrays.terminated, &arrays.truncated, &arrays.ended]
        .map(|flags| flags.read(stream).expect("flags"));
    let (returns, lengths) =
        (arrays.returns.read(stream).expect("returns"), arrays.lengths.read(stream).expect("lengths"));
    let width = obs.len() / num_envs;
    let mut episodes = 0;
    for row in 0..num_envs {
        let place = format!("{place}, environment {row}");
        let of = |bytes: &[u8]| bytes[row * width..][..width].to_vec();
        assert_eq!(of(&obs), bytes_of(&space, &tile.row(&out.obs, row)), "{place}");
        assert_eq!(rewards[row].to_bits(), out.rewards[row].to_bits(), "{place}");
        let [terminated, truncated] = out.ended(row);
        let ended = terminated || truncated;
        let expected = [terminated, truncated, ended].map(u8::from);
        assert_eq!([flags[0][row], flags[1][row], flags[2][row]], expected, "{place}");
        let of_episode = if ended { (out.returns[row].to_bits(), out.lengths[row]) } else { (0, 0) };
        assert_eq!((returns[row].to_bits(), lengths[row]), of_episode, "{place}");
        if let Some(finals) = finals.as_ref().filter(|_| ended) {
            assert_eq!(of(finals), bytes_of(&space, &tile.row(&out.final_obs, row)), "{place}");
        }
        episodes += usize::from(ended);
    }
    masks(env, envs, arrays, tile, num_envs, place);
    episodes
}

fn masks(env: &dyn AnyEnv, envs: &CudaEnvs, arrays: &EnvArrays, tile: &Tile, num_envs: usize, place: &str) {
    assert_eq!(arrays.masks.is_some(), env.masked());
    let Some(masks) = &arrays.masks else { return };
    let masks = masks.read(envs.stream()).expect("masks");
    let choices = masks.len() / num_envs;
    for row in 0..num_envs {
        let words = tile.row(&tile.outputs.legal, row);
        let legal: Vec<u8> = (0..choices).map(|bit| (words[bit / 32] >> (bit % 32) & 1) as u8).collect();
        assert_eq!(masks[row * choices..][..choices], legal, "{place}, environment {row}");
    }
}

fn same_bits(device: &Device, env: &dyn AnyEnv, num_envs: usize, autoreset: Autoreset, steps: u64) -> usize {
    let (seed, spec) = (9, env.spec());
    let mut envs = CudaEnvs::new(device, env, num_envs, autoreset, 2).expect("environments");
    let mut sets = [envs.arrays().expect("arrays"), envs.arrays().expect("arrays")];
    let mut tile = Tile::new(env, num_envs, seed, autoreset);
    let mut random = RandomActions::new(spec.actions.clone(), 5, 0, tile.rows);
    let mut actions = vec![0.0; spec.actions.components() * tile.rows];
    let is_discrete = matches!(spec.actions, ActionSpace::Discrete(_));

    envs.reseed(seed, &sets[1]).expect("new episodes");
    tile.stepper.observe(tile.outputs.seen()).expect("made of lanes");
    let mut episodes = 0;
    let mut time = 0;
    for step in 0..steps {
        let place = format!("{}, {autoreset:?}, step {step}", spec.name);
        random.fill(step, &tile.outputs.legal, &mut actions);
        let wide = is_discrete && step % 2 == 0;
        let words = upload(&envs, device, &actions, tile.rows, num_envs, wide);
        let set = &mut sets[step as usize % 2];
        envs.step(GivenActions { words: &words, wide }, set).expect("a step");
        tile.stepper.submit(&actions, time).expect("made of lanes");
        tile.stepper.collect(tile.outputs.stepped()).expect("made of lanes");
        assert_eq!(envs.bad_action(set).expect("a step"), None);
        episodes += compare(env, &envs, set, &tile, num_envs, &place);
        time += 1;
        if autoreset == Autoreset::Disabled && step % 40 == 39 {
            time += 1;
            let chosen: Vec<bool> = (0..num_envs).map(|row| row % 3 != 1).collect();
            envs.restart(Some(&chosen), set).expect("new episodes");
            let mut rows = vec![0u16; tile.rows / 16];
            chosen
                .iter()
                .enumerate()
                .for_each(|(row, &chosen)| rows[row / 16] |= u16::from(chosen) << (row % 16));
            tile.stepper.restart(&rows, None, time).expect("made of lanes");
            tile.stepper.observe(tile.outputs.seen()).expect("made of lanes");
            let obs = set.obs.read(envs.stream()).expect("observations");
            for (row, obs) in obs.chunks_exact(obs.len() / num_envs).enumerate() {
                assert_eq!(
                    obs,
                    bytes_of(&spec.obs, &tile.row(&tile.outputs.obs, row)),
                    "{place}, environment {row}"
                );
            }
            masks(env, &envs, set, &tile, num_envs, &place);
        }
    }
    let mut words = vec![0; (env.leaves().len() + 2) * tile.rows];
    tile.stepper.save(&mut words);
    let running = envs.environments().expect("environments");
    for (mine, theirs) in running.chunks_exact(num_envs).zip(words.chunks_exact(tile.rows)) {
        assert_eq!(mine, &theirs[..num_envs], "{}, {autoreset:?}", spec.name);
    }
    let players = &sets[(steps as usize + 1) % 2].players;
    assert_eq!(players.is_some(), spec.players > 1);
    if let Some(players) = players {
        let word = env.leaves().iter().position(|leaf| leaf.name == "player").expect("a player");
        let players = players.read(envs.stream()).expect("players");
        assert_eq!(players, words[word * tile.rows..][..num_envs], "{}, {autoreset:?}", spec.name);
        let moves = autoreset == Autoreset::SameStep;
        assert!(!moves || players.contains(&0) && players.contains(&1), "{players:?}");
    }
    episodes
}

/// Steps a world in every mode for long enough that time limits end episodes where they are short.
fn steps_agree(name: &str, ordinal: usize, num_envs: usize, most: u64) {
    let Some(device) = device(ordinal) else { return };
    let env = world(name);
    let limit = u64::from(env.spec().time_limit);
    for mode in MODES {
        let episodes = same_bits(&device, &*env, num_envs, mode, limit.min(most) + 10);
        assert!(episodes > 0 || limit > most, "{name}: no episode ended");
    }
}

/// In one order of threads for each world, if steps write its observations.
fn steps_in_one_order(name: &str) {
    if CudaEnvs::writes(&world(name).spec().obs) {
        steps_agree(name, number(name) % 3, 33, 520);
    }
}

mod steps_are_those_of_the_cpu {
    // The representatives whose observations steps write.
    world_tests! { super::steps_in_one_order: cartpole pendulum acrobot minatar_breakout }
}

mod steps_of_each_kind_are_those_of_the_cpu {
    other_kinds! { world_tests! #[ignore = "cargo xtask test --all"] super::steps_in_one_order: }
}

/// In every order of threads, if steps write its observations; none of the numbers of environments fills its last block.
fn steps_in_every_order(name: &str) {
    if CudaEnvs::writes(&world(name).spec().obs) {
        steps_agree(name, 0, 200, 520);
        steps_agree(name, 1, 65, 50);
        steps_agree(name, 2, 33, 50);
    }
}

mod nightly_steps_are_those_of_the_cpu {
    nightly_tests!(super::steps_in_every_order);
}

#[test]
fn masks_components_and_odd_bits_step_as_on_the_cpu() {
    let Some(device) = device(2) else { return };
    let recorded = WorldEnv::new(World::record(&Fuses));
    let game = world("connect_four");
    for env in [&Locks as &dyn AnyEnv, &Switchboard, &Fuses, &recorded, &*game] {
        for mode in MODES {
            assert!(same_bits(&device, env, 97, mode, 130) > 0);
        }
    }
}

/// The least bad action is reported with what it was, all others are stepped, and the next step is free of it.
#[test]
fn a_bad_action_is_reported_and_stepped_as_zero() {
    let Some(device) = device(1) else { return };
    let step = |name: &str, words: &[u32], wide: bool| {
        let env = builtin().make(name, &Default::default()).expect("it is built in");
        let mut envs = CudaEnvs::new(&device, &*env, 70, Autoreset::SameStep, 1).expect("environments");
        let mut arrays = envs.arrays().expect("arrays");
        envs.reseed(1, &arrays).expect("new episodes");
        let mut given = vec![0; 70 * if wide { 2 } else { 1 }];
        let mut give = |envs: &mut CudaEnvs, given: &[u32]| {
            let buffer = device.alloc(given.len()).expect("memory");
            buffer.write(envs.stream(), given).expect("a copy");
            envs.step(GivenActions { words: &buffer, wide }, &mut arrays).expect("a step");
            (
                arrays.obs.read(envs.stream()).expect("observations"),
                envs.bad_action(&mut arrays).expect("a step"),
            )
        };
        given[40 * words.len()..][..words.len()].copy_from_slice(words);
        given[69 * words.len()..][..words.len()].copy_from_slice(words);
        let (obs, bad) = give(&mut envs, &given);
        let (_, after) = give(&mut envs, &vec![0; given.len()]);
        assert_eq!(after, None, "{name}");
        envs.reseed(1, &envs.arrays().expect("arrays")).expect("new episodes");
        let (zeros, none) = give(&mut envs, &vec![0; given.len()]);
        assert_eq!((none, zeros), (None, obs), "{name}");
        bad.expect("a bad action")
    };
    let whole =
        |value: f64| BadAction { at: (40, 0), value, expected: "a whole number from 0 to 1".to_owned() };
    assert_eq!(step("cartpole", &[2], false), whole(2.0));
    assert_eq!(step("cartpole", &[-1i32 as u32], false), whole(-1.0));
    assert_eq!(step("cartpole", &[0, 1], true), whole(f64::from(i32::MAX)));
    assert_eq!(step("cartpole", &[0, 1 << 31], true), whole(f64::from(i32::MIN)));
    let number = step("pendulum", &[f32::INFINITY.to_bits()], false);
    assert_eq!((number.at, number.value), ((40, 0), f64::INFINITY));
    assert!(step("pendulum", &[f32::NAN.to_bits()], false).value.is_nan());
}

#[test]
fn what_the_device_cannot_hold_is_refused() {
    let Some((_alone, small)) = little_device() else { return };
    let env = builtin().make("cartpole", &Default::default()).expect("it is built in");
    let refused = |num_envs| {
        let made = CudaEnvs::new(&small, &*env, num_envs, Autoreset::SameStep, 2);
        made.map(drop).expect_err("more than 1 MiB").to_string()
    };
    let before = small.allocations();
    assert!(refused(20_000).contains("memory"), "{}", refused(20_000));
    assert!(refused(usize::MAX / 8).contains("fewer environments"), "{}", refused(usize::MAX / 8));
    assert_eq!(small.allocations(), before);
    let envs = CudaEnvs::new(&small, &*env, 5_000, Autoreset::SameStep, 2).expect("enough room");
    let (mut arrays, short) = (envs.arrays().expect("arrays"), small.alloc(7).expect("memory"));
    let mut envs = envs;
    let step = envs.step(GivenActions { words: &short, wide: false }, &mut arrays);
    assert!(step.expect_err("seven actions").to_string().contains("actions"));
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_steps_stay_within_their_memory() {
    sanitized(&["cuda::step::masks_components_and_odd_bits_step_as_on_the_cpu"]);
}

/// Streams that run late: whatever is read is ordered after the step that wrote it.
#[test]
fn deferred_streams_change_nothing() {
    let late = [("OPERANT_HOST_STREAMS", "3".to_owned())];
    let test = "cuda::step::masks_components_and_odd_bits_step_as_on_the_cpu";
    let Some(child) = stand_in::rerun_with(test, &late) else { return };
    stand_in::must_pass(&child);
}
