//! Craftax-Classic compared with its package (data/README.md): play step by step on every lane, worlds from given draws, and worlds by how
//! often they hold what. What given draws replace is checked by its frequencies: where mobs appear and move. And worlds made ahead of time are those
//! that would be made in time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use operant_env::cartpole::CartPole;
use operant_env::craftax::{CraftaxClassic, Indices};
use operant_env::lane::{Bundle, Draws, Kind, Lane, Packed, Purpose, Script, Uint, Wide, bundle::leaves_of};
use operant_env::play::{Outputs, RandomActions};
use operant_env::replay::{Arithmetic, Case, Outcome};
use operant_env::world::WorldEnv;
use operant_env::{
    AnyEnv, Env, EnvOptions, EnvSpec, LaneWidth, Rows, RowsMut, Scene, Step, TileSpec, builtin, numbers,
    running_words,
};
use rayon::prelude::*;
use serde_json::Value;

use crate::data;

/// Cells of the map, the last numbers of a public state.
const CELLS: usize = 4096;
/// Of the uniforms of the package.
const UNIT: f64 = 1.0 / 8_388_608.0;
/// Uniform numbers among the draws of a step.
const UNIFORMS: [usize; 9] = [0, 3, 6, 9, 15, 18, 19, 21, 23];
/// Where the light is in the package's observation.
const LIGHT: usize = 1343;

