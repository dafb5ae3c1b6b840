//! T-maze: a cue that is shown only at the start tells which way to turn at the far end of a corridor.
//!
//! Actions and rewards follow Bakker, "Reinforcement learning with long short-term memory" (2001). Bakker's four
//! vectors of three bits (011 and 110 at the start, 101 in the corridor, 010 at the junction) are the indices 0 to 3
//! here.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, Env, EnvOption, EnvSpec, GREEN, ObsSpace, RED, Scene, Shape, Step};

/// Reward of the correct turn.
const PRIZE: f64 = 4.0;
/// Reward of the wrong turn, and of a step that does not move.
const BLUNDER: f64 = -0.1;
/// Observations in the corridor and at the junction; smaller values are cues.
const CORRIDOR: u32 = 2;
const JUNCTION: u32 = 3;
/// Actions: north, east, south, west.
const NORTH: u32 = 0;
const EAST: u32 = 1;
const SOUTH: u32 = 2;
const WEST: u32 = 3;

bundle! {
    /// The walker.
    pub struct State {
        /// The cue: 0 if the goal is north of the junction, 1 if it is south.
        cue: Uint,
        /// Distance from the start; the junction is at the length of the corridor.
        position: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct TMaze {
    length: u32,
}

impl Default for TMaze {
    fn default() -> Self {
        TMaze { length: 10 }
    }
}

impl Env for TMaze {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let length = EnvOption::whole("length", 10, 2, 1000, "cells from the start to the junction");
        EnvSpec {
            name: "t_maze".into(),
            family: "memory".into(),
            summary: "recall a cue from the start at the end of a corridor; 4 for the correct turn".into(),
            rules: "The first cell shows a cue. At the junction at the far end, the cued turn gives 4 and the other \
                    -0.1; both end the episode. A step that does not move costs 0.1. Solving it requires a policy with memory."
                .into(),
            reference: "Bakker (2001), but observations are indices instead of bit vectors; truncated after 10 steps per cell.".into(),
            obs: ObsSpace::index(4),
            obs_names: names(["0 or 1 for the cue (north, south), 2 in the corridor, 3 at the junction"]),
            actions: ActionSpace::Discrete(vec![4]),
            action_names: names(["north", "east", "south", "west"]),
            time_limit: 10 * (self.length + 1),
            fps: 10.0,
            options: vec![length],
            preset: Some(include_str!("../presets/t_maze.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        self.spec().check_option(name, value)?;
        self.length = value.whole();
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { cue: draws.below(2), position: L::Uint::splat(0) }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let at_junction = s.position.eq(u(self.length)).named("at_junction");
        let east = (action.eq(u(EAST)) & !at_junction).named("east");
        let west = (action.eq(u(WEST)) & s.position.ne(u(0))).named("west");
        let (north, south) = (action.eq(u(NORTH)), action.eq(u(SOUTH)));
        let turned = (at_junction & (north | south)).named("turned");
        let right = (turned & s.cue.eq(north.select(u(0), u(1)))).named("right");
        let position = s.position + east.select(u(1), u(0)) - west.select(u(1), u(0));
        let reward = right.select(f(PRIZE), (east | west).select(f(0.0), f(BLUNDER)));
        Step { state: State { cue: s.cue, position }, reward, terminated: turned }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        let u = L::Uint::splat;
        let beyond = s.position.eq(u(self.length)).select(u(JUNCTION), u(CORRIDOR));
        [s.position.eq(u(0)).select(s.cue, beyond)]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let (end, half) = (self.length as f32, 1.0f32.max(self.length as f32 / 8.0));
        let is_south = s.cue.0 == 1;
        let goal = |is_prize, y| Shape::rectangle([end, y], half, half, if is_prize { GREEN } else { RED });
        let arrow = if is_south { -half } else { half };
        let start = [[-half / 2.0, 0.0], [half / 2.0, 0.0], [0.0, arrow]].map(|[x, y]| [x, y + 1.5 * arrow]);
        Scene {
            low: [-2.0 * half, -4.0 * half],
            high: [end + 2.0 * half, 4.0 * half],
            shapes: vec![
                Shape::line([[0.0, 0.0], [end, 0.0], [end, 2.0 * half], [end, -2.0 * half]], 0),
                goal(!is_south, 2.5 * half),
                goal(is_south, -2.5 * half),
                Shape::polygon(start, GREEN),
                Shape::circle([s.position.0 as f32, 0.0], half / 2.0, 2),
            ],
        }
    }
}
