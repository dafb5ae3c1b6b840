//! Leduc poker: six cards, two rounds of bets.
//!
//! The deck has two jacks, two queens and two kings. Each player puts one chip into the pot and gets a card. In a round of bets the players move in turn, the first one
//! begins: call (match the opponent's chips, or check), raise, or fold after a raise. A raise adds 2 chips in the first round and 4 in the second to what the
//! opponent has in the pot; a round has at most two. A call that is not the first action of a round ends it. After the first round a public card is shown, after the
//! second one the game ends: a card of the rank of the public card wins, otherwise the higher one, and equal ranks share the pot. The reward is what the
//! first player wins, in chips: at most 13. Illegal actions are masked; a player who chooses one anyway loses one chip.
//!
//! The observation is what the player to move knows, with perfect recall, and the bits are those of OpenSpiel's information state by ranks: the player, the
//! card, the public card once it is shown, and for each of up to four actions of both rounds whether it was a call or a raise. Pgx's array has the cards and
//! the chips of both instead.
//!
//! The public card is drawn with the deal.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::poker::{Deal, RANKS, known, table, words};
use crate::spec::names;
use crate::versus::{result_metric, result_metrics};
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step};

const CALL: u32 = 0;
const RAISE: u32 = 1;
const FOLD: u32 = 2;
/// Maximum number of raises in a round.
const RAISES: u32 = 2;
/// Maximum number of actions in a round.
const ACTIONS: usize = 4;
/// Cards of each rank.
const SUITS: u32 = 2;
const CARDS: u32 = RANKS as u32 * SUITS;
/// First bits of the observation's parts.
const CARD: u32 = 2;
const PUBLIC: u32 = CARD + RANKS as u32;
const BETS: u32 = PUBLIC + RANKS as u32;