fn lines(file: &str) -> Vec<Value> {
    data::text(file).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn numbers_of(value: &Value) -> Vec<f64> {
    list(value).iter().map(number).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Blocks, a digit of base 17 each.
fn blocks(value: &Value) -> impl Iterator<Item = f64> {
    text(value).chars().map(|digit| f64::from(digit.to_digit(17).expect("a block")))
}

fn symbolic() -> std::sync::Arc<dyn AnyEnv> {
    let options = EnvOptions::from([("view".to_owned(), "symbolic".into())]);
    builtin().make("Craftax-Classic-Symbolic-v1", &options).expect("the package's id is an alias")
}

fn draws(step: &Value) -> Vec<f64> {
    let unit = |(place, draw): (usize, f64)| if UNIFORMS.contains(&place) { draw * UNIT } else { draw };
    numbers_of(step).into_iter().enumerate().map(unit).collect()
}

/// The upper half of a digest of an observation's bits, without light.
fn digest(obs: &[f64]) -> String {
    let fold = |digest: u64, (index, number): (usize, &f64)| {
        let bits = if index == LIGHT { 0 } else { (*number as f32).to_bits() };
        (digest ^ u64::from(bits)).wrapping_mul(0x0100_0000_01b3)
    };
    let digest = obs.iter().enumerate().fold(0xcbf2_9ce4_8422_2325_u64, fold);
    format!("{:08x}", digest >> 32)
}

/// Compares a piece of play with what the package answered.
fn check_piece(what: &str, piece: &Value, mut state: Vec<f64>, got: &Outcome) {
    let steps = list(&piece["actions"]).len();
    assert_eq!(got.reward.len(), steps, "{what}: steps");
    for step in 0..steps {
        for change in list(&piece["changes"][step]).chunks_exact(2) {
            state[change[0].as_u64().expect("an index") as usize] = number(&change[1]);
        }
        let differs = (0..state.len()).find(|&k| state[k] != got.state[step][k]);
        let differs = differs.map(|k| (k, state[k], got.state[step][k]));
        assert_eq!(differs, None, "{what}: number, package, here in the state after step {step}");
        let (reward, expected) = (got.reward[step] as f32, number(&piece["rewards"][step]) as f32);
        assert_eq!(reward, expected, "{what}: reward of step {step}");
        assert_eq!(digest(&got.obs[step]), text(&piece["digests"][step]), "{what}: observation {step}");
    }
    assert_eq!(Value::from(got.terminated[steps - 1]), piece["terminated"], "{what}: the end");
    let mut last = vec![0.0; LIGHT + 2];
    for pair in list(&piece["last_obs"]).chunks_exact(2) {
        last[pair[0].as_u64().expect("an index") as usize] = number(&pair[1]);
    }
    for (index, (got, expected)) in got.obs[steps - 1].iter().zip(&last).enumerate() {
        let limit = if index == LIGHT { 1e-5 } else { 0.0 };
        assert!(
            (*got as f32 - *expected as f32).abs() <= limit,
            "{what}: number {index} of the last observation"
        );
    }
}

#[test]
fn play_is_that_of_the_package() {
    let env = symbolic();
    let pieces = lines("craftax_classic.pieces.jsonl");
    pieces.par_iter().enumerate().for_each(|(index, piece)| {
        let state: Vec<f64> = numbers_of(&piece["state"]).into_iter().chain(blocks(&piece["map"])).collect();
        let case = Case {
            state: state.clone(),
            actions: numbers_of(&piece["actions"]).into_iter().map(|action| vec![action]).collect(),
            draws: Some(list(&piece["draws"]).iter().map(draws).collect()),
        };
        // The reward is rounded once in single precision.
        for arithmetic in [Arithmetic::F32, Arithmetic::Wide] {
            let what = format!("piece {index} ({}), {arithmetic:?}", text(&piece["kind"]));
            check_piece(&what, piece, state.clone(), &env.replay(arithmetic, &case).expect("a good case"));
        }
    });
    let steps: usize = pieces.iter().map(|piece| list(&piece["actions"]).len()).sum();
    println!("{} pieces, {steps} steps, bit for bit", pieces.len());
    assert!(steps > 10_000);
}

type Craftax = CraftaxClassic<Indices>;
type State<L> = <Craftax as Env>::State<L>;

/// The public numbers of WIDTH states, `(4246)` each.
fn public<L: Packed>(env: &Craftax, state: &State<L>) -> Vec<Vec<f64>> {
    let leaves = leaves_of::<f32, State<f32>>();
    let mut words = vec![0; leaves.len() * L::WIDTH];
    state.store(&mut RowsMut::new(&mut words, L::WIDTH, 0));
    let number = |leaf: usize, word: u32| match leaves[leaf].kind {
        Kind::Int => f64::from(word as i32),
        _ => f64::from(word),
    };
    let of_lane = |lane: usize| -> Vec<f64> {
        let column = words.iter().skip(lane).step_by(L::WIDTH).enumerate();
        env.pack(&column.map(|(leaf, word)| number(leaf, *word)).collect::<Vec<_>>())
    };
    (0..L::WIDTH).map(of_lane).collect()
}

/// States from their public numbers, the last one in the lanes that are left.
fn state_of<L: Packed>(env: &Craftax, public: &[Vec<f64>]) -> State<L> {
    let lanes: Vec<Vec<f64>> = public.iter().map(|public| env.unpack(public)).collect();
    let last = lanes.len() - 1;
    let words: Vec<u32> = (0..lanes[0].len())
        .flat_map(|leaf| (0..L::WIDTH).map(move |lane| (leaf, lane)))
        .map(|(leaf, lane)| lanes[lane.min(last)][leaf] as i64 as u32)
        .collect();
    State::<L>::load(&mut Rows::new(&words, L::WIDTH, 0))
}

/// The first states of WIDTH environments.
fn first_states<L: Packed>(draws: &mut Draws<L>) -> Vec<Vec<f64>> {
    let env = Craftax::default();
    public::<L>(&env, &Env::reset::<L>(&env, draws))
}

#[test]
fn worlds_are_those_of_the_package_for_its_draws() {
    let fields = ["water", "mountain", "path", "coal", "iron", "diamond", "trees", "tree"];
    let mut tiles = [0; 2];
    for line in lines("craftax_classic.worlds.jsonl") {
        let uniforms = fields.iter().flat_map(|field| text(&line[*field]).as_bytes().chunks_exact(6));
        let uniform = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).expect("digits");
            f64::from(u32::from_str_radix(digits, 16).expect("a number")) * UNIT
        };
        let draws: Vec<f64> = uniforms.map(uniform).chain([number(&line["gem"])]).collect();
        let script = Script::new(&draws);
        let first = first_states::<f32>(&mut Draws::scripted(&script));
        assert_eq!(script.problem(), None);
        let map = &first[0][first[0].len() - CELLS..];
        let differ = blocks(&line["map"]).zip(map).filter(|(theirs, ours)| theirs != *ours).count();
        tiles = [tiles[0] + CELLS, tiles[1] + differ];
    }
    println!("{} tiles, of which {} differ", tiles[0], tiles[1]);
    // The noise is rounded otherwise, which moved one tile of 2.6 million in another implementation.
    assert!(tiles[0] > 30_000 && tiles[1] <= 1, "{tiles:?}");
}

