//! The row interpreter: every environment of the package, recorded and interpreted, steps to the bits of its compiled form. And
//! files of worlds: what they hold is what was written, and damaged ones are errors.

use operant_env::play::{Outputs, RandomActions};
use operant_env::replay::{Arithmetic, Case, CaseError};
use operant_env::world::{World, WorldEnv};
use operant_env::{ActionSpace, AnyEnv, Autoreset, LaneWidth, ObsSpace, TileSpec, builtin, running_words};

use crate::lanes::widths;
use crate::python_worlds;

const ROWS: usize = 48;

/// Steps both and compares everything that they write.
fn compare(env: &dyn AnyEnv, world: &dyn AnyEnv, lanes: LaneWidth, steps: u64) {
    let spec = env.spec();
    let name = &spec.name;
    let [mut expected, mut found] = [env, world].map(|env| {
        let tile = TileSpec { lanes, ..TileSpec::new(7, 1000, ROWS) };
        env.stepper(tile).expect("made of lanes")
    });
    let [mut a, mut b] = [(); 2].map(|()| Outputs::new(&spec, env.masked(), ROWS));
    let [mut state_a, mut state_b] = [env, world].map(|env| vec![0; running_words(env) * ROWS]);
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
        // A world may keep its state in another form.
        if env.leaves() == world.leaves() {
            assert_eq!(state_a, state_b, "{name}: states after step {step}");
        }
        assert_eq!((&a.obs, &a.legal), (&b.obs, &b.legal), "{name}: observations after step {step}");
        let bits = |rewards: &[f32]| rewards.iter().map(|reward| reward.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&a.rewards), bits(&b.rewards), "{name}: rewards of step {step}");
        assert_eq!(
            (&a.terminated, &a.truncated),
            (&b.terminated, &b.truncated),
            "{name}: ends of step {step}"
        );
        assert_eq!((bits(&a.returns), &a.lengths), (bits(&b.returns), &b.lengths), "{name}: episodes");
        for row in 0..ROWS {
            if a.ended(row) != [false; 2] {
                let column = |obs: &[u32]| obs.iter().skip(row).step_by(ROWS).copied().collect::<Vec<_>>();
                assert_eq!(column(&a.final_obs), column(&b.final_obs), "{name}: final observations");
                if world.spec().metrics == spec.metrics {
                    let of_row = |metrics: &[f32]| {
                        bits(&metrics.iter().skip(row).step_by(ROWS).copied().collect::<Vec<_>>())
                    };
                    assert_eq!(of_row(&a.metrics), of_row(&b.metrics), "{name}: metrics of step {step}");
                }
            }
        }
    }
}

mod interpreted {
    use super::*;

    /// A world gives the bits of the compiled environment.
    fn check(name: &str) {
        let registry = builtin();
        let env = registry.find(name).expect("a world");
        let world = WorldEnv::new(env.world().expect("built-in environments can be recorded"));
        for lanes in widths() {
            compare(&**env, &world, lanes, 300);
        }
    }

    each_world! { check }
    each_variant! { check }
}

mod read {
    use super::*;

    /// A world from a file is the one that was written.
    fn check(name: &str) {
        let registry = builtin();
        let env = registry.find(name).expect("a world");
        let world = env.world().expect("built-in environments can be recorded");
        let text = world.to_json();
        let read = World::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.to_json(), text, "{name}: written again");
        assert_eq!(read.emit(), world.emit(), "{name}: the same CUDA");
        compare(&**env, &WorldEnv::new(read), LaneWidth::WIDEST, 40);
    }

    each_world! { check }
    each_variant! { check }
}

#[test]
fn worlds_from_python_give_the_bits_of_the_built_in_ones() {
    for name in python_worlds::NAMES {
        let registry = builtin();
        // The alias of minatar_breakout is breakout.
        let (built_in, world) = (registry.find(name).expect("built in"), python_worlds::load(name));
        let parts = |env: &dyn AnyEnv| env.spec().obs.to_string();
        assert_eq!(parts(&world), parts(&**built_in));
        let random = |env: &dyn AnyEnv| {
            let mut play = env.random_play(3, 0, 512, LaneWidth::WIDEST).expect("made of lanes");
            play.play(500).expect("made of lanes")
        };
        let (expected, found) = (random(&**built_in), random(&world));
        assert_eq!((expected.steps, expected.episodes), (found.steps, found.episodes), "{name}");
        assert!(expected.episodes > 500, "{name}: {expected:?}");
        compare(&**built_in, &world, LaneWidth::WIDEST, 300);
        let picture = |env: &dyn AnyEnv| {
            let mut stepper = env.stepper(TileSpec::new(3, 0, 16)).expect("made of lanes");
            let mut outputs = Outputs::new(&env.spec(), false, 16);
            stepper.observe(outputs.seen()).expect("made of lanes");
            let mut state = vec![0; env.leaves().len()];
            stepper.state(5, &mut state);
            env.picture(&state)
        };
        assert!(picture(&world).shapes.len() > 1, "{name}: {:?}", picture(&world));
        if name == "cartpole" {
            let (expected, found) = (picture(&**built_in), picture(&world));
            assert_eq!(expected.shapes[1], found.shapes[1], "the cart");
        }
    }
}

