//! Games of two players: against Pgx, move for move (data/games.recipe.py), and against an opponent as environments of one player.

use std::sync::Arc;

use operant_env::connect_four::ConnectFour;
use operant_env::openings::without;
use operant_env::play::Outputs;
use operant_env::search::Scripted;
use operant_env::versus::{PLAYER, play};
use operant_env::world::World;
use operant_env::{
    AnyEnv, Asked, Autoreset, EnvOptions, LaneWidth, Opponent, OpponentTile, Random, StepError, TileSpec,
    Versus, builtin,
};
use rayon::prelude::*;
use serde_json::Value;

use crate::data;

const ROWS: usize = 256;
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn fold(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x0100_0000_01b3)
}

/// The finaliser of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn game(name: &str) -> Arc<dyn AnyEnv> {
    builtin().make(name, &EnvOptions::new()).expect("a game")
}

/// A column of `(words, R)`.
fn column(words: &[u32], row: usize, rows: usize) -> impl Iterator<Item = u32> + '_ {
    words.iter().copied().skip(row).step_by(rows)
}

/// The legal choices of a row.
fn legal(words: &[u32], row: usize, rows: usize, choices: usize) -> Vec<u32> {
    let bit = |choice: &u32| words[*choice as usize / 32 * rows + row] >> (choice % 32) & 1 == 1;
    (0..choices as u32).filter(bit).collect()
}

/// The digests of games `first ..`, as the recipe has them, and their moves.
fn digests(env: &dyn AnyEnv, first: usize, count: usize, lanes: LaneWidth) -> (Vec<u64>, usize) {
    let spec = env.spec();
    let choices = spec.actions.mask_words() * 32;
    let player = env.leaves().iter().position(|leaf| leaf.name == PLAYER).expect("players");
    let tile = TileSpec { lanes, autoreset: Autoreset::Disabled, ..TileSpec::new(1, 0, ROWS) };
    let mut stepper = env.stepper(tile).expect("a tile");
    let mut out = Outputs::new(&spec, env.masked(), ROWS);
    stepper.observe(out.seen()).expect("observations");
    let (mut digests, mut going, mut moves) = (vec![OFFSET; count], vec![true; count], 0);
    let (mut players, mut actions) = (vec![0; ROWS], vec![0.0; ROWS]);
    for step in 0.. {
        if !going.contains(&true) {
            return (digests, moves);
        }
        stepper.leaf(player, &mut players);
        for row in (0..count).filter(|row| going[*row]) {
            let choices = legal(&out.legal, row, ROWS, choices);
            let seen = [players[row]].into_iter().chain(column(&out.obs, row, ROWS));
            let seen = seen.chain(column(&out.legal, row, ROWS)).map(u64::from);
            digests[row] = seen.fold(digests[row], fold);
            let draw = mix(1000 * (first + row) as u64 + step) >> 32;
            actions[row] = choices[((draw * choices.len() as u64) >> 32) as usize] as f32;
        }
        stepper.submit(&actions, step).expect("a step");
        stepper.collect(out.stepped()).expect("a step");
        for row in (0..count).filter(|row| going[*row]).collect::<Vec<_>>() {
            moves += 1;
            let ended = out.ended(row)[0];
            going[row] = !ended;
            let after = [(1.0 + out.rewards[row]) as u64, u64::from(ended)];
            digests[row] = after.into_iter().fold(digests[row], fold);
            if ended {
                digests[row] = column(&out.obs, row, ROWS).map(u64::from).fold(digests[row], fold);
            }
        }
    }
    unreachable!("games end")
}