/// Counts by name, as the reference has them.
fn features(map: &[f64]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut add = |name: String| *counts.entry(name).or_default() += 1;
    for (cell, block) in map.iter().enumerate() {
        let (row, column) = (cell / 64, cell % 64);
        add(format!("block {block}"));
        if row.abs_diff(32) <= 3 && column.abs_diff(32) <= 4 {
            add(format!("view {block}"));
        }
        if column < 63 && map[cell + 1] == *block {
            add("across".to_owned());
        }
        if row < 63 && map[cell + 64] == *block {
            add("down".to_owned());
        }
    }
    counts
}

/// How far two counts of the same total size differ in all bins: chi-square and degrees of freedom, of bins with at least ten.
fn chi_square(ours: &[f64], theirs: &[f64]) -> (f64, f64) {
    let bins = ours.iter().zip(theirs).filter(|(a, b)| *a + *b >= 10.0);
    bins.fold((0.0, 0.0), |(sum, degrees), (a, b)| (sum + (a - b) * (a - b) / (a + b), degrees + 1.0))
}

/// The normal deviate of a chi-square value and its degrees of freedom, after Wilson and Hilferty; it must not be unlikely.
fn deviate(what: &str, (chi, degrees): (f64, f64)) -> f64 {
    let spread = 2.0 / (9.0 * degrees);
    let deviate = ((chi / degrees).cbrt() - (1.0 - spread)) / spread.sqrt();
    assert!(deviate < 4.5, "{what}: chi-square {chi} of {degrees} degrees");
    deviate
}

#[test]
fn worlds_hold_what_the_package_s_do() {
    let reference = lines("craftax_classic.frequencies.jsonl").remove(0);
    let count = reference["worlds"].as_u64().expect("a number") as u32;
    let maps: Vec<Vec<f64>> = (0..count.div_ceil(16))
        .into_par_iter()
        .flat_map_iter(|batch| {
            let mut draws = Draws::<Wide<16>>::at(7, numbers::<Wide<16>>(16 * batch), 0, Purpose::Init);
            first_states::<Wide<16>>(&mut draws)
                .into_iter()
                .map(|state| state[state.len() - CELLS..].to_vec())
        })
        .collect();
    let maps = &maps[..count as usize];
    let counts: Vec<BTreeMap<String, usize>> = maps.iter().map(|map| features(map)).collect();
    let mut worst: f64 = 0.0;
    let mut check = |what: &str, chi: (f64, f64)| {
        if chi.1 >= 1.0 {
            worst = worst.max(deviate(what, chi));
        }
    };
    for (name, theirs) in reference["features"].as_object().expect("features") {
        let edges = numbers_of(&theirs["edges"]);
        let theirs = numbers_of(&theirs["counts"]);
        let mut ours = vec![0.0; theirs.len()];
        for of_world in &counts {
            let value = of_world.get(name).copied().unwrap_or(0) as f64;
            ours[edges.iter().filter(|edge| **edge <= value).count()] += 1.0;
        }
        let (chi, degrees) = chi_square(&ours, &theirs);
        check(name, (chi, degrees - 1.0));
    }
    for (block, theirs) in reference["cells"].as_object().expect("cells") {
        let block: f64 = block.parse().expect("a block");
        let cells = (0..8).flat_map(|i| (0..8).map(move |j| (4 + 8 * i) * 64 + 4 + 8 * j));
        let ours: Vec<f64> =
            cells.map(|cell| maps.iter().filter(|map| map[cell] == block).count() as f64).collect();
        check(&format!("cells of {block}"), chi_square(&ours, &numbers_of(theirs)));
    }
    println!("{count} worlds; the worst normal deviate is {worst:.1}");
}

/// Places of numbers in a public state: the first mob's row, the marks, and the map.
const MOBS: usize = 25;
const MAP: usize = 150;
/// Numbers of a mob: row, column, health, cooldown, whether it is alive.
const MOB: usize = 5;

/// Row, column and whether it is alive.
fn mob(public: &[f64], mob: usize) -> ([i64; 2], bool) {
    let numbers = &public[MOBS + MOB * mob..][..MOB];
    ([numbers[0] as i64, numbers[1] as i64], numbers[4] == 1.0)
}

