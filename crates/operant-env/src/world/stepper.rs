//! The [`Stepper`] of a recorded world: the row interpreter steps a tile in blocks of up to 256 environments.

use std::sync::Arc;

use operant_lane::rows::{Frame, Input, Program, Source};
use operant_lane::trace::Type;
use operant_lane::{Kind, Packed, Purpose};

use super::link::Place;
use super::{World, link};
use crate::any::{Seen, StepError, Stepped, Stepper, TileSpec};
use crate::rows::set_rows;
use crate::vector::{Autoreset, Episode};

/// Environments per word of `terminated` and `truncated`.
const BLOCK: usize = 16;

/// The functions of a world, compiled for a lane.
#[derive(Debug)]
pub(crate) struct Programs {
    /// A step and the observation of its state.
    step: Bound,
    /// A first state and its observation.
    start: Bound,
    observe: Bound,
    legal: Option<Bound>,
}

impl Programs {
    pub(crate) fn compile<L: Packed>(world: &World) -> Self {
        let bound = |function| Bound::new(Program::compile::<L>(function), world);
        Self {
            step: bound(&link::observed(&world.step, &world.observe)),
            start: bound(&link::observed(&world.reset, &world.observe)),
            observe: bound(&world.observe),
            legal: world.legal.as_ref().map(bound),
        }
    }
}

/// A program with what its parameters and results stand for.
#[derive(Debug)]
struct Bound {
    program: Program,
    inputs: Vec<(Input, Place)>,
    outputs: Vec<(Source, Place, Type)>,
}

impl Bound {
    fn new(program: Program, world: &World) -> Self {
        let place = |text: &str| Place::of(text, &world.leaves).expect("the world was checked");
        let inputs = program.inputs().iter().map(|input| (input.clone(), place(&input.name))).collect();
        let outputs = program
            .outputs()
            .iter()
            .flat_map(|result| {
                let first = place(&result.place);
                result.words.iter().enumerate().map(move |(k, word)| (*word, first.after(k), result.kind))
            })
            .collect();
        Self { program, inputs, outputs }
    }
}

/// What a program reads: `(leaves, stride)` states, `(components, stride)` actions, and the words that draws depend on.
struct Given<'a> {
    states: &'a [u32],
    actions: &'a [f32],
    stride: usize,
    /// The first environment and how many.
    column: usize,
    count: usize,
    /// Of each environment: low and high words of the seed, and its number.
    keys: [&'a [u32]; 3],
    step: u64,
    purpose: Purpose,
}

impl Bound {
    /// Runs the program for `count` environments, a multiple of 16.
    fn run(&self, frame: &mut Frame, given: &Given<'_>) {
        let Given { stride, column, count, .. } = *given;
        let step = [given.step as u32, (given.step >> 32) as u32];
        for (input, place) in &self.inputs {
            match *place {
                Place::State(leaf) => {
                    let words = if let Type::Memory(size) = input.kind { size } else { 1 };
                    for word in 0..words {
                        let row = (leaf + word) * stride + column;
                        frame.load(input, word, &given.states[row..row + count]);
                    }
                }
                Place::Action(component) => {
                    let row = component * stride + column;
                    let row = &given.actions[row..row + count];
                    if input.kind == Type::Scalar(Kind::Float) {
                        frame.load_with(input, 0, row, f32::to_bits);
                    } else {
                        // A choice is a whole number.
                        frame.load_with(input, 0, row, |action| action as i32 as u32);
                    }
                }
                Place::Draw(word @ 0..3) => frame.load(input, 0, &given.keys[word][column..column + count]),
                Place::Draw(word @ 3..5) => frame.load_constant(input, step[word - 3]),
                Place::Draw(_) => frame.load_constant(input, given.purpose as u32),
                _ => unreachable!("the world was checked: the others are results"),
            }
        }
        self.program.run(frame, count / BLOCK);
    }
}

/// Stores a word of a result: a mask as 0 or 1.
fn store(frame: &Frame, from: Source, kind: Type, to: &mut [u32]) {
    if kind == Type::Scalar(Kind::Mask) {
        frame.store_with(from, to, |word| word & 1);
    } else {
        frame.store(from, to);
    }
}

/// R environments of a world.
pub(crate) struct WorldStepper<L> {
    programs: Arc<Programs>,
    frames: Frames,
    tile: TileSpec,
    leaves: usize,
    time_limit: u32,
    /// `(leaves + 2, R)`: state, length and return of the episode.
    words: Vec<u32>,
    /// `(R)` each: low and high words of the seed, numbers of the random streams.
    keys: [Vec<u32>; 3],
    /// The step that was begun: `(components, R)`, and its global number.
    actions: Vec<f32>,
    step: u64,
    /// Rows in which episodes begin.
    starting: Vec<usize>,
    /// Their keys, and a row of a result.
    begun: [Vec<u32>; 3],
    row: Vec<u32>,
    lane: std::marker::PhantomData<fn() -> L>,
}

