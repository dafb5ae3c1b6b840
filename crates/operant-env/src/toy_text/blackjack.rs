//! Blackjack: get closer to 21 than the dealer without exceeding it.
//!
//! Based on Sutton and Barto, "Reinforcement Learning", example 5.1, with the rules and options of Gymnasium's
//! Blackjack-v1. Cards are drawn with replacement from 13 ranks, four of which count as 10.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use super::FAMILY;
use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, Scene, Shape, Step};

/// The best sum.
const BEST: u32 = 21;
/// The dealer draws below this sum.
const DEALER: u32 = 17;
/// Upper bound of the number of cards that the dealer draws.
const DEALER_DRAWS: u32 = 10;
/// Upper bound of the episode length: a hand grows by at least 1 per step, from at least 2 to at most 22.
const TIME_LIMIT: u32 = 20;

bundle! {
    /// A hand of cards.
    pub struct Hand {
        /// Sum of the cards, with aces as 1.
        sum: Uint,
        /// Whether the hand has an ace.
        ace: Mask,
        /// Number of cards.
        cards: Uint,
    }
}

bundle! {
    /// The hands of the player and the dealer.
    pub struct State {
        /// Sum of the player's cards, with aces as 1.
        player_sum: Uint,
        /// Whether the player has an ace.
        player_ace: Mask,
        /// Number of the player's cards.
        player_cards: Uint,
        /// The dealer's face-up card.
        open: Uint,
        /// Sum of the dealer's cards, with aces as 1.
        dealer_sum: Uint,
        /// Whether the dealer has an ace.
        dealer_ace: Mask,
        /// Number of the dealer's cards.
        dealer_cards: Uint,
    }
}

impl<L: Lane> Hand<L> {
    /// The hand with another card.
    #[inline(always)]
    fn with(self, card: L::Uint) -> Self {
        let one = L::Uint::splat(1);
        Hand { sum: self.sum + card, ace: self.ace | card.eq(one), cards: self.cards + one }
    }

    /// Whether an ace counts as 11.
    #[inline(always)]
    fn usable_ace(&self) -> L::Mask {
        self.ace & self.sum.le(L::Uint::splat(BEST - 10))
    }

    /// The sum of the hand.
    #[inline(always)]
    fn value(&self) -> L::Uint {
        self.usable_ace().select(self.sum + L::Uint::splat(10), self.sum)
    }

    /// Whether the hand is an ace and a card worth 10.
    #[inline(always)]
    fn natural(&self) -> L::Mask {
        self.cards.eq(L::Uint::splat(2)) & self.value().eq(L::Uint::splat(BEST))
    }
}

impl<L: Lane> State<L> {
    #[inline(always)]
    fn player(&self) -> Hand<L> {
        Hand { sum: self.player_sum, ace: self.player_ace, cards: self.player_cards }
    }

    #[inline(always)]
    fn dealer(&self) -> Hand<L> {
        Hand { sum: self.dealer_sum, ace: self.dealer_ace, cards: self.dealer_cards }
    }

    #[inline(always)]
    fn of(player: Hand<L>, open: L::Uint, dealer: Hand<L>) -> Self {
        State {
            player_sum: player.sum,
            player_ace: player.ace,
            player_cards: player.cards,
            open,
            dealer_sum: dealer.sum,
            dealer_ace: dealer.ace,
            dealer_cards: dealer.cards,
        }
    }
}