#[test]
fn games_are_those_of_pgx() {
    for name in ["connect_four", "othello", "hex", "go_9x9"] {
        let text = data::text(&format!("{name}.games.jsonl"));
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let header = lines.next().expect("a header");
        let [games, group, moves] =
            ["games", "group", "moves"].map(|key| header[key].as_u64().expect("a number") as usize);
        let expected: Vec<Value> = lines.collect();
        for lanes in [LaneWidth::One, LaneWidth::WIDEST] {
            let env = game(name);
            let firsts: Vec<usize> = (0..games).step_by(ROWS).collect();
            let tile = |first: &usize| digests(&*env, *first, ROWS.min(games - first), lanes);
            let tiles: Vec<_> = firsts.par_iter().map(tile).collect();
            let played: usize = tiles.iter().map(|(_, moves)| moves).sum();
            let digests: Vec<u64> = tiles.into_iter().flat_map(|(digests, _)| digests).collect();
            let groups = digests.chunks(group).map(|group| group.iter().copied().fold(OFFSET, fold));
            let groups: Vec<Value> = groups.map(|digest| format!("{digest:016x}").into()).collect();
            let differ: Vec<usize> = (0..groups.len()).filter(|k| groups[*k] != expected[*k]).collect();
            assert!(
                differ.is_empty(),
                "{name}, {lanes:?}: {} groups of {group} games differ: {differ:?}",
                differ.len()
            );
            assert_eq!((groups.len(), played), (expected.len(), moves), "{name}");
            println!("{name}, {lanes:?}: {games} games, {played} moves, no difference");
        }
    }
}

/// The rightmost legal move.
struct Rightmost;

struct RightmostTile {
    choices: usize,
    rows: usize,
}

impl Opponent for Rightmost {
    fn name(&self) -> String {
        "rightmost".into()
    }
    /// A count of its moves.
    fn memory(&self) -> usize {
        1
    }
    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        Ok(Box::new(RightmostTile { choices: env.spec().actions.mask_words() * 32, rows: tile.rows }))
    }
}

impl OpponentTile for RightmostTile {
    fn act(&mut self, asked: &Asked<'_>, memory: &mut [u32], actions: &mut [f32]) -> Result<(), StepError> {
        for row in (0..self.rows).filter(|row| asked.rows[row / 16] >> (row % 16) & 1 == 1) {
            memory[row] += 1;
            actions[row] = *legal(asked.legal, row, self.rows, self.choices).last().expect("a move") as f32;
        }
        Ok(())
    }
}

/// Connect Four by its cells, `[column]` of stones from the bottom.
#[derive(Clone, Default)]
struct Board {
    columns: [Vec<usize>; 7],
    moves: usize,
}

impl Board {
    fn at(&self, column: i32, row: i32) -> Option<usize> {
        self.columns.get(usize::try_from(column).ok()?)?.get(usize::try_from(row).ok()?).copied()
    }
    fn legal(&self) -> Vec<usize> {
        (0..7).filter(|column| self.columns[*column].len() < 6).collect()
    }
    /// The player who wins with this move, or 2 for a draw.
    fn drop(&mut self, column: usize) -> Option<usize> {
        let player = self.moves % 2;
        self.columns[column].push(player);
        self.moves += 1;
        let (x, y) = (column as i32, self.columns[column].len() as i32 - 1);
        let wins = [(1, 0), (0, 1), (1, 1), (1, -1)].into_iter().any(|(dx, dy)| {
            let reach = |sign: i32| {
                (1..4).take_while(|k| self.at(x + sign * k * dx, y + sign * k * dy) == Some(player)).count()
            };
            reach(1) + reach(-1) >= 3
        });
        if wins { Some(player) } else { (self.moves == 42).then_some(2) }
    }
}

/// First observations and legal moves of `ROWS` games that begin with up to `openings` random moves.
fn openings(name: &str, openings: u32, lanes: LaneWidth) -> Outputs {
    begun(&*with_openings(name, openings), lanes)
}

fn with_openings(name: &str, openings: u32) -> Arc<dyn AnyEnv> {
    let options = EnvOptions::from([("openings".to_owned(), f64::from(openings).into())]);
    builtin().make(name, &options).expect("a game")
}

fn begun(env: &dyn AnyEnv, lanes: LaneWidth) -> Outputs {
    let tile = TileSpec { lanes, ..TileSpec::new(1, 0, ROWS) };
    let mut out = Outputs::new(&env.spec(), env.masked(), ROWS);
    env.stepper(tile).expect("a tile").observe(out.seen()).expect("observations");
    out
}