#[derive(Clone)]
struct Frames {
    step: Frame,
    start: Frame,
    observe: Frame,
    legal: Option<Frame>,
}

impl<L: Packed> WorldStepper<L> {
    pub(crate) fn new(world: &World, programs: &Arc<Programs>, tile: TileSpec) -> Self {
        assert!(tile.rows.is_multiple_of(BLOCK), "a tile of {} rows", tile.rows);
        let rows = tile.rows;
        let frames = Frames {
            step: programs.step.program.frame(),
            start: programs.start.program.frame(),
            observe: programs.observe.program.frame(),
            legal: programs.legal.as_ref().map(|legal| legal.program.frame()),
        };
        let [low, high] = [tile.seed as u32, (tile.seed >> 32) as u32].map(|word| vec![word; rows]);
        let mut stepper = Self {
            programs: Arc::clone(programs),
            frames,
            tile,
            leaves: world.leaves.len(),
            time_limit: tile.time_limit.unwrap_or(world.spec.time_limit),
            words: vec![0; (world.leaves.len() + 2) * rows],
            keys: [low, high, (tile.first..).take(rows).collect()],
            actions: vec![0.0; world.spec.actions.components() * rows],
            step: tile.step,
            starting: (0..rows).collect(),
            begun: Default::default(),
            row: Vec::new(),
            lane: std::marker::PhantomData,
        };
        stepper.begin(None, Purpose::Init, Purpose::EvalInit);
        stepper
    }

    fn purpose(&self, training: Purpose, evaluation: Purpose) -> Purpose {
        if self.tile.evaluation { evaluation } else { training }
    }

    fn given<'a>(&'a self, column: usize, count: usize, purpose: Purpose) -> Given<'a> {
        Given {
            states: &self.words,
            actions: &self.actions,
            stride: self.tile.rows,
            column,
            count,
            keys: [&self.keys[0], &self.keys[1], &self.keys[2]],
            step: self.step,
            purpose,
        }
    }

    /// Begins episodes in the starting rows, together wherever they are, and writes their observations.
    fn begin(&mut self, mut obs: Option<&mut [u32]>, training: Purpose, evaluation: Purpose) {
        let purpose = self.purpose(training, evaluation);
        let programs = Arc::clone(&self.programs);
        let (bound, stride) = (&programs.start, self.tile.rows);
        for rows in self.starting.chunks(bound.program.width()) {
            let count = rows.len().next_multiple_of(BLOCK);
            for (to, from) in self.begun.iter_mut().zip(&self.keys) {
                to.clear();
                to.extend(rows.iter().map(|&row| from[row]));
                to.resize(count, 0);
            }
            let [low, high, number] = &self.begun;
            let keys = [&low[..], high, number];
            let given = Given {
                keys,
                states: &[],
                actions: &[],
                stride: 0,
                column: 0,
                count,
                step: self.step,
                purpose,
            };
            bound.run(&mut self.frames.start, &given);
            self.row.resize(rows.len(), 0);
            for (from, place, kind) in &bound.outputs {
                let to = match (*place, obs.as_deref_mut()) {
                    (Place::State(leaf), _) => &mut self.words[leaf * stride..][..stride],
                    (Place::Obs(word), Some(obs)) => &mut obs[word * stride..][..stride],
                    _ => continue,
                };
                store(&self.frames.start, *from, *kind, &mut self.row);
                rows.iter().zip(&self.row).for_each(|(&row, &word)| to[row] = word);
            }
            let episodes = &mut self.words[self.leaves * stride..];
            rows.iter().for_each(|&row| (episodes[row], episodes[stride + row]) = (0, 0));
        }
    }

    /// Writes the legal choices of all rows.
    fn write_legal(&mut self, legal: &mut [u32]) {
        let programs = Arc::clone(&self.programs);
        let (Some(bound), Some(mut frame)) = (&programs.legal, self.frames.legal.take()) else { return };
        legal.fill(0);
        let stride = self.tile.rows;
        for column in (0..stride).step_by(bound.program.width()) {
            let count = bound.program.width().min(stride - column);
            bound.run(&mut frame, &self.given(column, count, Purpose::Step));
            self.row.resize(count, 0);
            for (from, place, _) in &bound.outputs {
                let Place::Legal(logit) = *place else { continue };
                frame.store_with(*from, &mut self.row, |word| (word & 1) << (logit % 32));
                let to = &mut legal[logit / 32 * stride + column..][..count];
                to.iter_mut().zip(&self.row).for_each(|(to, bit)| *to |= bit);
            }
        }
        self.frames.legal = Some(frame);
    }
}