bundle! {
    /// The cards and the actions so far.
    pub struct State {
        /// The player to move: 0 the first, 1 the second.
        player: Uint,
        /// Ranks of the players' cards and of the public one: 0 jack, 1 queen, 2 king.
        cards: [Uint; 3],
        /// The players' chips in the pot.
        chips: [Uint; 2],
        /// The round, 0 or 1.
        round: Uint,
        /// Actions of this round so far.
        turn: Uint,
        /// Raises of this round so far.
        raises: Uint,
        /// Bit 8 r + 2 k is set if action k of round r was a call, the next one if it was a raise.
        bets: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct LeducPoker;

/// A first state.
#[inline(always)]
fn dealt<L: Lane>(cards: [L::Uint; 3]) -> State<L> {
    let zero = L::Uint::splat(0);
    let chips = [L::Uint::splat(1); 2];
    State { player: zero, cards, chips, round: zero, turn: zero, raises: zero, bets: zero }
}

/// What the first player wins at the end of the second round, in units of `amount`.
#[inline(always)]
fn shown<L: Lane>([first, second, public]: [L::Uint; 3], amount: L::Float) -> L::Float {
    let wins = first.eq(public) | (second.ne(public) & second.lt(first));
    first.eq(second).select(L::Float::splat(0.0), wins.select(amount, -amount))
}

impl LeducPoker {
    /// Every deal of ranks.
    pub fn deals() -> Vec<Deal> {
        let ranks = RANKS as u32;
        let all = (0..ranks * ranks * ranks).map(|k| [k / (ranks * ranks), k / ranks % ranks, k % ranks]);
        let deal = |cards: [u32; 3]| {
            // The cards of this rank that are left, of all that are left.
            let chance = |at: usize| {
                let dealt = cards[..at].iter().filter(|card| **card == cards[at]).count();
                (f64::from(SUITS) - dealt as f64) / (f64::from(CARDS) - at as f64)
            };
            (chance(0) * chance(1) * chance(2), words(&dealt::<f32>(cards.map(Uint::splat))))
        };
        all.map(deal).filter(|(chance, _)| *chance > 0.0).collect()
    }
}

impl<L: Lane> State<L> {
    #[inline(always)]
    fn may_raise(&self) -> L::Mask {
        self.raises.lt(L::Uint::splat(RAISES))
    }

    #[inline(always)]
    fn may_fold(&self) -> L::Mask {
        self.chips[0].ne(self.chips[1])
    }
}

impl Env for LeducPoker {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "leduc_poker".into(),
            aliases: names(["leduc_holdem"]),
            family: "two players".into(),
            summary: "poker with six cards and two rounds of bets; win chips".into(),
            rules: "Each player has a card of a deck of two jacks, two queens and two kings, and a chip in the pot. After a round of bets (at most two raises of 2 chips) \
                    a public card is shown, and a second round follows (4 chips). A pair with the public card wins, otherwise the higher card. The reward is \
                    what the first player wins."
                .into(),
            reference: "Pgx 2.6.0, leduc_holdem: identical in every game. The observation is OpenSpiel's information state, by ranks, instead of Pgx's."
                .into(),
            obs: ObsSpace::Binary { shape: vec![2 + 2 * RANKS + 4 * ACTIONS] },
            obs_names: known(&["own card", "public card"], 2, ACTIONS, ["call", "raise"]),
            actions: ActionSpace::Discrete(vec![3]),
            action_names: names(["call", "raise", "fold"]),
            players: 2,
            hidden: true,
            metrics: result_metrics(),
            fps: 1.0,
            preset: Some(include_str!("../presets/leduc_poker.toml").into()),
            ..EnvSpec::default()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let after = |card: L::Uint, dealt: L::Uint| card + dealt.le(card).select(u(1), u(0));
        let first = draws.below(CARDS);
        let second = after(draws.below(CARDS - 1), first).named("second");
        let public = draws.below(CARDS - 2);
        let public = after(after(public, first.min(second)), first.max(second)).named("public");
        dealt::<L>([first.shr(1), second.shr(1), public.shr(1)])
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let is_first = s.player.eq(u(0));
        let (raises, folds) = (action.eq(u(RAISE)), action.ge(u(FOLD)));
        let is_legal = folds.select(s.may_fold(), raises.select(s.may_raise(), L::Mask::splat(true)));
        let most = s.chips[0].max(s.chips[1]);
        let raised = most + (s.round + u(1)).shl(1);
        let pays = |own: L::Uint, moves: L::Mask| {
            (moves & !folds).select(raises.select(raised, most), own).named("chips")
        };
        let chips = [pays(s.chips[0], is_first), pays(s.chips[1], !is_first)];
        let ends_round = (action.eq(u(CALL)) & s.turn.ne(u(0))).named("ends_round");
        let ends_game = folds | (ends_round & s.round.ne(u(0)));
        let amount = L::Float::from_uint(chips[0].min(chips[1]));
        let folded = |amount: L::Float| is_first.select(-amount, amount);
        let result = folds.select(folded(amount), shown::<L>(s.cards, amount));
        let reward = is_legal.select(ends_game.select(result, f(0.0)), folded(f(1.0)));
        let terminated = ends_game | !is_legal;
        let goes_on = ends_round & !terminated;
        let at = s.round.shl(3) + s.turn.shl(1);
        let bit = folds.select(u(0), raises.select(u(2), u(1)).shl_by(at));
        let state = State {
            player: goes_on.select(u(0), u(1) - s.player),
            cards: s.cards,
            chips,
            round: s.round + goes_on.select(u(1), u(0)),
            turn: goes_on.select(u(0), s.turn + u(1)),
            raises: goes_on.select(u(0), s.raises + raises.select(u(1), u(0))),
            bets: (s.bets | bit).named("bets"),
        };
        Step { state, reward, terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        let u = L::Uint::splat;
        let card = s.player.eq(u(0)).select(s.cards[0], s.cards[1]);
        let public = s.round.eq(u(0)).select(u(0), u(1 << PUBLIC).shl_by(s.cards[2]));
        // A round has at most four legal actions: 16 bits.
        let bets = (s.bets & u(u16::MAX.into())).shl(BETS);
        [u(1).shl_by(s.player) | u(1 << CARD).shl_by(card) | public | bets]
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _: usize, choice: usize) -> L::Mask {
        match choice as u32 {
            RAISE => s.may_raise(),
            FOLD => s.may_fold(),
            _ => L::Mask::splat(true),
        }
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        result_metric::<L>(last.reward, index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let player = s.player.0 & 1;
        let word = |round: u32, turn: u32| match s.bets.0 >> (8 * round + 2 * turn) & 3 {
            0 => None,
            1 => Some("call"),
            _ => Some("raise"),
        };
        let round = |round: u32| {
            (0..ACTIONS as u32).filter_map(|turn| word(round, turn)).collect::<Vec<_>>().join(", ")
        };
        let moves = if s.round.0 == 0 { round(0) } else { format!("{} / {}", round(0), round(1)) };
        let public = (s.round.0 > 0).then_some(s.cards[2].0);
        table(player, s.cards[player as usize].0, public, s.chips.map(|chips| chips.0), &moves)
    }
}