/// A player that stands still on a map with the blocks that `block` names by row and column; no mob is alive.
fn scene(player: [i64; 2], block: impl Fn(i64, i64) -> f64) -> Vec<f64> {
    let mut draws = Draws::<f32>::at(1, numbers::<f32>(0), 0, Purpose::Init);
    let mut state = first_states::<f32>(&mut draws).remove(0);
    // At night, when most zombies appear.
    (state[0], state[1], state[2]) = (210.0, player[0] as f64, player[1] as f64);
    for (cell, number) in state[MAP..].iter_mut().enumerate() {
        *number = block(cell as i64 / 64, cell as i64 % 64);
    }
    state
}

/// States after many steps from one state, each with its own draws.
fn steps_from(state: &[f64], steps: u64) -> impl Iterator<Item = Vec<f64>> {
    let env = Craftax::default();
    let before = state_of::<Wide<16>>(&env, &[state.to_vec()]);
    (0..steps).flat_map(move |step| {
        let mut state = before;
        let mut draws = Draws::<Wide<16>>::at(5, numbers::<Wide<16>>(0), step, Purpose::Step);
        env.step_in_place(&mut state, &Uint::splat(0), &mut draws);
        public::<Wide<16>>(&env, &state)
    })
}

const GRASS: f64 = 2.0;
const STONE: f64 = 4.0;
const PATH: f64 = 7.0;

#[test]
fn mobs_appear_at_their_rates_on_each_candidate_alike() {
    // Candidates everywhere, so that a trial finds one; and few in a corner, where it seldom does.
    let meadow = scene([32, 32], |row, column| if (7 * row + 3 * column) % 11 == 0 { PATH } else { GRASS });
    let corner = scene([5, 60], |row, column| match (row, column) {
        (1, 52) | (16, 60) | (5, 49) => GRASS,
        (2, 53) | (17, 59) | (0, 55) => PATH,
        _ => STONE,
    });
    for (what, state) in [("meadow", meadow), ("corner", corner)] {
        let player = [state[1] as i64, state[2] as i64];
        let mut seen: [BTreeMap<[i64; 2], f64>; 3] = Default::default();
        let mut samples = 0.0;
        for after in steps_from(&state, 2_500) {
            samples += 1.0;
            let new: Vec<(usize, [i64; 2])> =
                (0..8).filter(|&k| mob(&after, k).1).map(|k| (k, mob(&after, k).0)).collect();
            let places: HashSet<[i64; 2]> = new.iter().map(|(_, place)| *place).collect();
            assert_eq!(places.len(), new.len(), "{what}: two mobs appear in one cell");
            for (k, place) in new {
                // The first of its kind, which are three zombies, three cows and two skeletons.
                assert!([0, 3, 6].contains(&k), "{what}: mob {k}");
                *seen[k / 3].entry(place).or_default() += 1.0;
            }
        }
        for (kind, (rate, nearest, blocks)) in
            [(0.12, 10, &[GRASS, PATH][..]), (0.1, 4, &[GRASS]), (0.05, 10, &[PATH])].into_iter().enumerate()
        {
            let candidates: Vec<[i64; 2]> = (0..4096)
                .map(|cell| [cell / 64, cell % 64])
                .filter(|cell| {
                    let distance = (cell[0] - player[0]).abs() + (cell[1] - player[1]).abs();
                    (nearest..=13).contains(&distance)
                        && blocks.contains(&state[MAP + (64 * cell[0] + cell[1]) as usize])
                })
                .collect();
            let total: f64 = seen[kind].values().sum();
            let expected = rate * samples;
            assert!(
                (total - expected).abs() < 5.0 * expected.sqrt(),
                "{what}, kind {kind}: {total} of {expected}"
            );
            assert!(
                seen[kind].keys().all(|cell| candidates.contains(cell)),
                "{what}, kind {kind}: {:?}",
                seen[kind]
            );
            let each = total / candidates.len() as f64;
            let chi = candidates.iter().map(|cell| {
                let count = seen[kind].get(cell).copied().unwrap_or(0.0);
                (count - each) * (count - each) / each
            });
            deviate(&format!("{what}, kind {kind}"), (chi.sum(), candidates.len() as f64 - 1.0));
        }
    }
}