#[test]
fn worlds_replay_as_the_built_in_environment() {
    let registry = builtin();
    let (built_in, world) = (registry.find("cartpole").expect("built in"), python_worlds::load("cartpole"));
    let actions = (0..60).map(|step| vec![f64::from(step % 3 % 2)]).collect();
    let case = Case { state: vec![0.01, -0.02, 0.03, 0.04], actions, draws: None };
    let expected = built_in.replay(Arithmetic::F32, &case).expect("a case");
    assert!(expected.reward.len() > 10 && expected.terminated.contains(&true), "{expected:?}");
    for arithmetic in [Arithmetic::F32, Arithmetic::Wide] {
        assert_eq!(world.replay(arithmetic, &case).as_ref(), Ok(&expected));
    }
    assert_eq!(world.case_words(&case), built_in.case_words(&case));
    let refused = |arithmetic, case: &Case| world.replay(arithmetic, case).expect_err("refused");
    assert!(matches!(refused(Arithmetic::F64, &case), CaseError::Precision { .. }));
    let drawn = Case { draws: Some(vec![Vec::new(); 60]), ..case.clone() };
    assert!(matches!(refused(Arithmetic::F32, &drawn), CaseError::DrawsOfWorld { .. }));
    let short = Case { state: vec![0.0; 3], ..case.clone() };
    assert!(matches!(refused(Arithmetic::F32, &short), CaseError::State { got: 3, expected: 4, .. }));
    let infinite = Case { state: vec![0.0, f64::INFINITY, 0.0, 0.0], ..case.clone() };
    assert!(matches!(refused(Arithmetic::F32, &infinite), CaseError::Entry { index: 1, .. }));
    let unknown = Case { actions: vec![vec![2.0]], ..case };
    assert!(matches!(refused(Arithmetic::F32, &unknown), CaseError::Action { index: 0, .. }));
}

#[test]
fn worlds_have_all_autoreset_modes() {
    let registry = builtin();
    let (built_in, world) = (registry.find("cartpole").expect("built in"), python_worlds::load("cartpole"));
    for autoreset in [Autoreset::NextStep, Autoreset::Disabled] {
        for evaluation in [false, true] {
            let play = |env: &dyn AnyEnv| {
                let tile =
                    TileSpec { autoreset, evaluation, time_limit: Some(30), ..TileSpec::new(9, 4, ROWS) };
                let mut stepper = env.stepper(tile).expect("made of lanes");
                let mut outputs = Outputs::new(&env.spec(), false, ROWS);
                let mut words = vec![0; running_words(env) * ROWS];
                let mut all = Vec::new();
                for step in 0..120 {
                    if step == 60 {
                        let seeds: Vec<u64> = (0..ROWS as u64).map(|row| row << 33 | 5).collect();
                        stepper.restart(&[0xf0f3; ROWS / 16], Some(&seeds), step).expect("made of lanes");
                    }
                    let actions: Vec<f32> =
                        (0..ROWS).map(|row| ((step as usize + row) % 3 % 2) as f32).collect();
                    stepper.submit(&actions, step).expect("made of lanes");
                    stepper.collect(outputs.stepped()).expect("made of lanes");
                    stepper.save(&mut words);
                    all.extend_from_slice(&words);
                    all.extend_from_slice(&outputs.obs);
                    all.extend(outputs.rewards.iter().map(|reward| reward.to_bits()));
                    all.extend(
                        outputs.terminated.iter().chain(&outputs.truncated).map(|word| u32::from(*word)),
                    );
                }
                all
            };
            assert!(play(&**built_in) == play(&world), "{autoreset:?}, evaluation {evaluation}");
        }
    }
}

