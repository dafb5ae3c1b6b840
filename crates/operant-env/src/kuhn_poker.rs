//! Kuhn poker: three cards, one chip to bet.
//!
//! Each player puts one chip into the pot and gets one of three cards: jack, queen or king. The first player bets a chip or passes. After a bet, the other
//! player calls (the action bet) or folds (the action pass). After a pass, the other player may bet, too, to which the first one then answers; two passes
//! end the game. Unless somebody folded, the higher card wins. The reward is what the first player wins: 1 or 2 chips, or -1 or -2.
//!
//! The observation is what the player to move knows, with perfect recall, and the bits are those of OpenSpiel's information state: the player, the card, and for
//! each of up to three actions whether it was a bet or a pass. Pgx's array has the card and the chips of both instead, which does not tell the
//! first move of the first player from that of the second player after a pass.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::poker::{Deal, RANKS, known, table, words};
use crate::spec::names;
use crate::versus::{result_metric, result_metrics};
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step};

/// The action of a player who bets or calls; the other one is to pass or fold.
const BET: u32 = 0;
/// Maximum number of actions in a game.
const ACTIONS: usize = 3;
/// First bits of the observation's parts.
const CARD: u32 = 2;
const BETS: u32 = CARD + RANKS as u32;

bundle! {
    /// The cards and the actions so far.
    pub struct State {
        /// The player to move: 0 the first, 1 the second.
        player: Uint,
        /// The players' cards: 0 jack, 1 queen, 2 king.
        cards: [Uint; 2],
        /// The players' chips in the pot.
        chips: [Uint; 2],
        /// Actions so far.
        turn: Uint,
        /// Bit 2 k is set if action k was a bet, bit 2 k + 1 if it was a pass.
        bets: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct KuhnPoker;

/// A first state.
#[inline(always)]
fn dealt<L: Lane>(cards: [L::Uint; 2]) -> State<L> {
    let zero = L::Uint::splat(0);
    State { player: zero, cards, chips: [L::Uint::splat(1); 2], turn: zero, bets: zero }
}

impl KuhnPoker {
    /// Every deal.
    pub fn deals() -> Vec<Deal> {
        let deals = (0..6u32).map(|deal| [deal / 2, (deal / 2 + 1 + deal % 2) % 3]);
        deals.map(|cards| (1.0 / 6.0, words(&dealt::<f32>(cards.map(Uint::splat))))).collect()
    }
}

impl Env for KuhnPoker {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "kuhn_poker".into(),
            family: "two players".into(),
            summary: "poker with three cards and one bet; win chips".into(),
            rules: "Each player has one of three cards and a chip in the pot. The first bets another chip or passes; a bet is called (bet) or not (pass). \
                    The higher card wins the pot. The reward is what the first player wins."
                .into(),
            reference: "Pgx 2.6.0, kuhn_poker: identical in every game. The observation is OpenSpiel's information state instead of Pgx's."
                .into(),
            obs: ObsSpace::Binary { shape: vec![2 + RANKS + 2 * ACTIONS] },
            obs_names: known(&["own card"], 1, ACTIONS, ["bet", "pass"]),
            actions: ActionSpace::Discrete(vec![2]),
            action_names: names(["bet", "pass"]),
            players: 2,
            hidden: true,
            metrics: result_metrics()[..1].to_vec(),
            fps: 1.0,
            preset: Some(include_str!("../presets/kuhn_poker.toml").into()),
            ..EnvSpec::default()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let (first, other) = (draws.below(3), draws.below(2));
        // One of the two other ranks.
        let second = other + first.le(other).select(u(1), u(0));
        dealt::<L>([first, second])
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let is_first = s.player.eq(u(0));
        let bets = action.eq(u(BET));
        let is_answer = s.chips[0].ne(s.chips[1]).named("is_answer");
        let chip = bets.select(u(1), u(0));
        let chips = [s.chips[0] + is_first.select(chip, u(0)), s.chips[1] + is_first.select(u(0), chip)];
        let terminated = is_answer | (!bets & s.turn.ne(u(0)));
        let folds = is_answer & !bets;
        let wins = folds.select(!is_first, s.cards[1].lt(s.cards[0]));
        let amount = L::Float::from_uint(chips[0].min(chips[1]));
        let reward = terminated.select(wins.select(amount, -amount), f(0.0));
        let bit = bets.select(u(1), u(2)).shl_by(s.turn.shl(1));
        let state = State {
            player: u(1) - s.player,
            cards: s.cards,
            chips,
            turn: s.turn + u(1),
            bets: (s.bets | bit).named("bets"),
        };
        Step { state, reward, terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        let u = L::Uint::splat;
        let card = s.player.eq(u(0)).select(s.cards[0], s.cards[1]);
        [u(1).shl_by(s.player) | u(1 << CARD).shl_by(card) | s.bets.shl(BETS)]
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        result_metric::<L>(last.reward, index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let player = s.player.0 & 1;
        let action = |turn: u32| if s.bets.0 >> (2 * turn) & 1 == 1 { "bet" } else { "pass" };
        let moves: Vec<&str> = (0..s.turn.0.min(ACTIONS as u32)).map(action).collect();
        table(player, s.cards[player as usize].0, None, s.chips.map(|chips| chips.0), &moves.join(", "))
    }
}
