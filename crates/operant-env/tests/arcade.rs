//! The arcade worlds against second implementations, written in another way: the reference takes each state of random play, makes
//! the same step with the same draws, and must arrive at the same state, reward and end. Each policy plays well enough to reach
//! every rule, and the tests count that it did.

use std::num::Wrapping;

use operant_env::{Env, ObsSpace, breakout_large, capture_the_flag, game_2048, pong, snake, two_player_pong};
use operant_lane::{Bundle, Draws, Purpose, Sink};

use crate::{court, field, tiles};

/// The leaves of a bundle on the lane of doubles, as numbers.
#[derive(Default)]
struct Numbers(Vec<f64>);

impl Sink<f64> for Numbers {
    fn float(&mut self, value: f64) {
        self.0.push(value);
    }
    fn uint(&mut self, value: Wrapping<u32>) {
        self.0.push(f64::from(value.0));
    }
    fn int(&mut self, value: Wrapping<i32>) {
        self.0.push(f64::from(value.0));
    }
    fn mask(&mut self, value: bool) {
        self.0.push(f64::from(u8::from(value)));
    }
}

/// The leaves of a bundle.
pub fn leaves(bundle: &impl Bundle<f64>) -> Vec<f64> {
    let mut numbers = Numbers::default();
    bundle.store(&mut numbers);
    numbers.0
}

/// An implementation of the same rules.
pub trait Reference: Sized {
    /// A first state.
    fn first(draws: &mut Draws<f64>) -> Self;
    /// The state with those leaves; `self` may keep data that they do not contain.
    fn load(&mut self, leaves: &[f64]);
    /// Its leaves.
    fn leaves(&self) -> Vec<f64>;
    /// One step: the reward, and whether the episode ends.
    fn step(&mut self, action: u32, draws: &mut Draws<f64>) -> (f64, bool);
    /// The observation, as numbers.
    fn observe(&self) -> Vec<f64>;
    /// The choices that are legal.
    fn legal(&self) -> Vec<u32>;
    /// What a player does who draws `random`.
    fn policy(&self, random: u32) -> u32;
}

/// The numbers of an observation on the lane of doubles: floats are as they are, words are unpacked.
fn numbers(space: &ObsSpace, leaves: &[f64]) -> Vec<f64> {
    let mut rest = leaves;
    let mut all = Vec::new();
    for (_, part) in space.parts() {
        let (own, after) = rest.split_at(part.words());
        let words: Vec<u32> = own.iter().map(|&word| word as u32).collect();
        all.extend(if part.is_real() { own.to_vec() } else { part.unpack(&words) });
        rest = after;
    }
    all
}

fn close(got: &[f64], expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (k, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((a - b).abs() < 1e-9, "{what}: number {k} is {a}, expected {b}\n{got:?}\n{expected:?}");
    }
}

/// An episode of the environment.
struct Played {
    score: f64,
    last: Vec<f64>,
}

/// Plays `steps` steps and compares each; returns the episodes that ended.
fn agrees<E, R: Reference>(env: &E, steps: u64) -> Vec<Played>
where
    E: Env,
    E::Action<f64>: From<Wrapping<u32>>,
{
    let spec = env.spec();
    let draws = |step, purpose| Draws::<f64>::at(11, Wrapping(3), step, purpose);
    let mut state = env.reset(&mut draws(0, Purpose::Init));
    let mut reference = R::first(&mut draws(0, Purpose::Init));
    let (mut played, mut score) = (Vec::new(), 0.0);
    for step in 0..steps {
        let what = format!("{} at step {step}", spec.name);
        close(&leaves(&state), &reference.leaves(), &what);
        close(&numbers(&spec.obs, &leaves(&env.observe(&state))), &reference.observe(), &what);
        let operant_env::ActionSpace::Discrete(choices) = &spec.actions else { panic!("discrete") };
        let choices = 0..choices[0] as u32;
        let legal: Vec<u32> = choices.filter(|&choice| env.legal(&state, 0, choice as usize)).collect();
        assert_eq!(legal, reference.legal(), "{what}");

        reference.load(&leaves(&state));
        let random = draws(step, Purpose::RandomAction).bits().0;
        let action = reference.policy(random);
        let after = env.step(&state, &Wrapping(action).into(), &mut draws(step, Purpose::Step));
        let (reward, terminated) = reference.step(action, &mut draws(step, Purpose::Step));
        assert_eq!((after.reward, after.terminated), (reward, terminated), "{what}");
        score += reward;
        state = after.state;
        if terminated {
            close(&leaves(&state), &reference.leaves(), &format!("{what}, the terminal state"));
            played.push(Played { score, last: leaves(&state) });
            score = 0.0;
            state = env.reset(&mut draws(step, Purpose::Reset));
            reference = R::first(&mut draws(step, Purpose::Reset));
        }
    }
    played
}