impl<L: Packed> Stepper for WorldStepper<L> {
    fn observe(&mut self, seen: Seen<'_>) -> Result<(), StepError> {
        let programs = Arc::clone(&self.programs);
        let (bound, stride) = (&programs.observe, self.tile.rows);
        let mut frame = self.frames.observe.clone();
        for column in (0..stride).step_by(bound.program.width()) {
            let count = bound.program.width().min(stride - column);
            bound.run(&mut frame, &self.given(column, count, Purpose::Step));
            for (from, place, kind) in &bound.outputs {
                let Place::Obs(word) = *place else { continue };
                store(&frame, *from, *kind, &mut seen.obs[word * stride + column..][..count]);
            }
        }
        self.write_legal(seen.legal);
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        self.actions.copy_from_slice(actions);
        self.step = step;
        Ok(())
    }

    fn collect(&mut self, stepped: Stepped<'_>) -> Result<(), StepError> {
        let Stepped { seen, final_obs, rewards, terminated, truncated, returns, lengths } = stepped;
        let programs = Arc::clone(&self.programs);
        let (bound, stride, leaves) = (&programs.step, self.tile.rows, self.leaves);
        let purpose = self.purpose(Purpose::Step, Purpose::EvalStep);
        let mut starts = [0; 16];
        let mut frame = std::mem::take(&mut self.frames.step);
        for column in (0..stride).step_by(bound.program.width()) {
            let count = bound.program.width().min(stride - column);
            bound.run(&mut frame, &self.given(column, count, purpose));
            let mut ends = [0u32; 256];
            for (from, place, kind) in &bound.outputs {
                match *place {
                    Place::State(leaf) => {
                        store(&frame, *from, *kind, &mut self.words[leaf * stride + column..][..count]);
                    }
                    Place::Obs(word) => {
                        store(&frame, *from, *kind, &mut seen.obs[word * stride + column..][..count]);
                    }
                    Place::Reward => {
                        frame.store_with(*from, &mut rewards[column..column + count], f32::from_bits);
                    }
                    Place::Terminated => frame.store(*from, &mut ends[..count]),
                    _ => unreachable!("the world was checked: a step has no other results"),
                }
            }
            let (lengths_before, returns_before) = self.words[leaves * stride..].split_at_mut(stride);
            for at in (column..column + count).step_by(L::WIDTH) {
                let bits = &mut returns[at..at + L::WIDTH];
                bits.iter_mut().zip(&returns_before[at..]).for_each(|(to, from)| *to = f32::from_bits(*from));
                let mut episode = Episode::<L> {
                    elapsed: L::load_uint(&lengths_before[at..]),
                    episodic_return: L::load_float(bits),
                };
                let ended = L::mask_from_words(L::load_uint(&ends[at - column..]));
                let reward = L::load_float(&rewards[at..]);
                let (outcome, starting) =
                    episode.advance(self.tile.autoreset, self.time_limit, reward, ended);
                L::store_uint(episode.elapsed, &mut lengths_before[at..]);
                L::store_uint(L::to_words(episode.episodic_return), &mut returns_before[at..]);
                L::store_float(outcome.reward, &mut rewards[at..]);
                L::store_float(outcome.episodic_return, &mut returns[at..]);
                L::store_uint(outcome.episodic_length, &mut lengths[at..]);
                let masks = [outcome.terminated, outcome.truncated, starting];
                let events = [&mut *terminated, &mut *truncated, &mut starts];
                for (words, mask) in events.into_iter().zip(masks) {
                    let shift = at % BLOCK;
                    if shift == 0 {
                        words[at / BLOCK] = 0;
                    }
                    words[at / BLOCK] |= (L::bits(mask) << shift) as u16;
                }
            }
        }
        self.frames.step = frame;
        self.starting.clear();
        self.starting.extend(set_rows(&starts[..stride / BLOCK]));
        if self.tile.autoreset == Autoreset::SameStep {
            for (to, from) in final_obs.chunks_exact_mut(stride).zip(seen.obs.chunks_exact(stride)) {
                self.starting.iter().for_each(|&row| to[row] = from[row]);
            }
        }
        self.begin(Some(seen.obs), Purpose::Reset, Purpose::EvalReset);
        self.write_legal(seen.legal);
        Ok(())
    }

    fn save(&self, words: &mut [u32]) {
        words.copy_from_slice(&self.words);
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        self.words.copy_from_slice(words);
        Ok(())
    }

    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError> {
        self.step = step;
        self.starting.clear();
        self.starting.extend(set_rows(rows));
        if let Some(seeds) = seeds {
            for &row in &self.starting {
                let [low, high, number] = &mut self.keys;
                let seed = seeds[row];
                (low[row], high[row], number[row]) = (seed as u32, (seed >> 32) as u32, 0);
            }
        }
        self.begin(None, Purpose::Init, Purpose::EvalInit);
        Ok(())
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        for (word, leaf) in words.iter_mut().zip(self.words.chunks_exact(self.tile.rows)) {
            *word = leaf[row];
        }
    }
}