#[test]
fn games_may_begin_with_random_moves() {
    for name in ["connect_four", "othello", "hex", "go_9x9"] {
        let [one, wide] = [LaneWidth::One, LaneWidth::WIDEST].map(|lanes| openings(name, 12, lanes));
        assert!(one.obs == wide.obs && one.legal == wide.legal, "{name}: lanes differ");
        let different: std::collections::BTreeSet<Vec<u32>> =
            (0..ROWS).map(|row| column(&one.obs, row, ROWS).collect()).collect();
        assert!(different.len() > ROWS / 2, "{name}: {} positions", different.len());
    }
    let plain = begun(&*without(with_openings("connect_four", 12)), LaneWidth::WIDEST);
    assert!(plain.obs.iter().all(|word| *word == 0), "a league begins games itself");
    let (most, games) = (20, openings("connect_four", 20, LaneWidth::WIDEST));
    let mut counts = vec![0; most + 1];
    for row in 0..ROWS {
        let words: Vec<u32> = column(&games.obs, row, ROWS).collect();
        let bit =
            |cell: usize, whose: usize| words[(2 * cell + whose) / 32] >> ((2 * cell + whose) % 32) & 1 == 1;
        let mut board = Board::default();
        for x in 0..7 {
            let stone = |row: usize| (0..2).find(|whose| bit((5 - row) * 7 + x, *whose));
            board.columns[x] = (0..6).map_while(stone).collect();
        }
        let stones: usize = board.columns.iter().map(Vec::len).sum();
        let set: u32 = words.iter().map(|word| word.count_ones()).sum();
        assert_eq!(stones as u32, set, "no stone floats");
        let mine = board.columns.iter().flatten().filter(|whose| **whose == 0).count();
        assert_eq!(mine, stones / 2, "the stones of the player to move");
        for (x, y) in (0..7).flat_map(|x| (0..6).map(move |y| (x, y))) {
            for (dx, dy) in [(1, 0), (0, 1), (1, 1), (1, -1)] {
                let line: Vec<_> = (0..4).map(|k| board.at(x + k * dx, y + k * dy)).collect();
                assert!(line[0].is_none() || line.iter().any(|stone| *stone != line[0]), "nobody has won");
            }
        }
        counts[stones] += 1;
    }
    // Moves that would end the game are not made, so that long openings are rarer.
    assert!(counts.iter().all(|count| (1..40).contains(count)), "{counts:?}");
    assert!(counts[..7].iter().sum::<usize>() > 60, "{counts:?}");
}

/// One side against [`Rightmost`], which moves first where `side` is 1, up to a number of moves.
struct Match {
    side: usize,
    board: Board,
    limit: usize,
}

/// The end of a game: its winner, 2 for none, and whether the rules ended it, and the limit.
type End = (usize, [bool; 2]);

impl Match {
    fn new(side: usize, limit: usize) -> Self {
        let mut board = Board::default();
        if side == 1 {
            board.drop(6);
        }
        Self { side, board, limit }
    }
    fn end(&self, result: Option<usize>) -> Option<End> {
        let is_cut = self.board.moves == self.limit;
        (is_cut || result.is_some()).then(|| (result.unwrap_or(2), [result.is_some(), is_cut]))
    }
    fn step(&mut self, column: usize) -> Option<End> {
        let result = self.board.drop(column);
        // What is cut off at the agent's own move counts as ended.
        if let Some((winner, [_, is_cut])) = self.end(result) {
            return Some((winner, [true, is_cut]));
        }
        let reply = *self.board.legal().last().expect("a move");
        let result = self.board.drop(reply);
        self.end(result)
    }
    fn reward(&self, winner: usize) -> f32 {
        if winner == 2 {
            0.0
        } else if winner == self.side {
            1.0
        } else {
            -1.0
        }
    }
    /// The observation of a player, in words.
    fn observed(&self, player: usize) -> Vec<u32> {
        let mut words = vec![0; 3];
        for cell in 0..42 {
            let stone = self.board.at(cell as i32 % 7, 5 - cell as i32 / 7);
            if let Some(owner) = stone {
                let bit = 2 * cell + usize::from(owner != player);
                words[bit / 32] |= 1 << (bit % 32);
            }
        }
        words
    }
}