#[test]
fn pong_agrees_with_its_reference() {
    let played = agrees::<_, court::Pong>(&pong::Pong, 200_000);
    let points = |k: usize| played.iter().map(|game| game.last[k]).sum::<f64>();
    let difference: f64 = played.iter().map(|game| game.score).sum();
    assert_eq!(difference, points(10) - points(11), "the return is the difference in points");
    assert!(played.len() >= 10 && points(10) > 20.0 && points(11) > 20.0, "both sides score");
    assert!(played.iter().all(|game| (game.last[10] == 21.0) != (game.last[11] == 21.0)));
}

#[test]
fn two_player_pong_agrees_with_its_reference() {
    let played = agrees::<_, court::TwoPlayerPong>(&two_player_pong::TwoPlayerPong, 400_000);
    let points = |k: usize| played.iter().map(|game| game.last[k]).sum::<f64>();
    assert!(played.len() >= 10 && points(12) > 20.0 && points(13) > 20.0, "both sides score");
    let won = |k: usize| played.iter().filter(|game| game.last[k] == 21.0).count();
    assert!(won(12) > 0 && won(13) > 0 && won(12) + won(13) == played.len(), "both sides win");
}

#[test]
fn capture_the_flag_agrees_with_its_reference() {
    let played = agrees::<_, field::Field>(&capture_the_flag::CaptureTheFlag, 400_000);
    let ends = |score: f64| played.iter().filter(|game| game.score == score).count();
    println!("{} games: {} won, {} lost, {} drawn", played.len(), ends(1.0), ends(-1.0), ends(0.0));
    assert!(ends(1.0) > 50 && ends(-1.0) > 50 && ends(0.0) > 2, "every end is reached");
}

#[test]
fn breakout_agrees_with_its_reference() {
    let played = agrees::<_, court::Breakout>(&breakout_large::BreakoutLarge, 300_000);
    let full = played.iter().filter(|game| game.score == 864.0).count();
    let short = played.iter().filter(|game| game.last[7] == 0.0).count();
    assert!(full > 0 && short > 0, "{full} games with both walls, {short} without balls of {}", played.len());
    assert!(played.iter().all(|game| game.score <= 864.0));
}

#[test]
fn game_2048_agrees_with_its_reference() {
    let played = agrees::<_, tiles::Game2048>(&game_2048::Game2048, 50_000);
    assert!(played.len() > 100, "{} games", played.len());
}

#[test]
fn snake_agrees_with_its_reference() {
    let played = agrees::<_, tiles::Snake>(&snake::Snake::default(), 100_000);
    let longest = played.iter().map(|game| game.score).fold(0.0, f64::max);
    assert!(longest >= 25.0, "the longest snake ate {longest}");
    let hungry = played.iter().filter(|game| game.last[8] == 200.0).count();
    assert!(hungry > 0, "one starved");
    assert!(played.iter().all(|game| game.last[7] == game.score + 3.0), "a cell for each food");
}