/// A card: 1 for an ace, 10 for tens and face cards.
#[inline(always)]
fn card<L: Lane>(draws: &mut Draws<L>) -> L::Uint {
    (draws.below(13) + L::Uint::splat(1)).min(L::Uint::splat(10)).named("card")
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Blackjack {
    natural: bool,
    sab: bool,
}

impl Default for Blackjack {
    fn default() -> Self {
        Blackjack { natural: false, sab: true }
    }
}

impl Blackjack {
    /// The reward of a player who sticks, given the dealer's final hand.
    #[inline(always)]
    fn reward<L: Lane>(&self, player: &Hand<L>, dealer: &Hand<L>) -> L::Float {
        let f = L::Float::splat;
        let bust = L::Uint::splat(BEST).lt(dealer.value());
        let wins = (bust | dealer.value().lt(player.value())).named("wins");
        let draws_level = !bust & dealer.value().eq(player.value());
        let reward = wins.select(f(1.0), draws_level.select(f(0.0), f(-1.0)));
        if self.sab {
            (player.natural() & !dealer.natural()).select(f(1.0), reward)
        } else if self.natural {
            (player.natural() & wins).select(f(1.5), reward)
        } else {
            reward
        }
    }
}

impl Env for Blackjack {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "blackjack".into(),
            aliases: vec!["Blackjack-v1".into(), "Blackjack".into()],
            family: FAMILY.into(),
            summary: "draw cards up to 21 against a dealer; +1 for a win, -1 for a loss".into(),
            rules: "Stick (0) or take a card (1). Above 21 the player loses; after a stick the dealer draws up to 17 or more, and \
                    the larger sum wins. An ace counts as 11 unless the sum would exceed 21."
                .into(),
            reference: "Identical to Gymnasium's Blackjack-v1, with its options. Gymnasium has no time limit; no episode has \
                        more than 20 steps."
                .into(),
            variant_of: None,
            obs: ObsSpace::Index { shape: vec![3], below: vec![32, 11, 2] },
            obs_names: names(["the player's sum", "the dealer's open card (ace 1)", "whether the player has an ace that counts as 11"]),
            actions: ActionSpace::Discrete(vec![2]),
            action_names: names(["stick", "hit"]),
            metrics: Vec::new(),
            time_limit: TIME_LIMIT,
            fps: 2.0,
            options: vec![
                EnvOption::flag("natural", false, "whether winning with an ace and a ten pays 1.5; ignored if sab is on"),
                EnvOption::flag("sab", true, "Sutton and Barto's rule: an ace and a ten win unless the dealer has them too"),
            ],
            preset: Some(include_str!("../../presets/blackjack.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        match self.spec().check_option(name, value)?.name.as_str() {
            "natural" => self.natural = value.is_on(),
            _ => self.sab = value.is_on(),
        }
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let none = Hand::<L> { sum: u(0), ace: L::Mask::splat(false), cards: u(0) };
        let open = card(draws);
        let dealer = none.with(open).with(card(draws));
        State::of(none.with(card(draws)).with(card(draws)), open, dealer)
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let hits = action.eq(u(1)).named("hits");
        let mut own = draws.reserve(1);
        let player = L::when(hits, s.player(), |hand| hand.with(card(&mut own)));
        let bust = u(BEST).lt(player.sum).named("bust");

        let turns = draws.turns(DEALER_DRAWS, 1);
        let dealer = L::when(!hits, s.dealer(), |hand| {
            let draws_on = |hand: &Hand<L>| hand.value().lt(u(DEALER));
            L::repeat_while(DEALER_DRAWS, hand, draws_on, |turn, hand| hand.with(card(&mut turns.turn(turn))))
        });
        let stuck = self.reward(&player, &dealer);
        let reward = hits.select(bust.select(f(-1.0), f(0.0)), stuck);
        Step { state: State::of(player, s.open, dealer), reward, terminated: !hits | bust }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        let u = L::Uint::splat;
        let hand = s.player();
        [hand.value() | s.open.shl(8) | hand.usable_ace().select(u(1 << 16), u(0))]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let sum = |hand: &Hand<f32>| {
            let soft = if hand.usable_ace() { ", soft" } else { "" };
            format!("{} in {} cards{soft}", hand.value().0, hand.cards.0)
        };
        let (player, dealer) = (s.player(), s.dealer());
        let hidden = dealer.cards.0 == 2;
        let shown = if hidden { format!("{} and a hidden card", s.open.0) } else { sum(&dealer) };
        Scene {
            low: [0.0, 0.0],
            high: [4.0, 3.0],
            shapes: vec![
                Shape::text([2.0, 2.6], "dealer", 4),
                Shape::text([2.0, 2.0], shown, 2),
                Shape::line([[0.2, 1.5], [3.8, 1.5]], 0),
                Shape::text([2.0, 1.0], sum(&player), 1),
                Shape::text([2.0, 0.4], "player", 4),
            ],
        }
    }
}
