//! Kuhn and Leduc poker: every game against Pgx (data/games.recipe.py), deals, and the exploitability of known strategies.

use std::collections::BTreeMap;
use std::sync::Arc;

use operant_env::exploitability::{Deal, Exploitability, InformationSet, exploitability};
use operant_env::kuhn_poker::KuhnPoker;
use operant_env::leduc_poker::LeducPoker;
use operant_env::play::Outputs;
use operant_env::search::Scripted;
use operant_env::{AnyEnv, Autoreset, EnvOptions, LaneWidth, TileSpec, builtin};
use serde_json::Value;

use crate::data;

const ROWS: usize = 256;

fn game(name: &str) -> Arc<dyn AnyEnv> {
    builtin().make(name, &EnvOptions::new()).expect("a game")
}

fn games() -> [(&'static str, Vec<Deal>); 2] {
    [("kuhn_poker", KuhnPoker::deals()), ("leduc_poker", LeducPoker::deals())]
}

/// A game of Pgx.
struct Game {
    cards: Vec<u32>,
    actions: Vec<u32>,
    players: Vec<u32>,
    /// Observations as numbers, the first bit lowest.
    obs: Vec<u64>,
    legal: Vec<u64>,
    reward: f32,
}

impl Game {
    fn read(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let list = |key: &str| -> Vec<u64> {
            value[key].as_array().expect(key).iter().map(|number| number.as_u64().expect(key)).collect()
        };
        let short = |key: &str| list(key).into_iter().map(|number| number as u32).collect();
        Self {
            cards: short("cards"),
            actions: short("actions"),
            players: short("players"),
            obs: list("obs"),
            legal: list("legal"),
            reward: value["reward"].as_i64().expect("a reward") as f32,
        }
    }

    /// What the player knows before move `at`: the player, the card, the public card in the second round of Leduc, and the actions.
    fn known(&self, at: usize) -> u32 {
        let is_leduc = self.cards.len() == 3;
        let player = self.players[at];
        let mut known = 1 << player | 4 << self.cards[player as usize];
        let (mut bit, mut round, mut turn) = (if is_leduc { 8 } else { 5 }, 0, 0);
        for action in &self.actions[..at] {
            known |= 1 << (bit + action);
            (bit, turn) = (bit + 2, turn + 1);
            if is_leduc && *action == 0 && turn > 1 {
                (bit, round, turn) = (16, round + 1, 0);
            }
        }
        if round == 1 {
            known |= 1 << (5 + self.cards[2]);
        }
        known
    }
}

/// Pgx's observation of the player to move from the leaves of a state.
fn pgx(leaf: &dyn Fn(&str) -> u32, player: u32) -> u64 {
    let of = |name: &str, who: u32| leaf(&format!("{name}[{who}]"));
    let (card, own, other) = (of("cards", player), of("chips", player), of("chips", 1 - player));
    if leaf("leduc") == 0 {
        // Chips without the one that each puts into the pot first.
        return 1 << card | 1 << (2 + own) | 1 << (4 + other);
    }
    let public = if leaf("round") == 1 { 1 << (3 + of("cards", 2)) } else { 0 };
    1 << card | public | 1 << (6 + own) | 1 << (20 + other)
}

#[test]
fn games_are_those_of_pgx() {
    for (name, deals) in games() {
        let text = data::text(&format!("{name}.games.jsonl"));
        let games: Vec<Game> = text.lines().skip(1).map(Game::read).collect();
        assert_eq!(games.len(), if name == "kuhn_poker" { 6 * 5 } else { 24 * 49 });
        for lanes in [LaneWidth::One, LaneWidth::WIDEST] {
            let env = game(name);
            let moves: usize = games.chunks(ROWS).map(|games| compare(&*env, &deals, games, lanes)).sum();
            println!("{name}, {lanes:?}: {} games, {moves} moves, no difference", games.len());
        }
    }
}

/// Plays games of Pgx side by side, and returns how many moves they have.
fn compare(env: &dyn AnyEnv, deals: &[Deal], games: &[Game], lanes: LaneWidth) -> usize {
    let (spec, leaves) = (env.spec(), env.leaves());
    let place = |name: &str| leaves.iter().position(|leaf| leaf.name == name);
    let tile = TileSpec { lanes, autoreset: Autoreset::Disabled, ..TileSpec::new(1, 0, ROWS) };
    let mut stepper = env.stepper(tile).expect("a tile");
    let mut out = Outputs::new(&spec, env.masked(), ROWS);
    let mut words = vec![0; (leaves.len() + 2) * ROWS];
    let first = place("cards[0]").expect("cards");
    for (row, game) in games.iter().enumerate() {
        let has_cards = |state: &[u32]| state[first..first + game.cards.len()] == game.cards;
        let (_, state) = deals.iter().find(|(_, state)| has_cards(state)).expect("the deal");
        words.iter_mut().skip(row).step_by(ROWS).zip(state).for_each(|(to, word)| *to = *word);
    }
    stepper.load(&words).expect("states");
    stepper.observe(out.seen()).expect("observations");
    let mut actions = vec![0.0; ROWS];
    let longest = games.iter().map(|game| game.actions.len()).max().expect("games");
    for step in 0..longest {
        stepper.save(&mut words);
        for (row, game) in games.iter().enumerate().filter(|(_, game)| step < game.actions.len()) {
            let what = format!("{} after {:?} of {:?}", spec.name, &game.actions[..step], game.cards);
            let leaf = |name: &str| match name {
                "leduc" => u32::from(game.cards.len() == 3),
                name => words[place(name).expect(name) * ROWS + row],
            };
            assert_eq!(leaf("player"), game.players[step], "{what}");
            assert_eq!(pgx(&leaf, game.players[step]), game.obs[step], "{what}");
            assert_eq!(out.obs[row], game.known(step), "{what}");
            let legal = out.legal.get(row).map_or(0b11, |legal| *legal & 0b111);
            assert_eq!(u64::from(legal), game.legal[step], "{what}");
            actions[row] = game.actions[step] as f32;
        }
        stepper.submit(&actions, step as u64).expect("a step");
        stepper.collect(out.stepped()).expect("a step");
        for (row, game) in games.iter().enumerate().filter(|(_, game)| step < game.actions.len()) {
            let is_last = step + 1 == game.actions.len();
            let what = format!("{} after {:?} of {:?}", spec.name, &game.actions[..=step], game.cards);
            let reward = if is_last { game.reward } else { 0.0 };
            assert_eq!((out.rewards[row], out.ended(row)), (reward, [is_last, false]), "{what}");
        }
    }
    games.iter().map(|game| game.actions.len()).sum()
}

/// Pearson's statistic of 25,600 first states.
#[test]
fn deals_have_their_probabilities() {
    // Exceeded once in a thousand seeds, with 5 and 23 degrees of freedom.
    for ((name, deals), limit) in games().into_iter().zip([20.5, 49.7]) {
        let env = game(name);
        let leaves = env.leaves().len();
        let mut counts: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
        for first in (0..100).map(|tile| tile * ROWS as u32) {
            let stepper = env.stepper(TileSpec::new(3, first, ROWS)).expect("a tile");
            let mut words = vec![0; (leaves + 2) * ROWS];
            stepper.save(&mut words);
            for row in 0..ROWS {
                let state = words.iter().copied().skip(row).step_by(ROWS).take(leaves).collect();
                *counts.entry(state).or_default() += 1.0;
            }
        }
        let total: f64 = counts.values().sum();
        assert!((deals.iter().map(|(chance, _)| chance).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(counts.len(), deals.len(), "{name}");
        let term = |(chance, state): &Deal| (counts[state] - chance * total).powi(2) / (chance * total);
        let statistic: f64 = deals.iter().map(term).sum();
        println!("{name}: {statistic}");
        assert!(statistic < limit, "{name}: {statistic}");
    }
}

fn uniform(set: &InformationSet) -> Vec<f64> {
    vec![1.0 / set.legal.len() as f64; set.legal.len()]
}

fn close(what: &str, value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{what}: {value}, not {expected}");
}

/// A Nash equilibrium of Kuhn poker for each alpha from 0 to 1/3: the first player bets a jack with probability alpha.
fn equilibrium(alpha: f64) -> impl Fn(&InformationSet) -> Vec<f64> {
    move |set| {
        let word = set.obs[0];
        let (card, bets) = ((word >> 2 & 7).trailing_zeros(), word >> 5);
        let bet = match (set.player, bets, card) {
            (0, 0, 0) => alpha,
            (0, 0, 2) => 3.0 * alpha,
            // After a pass and a bet.
            (0, 0b01_10, 1) => alpha + 1.0 / 3.0,
            // A bluff with the jack after a pass, and a call of the queen after a bet.
            (1, 0b10, 0) | (1, 0b01, 1) => 1.0 / 3.0,
            (_, bets, 2) if bets != 0 => 1.0,
            _ => 0.0,
        };
        vec![bet, 1.0 - bet]
    }
}

#[test]
fn known_strategies_have_their_exploitability() {
    let solve =
        |name: &str, deals: &[Deal], strategy: &dyn Fn(&InformationSet) -> Vec<f64>| -> Exploitability {
            exploitability(&*game(name), deals, strategy).expect("a game tree")
        };
    let [(kuhn, kuhn_deals), (leduc, leduc_deals)] = games();
    for alpha in [0.0, 0.2, 1.0 / 3.0] {
        let result = solve(kuhn, &kuhn_deals, &equilibrium(alpha));
        close("value of Kuhn poker", result.value, -1.0 / 18.0);
        close("exploitability of its equilibrium", result.exploitability(), 0.0);
    }
    let result = solve(kuhn, &kuhn_deals, &uniform);
    close("NashConv of uniform play in Kuhn poker", result.nash_conv(), 11.0 / 12.0);
    close("its value", result.value, 0.125);
    assert_eq!(result.information_sets, 12);
    let result = solve(leduc, &leduc_deals, &uniform);
    println!("Leduc poker, uniform play: {result:?}");
    close("NashConv of uniform play in Leduc poker", result.nash_conv(), 4.747_222_2);
    assert_eq!(result.information_sets, 288);
}

#[test]
fn exploitability_needs_a_small_game_and_probabilities() {
    let refused = |name: &str, strategy: &dyn Fn(&InformationSet) -> Vec<f64>| {
        let env = game(name);
        let deals = match name {
            "kuhn_poker" => KuhnPoker::deals(),
            // Its first state.
            _ => vec![(1.0, vec![0; env.leaves().len()])],
        };
        exploitability(&*env, &deals, strategy).expect_err("a refusal").to_string()
    };
    for wrong in [vec![1.0], vec![0.5, 0.6], vec![1.5, -0.5], vec![f64::NAN, 1.0]] {
        let error = refused("kuhn_poker", &|_| wrong.clone());
        assert!(error.contains("for the choices [0, 1]"), "{error}");
    }
    assert!(refused("connect_four", &uniform).contains("more than 524288 positions"));
    assert!(refused("cartpole", &uniform).contains("not two players"));
}

#[test]
fn searches_do_not_play_games_with_hidden_cards_or_choices() {
    for name in ["kuhn_poker", "leduc_poker", "two_player_pong", "capture_the_flag"] {
        let env = game(name);
        for player in ["minimax:2", "mcts:10"] {
            let opponent = player.parse::<Scripted>().expect("a name").opponent();
            let error = opponent.tile(&*env, TileSpec::new(1, 0, 16)).err().expect("a refusal").to_string();
            let why = if env.spec().hidden { "hide from each other" } else { "at the same time" };
            assert!(error.contains(why), "{error}");
        }
        assert!(
            "random"
                .parse::<Scripted>()
                .expect("a name")
                .opponent()
                .tile(&*env, TileSpec::new(1, 0, 16))
                .is_ok()
        );
    }
}
