//! The row interpreter: every environment of the package, recorded and interpreted, steps to the bits of its compiled form.

use operant_env::play::{Outputs, RandomActions};
use operant_env::world::{World, WorldEnv};
use operant_env::{ActionSpace, AnyEnv, LaneWidth, TileSpec, builtin, running_words};

const ROWS: usize = 48;

/// Steps both and compares everything that they write.
fn compare(env: &dyn AnyEnv, world: &dyn AnyEnv, lanes: LaneWidth, steps: u64) {
    let spec = env.spec();
    let name = &spec.name;
    let words = running_words(env) * ROWS;
    let [mut expected, mut found] = [env, world].map(|env| {
        let tile = TileSpec { lanes, ..TileSpec::new(7, 1000, ROWS) };
        env.stepper(tile).expect("made of lanes")
    });
    let [mut a, mut b] = [(); 2].map(|()| Outputs::new(&spec, env.masked(), ROWS));
    let [mut state_a, mut state_b] = [(); 2].map(|()| vec![0; words]);
    let mut random = RandomActions::new(spec.actions.clone(), 7, 1000, ROWS);
    let mut actions = vec![0.0f32; spec.actions.components() * ROWS];
    expected.observe(a.seen()).expect("made of lanes");
    found.observe(b.seen()).expect("made of lanes");
    assert_eq!(a.obs, b.obs, "{name}: the first observations");
    for step in 0..steps {
        random.fill(step, &a.legal, &mut actions);
        if matches!(spec.actions, ActionSpace::Box { .. }) {
            actions.iter_mut().for_each(|action| *action *= 1.5);
        }
        for (stepper, outputs) in [(&mut expected, &mut a), (&mut found, &mut b)] {
            stepper.submit(&actions, step).expect("made of lanes");
            stepper.collect(outputs.stepped()).expect("made of lanes");
        }
        expected.save(&mut state_a);
        found.save(&mut state_b);
        assert_eq!(state_a, state_b, "{name}: states after step {step}");
        assert_eq!((&a.obs, &a.legal), (&b.obs, &b.legal), "{name}: observations after step {step}");
        let bits = |rewards: &[f32]| rewards.iter().map(|reward| reward.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&a.rewards), bits(&b.rewards), "{name}: rewards of step {step}");
        assert_eq!((&a.terminated, &a.truncated), (&b.terminated, &b.truncated), "{name}: ends of step {step}");
        assert_eq!((bits(&a.returns), &a.lengths), (bits(&b.returns), &b.lengths), "{name}: episodes");
        for row in 0..ROWS {
            if a.ended(row) != [false; 2] {
                let column = |obs: &[u32]| obs.iter().skip(row).step_by(ROWS).copied().collect::<Vec<_>>();
                assert_eq!(column(&a.final_obs), column(&b.final_obs), "{name}: final observations");
            }
        }
    }
}

#[test]
fn interpreted_worlds_give_the_bits_of_the_compiled_ones() {
    for env in builtin().envs() {
        let Some(world) = env.world() else { continue };
        let world = WorldEnv::new(world);
        for lanes in [LaneWidth::One, LaneWidth::Eight, LaneWidth::Sixteen] {
            compare(&**env, &world, lanes, 300);
        }
    }
}

#[test]
fn a_world_from_a_file_is_the_world_that_was_written() {
    for env in builtin().envs() {
        let Some(world) = env.world() else { continue };
        let text = world.to_json();
        let read = World::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", world.spec.name));
        assert_eq!(read.to_json(), text, "{}: written again", world.spec.name);
        assert_eq!(read.emit(), world.emit(), "{}: the same CUDA", world.spec.name);
        compare(&**env, &WorldEnv::new(read), LaneWidth::WIDEST, 40);
    }
}
