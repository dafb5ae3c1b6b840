//! What the poker games share: pictures and decks of three ranks.

use operant_lane::Bundle;
use operant_lane::bundle::leaves_of;

use crate::rows::RowsMut;
use crate::{BLUE, GREEN, GREY, Scene, Shape, WHITE};

/// Jack, queen and king.
pub(crate) const RANKS: usize = 3;

const NAMES: [&str; RANKS] = ["J", "Q", "K"];

/// A deal: its probability, and the words of its first state.
pub type Deal = (f64, Vec<u32>);

/// The words of a state.
pub(crate) fn words<B: Bundle<f32>>(state: &B) -> Vec<u32> {
    let mut words = vec![0; leaves_of::<f32, B>().len()];
    state.store(&mut RowsMut::new(&mut words, 1, 0));
    words
}

/// The meaning of the bits of an observation: the player, some cards, and the actions of each round.
pub(crate) fn known(cards: &[&str], rounds: u32, actions: usize, choices: [&str; 2]) -> Vec<String> {
    let players = ["first player", "second player"].map(str::to_owned);
    let cards = cards.iter().flat_map(|card| NAMES.map(|rank| format!("{card} {rank}")));
    let turns = (1..=rounds).flat_map(|round| (1..=actions).map(move |action| (round, action)));
    let turns = turns.flat_map(|(round, action)| {
        choices.map(|choice| match rounds {
            1 => format!("action {action}: {choice}"),
            _ => format!("action {action} of round {round}: {choice}"),
        })
    });
    players.into_iter().chain(cards).chain(turns).collect()
}

/// The table from the view of the player to move: the opponent's card lies face down.
pub(crate) fn table(player: u32, card: u32, public: Option<u32>, chips: [u32; 2], moves: &str) -> Scene {
    let own = player as usize & 1;
    let name = |rank: u32| NAMES.get(rank as usize).copied().unwrap_or("?");
    let mut shapes = Vec::new();
    let mut place = |center: [f32; 2], text: &str, tone| {
        shapes.push(Shape::rectangle(center, 1.0, 1.4, tone));
        shapes.push(Shape::text(center, text, WHITE));
    };
    place([1.0, 1.0], name(card), BLUE);
    place([1.0, 4.0], "?", GREY);
    if let Some(rank) = public {
        place([4.5, 2.5], name(rank), GREEN);
    }
    let stake = |who: usize| format!("player {}: {} in the pot", who + 1, chips[who]);
    shapes.push(Shape::text([3.5, 1.0], stake(own), 0));
    shapes.push(Shape::text([3.5, 4.0], stake(1 - own), 0));
    shapes.push(Shape::text([2.0, 2.5], moves, GREY));
    Scene { low: [0.0, 0.0], high: [5.5, 5.0], shapes }
}
