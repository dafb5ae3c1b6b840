//! MinAtar (Young and Tian, "MinAtar", 2019): five small arcade games on a 10 x 10 grid. They follow version 1.0.15 of
//! the package step by step, including the order of its checks.
//!
//! A [`Game`] has the rules of one game. [`MinAtar`] adds what all five share: the options, sticky actions, and the
//! choice between all six actions (`MinAtar/X-v0`) and only those that the game uses (`MinAtar/X-v1`).
//!
//! Differences from the package: a new episode starts without a previous action, whereas the package keeps the last one
//! of the previous episode; and games without their own time limit are truncated after 5,000 steps.

mod asterix;
mod breakout;
mod freeway;
mod planes;
mod seaquest;
mod space_invaders;

use std::fmt::Debug;
use std::marker::PhantomData;

use operant_lane::bundle::leaves_of;
use operant_lane::{Bundle, Draws, Lane, Mask, Uint};

use crate::replay::CaseError;
use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, Registry, Scene, Shape, Step, grid, sticky};

pub use asterix::Asterix;
pub use breakout::Breakout;
pub use freeway::Freeway;
pub use seaquest::Seaquest;
pub use space_invaders::SpaceInvaders;

/// Cells per side.
const SIDE: u32 = 10;
/// Number of cells.
const CELLS: usize = 100;
/// The package's actions, by number.
const LEFT: u32 = 1;
const UP: u32 = 2;
const RIGHT: u32 = 3;
const DOWN: u32 = 4;
const FIRE: u32 = 5;
/// Time limit of games that have none in the package.
const TIME_LIMIT: u32 = 5000;
/// Name of the option for increasing difficulty.
const DIFFICULTY_RAMPING: &str = "difficulty_ramping";

/// All games: each with all actions and, if the game uses fewer, also with those only.
pub fn family(registry: Registry) -> Registry {
    add::<SpaceInvaders>(add::<Seaquest>(add::<Freeway>(add::<Breakout>(add::<Asterix>(registry)))))
}

fn add<G: Game>(registry: Registry) -> Registry {
    let registry = registry.with(MinAtar::<G>::default());
    if G::ABOUT.has_all_actions() { registry } else { registry.with(MinAtar::<G>::minimal()) }
}

/// The description of a game.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Name in the package.
    pub title: &'static str,
    /// The title in snake_case.
    pub name: &'static str,
    /// One-line summary for lists.
    pub summary: &'static str,
    /// The rules, about two lines.
    pub rules: &'static str,
    /// What each channel of the observation shows.
    pub channels: &'static [&'static str],
    /// The actions that have an effect, by the package's numbers.
    pub actions: &'static [u32],
    /// Whether the difficulty increases.
    pub ramps: bool,
    /// Time limit in steps.
    pub time_limit: u32,
    /// The training preset.
    pub preset: &'static str,
}

impl About {
    fn has_all_actions(&self) -> bool {
        self.actions.len() == 6
    }
}

/// The rules of a game.
pub trait Game: Debug + Clone + Copy + Send + Sync + 'static {
    /// The state of the game, including the previously executed action.
    type State<L: Lane>: Bundle<L>;
    /// The observation as packed words.
    type Obs<L: Lane>: Bundle<L>;
    /// The description of the game.
    const ABOUT: About;

    /// Draws an initial state.
    fn reset<L: Lane>(draws: &mut Draws<L>) -> Self::State<L>;

    /// Computes one step; `play` holds the executed action and the difficulty option.
    fn step<L: Lane>(
        play: &MinAtar<Self>,
        state: &Self::State<L>,
        action: L::Uint,
        draws: &mut Draws<L>,
    ) -> Step<L, Self::State<L>>;

    /// The observation of a state.
    fn observe<L: Lane>(state: &Self::State<L>) -> Self::Obs<L>;

    /// The shapes of a state, on a board of 10 x 10.
    fn draw(state: &Self::State<f32>) -> Vec<Shape>;

    /// As [`Env::unpack`].
    fn unpack(public: &[f64]) -> Vec<f64>;

    /// As [`Env::pack`].
    fn pack(leaves: &[f64]) -> Vec<f64>;

    /// As [`Env::public_len`].
    fn public_len(_public: &[f64]) -> Result<usize, CaseError> {
        Ok(Self::pack(&vec![0.0; leaves_of::<f64, Self::State<f64>>().len()]).len())
    }
}

/// A game as an environment.
#[derive(Debug, Clone)]
pub struct MinAtar<G> {
    /// Probability that an action is replaced by the previous one.
    sticky_action_prob: f64,
    /// Whether the difficulty increases.
    difficulty_ramping: bool,
    /// Whether actions are numbered among only those that the game uses.
    minimal: bool,
    game: PhantomData<G>,
}

