//! Random draws of an environment: a stream of words that depends only on (seed, environment, step, purpose), so
//! threads, lane width and batch layout cannot change a result.
//!
//! A stream counts its draws while the rule runs. A rule that only some environments run, or that runs several times,
//! therefore draws from a part of the stream that was reserved for it:
//!
//! | draws | come from |
//! | --- | --- |
//! | once in every environment | the stream: [`Draws::unit`], [`Draws::below`], .. |
//! | inside [`Lane::when`] | [`Draws::reserve`], called outside |
//! | in an iteration of [`Lane::repeat`] | [`Turns::turn`] of [`Draws::turns`], called outside |

use crate::lane::{Float, Lane, Uint};
use crate::philox::philox;
use crate::script::Script;
use crate::trace::{Arg, Graph, Trace, Value};

/// The purpose of a stream; part of the counter, so streams never overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// First state of an environment.
    Init = 0,
    /// State after the end of an episode.
    Reset = 1,
    /// Chance inside a step.
    Step = 2,
    /// Sampling of the policy's action.
    Action = 3,
    /// Uniformly random actions, for benchmarks and tests.
    RandomAction = 4,
    /// Shuffling of minibatches.
    Shuffle = 5,
    /// Initial weights.
    Weights = 6,
    /// Noise on the mean of a policy in an update.
    MeanNoise = 7,
    /// First state of an evaluation episode.
    EvalInit = 8,
    /// State after an evaluation episode.
    EvalReset = 9,
    /// Chance inside an evaluation step.
    EvalStep = 10,
    /// Sampling of the policy's action in an evaluation.
    EvalAction = 11,
    /// Transitions of a minibatch from a replay.
    Replay = 12,
    /// Actions that a policy chooses in an update.
    UpdateAction = 13,
    /// Moves of a scripted opponent.
    Opponent = 14,
    /// Moves of a scripted opponent in an evaluation.
    EvalOpponent = 15,
}

/// A stream of random words: Philox with key = seed and counter = (environment, step low, step high,
/// purpose in the top 8 bits and block below).
#[derive(Clone, Copy)]
pub struct Draws<'a, L: Lane> {
    seed: [L::Uint; 2],
    environment: L::Uint,
    step: [L::Uint; 2],
    tag: L::Uint,
    /// The first block of this part of the stream, and the offset of the loop iteration.
    first: u32,
    turn: Option<L::Uint>,
    words: [L::Uint; 4],
    drawn: u32,
    /// Number of words in this part of the stream.
    limit: u32,
    // A constant in every caller except replay, so its branches vanish when a rule is inlined.
    script: Option<&'a Script>,
}

impl<'a, L: Lane> Draws<'a, L> {
    /// The stream of `environment` (its global number) at global step `step`; 64-bit numbers as (low, high) words.
    #[inline(always)]
    pub fn new(seed: [L::Uint; 2], environment: L::Uint, step: [L::Uint; 2], purpose: Purpose) -> Self {
        Self::tagged(seed, environment, step, L::Uint::splat((purpose as u32) << 24))
    }

    /// Like `new`, with the purpose in the top 8 bits of `tag`, for callers that know it only at run time.
    #[inline(always)]
    pub fn tagged(seed: [L::Uint; 2], environment: L::Uint, step: [L::Uint; 2], tag: L::Uint) -> Self {
        let zero = L::Uint::splat(0);
        let words = [zero; 4];
        Self {
            seed,
            environment,
            step,
            tag,
            first: 0,
            turn: None,
            words,
            drawn: 0,
            limit: 1 << 26,
            script: None,
        }
    }

    /// Numbers that are given instead of drawn, the same in all lanes.
    pub fn scripted(script: &'a Script) -> Self {
        let zero = L::Uint::splat(0);
        Self { script: Some(script), ..Self::tagged([zero; 2], zero, [zero; 2], zero) }
    }

    /// Like `new`, for a seed and a step that are equal in all lanes.
    #[inline(always)]
    pub fn at(seed: u64, environment: L::Uint, step: u64, purpose: Purpose) -> Self {
        Self::new(split::<L>(seed), environment, split::<L>(step), purpose)
    }