fn versus(opponent: impl Opponent + 'static) -> Versus {
    Versus::new(game("connect_four"), Arc::new(opponent))
}

/// A move for the agent that depends on the environment, the step and the legal moves.
fn choose(number: usize, step: u64, legal: &[u32]) -> u32 {
    legal[(mix(number as u64 * 7 + step) % legal.len() as u64) as usize]
}

#[test]
fn an_opponent_plays_the_other_side() {
    let env = versus(Rightmost);
    let names: Vec<String> = env.leaves().into_iter().map(|leaf| leaf.name).skip(5).collect();
    assert_eq!(
        (env.spec().players, names),
        (1, vec!["versus.side".to_owned(), "versus.memory[0]".to_owned()])
    );
    let mut results = [[0; 3]; 2];
    for autoreset in [Autoreset::SameStep, Autoreset::NextStep, Autoreset::Disabled] {
        for limit in [usize::MAX, 7, 8] {
            for lanes in [LaneWidth::One, LaneWidth::WIDEST] {
                check(&env, autoreset, limit, lanes, &mut results);
            }
        }
    }
    assert!(results.iter().all(|ends| ends.iter().all(|count| *count > 10)), "{results:?}");
}

/// Plays 32 environments beside [`Match`]es, and counts losses, draws and wins of either side.
fn check(env: &Versus, autoreset: Autoreset, limit: usize, lanes: LaneWidth, results: &mut [[usize; 3]; 2]) {
    let (rows, spec) = (32, env.spec());
    let time_limit = u32::try_from(limit).ok();
    let tile = TileSpec { lanes, autoreset, time_limit, ..TileSpec::new(3, 1, rows) };
    let mut stepper = env.stepper(tile).expect("a tile");
    let mut out = Outputs::new(&spec, true, rows);
    stepper.observe(out.seen()).expect("observations");
    let mut matches: Vec<Match> = (0..rows).map(|row| Match::new((row + 1) % 2, limit)).collect();
    let (mut over, mut actions) = (vec![false; rows], vec![0.0; rows]);
    for step in 0..100 {
        let what = |row: usize| format!("{autoreset:?}, limit {limit}, {lanes:?}, step {step}, row {row}");
        for row in (0..rows).filter(|row| !over[*row]) {
            let (moves, game) = (legal(&out.legal, row, rows, 7), &matches[row]);
            let expected: Vec<u32> = game.board.legal().into_iter().map(|column| column as u32).collect();
            assert_eq!(moves, expected, "{}", what(row));
            let seen: Vec<u32> = column(&out.obs, row, rows).collect();
            assert_eq!(seen, game.observed(game.side), "{}", what(row));
            actions[row] = choose(row, step, &moves) as f32;
        }
        stepper.submit(&actions, step).expect("a step");
        stepper.collect(out.stepped()).expect("a step");
        let mut restarting = vec![0u16; rows / 16];
        for (row, game) in matches.iter_mut().enumerate() {
            if std::mem::take(&mut over[row]) {
                // The step after an end begins the next episode, whatever the action.
                assert_eq!((out.rewards[row], out.ended(row)), (0.0, [false; 2]), "{}", what(row));
                *game = Match::new(1 - game.side, limit);
                continue;
            }
            let end = game.step(actions[row] as usize);
            let reward = end.map_or(0.0, |(winner, _)| game.reward(winner));
            let ended = end.map_or([false; 2], |(_, ended)| ended);
            assert_eq!(
                (out.rewards[row].to_bits(), out.ended(row)),
                (reward.to_bits(), ended),
                "{}",
                what(row)
            );
            let Some((winner, _)) = end else { continue };
            results[game.side][(1.0 + reward) as usize] += 1;
            assert_eq!(
                (out.returns[row], out.lengths[row]),
                (reward, game.board.moves as u32),
                "{}",
                what(row)
            );
            let metrics: Vec<f32> = out.metrics.iter().copied().skip(row).step_by(rows).collect();
            assert_eq!(metrics, [0, 2].map(|of| f32::from(u8::from(winner == of))), "{}", what(row));
            let last = if autoreset == Autoreset::SameStep { &out.final_obs } else { &out.obs };
            let last: Vec<u32> = column(last, row, rows).collect();
            assert_eq!(last, game.observed(game.board.moves % 2), "{}", what(row));
            match autoreset {
                Autoreset::SameStep => *game = Match::new(1 - game.side, limit),
                Autoreset::NextStep => over[row] = true,
                Autoreset::Disabled => {
                    restarting[row / 16] |= 1 << (row % 16);
                    *game = Match::new(1 - game.side, limit);
                }
            }
        }
        if restarting.iter().any(|rows| *rows != 0) {
            stepper.restart(&restarting, None, step + 1).expect("a restart");
            stepper.observe(out.seen()).expect("observations");
        }
        for (row, game) in matches.iter().enumerate().filter(|(row, _)| !over[*row]) {
            // The opponent's moves in this game: as many as the board has of its stones.
            let stones = game.board.columns.iter().flatten().filter(|player| **player != game.side).count();
            let mut state = vec![0; 7];
            stepper.state(row, &mut state);
            assert_eq!(state[5..], [game.side as u32, stones as u32], "{}", what(row));
        }
    }
}

