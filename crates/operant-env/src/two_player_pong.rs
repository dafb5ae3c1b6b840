//! [Pong](crate::pong) for two players, to 21 points.
//!
//! Both choose at once: the first player's choice is kept until the second one has chosen, who does not see it; then four frames follow in which
//! both paddles move as the player's does in Pong. Players 0 and 1 have the right and the left paddle. Each sees the court with the own paddle on the right. The
//! reward is 1 for a point of player 0 and -1 for one of player 1.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::pong::{self, PLAYER_SPEED, Pong, picture, play, push, serve, view};
use crate::versus::{result_metric, result_metrics};
use crate::{Env, EnvSpec, Scene, Step};

bundle! {
    /// The state of the game.
    pub struct State {
        /// The player who chooses next: 0 or 1.
        player: Uint,
        /// The choice of player 0.
        choice: Uint,
        /// The court, with player 0 as the player and player 1 as the opponent.
        court: (Of Court),
    }
}

/// The court: Pong's state.
pub use crate::pong::State as Court;

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct TwoPlayerPong;

/// The court as player 1 sees it.
#[inline(always)]
fn mirrored<L: Lane>(s: &Court<L>) -> Court<L> {
    Court {
        x: -s.x,
        dx: -s.dx,
        player: s.opponent,
        player_dy: s.opponent_dy,
        opponent: s.player,
        opponent_dy: s.player_dy,
        points: s.opponent_points,
        opponent_points: s.points,
        ..*s
    }
}

impl Env for TwoPlayerPong {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 11];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "two_player_pong".into(),
            aliases: Vec::new(),
            family: "two players".into(),
            summary: "Pong for two players, who move their paddles at once, to 21 points".into(),
            rules: "Both players stay, move up or move down at once. The first to 21 points wins. The reward is 1 for a point of the first player and \
                    -1 for one of the second."
                .into(),
            players: 2,
            simultaneous: true,
            metrics: result_metrics(),
            time_limit: 20_000,
            preset: Some(include_str!("../presets/two_player_pong.toml").into()),
            // Observations and actions.
            ..Pong.spec()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let zero = L::Uint::splat(0);
        State { player: zero, choice: zero, court: serve(pong::empty(), draws) }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, zero) = (L::Uint::splat, L::Float::splat(0.0));
        let plays = s.player.ne(u(0)).named("plays");
        let (right, left) = (push::<L>(s.choice), push::<L>(*action));
        let waits = (s.court, zero, L::Mask::splat(false));
        let (court, reward, terminated) = L::when(plays, waits, |(court, ..)| {
            let Step { state, reward, terminated } = play(court, right, |_| left, serve, draws);
            (state, reward, terminated)
        });
        let state = State { player: u(1) - s.player, choice: plays.select(u(0), *action), court };
        Step { state, reward, terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 11] {
        view(&s.player.eq(L::Uint::splat(0)).select(s.court, mirrored(&s.court)), PLAYER_SPEED)
    }

    /// Who has more points.
    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        let court = &last.state.court;
        let points = L::Float::from_uint;
        result_metric::<L>(points(court.points) - points(court.opponent_points), index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        picture(&s.court)
    }
}
