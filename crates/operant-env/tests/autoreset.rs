//! When the next episode begins: within the step that ended one, in the step after it, or when the caller restarts it; and
//! rows with seeds or their own time limit. On every lane, for every environment.

use operant_env::play::{Outputs, RandomActions};
use operant_env::{AnyEnv, Autoreset, LaneWidth, Stepper, TileSpec, builtin};

use crate::lanes::widths;

const ROWS: usize = 32;
const STEPS: u64 = 5200;

/// A tile that plays random actions.
struct Player {
    stepper: Box<dyn Stepper>,
    outputs: Outputs,
    random: RandomActions,
    actions: Vec<f32>,
}

impl Player {
    fn new(env: &dyn AnyEnv, tile: TileSpec) -> Self {
        let spec = env.spec();
        let mut player = Player {
            stepper: env.stepper(tile).expect("made of lanes"),
            outputs: Outputs::new(&spec, env.masked(), ROWS),
            random: RandomActions::new(spec.actions.clone(), 5, 0, ROWS),
            actions: vec![0.0; spec.actions.components() * ROWS],
        };
        player.stepper.observe(player.outputs.seen()).expect("made of lanes");
        player
    }

    fn step(&mut self, step: u64) {
        self.random.fill(step, &self.outputs.legal, &mut self.actions);
        self.stepper.submit(&self.actions, step).expect("made of lanes");
        self.stepper.collect(self.outputs.stepped()).expect("made of lanes");
    }

    fn obs(&self, row: usize) -> Vec<u32> {
        self.outputs.obs.iter().skip(row).step_by(ROWS).copied().collect()
    }

    fn final_obs(&self, row: usize) -> Vec<u32> {
        self.outputs.final_obs.iter().skip(row).step_by(ROWS).copied().collect()
    }

    fn ended(&self, row: usize) -> bool {
        self.outputs.ended(row) != [false, false]
    }
}

fn on_every_lane(test: impl Fn(&dyn AnyEnv, LaneWidth)) {
    for env in builtin().of_each_kind().envs() {
        for lanes in widths() {
            test(&**env, lanes);
        }
    }
}

#[test]
fn the_next_step_begins_the_next_episode() {
    on_every_lane(|env, lanes| {
        let name = env.spec().name;
        let of = |autoreset| Player::new(env, TileSpec { lanes, autoreset, ..TileSpec::new(7, 0, ROWS) });
        let (mut same, mut next) = (of(Autoreset::SameStep), of(Autoreset::NextStep));
        let mut first_episode = [true; ROWS];
        let (mut length, mut sum, mut waits) = ([0u32; ROWS], [0f32; ROWS], [false; ROWS]);
        let mut episodes = 0;
        for step in 0..STEPS {
            same.step(step);
            // The first episode is the same in both modes, under the same actions.
            next.actions.copy_from_slice(&same.actions);
            next.stepper.submit(&next.actions, step).expect("made of lanes");
            next.stepper.collect(next.outputs.stepped()).expect("made of lanes");
            for row in 0..ROWS {
                let reward = next.outputs.rewards[row];
                if first_episode[row] {
                    assert_eq!(next.ended(row), same.ended(row), "{name}");
                    let expected = if same.ended(row) { same.final_obs(row) } else { same.obs(row) };
                    assert_eq!(next.obs(row), expected, "{name}: the last observation is returned");
                    assert_eq!(reward, same.outputs.rewards[row]);
                }
                if waits[row] {
                    assert!(reward == 0.0 && !next.ended(row), "{name}: the action is ignored");
                    (length[row], sum[row]) = (0, 0.0);
                } else {
                    length[row] += 1;
                    sum[row] += reward;
                }
                waits[row] = next.ended(row);
                first_episode[row] &= !waits[row];
                if waits[row] {
                    episodes += 1;
                    assert_eq!(
                        (next.outputs.lengths[row], next.outputs.returns[row]),
                        (length[row], sum[row])
                    );
                }
            }
        }
        assert!(episodes > ROWS, "{name}: only {episodes} episodes");
    });
}

