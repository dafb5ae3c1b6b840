//! Repeat previous: name the symbol that was shown a fixed number of steps ago.
//!
//! Based on POPGym's RepeatPrevious (Morad et al., 2023), with two differences: symbols are drawn independently instead
//! of from a deck of cards, and a wrong answer has no penalty.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, BLUE, Env, EnvOption, EnvSpec, GREEN, ObsSpace, PURPLE, RED, Scene, Shape, Step};

/// Number of symbols; each takes two bits.
const SYMBOLS: u32 = 4;
/// Questions per episode, each worth 1.
const QUESTIONS: u32 = 64;
/// Maximum delay.
const LONGEST: usize = 64;
/// Words that store the previous symbols.
const WORDS: usize = LONGEST / 16;

bundle! {
    /// The symbols that were shown.
    pub struct State {
        /// The current symbol.
        symbol: Uint,
        /// The previous symbols, two bits each, the latest in the lowest bits.
        past: [Uint; 4],
        /// Steps since the start of the episode.
        elapsed: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct RepeatPrevious {
    /// How many steps ago the requested symbol was shown.
    delay: u32,
}

impl Default for RepeatPrevious {
    fn default() -> Self {
        RepeatPrevious { delay: 4 }
    }
}

impl RepeatPrevious {
    /// The requested symbol; valid after `delay` steps.
    #[inline(always)]
    fn answer<L: Lane>(&self, s: &State<L>) -> L::Uint {
        let place = self.delay as usize - 1;
        s.past[place / 16].shr(2 * (place % 16) as u32) & L::Uint::splat(SYMBOLS - 1)
    }
}

impl Env for RepeatPrevious {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let delay = EnvOption::whole("k", 4, 1, LONGEST as u32, "how many steps ago the symbol was shown");
        EnvSpec {
            name: "repeat_previous".into(),
            family: "memory".into(),
            summary: "name the symbol shown k steps ago; maximum 64, random policy 16".into(),
            rules: "Each step shows one of four symbols, drawn uniformly; the action names the one shown k steps ago, for a \
                    reward of 1 if correct. The first k steps have no question, the next 64 do. Solving it requires a policy \
                    with memory."
                .into(),
            reference: "POPGym's RepeatPrevious, but symbols are drawn independently and wrong answers have no penalty.".into(),
            obs: ObsSpace::index(SYMBOLS),
            obs_names: names(["the symbol"]),
            actions: ActionSpace::Discrete(vec![SYMBOLS as usize]),
            action_names: names(["red", "green", "blue", "purple"]),
            time_limit: LONGEST as u32 + QUESTIONS,
            fps: 4.0,
            options: vec![delay],
            preset: Some(include_str!("../presets/repeat_previous.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        self.spec().check_option(name, value)?;
        self.delay = value.whole();
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let zero = L::Uint::splat(0);
        State { symbol: draws.below(SYMBOLS), past: [zero; WORDS], elapsed: zero }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let asked = s.elapsed.ge(u(self.delay)).named("asked");
        let right = (asked & action.eq(self.answer(s))).named("right");
        let past = core::array::from_fn(|word| {
            let carried = if word == 0 { s.symbol } else { s.past[word - 1].shr(30) };
            s.past[word].shl(2) | carried
        });
        let elapsed = (s.elapsed + u(1)).named("elapsed");
        Step {
            state: State { symbol: draws.below(SYMBOLS), past, elapsed },
            reward: right.select(f(1.0), f(0.0)),
            terminated: elapsed.ge(u(self.delay + QUESTIONS)),
        }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        [s.symbol]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let tone = |symbol: u32| [RED, GREEN, BLUE, PURPLE][symbol as usize];
        let shown = (s.elapsed.0 as usize).min(LONGEST).min(self.delay as usize);
        let past = |back: usize| s.past[back / 16].0 >> (2 * (back % 16)) & (SYMBOLS - 1);
        let width = self.delay as f32 + 1.0;
        // The current symbol is on the right, the requested one on the left in a frame.
        let mut shapes = vec![Shape::rectangle([width - 0.5, 0.0], 0.9, 0.9, tone(s.symbol.0))];
        shapes.extend((0..shown).map(|back| {
            let size = if back + 1 == self.delay as usize { 0.9 } else { 0.5 };
            Shape::rectangle([width - 1.5 - back as f32, 0.0], size, size, tone(past(back)))
        }));
        shapes.push(Shape::line([[0.0, -0.5], [1.0, -0.5], [1.0, 0.5], [0.0, 0.5], [0.0, -0.5]], 2));
        Scene { low: [-0.5, -1.5], high: [width + 0.5, 1.5], shapes }
    }
}