impl<G> Default for MinAtar<G> {
    fn default() -> Self {
        MinAtar {
            sticky_action_prob: sticky::MINATAR,
            difficulty_ramping: true,
            minimal: false,
            game: PhantomData,
        }
    }
}

impl<G: Game> MinAtar<G> {
    /// The game with only the actions that it uses: `MinAtar/X-v1`.
    pub fn minimal() -> Self {
        MinAtar { minimal: true, ..Self::default() }
    }

    /// The action that is executed for `action`, as the package's number.
    #[inline(always)]
    fn executed<L: Lane>(&self, action: L::Uint, last: L::Uint, draws: &mut Draws<L>) -> L::Uint {
        let u = L::Uint::splat;
        let action = if self.minimal {
            let numbers = G::ABOUT.actions.iter().enumerate();
            numbers
                .fold(u(0), |chosen, (index, &number)| action.eq(u(index as u32)).select(u(number), chosen))
        } else {
            action
        };
        sticky::executed(self.sticky_action_prob, action, last, draws)
    }
}

impl<G: Game> Env for MinAtar<G> {
    type State<L: Lane> = G::State<L>;
    type Obs<L: Lane> = G::Obs<L>;
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let About { title, name, summary, rules, channels, actions, ramps, time_limit, preset } = G::ABOUT;
        let name = format!("minatar_{name}");
        let first_version =
            vec![format!("MinAtar/{title}-v0"), format!("{title}-MinAtar"), G::ABOUT.name.into()];
        let second_version = vec![format!("MinAtar/{title}-v1")];
        let mut aliases = if self.minimal { Vec::new() } else { first_version };
        if self.minimal || G::ABOUT.has_all_actions() {
            aliases.extend(second_version);
        }
        let truncated = if time_limit == TIME_LIMIT { " Truncated after 5,000 steps." } else { "" };
        let harder = if ramps {
            "the difficulty increases during an episode"
        } else {
            "no effect: this game has one difficulty level (the package accepts the option too)"
        };
        let all = names(["none", "left", "up", "right", "down", "fire"]);
        let action_names = match self.minimal {
            true => actions.iter().map(|&number| all[number as usize].clone()).collect(),
            false => all,
        };
        EnvSpec {
            name: if self.minimal { format!("{name}_minimal") } else { name.clone() },
            aliases,
            family: "minatar".into(),
            summary: if self.minimal {
                format!("{summary}; with the minimal action set")
            } else {
                summary.into()
            },
            rules: rules.into(),
            reference: format!(
                "Identical to MinAtar 1.0.15, step by step. Each episode starts without a previous sticky action.{truncated}"
            ),
            variant_of: self.minimal.then_some(name),
            obs: ObsSpace::Binary { shape: vec![SIDE as usize, SIDE as usize, channels.len()] },
            obs_names: channels.iter().map(|&name| name.into()).collect(),
            actions: ActionSpace::Discrete(vec![action_names.len()]),
            action_names,
            metrics: Vec::new(),
            time_limit,
            fps: 15.0,
            options: vec![sticky::sticky_action_prob(), EnvOption::flag(DIFFICULTY_RAMPING, true, harder)],
            preset: (!self.minimal).then(|| preset.into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        match self.spec().check_option(name, value)?.name.as_str() {
            DIFFICULTY_RAMPING => self.difficulty_ramping = value.is_on(),
            _ => self.sticky_action_prob = value.number(),
        }
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> G::State<L> {
        G::reset(draws)
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &G::State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, G::State<L>> {
        G::step(self, s, *action, draws)
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &G::State<L>) -> G::Obs<L> {
        G::observe(s)
    }

    fn draw(&self, s: &G::State<f32>) -> Scene {
        let side = SIDE as f32;
        Scene { low: [0.0, 0.0], high: [side, side], shapes: G::draw(s) }
    }

    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        G::unpack(public)
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        G::pack(leaves)
    }

    fn public_len(&self, public: &[f64]) -> Result<usize, CaseError> {
        G::public_len(public)
    }
}

/// Moves a column or row by one within `0 ..= high`, if the action says so.
#[inline(always)]
fn moved<L: Lane>(at: L::Uint, back: L::Mask, on: L::Mask, low: u32, high: u32) -> L::Uint {
    let u = L::Uint::splat;
    let (back, on) = (back & at.ne(u(low)), on & at.lt(u(high)));
    at + on.select(u(1), u(0)) - back.select(u(1), u(0))
}

/// A cell as a shape.
fn square(x: u32, y: u32, tone: u8) -> Shape {
    grid::square(SIDE, x as f32, y as f32, tone)
}