#[test]
fn mobs_move_at_their_rates() {
    let mut state = scene([32, 32], |_, _| GRASS);
    // A zombie too far to chase, one that is as far in rows as in columns, a cow, and a skeleton.
    for (k, row, column) in [(0, 32, 44), (1, 35, 35), (3, 28, 24), (6, 40, 36)] {
        state[MOBS + MOB * k..][..MOB].copy_from_slice(&[f64::from(row), f64::from(column), 3.0, 9.0, 1.0]);
    }
    let mut moves: [BTreeMap<[i64; 2], f64>; 8] = Default::default();
    let mut samples = 0.0;
    for after in steps_from(&state, 1_000) {
        samples += 1.0;
        for (k, moves) in moves.iter_mut().enumerate() {
            let (from, to) = (mob(&state, k).0, mob(&after, k).0);
            *moves.entry([to[0] - from[0], to[1] - from[1]]).or_default() += 1.0;
        }
    }
    let sides = [[-1, 0], [1, 0], [0, -1], [0, 1]];
    let mut expect = |what: &str, k: usize, shares: [f64; 4], still: f64| {
        let all = sides.into_iter().zip(shares).chain([([0, 0], still)]);
        let chi = all.filter(|(_, share)| *share > 0.0).map(|(step, share)| {
            let (count, expected) = (moves[k].remove(&step).unwrap_or(0.0), share * samples);
            (count - expected) * (count - expected) / expected
        });
        deviate(what, (chi.sum(), 3.0 + f64::from(u8::from(still > 0.0))));
        assert!(moves[k].is_empty(), "{what}: {:?}", moves[k]);
    };
    expect("a distant zombie", 0, [0.25; 4], 0.0);
    // Up and left are towards the player: three times in four it chases, half of them along each axis.
    expect("a zombie", 1, [0.4375, 0.0625, 0.4375, 0.0625], 0.0);
    expect("a cow", 3, [0.125; 4], 0.5);
    // In 15% of the steps it goes towards the player, here along the column: 8 rows and 4 columns away.
    expect("a skeleton", 6, [0.25 * 0.85 + 0.15, 0.2125, 0.2125, 0.2125], 0.0);
}

#[test]
fn cells_that_become_paths_are_remembered() {
    // Two words of a state say where paths may be, so that the search for one can be spared. They are no public numbers.
    let env = Craftax::default();
    let leaves = leaves_of::<f32, State<f32>>();
    let place = leaves.iter().position(|leaf| leaf.name == "tunnels[0]").expect("a leaf");
    let pieces = lines("craftax_classic.pieces.jsonl");
    let gained: u32 = pieces
        .par_chunks(16)
        .map(|pieces| {
            let publics: Vec<Vec<f64>> = pieces
                .iter()
                .map(|piece| numbers_of(&piece["state"]).into_iter().chain(blocks(&piece["map"])).collect())
                .collect();
            let mut state = state_of::<Wide<16>>(&env, &publics);
            let mut words = vec![0; leaves.len() * 16];
            let mut gained = 0;
            for step in 0..50 {
                let action =
                    |piece: &Value| list(&piece["actions"]).get(step).map_or(5, |it| number(it) as u32);
                let actions: Vec<u32> = (0..16).map(|lane| pieces.get(lane).map_or(5, action)).collect();
                let mut draws = Draws::<Wide<16>>::at(3, numbers::<Wide<16>>(0), step as u64, Purpose::Step);
                env.step_in_place(&mut state, &Wide::<16>::load_uint(&actions), &mut draws);
                state.store(&mut RowsMut::new(&mut words, 16, 0));
                for (lane, public) in public::<Wide<16>>(&env, &state).iter().enumerate() {
                    let exact = env.unpack(public);
                    for half in 0..2 {
                        let kept = words[(place + half) * 16 + lane];
                        let needed = exact[place + half] as u32;
                        assert_eq!(needed & !kept, 0, "lane {lane}, step {step}: {needed:#x}, not {kept:#x}");
                        gained |= needed
                            & !(env.unpack(&publics[lane.min(publics.len() - 1)])[place + half] as u32);
                    }
                }
            }
            gained.count_ones()
        })
        .sum();
    assert!(gained > 10, "{gained} groups of cells got their first path");
}

