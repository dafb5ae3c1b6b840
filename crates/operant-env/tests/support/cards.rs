//! Cards: a test-only environment whose observation has parts of every kind: indices below several bounds, bits, a large index
//! and, mixed, reals and bytes. Its rules use what no small environment needs: memory per environment, and draws in cold paths
//! and loops. Shared by the suites that compare lanes, emitted code and devices.

use operant_env::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step};
use operant_lane::{Draws, Float, Lane, Mask, Memory, Uint, bundle};

/// Cards of the hand: three, each with a kind, a suit and a number.
const HAND: usize = 9;
/// Bounds of kind, suit and number.
const BELOW: [u32; 3] = [11, 6, 40];
/// Turns that the observation can tell.
const TURNS: u32 = 300;
/// Places of the pile, a byte each.
const PLACES: u32 = 160;

bundle! {
    /// The table.
    pub struct State {
        /// Kind, suit and number of each card.
        hand: [Uint; 9],
        /// How often each place of the pile was used, four places to a word.
        pile: (Memory 40),
        /// Turns so far.
        turn: Uint,
        /// The sum of the rewards.
        level: Float,
    }
}

/// Replace one card of a hand, or none: the sum of its numbers is the reward. Ends when two cards are of one kind.
#[derive(Debug, Clone, Default)]
pub struct Cards;

/// [`Cards`] with reals and bytes in the observation.
#[derive(Debug, Clone, Default)]
pub struct MixedCards;

fn spec(name: &str, mixed: bool) -> EnvSpec {
    let mut parts = vec![
        ("hand".to_owned(), ObsSpace::Index { shape: vec![3, 3], below: BELOW.to_vec() }),
        ("held".to_owned(), ObsSpace::Binary { shape: vec![5] }),
        ("turn".to_owned(), ObsSpace::Index { shape: vec![], below: vec![TURNS] }),
    ];
    if mixed {
        parts.push(("level".to_owned(), ObsSpace::symmetric(&[f64::INFINITY; 2])));
        parts.push(("pile".to_owned(), ObsSpace::Bytes { shape: vec![6] }));
    }
    EnvSpec {
        name: name.into(),
        summary: "replace cards".into(),
        obs: ObsSpace::Parts(parts),
        actions: ActionSpace::Discrete(vec![4]),
        time_limit: 23,
        fps: 10.0,
        ..EnvSpec::default()
    }
}

/// A new value for each field of the cards that `which` tells: 0 to 2, or 3 for all of them.
fn deal<L: Lane>(hand: [L::Uint; HAND], which: L::Uint, draws: &mut Draws<L>) -> [L::Uint; HAND] {
    let u = L::Uint::splat;
    let turns = draws.turns(3, 3);
    L::repeat(3, hand, |card, hand| {
        let mut draws = turns.turn(card);
        let fields: [L::Uint; 3] = core::array::from_fn(|field| draws.below(BELOW[field]));
        let dealt = which.eq(card) | which.eq(u(3));
        core::array::from_fn(|k| (dealt & card.eq(u(k as u32 / 3))).select(fields[k % 3], hand[k]))
    })
}

fn step<L: Lane>(s: &State<L>, action: L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
    let u = L::Uint::splat;
    let mut part = draws.reserve(40);
    let hand = L::when(action.ne(u(3)), s.hand, |hand| deal(hand, action, &mut part));
    let mut pile = s.pile;
    let place = draws.below_each(s.turn + u(1)) * u(7) + action;
    pile.set_byte(place.lt(u(PLACES)), place, (pile.byte(place) + u(1)) & u(255));
    let sum = L::repeat(3, u(0), |card, sum| {
        let numbers: [L::Uint; 3] = core::array::from_fn(|k| hand[3 * k + 2]);
        sum + operant_lane::array::get(&numbers, card)
    });
    let same = hand[0].eq(hand[3]) & hand[3].eq(hand[6]);
    let reward = L::Float::from_uint(sum + pile.byte(place)) * L::Float::splat(0.01);
    let state = State { hand, pile, turn: s.turn + u(1), level: s.level + reward };
    Step { state, reward, terminated: same }
}

fn reset<L: Lane>(draws: &mut Draws<L>) -> State<L> {
    let u = L::Uint::splat;
    let hand = deal([u(0); HAND], u(3), draws);
    State { hand, pile: L::Memory::splat(&[0; 40]), turn: u(0), level: draws.between(-1.0, 1.0) }
}

fn observe<L: Lane>(s: &State<L>) -> [L::Uint; 5] {
    let u = L::Uint::splat;
    let h = &s.hand;
    let four = |k: usize| h[k] | h[k + 1].shl(8) | h[k + 2].shl(16) | h[k + 3].shl(24);
    let held = (0..3).fold(u(0), |bits, card| {
        bits | h[3 * card].lt(u(5)).select(u(1 << card), u(0)) | h[3 * card + 2].lt(u(20)).select(u(2), u(0))
    });
    [four(0), four(4), h[8], held, s.turn.min(u(TURNS - 1))]
}

macro_rules! cards {
    ($env:ident, $name:literal, mixed: $mixed:literal, $obs:ty, |$state:ident| $observe:expr) => {
        impl Env for $env {
            type State<L: Lane> = State<L>;
            type Obs<L: Lane> = $obs;
            type Action<L: Lane> = L::Uint;

            fn spec(&self) -> EnvSpec {
                spec($name, $mixed)
            }
            fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
                reset(draws)
            }
            fn step<L: Lane>(
                &self,
                state: &State<L>,
                action: &L::Uint,
                draws: &mut Draws<L>,
            ) -> Step<L, State<L>> {
                step(state, *action, draws)
            }
            fn observe<L: Lane>(&self, $state: &State<L>) -> $obs {
                $observe
            }
            fn draw(&self, _: &State<f32>) -> Scene {
                Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
            }
        }
    };
}
cards!(Cards, "cards", mixed: false, [L::Uint; 5], |s| observe(s));
cards!(MixedCards, "mixed_cards", mixed: true, ([L::Uint; 5], [L::Float; 2], [L::Uint; 2]), |s| {
    (observe(s), [s.level, s.level * s.level], [s.pile.word(0), s.pile.word(1) & L::Uint::splat(0xffff)])
});
