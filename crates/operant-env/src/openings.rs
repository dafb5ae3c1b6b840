//! Games that begin with random moves: the option `openings`.
//!
//! An agent that learns from games that it plays itself sees few of the positions that others bring about. With `openings = M` a game begins with a number of random moves,
//! uniform in 0 ..= M, that is drawn for each game; a move that would end the game is not made, and the game begins before it.

use std::sync::Arc;

use operant_lane::{Draws, Lane, Mask, Uint};

use crate::spec::{OptionError, OptionValue};
use crate::{ActionSpace, AnyEnv, Env, EnvOption, EnvOptions, EnvSpec};

/// Maximum number of random moves.
const MOST: u32 = 60;

/// The option's name.
const OPTION: &str = "openings";

/// The game without random moves of its own, for leagues, which begin games themselves.
pub fn without(game: Arc<dyn AnyEnv>) -> Arc<dyn AnyEnv> {
    let has = game.spec().options.iter().any(|option| option.name == OPTION);
    let none = EnvOptions::from([(OPTION.to_owned(), 0.0.into())]);
    if has { game.with_options(&none).unwrap_or(game) } else { game }
}

/// The option of games.
pub(crate) fn option() -> EnvOption {
    EnvOption::whole(OPTION, 0, 0, MOST, "maximum number of random moves with which a game begins")
}

/// The value of the option. Checks it against `spec`.
pub(crate) fn value(spec: &EnvSpec, name: &str, value: &OptionValue) -> Result<u32, OptionError> {
    spec.check_option(name, value)?;
    Ok(value.whole())
}

/// The method of a game with the option and a field `openings`.
macro_rules! has_openings {
    () => {
        fn set_option(&mut self, name: &str, value: &$crate::OptionValue) -> Result<(), $crate::OptionError> {
            self.openings = $crate::openings::value(&$crate::Env::spec(self), name, value)?;
            Ok(())
        }
    };
}
pub(crate) use has_openings;

/// A game's first state after up to `most` random legal moves. Nothing is drawn if `most` is 0.
#[inline(always)]
pub(crate) fn opened<L: Lane, E: Env<Action<L> = L::Uint>>(
    game: &E,
    first: E::State<L>,
    most: u32,
    draws: &mut Draws<L>,
) -> E::State<L> {
    let u = L::Uint::splat;
    if most == 0 {
        return first;
    }
    let ActionSpace::Discrete(choices) = game.spec().actions else { unreachable!("moves are choices") };
    let moves = draws.below(most + 1);
    let turns = draws.turns(most, 4);
    let more = |(_, left): &(E::State<L>, L::Uint)| left.ne(u(0));
    L::repeat_while(most, (first, moves), more, |turn, (state, left)| {
        let mut draws = turns.turn(turn);
        let mut count = u(0);
        for choice in 0..choices[0] {
            count = count + game.legal(&state, 0, choice).select(u(1), u(0));
        }
        let number = draws.below_each(count.named("count")).named("number");
        let (mut seen, mut action) = (u(0), u(0));
        for choice in 0..choices[0] {
            let is_legal = game.legal(&state, 0, choice);
            action = (is_legal & seen.eq(number)).select(u(choice as u32), action);
            seen = seen + is_legal.select(u(1), u(0));
        }
        let step = game.step(&state, &action.named("action"), &mut draws);
        let goes_on = !step.terminated;
        (goes_on.select(step.state, state), goes_on.select(left - u(1), u(0)))
    })
    .0
}