/// A tile of short episodes, and how it is played.
struct Player {
    stepper: Box<dyn operant_env::Stepper>,
    outputs: Outputs,
    words: Vec<u32>,
}

const ROWS: usize = 32;

impl Player {
    fn new(env: &dyn AnyEnv) -> Self {
        let mut player = Player {
            stepper: env.stepper(TileSpec::new(9, 3, ROWS)).expect("made of lanes"),
            outputs: Outputs::new(&env.spec(), false, ROWS),
            words: vec![0; running_words(env) * ROWS],
        };
        player.stepper.observe(player.outputs.seen()).expect("made of lanes");
        player
    }

    fn step(&mut self, step: u64) {
        let actions: Vec<f32> = (0..ROWS).map(|row| ((5 * step as usize + 3 * row) % 17) as f32).collect();
        self.stepper.submit(&actions, step).expect("made of lanes");
        self.stepper.collect(self.outputs.stepped()).expect("made of lanes");
        self.stepper.save(&mut self.words);
    }
}

#[test]
fn worlds_made_ahead_are_those_that_would_be_made_in_time() {
    let options = EnvOptions::from([("episode_length".to_owned(), 6.0.into())]);
    let env = builtin().make("craftax_classic", &options).expect("known options");
    let world = WorldEnv::new(env.world().expect("recorded"));
    let [mut ahead, mut in_time, mut recorded, mut resumed] = [&*env, &*env, &world, &*env].map(Player::new);
    let clock = env.leaves().iter().position(|leaf| leaf.name == "time").expect("a leaf");
    let mut worlds = HashSet::new();
    let mut begun = 0;
    for step in 0..40 {
        if step == 21 {
            // Of the same environments, from what a checkpoint holds.
            resumed = Player::new(&*env);
            resumed.stepper.load(&ahead.words).expect("made of lanes");
            recorded = Player::new(&world);
            recorded.stepper.load(&ahead.words).expect("made of lanes");
        }
        if step == 33 {
            let seeds: Vec<u64> = (0..ROWS as u64).map(|row| row << 33 | 5).collect();
            for player in [&mut ahead, &mut in_time, &mut recorded, &mut resumed] {
                player.stepper.restart(&[0xf0f3, 0x8001], Some(&seeds), 1_000 + step).expect("made of lanes");
            }
        }
        // The global step may go on without them.
        let time = if step < 33 { step } else { 1_000 + step };
        for player in [&mut ahead, &mut in_time, &mut recorded, &mut resumed] {
            player.step(time);
        }
        // What is loaded has no worlds, so that each is made when it is needed.
        in_time.stepper.load(&in_time.words).expect("made of lanes");
        for (what, other) in [("in time", &in_time), ("recorded", &recorded), ("resumed", &resumed)] {
            assert!(ahead.words == other.words, "{what}: states after step {step}");
            assert!(ahead.outputs.obs == other.outputs.obs, "{what}: observations after step {step}");
        }
        for row in (0..ROWS).filter(|row| ahead.words[clock * ROWS + row] == 0) {
            begun += 1;
            worlds.insert(ahead.words.iter().skip(row).step_by(ROWS).take(512).copied().collect::<Vec<_>>());
        }
    }
    assert!(begun > 150 && worlds.len() == begun, "{} different worlds in {begun} episodes", worlds.len());
}

/// CartPole with first states made ahead of time, which counts how often some are made.
#[derive(Clone)]
struct Counted {
    game: CartPole,
    resets: Arc<AtomicUsize>,
}

impl Env for Counted {
    type State<L: Lane> = <CartPole as Env>::State<L>;
    type Obs<L: Lane> = <CartPole as Env>::Obs<L>;
    type Action<L: Lane> = <CartPole as Env>::Action<L>;

    const AHEAD: bool = true;