/// The opponent's first move ends the episode: the agent never sees it.
#[test]
fn an_episode_without_a_move_of_the_agent_is_not_reported() {
    let env = versus(Rightmost);
    let tile = TileSpec { time_limit: Some(1), ..TileSpec::new(3, 0, 16) };
    let mut stepper = env.stepper(tile).expect("a tile");
    let mut out = Outputs::new(&env.spec(), true, 16);
    stepper.observe(out.seen()).expect("observations");
    for step in 0..5 {
        assert!(out.obs.iter().all(|word| *word == 0), "the agent begins");
        stepper.submit(&[3.0; 16], step).expect("a step");
        stepper.collect(out.stepped()).expect("a step");
        assert!((0..16).all(|row| out.ended(row) == [true, true] && out.lengths[row] == 1));
    }
}

/// An environment that is reset with a seed plays as the only one of that seed, its opponent too.
#[test]
fn a_seed_decides_the_moves_of_the_opponent() {
    for (env, what) in
        [(versus(Random), "random"), (Versus::new(game("connect_four"), search("mcts:9")), "mcts")]
    {
        let play = |seed: u64, row: usize, seeds: Option<&[u64]>| {
            let mut stepper = env.stepper(TileSpec::new(seed, 0, 16)).expect("a tile");
            let mut out = Outputs::new(&env.spec(), true, 16);
            if let Some(seeds) = seeds {
                stepper.restart(&[u16::MAX], Some(seeds), 0).expect("a restart");
            }
            stepper.observe(out.seen()).expect("observations");
            let mut seen = Vec::new();
            for step in 0..30 {
                let mut actions = [0.0; 16];
                for (row, action) in actions.iter_mut().enumerate() {
                    *action = choose(0, step, &legal(&out.legal, row, 16, 7)) as f32;
                }
                stepper.submit(&actions, step).expect("a step");
                stepper.collect(out.stepped()).expect("a step");
                seen.extend(column(&out.obs, row, 16));
            }
            seen
        };
        let seeds: Vec<u64> = (100..116).collect();
        let expected = play(105, 0, None);
        assert_eq!(play(1, 5, Some(&seeds)), expected, "{what}");
        assert_ne!(play(1, 6, Some(&seeds)), expected, "{what}");
    }
}