#[test]
fn without_autoreset_only_the_caller_restarts_a_row() {
    on_every_lane(|env, lanes| {
        let tile = TileSpec { lanes, autoreset: Autoreset::Disabled, ..TileSpec::new(7, 0, ROWS) };
        let mut player = Player::new(env, tile);
        let first: Vec<Vec<u32>> = (0..ROWS).map(|row| player.obs(row)).collect();
        (0..30).for_each(|step| player.step(step));
        let before: Vec<Vec<u32>> = (0..ROWS).map(|row| player.obs(row)).collect();
        // Every third row, at step 30.
        let chosen = |row: usize| row.is_multiple_of(3);
        let mask =
            |block: usize| (0..16).filter(|i| chosen(block * 16 + i)).fold(0u16, |mask, i| mask | 1 << i);
        player.stepper.restart(&[mask(0), mask(1)], None, 30).expect("made of lanes");
        player.stepper.observe(player.outputs.seen()).expect("made of lanes");
        for row in (0..ROWS).filter(|row| !chosen(*row)) {
            assert_eq!(player.obs(row), before[row]);
        }
        // At the step of the start, and with its seed, they are as at the start.
        player.stepper.restart(&[u16::MAX; 2], None, 0).expect("made of lanes");
        player.stepper.observe(player.outputs.seen()).expect("made of lanes");
        (0..ROWS).for_each(|row| assert_eq!(player.obs(row), first[row]));
    });
}

#[test]
fn a_row_with_a_seed_is_environment_0_of_that_seed() {
    on_every_lane(|env, lanes| {
        for autoreset in [Autoreset::SameStep, Autoreset::NextStep] {
            let tile = |seed| TileSpec { lanes, autoreset, ..TileSpec::new(seed, 0, ROWS) };
            let mut many = Player::new(env, tile(1));
            let seeds: Vec<u64> = (0..ROWS as u64).map(|row| row * 0x1_0000_0001 + 3).collect();
            many.stepper.restart(&[u16::MAX; 2], Some(&seeds), 0).expect("made of lanes");
            many.stepper.observe(many.outputs.seen()).expect("made of lanes");
            let row = 21;
            let mut alone = Player::new(env, tile(seeds[row]));
            for step in 0..STEPS / 2 {
                assert_eq!(many.obs(row), alone.obs(0));
                many.step(step);
                for (all, one) in many.actions.chunks(ROWS).zip(alone.actions.chunks_mut(ROWS)) {
                    one.fill(all[row]);
                }
                alone.stepper.submit(&alone.actions, step).expect("made of lanes");
                alone.stepper.collect(alone.outputs.stepped()).expect("made of lanes");
                assert_eq!(many.outputs.rewards[row].to_bits(), alone.outputs.rewards[0].to_bits());
            }
        }
    });
}

#[test]
fn a_tile_can_have_a_time_limit_of_its_own() {
    on_every_lane(|env, lanes| {
        let own = env.spec().time_limit;
        for limit in [1, 7, u32::MAX] {
            let tile = TileSpec { lanes, time_limit: Some(limit), ..TileSpec::new(7, 0, ROWS) };
            let mut player = Player::new(env, tile);
            let (mut lengths, mut longest, mut truncations) = ([0u32; ROWS], 0, 0);
            for step in 0..STEPS {
                player.step(step);
                for (row, length) in lengths.iter_mut().enumerate() {
                    *length += 1;
                    let [_, truncated] = player.outputs.ended(row);
                    assert_eq!(truncated, *length >= limit, "{limit}: {length} steps");
                    truncations += u32::from(truncated);
                    longest = longest.max(*length);
                    *length *= u32::from(!player.ended(row));
                }
            }
            assert!(longest <= limit && (truncations > 0) == (limit < u32::MAX), "{limit}: {longest}");
            // Random actions never reach the goal of this one.
            if limit == u32::MAX && env.spec().name == "pendulum" {
                assert!(longest > own, "no limit, and no episode longer than {own}");
            }
        }
    });
}