    fn spec(&self) -> EnvSpec {
        Env::spec(&self.game)
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> Self::State<L> {
        self.resets.fetch_add(1, Ordering::Relaxed);
        self.game.reset(draws)
    }

    fn step<L: Lane>(
        &self,
        state: &Self::State<L>,
        action: &Self::Action<L>,
        draws: &mut Draws<L>,
    ) -> Step<L, Self::State<L>> {
        self.game.step(state, action, draws)
    }

    fn observe<L: Lane>(&self, state: &Self::State<L>) -> Self::Obs<L> {
        self.game.observe(state)
    }

    fn draw(&self, state: &Self::State<f32>) -> Scene {
        self.game.draw(state)
    }
}

#[test]
fn first_states_are_made_ahead_in_groups_of_lanes() {
    const TILE: usize = 64;
    for (lanes, width) in [(LaneWidth::One, 1), (LaneWidth::Eight, 8), (LaneWidth::Sixteen, 16)] {
        let env = Counted { game: CartPole::default(), resets: Arc::default() };
        let mut stepper =
            env.stepper(TileSpec { lanes, ..TileSpec::new(4, 0, TILE) }).expect("made of lanes");
        let spec = AnyEnv::spec(&env);
        let mut out = Outputs::new(&spec, false, TILE);
        let mut random = RandomActions::new(spec.actions, 4, 0, TILE);
        stepper.observe(out.seen()).expect("made of lanes");
        let first = env.resets.load(Ordering::Relaxed);
        let mut actions = vec![0.0; TILE];
        let (mut episodes, mut steps_with_ends) = (0, 0);
        for step in 0..500 {
            random.fill(step, &[], &mut actions);
            stepper.submit(&actions, step).expect("made of lanes");
            stepper.collect(out.stepped()).expect("made of lanes");
            let ended = (0..TILE).filter(|row| out.ended(*row).contains(&true)).count();
            (episodes, steps_with_ends) = (episodes + ended, steps_with_ends + usize::from(ended > 0));
        }
        let resets = env.resets.load(Ordering::Relaxed) - first;
        // Those of the episodes that have ended, those that wait, and few more that were needed before a group was complete.
        let most = (episodes + TILE).div_ceil(width) * 11 / 10;
        assert!(resets <= most, "{resets} resets of {width} lanes for {episodes} episodes, not {most}");
        assert!(
            width < 16 || resets * 4 < steps_with_ends,
            "{resets} resets, {steps_with_ends} steps with ends"
        );
    }
}

/// Mean return and length of 1,024 episodes of random play in the package, with their standard errors: `benches/peers/craftax_jax.py
/// --episodes 1024`, craftax 1.6.1 and JAX 0.10.2.
const RANDOM_PLAY: [(&str, f64, f64); 2] = [("return", 1.401, 0.040), ("length", 142.291, 2.376)];

#[test]
fn random_play_is_as_good_as_in_the_package() {
    let env = builtin().find("craftax_classic").expect("built in").clone();
    let spec = env.spec();
    let ended: Vec<[f64; 2]> = (0..1024 / 256)
        .into_par_iter()
        .flat_map_iter(|tile| {
            let (first, rows) = (256 * tile, 256);
            let mut stepper = env.stepper(TileSpec::new(11, first, rows)).expect("made of lanes");
            let mut outputs = Outputs::new(&spec, false, rows);
            let mut random = RandomActions::new(spec.actions.clone(), 11, first, rows);
            let (mut actions, mut ended) = (vec![0.0; rows], vec![None; rows]);
            stepper.observe(outputs.seen()).expect("made of lanes");
            for step in 0.. {
                random.fill(step, &outputs.legal, &mut actions);
                stepper.submit(&actions, step).expect("made of lanes");
                stepper.collect(outputs.stepped()).expect("made of lanes");
                for row in (0..rows).filter(|&row| outputs.ended(row)[0]) {
                    let outcome = [outputs.returns[row].into(), outputs.lengths[row].into()];
                    ended[row].get_or_insert(outcome);
                }
                if ended.iter().all(Option::is_some) {
                    break;
                }
            }
            ended.into_iter().flatten()
        })
        .collect();
    for (k, (what, theirs, their_error)) in RANDOM_PLAY.into_iter().enumerate() {
        let count = ended.len() as f64;
        let mean = ended.iter().map(|outcome| outcome[k]).sum::<f64>() / count;
        let variance = ended.iter().map(|outcome| (outcome[k] - mean).powi(2)).sum::<f64>() / count;
        let error = (variance / count).sqrt();
        println!("{what} of random play: {mean:.3} +- {error:.3}, in the package {theirs} +- {their_error}");
        assert!((mean - theirs).abs() < 4.0 * error.hypot(their_error), "{what}: {mean}, not {theirs}");
    }
}