    /// The next 32 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> L::Uint {
        if let Some(script) = self.script {
            return L::Uint::splat(script.whole(0, u32::MAX));
        }
        assert!(self.drawn < self.limit, "more draws than the {} that were reserved", self.limit);
        if self.drawn.is_multiple_of(4) {
            let tag = self.block(self.drawn / 4);
            self.words = philox::<L>([self.environment, self.step[0], self.step[1], tag], self.seed);
        }
        let word = self.words[(self.drawn % 4) as usize];
        self.drawn += 1;
        word
    }

    /// The last word of the counter for a block of this part of the stream.
    #[inline(always)]
    fn block(&self, number: u32) -> L::Uint {
        let number = L::Uint::splat(self.first + number);
        match self.turn {
            None => self.tag | number,
            Some(turn) => self.tag + turn + number,
        }
    }

    /// Reserves the next blocks of the stream, enough for `words` draws. Returns the first one.
    #[inline(always)]
    fn set_aside(&mut self, words: u32) -> u32 {
        let first = self.drawn.div_ceil(4);
        self.drawn = 4 * (first + words.div_ceil(4));
        assert!(self.drawn <= self.limit, "more draws than the {} that were reserved", self.limit);
        self.first + first
    }

    /// Reserves the next `words` draws for a rule that not every environment runs. Later draws of the stream do not
    /// depend on how many of them are used.
    #[inline(always)]
    #[must_use]
    pub fn reserve(&mut self, words: u32) -> Self {
        if self.script.is_some() {
            return *self;
        }
        let first = self.set_aside(words);
        Self { first, drawn: 0, limit: words, ..*self }
    }

    /// Reserves draws for a loop: `words` for each of `count` iterations.
    #[inline(always)]
    #[must_use]
    pub fn turns(&mut self, count: u32, words: u32) -> Turns<'a, L> {
        if self.script.is_some() {
            return Turns { all: *self, words };
        }
        let first = self.set_aside(count * words.next_multiple_of(4));
        Turns { all: Self { first, drawn: 0, limit: words, ..*self }, words }
    }

    /// Uniform in [0, 1), in steps of 2^-24.
    #[inline(always)]
    pub fn unit(&mut self) -> L::Float {
        if let Some(script) = self.script {
            return L::Float::splat(script.uniform());
        }
        unit::<L>(self.bits())
    }

    /// Uniform in [low, high).
    #[inline(always)]
    pub fn between(&mut self, low: f64, high: f64) -> L::Float {
        self.unit().mul_add(L::Float::splat(high - low), L::Float::splat(low))
    }

    /// Of the normal distribution with mean 0 and deviation 1 (Box and Muller), within 5.8; it counts as two draws.
    #[inline(always)]
    pub fn normal(&mut self) -> L::Float {
        // Not 0, whose logarithm is infinite.
        let above_zero = L::Float::splat(1.0) - self.unit();
        let turn = self.unit() * L::Float::splat(2.0 * core::f64::consts::PI);
        (above_zero.ln() * L::Float::splat(-2.0)).sqrt() * turn.cos()
    }

    /// Uniform in 0 .. `count`, with a bias below `count` / 2^32.
    #[inline(always)]
    pub fn below(&mut self, count: u32) -> L::Uint {
        if let Some(script) = self.script {
            return L::Uint::splat(script.whole(0, count - 1));
        }
        self.bits().mul_wide(L::Uint::splat(count)).0
    }

    /// Uniform in 0 .. `count`, with a separate `count` for each environment and the bias of [`Draws::below`]; 0 where
    /// `count` is 0.
    #[inline(always)]
    pub fn below_each(&mut self, count: L::Uint) -> L::Uint {
        if let Some(script) = self.script {
            return L::Uint::splat(script.whole(0, u32::MAX - 1))
                .min(count.max(L::Uint::splat(1)) - L::Uint::splat(1));
        }
        self.bits().mul_wide(count).0
    }

    /// A zero that is not a constant in emitted code. A loop whose initial values are all constants is unrolled there;
    /// starting from this value prevents it.
    #[inline(always)]
    pub fn zero(&self) -> L::Uint {
        self.environment & L::Uint::splat(0)
    }

    /// Whether numbers are given instead of drawn.
    #[inline(always)]
    pub fn is_scripted(&self) -> bool {
        self.script.is_some()
    }

    /// The next integer of a script, in `low ..= high`; `None` if numbers are drawn. For rules that draw different
    /// numbers than the ones that the reference records.
    #[inline(always)]
    pub fn given(&mut self, low: u32, high: u32) -> Option<L::Uint> {
        self.script.map(|script| L::Uint::splat(script.whole(low, high)))
    }

    /// Uniform in `low ..= high`, with the bias of [`Draws::below`].
    #[inline(always)]
    pub fn integer(&mut self, low: u32, high: u32) -> L::Uint {
        if let Some(script) = self.script {
            return L::Uint::splat(script.whole(low, high));
        }
        self.below(high - low + 1) + L::Uint::splat(low)
    }
}