/// Steps a world that was read from a damaged file, if it was accepted: it may do anything but panic.
fn use_it(world: World) {
    let masked = world.legal.is_some();
    let env = WorldEnv::new(world);
    let spec = env.spec();
    drop(env.emit());
    let mut stepper = env.stepper(TileSpec::new(1, 0, 16)).expect("a world");
    let mut outputs = Outputs::new(&spec, masked, 16);
    // Observations may be outside their space, which is an error.
    let mut is_sound = stepper.observe(outputs.seen()).is_ok();
    let actions = vec![1.0; spec.actions.components() * 16];
    for step in 0..3 {
        stepper.submit(&actions, step).expect("a world");
        is_sound &= stepper.collect(outputs.stepped()).is_ok();
    }
    assert!(is_sound || !spec.obs.is_real(), "real numbers are always in their space");
    let mut state = vec![0; env.leaves().len()];
    stepper.state(0, &mut state);
    drop(env.picture(&state));
}

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut below = |count: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) as usize) % count
    };
    let mut total = [0; 2];
    for (name, rounds) in [("cartpole", 3000), ("snake", 120)] {
        let text = python_worlds::text(name);
        let numbers: Vec<usize> = (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
        for _ in 0..rounds {
            let mut damaged = text.clone();
            for _ in 0..1 + below(3) {
                let at = below(damaged.len());
                match below(6) {
                    // A byte, a piece, or what most files survive: a number.
                    0 => damaged[at] = below(256) as u8,
                    1 => drop(damaged.drain(at..(at + 1 + below(40)).min(damaged.len()))),
                    2 => {
                        let from = below(damaged.len() - 40);
                        let piece = damaged[from..from + 1 + below(39)].to_vec();
                        damaged.splice(at..at, piece);
                    }
                    _ => {
                        let at = numbers[below(numbers.len())].min(damaged.len() - 1);
                        damaged[at] = b'0' + below(10) as u8;
                    }
                }
            }
            match World::from_json(&damaged) {
                Ok(world) => {
                    total[0] += 1;
                    use_it(world);
                }
                Err(error) => {
                    total[1] += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
        for end in [0, 1, text.len() / 2, text.len() - 1] {
            assert!(World::from_json(&text[..end]).is_err(), "{name}, cut at {end}");
        }
    }
    assert!(total[0] > 50 && total[1] > 500, "{total:?} accepted and refused");
}

#[test]
fn a_file_says_what_is_wrong_with_it() {
    let text = String::from_utf8(python_worlds::text("cartpole")).expect("text");
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        World::from_json(text.replacen(from, to, 1).as_bytes()).expect_err(to).to_string()
    };
    for (from, to, expected) in [
        ("\"operant_world\": 1", "\"operant_world\": 2", "version 2"),
        ("\"operant_world\"", "\"other\"", "not a world"),
        ("my_cartpole", "My CartPole", "the name \"My CartPole\""),
        ("next.theta_dot", "next.theta", "twice"),
        ("\"place\":\"reward\"", "\"place\":\"rewards\"", "returns rewards, which does not exist"),
        ("\"place\":\"obs[1]\"", "\"place\":\"obs[01]\"", "returns obs[01]"),
        ("\"points\": 2", "\"points\": 9223372036854775807", "more than"),
        ("{\"discrete\": [2]}", "{\"discrete\": [1048576, 1048576]}", "choices in all"),
        ("\"args\":[5,{\"uint\":24}]", "\"args\":[{\"uint\":5},{\"uint\":24}]", "wrong arguments"),
        ("state.x_dot", "state.y_dot", "parameter state.y_dot"),
        ("\"name\": \"theta\"", "\"name\": \"float\"", "\"float\""),
        ("\"time_limit\": 500", "\"time_limit\": 0", "0 steps"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn observations_outside_their_space_are_an_error() {
    let mut world = builtin().find("frozen_lake").expect("built in").world().expect("recorded");
    world.spec.obs = ObsSpace::index(2);
    let env = WorldEnv::new(world.checked().expect("the space has as many words"));
    let mut stepper = env.stepper(TileSpec::new(1, 0, 16)).expect("a world");
    let mut outputs = Outputs::new(&env.spec(), false, 16);
    stepper.observe(outputs.seen()).expect("cell 0");
    let error = (0..50).find_map(|step| {
        stepper.submit(&[1.0; 16], step).expect("a world");
        stepper.collect(outputs.stepped()).err()
    });
    let error = error.expect("cell 2 or more is reached").to_string();
    assert!(error.contains("frozen_lake") && error.contains("word 0 of the observation"), "{error}");
    let case = Case { state: vec![10.0], actions: vec![vec![0.0]], draws: None };
    let error = env.replay(Arithmetic::Wide, &case).expect_err("cell 6, 9 or 14").to_string();
    assert!(error.contains("frozen_lake") && error.contains("word 0 of the observation"), "{error}");
}

#[test]
fn loops_of_files_are_checked() {
    let text = String::from_utf8(python_worlds::text("cartpole")).expect("text");
    // A loop in reset, after its first node, that assigns nothing.
    let with_loop = |item: &str| {
        let (head, rest) = text.split_once("\"regions\":[[").expect("regions");
        let (nodes, tail) = rest.split_once("]]").expect("one region");
        World::from_json(format!("{head}\"regions\":[[{nodes},{item}],[]]{tail}").as_bytes())
            .expect_err(item)
            .to_string()
    };
    for (item, expected) in [
        (r#"{"count":3,"index":4000000000,"assigned":[],"body":1}"#, "is not a node of that body"),
        (r#"{"count":3,"index":1,"assigned":[],"body":1}"#, "is not a node of that body"),
        (r#"{"count":4294967295,"index":1,"assigned":[],"body":1}"#, "a call computes more than"),
        (r#"{"count":3,"index":1,"assigned":[],"body":7}"#, "there is no region 7"),
    ] {
        let error = with_loop(item);
        assert!(error.contains(expected), "{item}: {error}");
    }
}