#[test]
fn a_world_with_players_says_whose_turn_it_is() {
    let good = World::record(&ConnectFour::default());
    assert!(good.clone().checked().is_ok());
    let mut many = good.clone();
    many.spec.players = 9;
    let mut unnamed = good;
    unnamed.leaves[0].name = "mover".into();
    for (world, part) in [(many, "9 players; 1 to 8"), (unnamed, "a Uint `player`")] {
        let problem = world.checked().expect_err("refused").to_string();
        assert!(problem.contains(part), "{problem}");
    }
}

/// Rewards, ends and observations of a hundred steps, from environments that are saved and loaded at `cut`.
fn trace(env: &dyn AnyEnv, rows: usize, count: usize, cut: u64) -> Vec<Vec<u64>> {
    let spec = env.spec();
    let mut traces = vec![Vec::new(); count];
    for first in (0..count).step_by(rows) {
        let make = || env.stepper(TileSpec::new(3, first as u32, rows)).expect("a tile");
        let (mut stepper, mut out) = (make(), Outputs::new(&spec, true, rows));
        stepper.observe(out.seen()).expect("observations");
        let mut actions = vec![0.0; rows];
        for step in 0..100 {
            if step == cut {
                let mut words = vec![0; (env.leaves().len() + 2) * rows];
                stepper.save(&mut words);
                stepper = make();
                stepper.load(&words).expect("saved environments");
                stepper.observe(out.seen()).expect("observations");
            }
            for (row, action) in actions.iter_mut().enumerate() {
                *action = choose(first + row, step, &legal(&out.legal, row, rows, 7)) as f32;
            }
            stepper.submit(&actions, step).expect("a step");
            stepper.collect(out.stepped()).expect("a step");
            for row in 0..rows {
                let trace = &mut traces[first + row];
                trace.push(u64::from(out.rewards[row].to_bits()) << 1 | u64::from(out.ended(row)[0]));
                trace.extend(column(&out.obs, row, rows).map(u64::from));
            }
        }
    }
    traces
}

#[test]
fn neither_tiles_nor_a_resume_change_a_match() {
    let env = versus(Random);
    let expected = trace(&env, 64, 64, u64::MAX);
    assert_eq!(expected, trace(&env, 16, 64, u64::MAX), "tiles of 16");
    assert_eq!(expected, trace(&env, 64, 64, 37), "saved and loaded");
    assert!(expected[0] != expected[2] && expected[1] != expected[3], "environments differ");
}

#[test]
fn a_game_of_one_player_has_no_opponent() {
    let error = Versus::new(game("cartpole"), Arc::new(Random)).stepper(TileSpec::new(1, 0, 16));
    let error = error.err().expect("a refusal").to_string();
    assert!(error.contains("one player"), "{error}");
}

fn search(name: &str) -> Arc<dyn Opponent> {
    name.parse::<Scripted>().expect("a name").opponent()
}

/// The share of points of the first player.
fn points(game: &dyn AnyEnv, players: [&str; 2], games: u32) -> f64 {
    let [a, b] = players.map(search);
    let results = play(game, [&*a, &*b], 5, 0, 0..games).expect("games");
    let parts = [0..6, 6..games].map(|games| play(game, [&*a, &*b], 5, 0, games));
    assert_eq!(parts.map(|part| part.expect("games")).concat(), results, "games do not depend on each other");
    f64::from(results.iter().map(|result| (1.0 + result) / 2.0).sum::<f32>()) / f64::from(games)
}

#[test]
fn searches_are_as_strong_as_they_look_ahead() {
    for (name, ladder) in [
        ("connect_four", &[["mcts:40", "random"], ["minimax:2", "random"], ["mcts:40", "mcts:4"]][..]),
        ("othello", &[["mcts:20", "random"]]),
    ] {
        let game = game(name);
        for players in ladder {
            let points = points(&*game, *players, 40);
            println!("{name}, {players:?}: {points}");
            assert!(points > 0.6, "{name}, {players:?}: {points}");
        }
    }
    let even = points(&*game("connect_four"), ["random", "random"], 400);
    assert!((even - 0.5).abs() < 0.1, "{even}");
}