/// Draws of a recording between two of its steps, without a reference to the graph: how recorders in other languages hold
/// them.
#[derive(Debug, Clone)]
pub struct HeldDraws {
    /// Seed, environment, step, tag, and the words of the current block.
    args: [Arg; 10],
    turn: Option<Arg>,
    first: u32,
    drawn: u32,
    limit: u32,
}

impl HeldDraws {
    /// Holds draws of a recording.
    pub fn hold(draws: &Draws<'_, Trace<'_>>) -> Self {
        let Draws { seed: [s0, s1], environment, step: [t0, t1], tag, words: [a, b, c, d], .. } = *draws;
        HeldDraws {
            args: [s0, s1, environment, t0, t1, tag, a, b, c, d].map(Value::arg),
            turn: draws.turn.map(Value::arg),
            first: draws.first,
            drawn: draws.drawn,
            limit: draws.limit,
        }
    }

    /// The draws, in the graph of their recording.
    pub fn with<'g>(&self, graph: &'g Graph) -> Draws<'g, Trace<'g>> {
        let [s0, s1, environment, t0, t1, tag, a, b, c, d] = self.args.map(|arg| Value::of(graph, arg));
        Draws {
            first: self.first,
            turn: self.turn.map(|turn| Value::of(graph, turn)),
            words: [a, b, c, d],
            drawn: self.drawn,
            limit: self.limit,
            ..Draws::tagged([s0, s1], environment, [t0, t1], tag)
        }
    }

    /// How many more words this part of the stream has.
    pub fn left(&self) -> u32 {
        self.limit - self.drawn
    }
}

/// The draws of a loop, with a part of the stream for each iteration.
#[derive(Clone, Copy)]
pub struct Turns<'a, L: Lane> {
    all: Draws<'a, L>,
    words: u32,
}

impl<'a, L: Lane> Turns<'a, L> {
    /// The draws of iteration `index`, which may differ between environments.
    #[inline(always)]
    pub fn turn(&self, index: L::Uint) -> Draws<'a, L> {
        if self.all.script.is_some() {
            return self.all;
        }
        let offset = index * L::Uint::splat(self.words.div_ceil(4));
        let turn = self.all.turn.map_or(offset, |outer| outer + offset);
        Draws { turn: Some(turn), ..self.all }
    }
}

/// One word per step for each of `components` action components. A single component takes the four words of a block
/// in four consecutive steps, which makes its draws four times cheaper.
#[derive(Clone, Copy)]
pub struct ActionDraws<L: Lane> {
    seed: [L::Uint; 2],
    environment: L::Uint,
    purpose: Purpose,
    words: [L::Uint; 4],
    held: Option<u64>,
}

impl<L: Lane> ActionDraws<L> {
    /// The stream of `environment` for `purpose`.
    #[inline(always)]
    pub fn new(seed: u64, environment: L::Uint, purpose: Purpose) -> Self {
        let words = [L::Uint::splat(0); 4];
        Self { seed: split::<L>(seed), environment, purpose, words, held: None }
    }

    /// The word of `component` out of `components` at global step `step`.
    #[inline(always)]
    pub fn bits(&mut self, step: u64, component: u32, components: u32) -> L::Uint {
        let (block, tag, word) = if components == 1 {
            (step / 4, 0, step % 4)
        } else {
            (step, component / 4, u64::from(component % 4))
        };
        let stamp = block ^ (u64::from(tag) << 56);
        if self.held != Some(stamp) {
            let [low, high] = split::<L>(block);
            let tag = L::Uint::splat(((self.purpose as u32) << 24) | tag);
            self.words = philox::<L>([self.environment, low, high, tag], self.seed);
            self.held = Some(stamp);
        }
        self.words[word as usize]
    }
}

/// 24 high bits of a word as a float in [0, 1).
#[inline(always)]
pub fn unit<L: Lane>(bits: L::Uint) -> L::Float {
    L::Float::from_int(bits.shr(8).to_int()) * L::Float::splat(1.0 / 16_777_216.0)
}

/// A 64-bit number as (low, high) words.
#[inline(always)]
pub fn split<L: Lane>(value: u64) -> [L::Uint; 2] {
    [L::Uint::splat(value as u32), L::Uint::splat((value >> 32) as u32)]
}