/// A move of a scripted player in Connect Four after these moves.
fn reply(player: &str, moves: &[u32]) -> u32 {
    let (env, rows) = (game("connect_four"), 16);
    let tile = TileSpec::new(1, 0, rows);
    let mut stepper = env.stepper(tile).expect("a tile");
    let mut out = Outputs::new(&env.spec(), true, rows);
    stepper.observe(out.seen()).expect("observations");
    for (step, &column) in moves.iter().enumerate() {
        stepper.submit(&[column as f32; 16], step as u64).expect("a step");
        stepper.collect(out.stepped()).expect("a step");
        assert_eq!(out.ended(0), [false; 2]);
    }
    let mut states = vec![0; (env.leaves().len() + 2) * rows];
    stepper.save(&mut states);
    let (obs, legal, keys) = (&out.obs, &out.legal, &[(1, 0); 16]);
    let asked = Asked { rows: &[1 << 3], obs, legal, states: &states, keys, evaluation: false, step: 9 };
    let opponent = search(player);
    let mut actions = vec![-1.0; rows];
    opponent.tile(&*env, tile).expect("a player").act(&asked, &mut [], &mut actions).expect("a move");
    assert!(
        actions.iter().enumerate().all(|(row, action)| row == 3 || *action == -1.0),
        "others are not asked"
    );
    actions[3] as u32
}

#[test]
fn searches_take_a_win_and_prevent_a_loss() {
    // Three of a colour in column 2, and the player to move wins there, or has to prevent that.
    let (wins, loses) = ([2, 5, 2, 5, 2, 6], [2, 5, 2, 5, 2]);
    for player in ["minimax:1", "minimax:2", "minimax:4", "mcts:200"] {
        assert_eq!(reply(player, &wins), 2, "{player} wins");
    }
    for player in ["minimax:2", "minimax:3", "mcts:400"] {
        assert_eq!(reply(player, &loses), 2, "{player} prevents a loss");
    }
    // Two in the bottom row with both ends open: a third one there makes two threats, which no reply prevents.
    let third = reply("minimax:3", &[2, 2, 3, 3]);
    assert!([1, 4].contains(&third), "{third}");
    for wrong in [
        "minimax",
        "minimax:0",
        "minimax:7",
        "minimax:+2",
        "mcts:",
        "mcts:0",
        "mcts:007",
        "random:",
        "random:3",
        "",
    ] {
        assert!(wrong.parse::<Scripted>().is_err(), "{wrong}");
    }
}

/// The result with best play from the view of the player to move: 1, 0 or -1.
fn solved(board: &Board) -> i32 {
    let value = |column: usize| {
        let mut after = board.clone();
        match after.drop(column) {
            Some(2) => 0,
            Some(_) => 1,
            None => -solved(&after),
        }
    };
    board.legal().into_iter().map(value).max().expect("a move")
}

/// Those with up to eleven empty cells, which a plain search finds at once.
#[test]
fn optimal_moves_are_those_of_a_plain_search() {
    let text = data::text("connect_four.positions");
    let (mut checked, mut all) = (0, 0);
    for line in text.lines() {
        let (played, optimal) = line.split_once(' ').expect("two lists");
        let mut board = Board::default();
        let over = played.bytes().find_map(|digit| board.drop(usize::from(digit - b'0')));
        assert_eq!(over, None, "{line}");
        all += 1;
        if board.moves < 31 {
            continue;
        }
        let after = |column: usize| {
            let mut after = board.clone();
            after.drop(column).map_or_else(|| -solved(&after), |winner| i32::from(winner != 2))
        };
        let values: Vec<(usize, i32)> =
            board.legal().into_iter().map(|column| (column, after(column))).collect();
        let best = values.iter().map(|(_, value)| *value).max();
        let expected = values.iter().filter(|(_, value)| Some(*value) == best);
        assert_eq!(expected.map(|(column, _)| column.to_string()).collect::<String>(), optimal, "{line}");
        assert!(2 * optimal.len() <= values.len(), "{line}");
        checked += 1;
    }
    assert!(all == 1000 && checked > 20, "{checked} of {all}");
    println!("{checked} of {all} positions searched again");
}
