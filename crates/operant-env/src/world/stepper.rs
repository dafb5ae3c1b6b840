//! The [`Stepper`] of a recorded world: the row interpreter steps a tile in blocks of up to 256 environments.

use std::sync::{Arc, Mutex, PoisonError};

use operant_lane::rows::{Frame, Input, Program, Source};
use operant_lane::trace::{Function, Type};
use operant_lane::{Kind, Packed, Purpose};

use super::limits::Limits;
use super::link::{Binding, Places};
use super::{World, link};
use crate::ahead::Ahead;
use crate::any::{Seen, StepError, Stepped, Stepper, TileSpec};
use crate::running::{BLOCK, MAX_ROWS, Running};
use crate::vector::{Autoreset, Episode};

/// The functions of a world, compiled for a lane.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Free memory for runs. The most recently returned one is taken first, because it is still in a cache.
    frames: Mutex<Vec<Frames>>,
    /// The world's name, for errors.
    name: String,
    /// The values that its observations may have.
    limits: Limits,
    /// A step and the observation of its state.
    step: Bound,
    /// A first state and its observation.
    start: Bound,
    observe: Bound,
    legal: Option<Bound>,
    metrics: Option<Bound>,
}

impl Programs {
    /// Compiles a world. Without `observes`, steps write no observations.
    pub(crate) fn compile<L: Packed>(world: &World, observes: bool) -> Self {
        let bound = |function: &Function| Bound::new(Program::compile::<L>(function), world);
        let observed = |function: &Function| match observes {
            true => bound(&link::observed(function, &world.observe)),
            false => bound(function),
        };
        Self {
            frames: Mutex::default(),
            name: world.spec.name.clone(),
            limits: if observes { Limits::of(&world.spec.obs) } else { Limits::default() },
            step: observed(&world.step),
            start: observed(&world.reset),
            observe: bound(&world.observe),
            legal: world.legal.as_ref().map(bound),
            metrics: world.metrics.as_ref().map(bound),
        }
    }
}

/// Memory for a run of each program.
#[derive(Debug)]
struct Frames {
    step: Frame,
    start: Frame,
    observe: Frame,
    legal: Option<Frame>,
    metrics: Option<Frame>,
}

impl Programs {
    /// Memory for runs, until [`Programs::give`].
    fn take(&self) -> Frames {
        let free = self.frames.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Frames {
            step: self.step.program.frame(),
            start: self.start.program.frame(),
            observe: self.observe.program.frame(),
            legal: self.legal.as_ref().map(|legal| legal.program.frame()),
            metrics: self.metrics.as_ref().map(|metrics| metrics.program.frame()),
        })
    }

    /// Fails where observations, `(words, R)`, are outside their space.
    fn check(&self, obs: &[u32], rows: usize) -> Result<(), StepError> {
        match self.limits.violation(obs, rows) {
            None => Ok(()),
            Some((row, word)) => Err(StepError {
                env: self.name.clone(),
                what: format!(
                    "word {word} of the observation of row {row} is {:#x}, which its space does not have",
                    obs[word * rows + row]
                ),
                remedy: "correct what `observe` returns",
            }),
        }
    }

    fn give(&self, frames: Frames) {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).push(frames);
    }
}

/// A program, with the meaning of its parameters and results.
#[derive(Debug)]
struct Bound {
    program: Program,
    inputs: Vec<(Input, Binding)>,
    outputs: Vec<(Source, Binding, Type)>,
}

impl Bound {
    fn new(program: Program, world: &World) -> Self {
        let places = Places::of(&world.leaves);
        let place = |text: &str| places.find(text).expect("the world was checked");
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
    /// For each environment: low and high words of the seed, and its number.
    keys: [&'a [u32]; 3],
    step: u64,
    /// The steps of draws for each environment, low and high words, where they differ from `step`.
    steps: Option<[&'a [u32]; 2]>,
    purpose: Purpose,
    /// Of the step: rewards, and a bit where the rules ended the episode. Empty for functions that do not read them.
    outcome: (&'a [f32], &'a [u16]),
}

impl Bound {
    /// Runs the program for `count` environments, a multiple of 16.
    fn run(&self, frame: &mut Frame, given: &Given<'_>) {
        let Given { stride, column, count, .. } = *given;
        let step = [given.step as u32, (given.step >> 32) as u32];
        for (input, place) in &self.inputs {
            match *place {
                Binding::State(leaf) => {
                    let words = if let Type::Memory(size) = input.kind { size } else { 1 };
                    for word in 0..words {
                        let row = (leaf + word) * stride + column;
                        frame.load(input, word, &given.states[row..row + count]);
                    }
                }
                Binding::Action(component) => {
                    let row = component * stride + column;
                    let row = &given.actions[row..row + count];
                    if input.kind == Type::Scalar(Kind::Float) {
                        frame.load_with(input, 0, row, f32::to_bits);
                    } else {
                        // A choice is a whole number.
                        frame.load_with(input, 0, row, |action| action as i32 as u32);
                    }
                }
                Binding::Draw(word @ 0..3) => frame.load(input, 0, &given.keys[word][column..column + count]),
                Binding::Draw(word @ 3..5) => match given.steps {
                    Some(steps) => frame.load(input, 0, &steps[word - 3][column..column + count]),
                    None => frame.load_constant(input, step[word - 3]),
                },
                Binding::Draw(_) => frame.load_constant(input, given.purpose as u32),
                Binding::Reward => {
                    frame.load_with(input, 0, &given.outcome.0[column..column + count], f32::to_bits);
                }
                Binding::Terminated => {
                    let mut words = [0; MAX_ROWS];
                    for (row, word) in words.iter_mut().enumerate().take(count) {
                        *word = u32::from(given.outcome.1[(column + row) / BLOCK] >> (row % BLOCK) & 1);
                    }
                    frame.load(input, 0, &words[..count]);
                }
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

/// Missing first states are made ahead of time where there are this many, or all of a tile.
const TOGETHER: usize = 32;

/// R environments of a world.
pub(crate) struct WorldStepper<L> {
    programs: Arc<Programs>,
    running: Running,
    leaves: usize,
    /// Of the rows that begin episodes: keys, and steps of their draws. And a row of a result.
    begun: [Vec<u32>; 5],
    row: Vec<u32>,
    /// First states of the next episodes and their observations, where they are made ahead of time.
    ahead: Option<Ahead>,
    lane: std::marker::PhantomData<fn() -> L>,
}

/// The environments `column .. column + count` of a tile.
fn blocks(rows: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(width).map(move |column| (column, width.min(rows - column)))
}

impl<L: Packed> WorldStepper<L> {
    pub(crate) fn new(world: &World, programs: &Arc<Programs>, tile: TileSpec) -> Self {
        let leaves = world.leaves.len();
        let mut stepper = Self {
            programs: Arc::clone(programs),
            running: Running::new(&world.spec, leaves, tile, tile.rows),
            leaves,
            begun: Default::default(),
            row: Vec::new(),
            ahead: (world.ahead && tile.autoreset == Autoreset::SameStep)
                .then(|| Ahead::new(leaves + world.spec.obs.words(), tile.rows)),
            lane: std::marker::PhantomData,
        };
        stepper.begin_first();
        stepper
    }

    /// Begins first episodes in the starting rows.
    fn begin_first(&mut self) {
        let mut frames = self.programs.take();
        self.begin(&mut frames.start, None, Purpose::Init, Purpose::EvalInit);
        self.programs.give(frames);
    }

    /// Begins episodes in the starting rows, together wherever they are, and writes their observations.
    fn begin(
        &mut self,
        frame: &mut Frame,
        mut obs: Option<&mut [u32]>,
        training: Purpose,
        evaluation: Purpose,
    ) {
        let (programs, stride) = (Arc::clone(&self.programs), self.running.tile.rows);
        let width = programs.start.program.width();
        let starting = std::mem::take(&mut self.running.starting);
        let mut ahead = self.ahead.take_if(|_| training == Purpose::Reset);
        for rows in starting.chunks(width) {
            match &mut ahead {
                Some(ahead) if ahead.has(rows) => {}
                Some(ahead) => {
                    let batch = ahead.batch(rows, width);
                    self.prepare(frame, ahead, &batch);
                }
                None => self.make(frame, rows, self.running.purpose(training, evaluation), false),
            }
            self.row.resize(rows.len(), 0);
            for (from, place, kind) in &programs.start.outputs {
                let Some(at) = self.place(*place) else { continue };
                let to = match (at.checked_sub(self.leaves), obs.as_deref_mut()) {
                    (None, _) => &mut self.running.words[at * stride..][..stride],
                    (Some(word), Some(obs)) => &mut obs[word * stride..][..stride],
                    _ => continue,
                };
                if let Some(ahead) = &mut ahead {
                    rows.iter().for_each(|&row| to[row] = ahead.of(row)[at]);
                    continue;
                }
                store(frame, *from, *kind, &mut self.row);
                rows.iter().zip(&self.row).for_each(|(&row, &word)| to[row] = word);
            }
            let episodes = &mut self.running.words[self.leaves * stride..];
            rows.iter().for_each(|&row| (episodes[row], episodes[stride + row]) = (0, 0));
            ahead.iter_mut().for_each(|ahead| rows.iter().for_each(|&row| ahead.miss(row)));
        }
        if let Some(mut ahead) = ahead {
            while ahead.missing() >= stride.min(TOGETHER) {
                let batch = ahead.batch(&[], width);
                self.prepare(frame, &mut ahead, &batch);
            }
            self.ahead = Some(ahead);
        }
        self.running.starting = starting;
    }

    /// Where a result of a reset is: a leaf, or after all leaves a word of the observation.
    fn place(&self, result: Binding) -> Option<usize> {
        match result {
            Binding::State(leaf) => Some(leaf),
            Binding::Obs(word) => Some(self.leaves + word),
            _ => None,
        }
    }

    /// Makes first states of `rows` and their observations, with the draws of this step or, ahead of time, of those at which the episodes before began.
    fn make(&mut self, frame: &mut Frame, rows: &[usize], purpose: Purpose, is_ahead: bool) {
        let count = rows.len().next_multiple_of(BLOCK);
        let running = &self.running;
        for (place, to) in self.begun.iter_mut().enumerate() {
            let word = |&row: &usize| match running.keys.get(place) {
                Some(keys) => keys[row],
                None if is_ahead => (running.began(row, running.step + 1) >> (32 * (place - 3))) as u32,
                None => 0,
            };
            to.clear();
            to.extend(rows.iter().map(word));
            to.resize(count, 0);
        }
        let [low, high, number, steps @ ..] = self.begun.each_ref().map(Vec::as_slice);
        let given = Given {
            states: &[],
            actions: &[],
            stride: 0,
            column: 0,
            count,
            keys: [low, high, number],
            step: running.step,
            steps: is_ahead.then_some(steps),
            purpose,
            outcome: (&[], &[]),
        };
        self.programs.start.run(frame, &given);
    }

    /// Makes the next first states of `rows`.
    fn prepare(&mut self, frame: &mut Frame, ahead: &mut Ahead, rows: &[usize]) {
        self.make(frame, rows, self.running.purpose(Purpose::Reset, Purpose::EvalReset), true);
        let mut row = std::mem::take(&mut self.row);
        row.resize(rows.len(), 0);
        for (from, place, kind) in &self.programs.start.outputs {
            let Some(at) = self.place(*place) else { continue };
            store(frame, *from, *kind, &mut row);
            rows.iter().zip(&row).for_each(|(&row, &word)| ahead.of(row)[at] = word);
        }
        self.row = row;
        ahead.made(rows);
    }

    /// Writes the legal choices of all rows.
    fn write_legal(&mut self, frame: Option<&mut Frame>, legal: &mut [u32]) {
        let (Some(bound), Some(frame)) = (&self.programs.legal, frame) else { return };
        legal.fill(0);
        let stride = self.running.tile.rows;
        for (column, count) in blocks(stride, bound.program.width()) {
            bound.run(frame, &given(&self.running, column, count, Purpose::Step));
            self.row.resize(count, 0);
            for (from, place, _) in &bound.outputs {
                let Binding::Legal(logit) = *place else { continue };
                frame.store_with(*from, &mut self.row, |word| (word & 1) << (logit % 32));
                let to = &mut legal[logit / 32 * stride + column..][..count];
                to.iter_mut().zip(&self.row).for_each(|(to, bit)| *to |= bit);
            }
        }
    }

    /// Writes the metrics of all rows, if an episode ended in one.
    fn write_metrics(
        &mut self,
        frame: Option<&mut Frame>,
        rewards: &[f32],
        [terminated, truncated]: [&[u16]; 2],
        metrics: &mut [f32],
    ) {
        let (Some(bound), Some(frame)) = (&self.programs.metrics, frame) else { return };
        if metrics.is_empty() || terminated.iter().chain(truncated).all(|word| *word == 0) {
            return;
        }
        let stride = self.running.tile.rows;
        for (column, count) in blocks(stride, bound.program.width()) {
            let given = given(&self.running, column, count, Purpose::Step);
            bound.run(frame, &Given { outcome: (rewards, terminated), ..given });
            for (from, place, _) in &bound.outputs {
                let Binding::Metric(index) = *place else { continue };
                frame.store_with(*from, &mut metrics[index * stride + column..][..count], f32::from_bits);
            }
        }
    }

    /// Counts the step of some environments in their episodes. `ended` are masks in words; `starts` receives where episodes
    /// begin.
    fn count(&mut self, column: usize, ended: &[u32], stepped: &mut Stepped<'_>, starts: &mut [u16]) {
        let Running { tile, time_limit, words, .. } = &mut self.running;
        let (lengths, returns) = words[self.leaves * tile.rows..].split_at_mut(tile.rows);
        for (at, ended) in (column..).step_by(L::WIDTH).zip(ended.chunks_exact(L::WIDTH)) {
            let mut episode = Episode::<L> {
                elapsed: L::load_uint(&lengths[at..]),
                episodic_return: L::from_words(L::load_uint(&returns[at..])),
            };
            let (reward, ended) =
                (L::load_float(&stepped.rewards[at..]), L::mask_from_words(L::load_uint(ended)));
            let (outcome, starting) = episode.advance(tile.autoreset, *time_limit, reward, ended);
            L::store_uint(episode.elapsed, &mut lengths[at..]);
            L::store_uint(L::to_words(episode.episodic_return), &mut returns[at..]);
            L::store_float(outcome.reward, &mut stepped.rewards[at..]);
            L::store_float(outcome.episodic_return, &mut stepped.returns[at..]);
            L::store_uint(outcome.episodic_length, &mut stepped.lengths[at..]);
            let masks = [outcome.terminated, outcome.truncated, starting];
            let events = [&mut *stepped.terminated, &mut *stepped.truncated, &mut *starts];
            for (words, mask) in events.into_iter().zip(masks) {
                words[at / BLOCK] |= (L::bits(mask) << (at % BLOCK)) as u16;
            }
        }
    }
}

/// The inputs of a program for these environments.
fn given(running: &Running, column: usize, count: usize, purpose: Purpose) -> Given<'_> {
    Given {
        states: &running.words,
        actions: &running.actions,
        stride: running.tile.rows,
        column,
        count,
        keys: running.keys.each_ref().map(Vec::as_slice),
        step: running.step,
        steps: None,
        purpose,
        outcome: (&[], &[]),
    }
}

impl<L: Packed> Stepper for WorldStepper<L> {
    fn observe(&mut self, seen: Seen<'_>) -> Result<(), StepError> {
        let mut frames = self.programs.take();
        let (bound, stride) = (&self.programs.observe, self.running.tile.rows);
        for (column, count) in blocks(stride, bound.program.width()) {
            bound.run(&mut frames.observe, &given(&self.running, column, count, Purpose::Step));
            for (from, place, kind) in &bound.outputs {
                let Binding::Obs(word) = *place else { continue };
                store(&frames.observe, *from, *kind, &mut seen.obs[word * stride + column..][..count]);
            }
        }
        self.write_legal(frames.legal.as_mut(), seen.legal);
        self.programs.give(frames);
        self.programs.check(seen.obs, self.running.tile.rows)
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        self.running.submit(actions, step);
        Ok(())
    }

    fn has_stepped(&mut self) -> bool {
        true
    }

    fn collect(&mut self, mut stepped: Stepped<'_>) -> Result<(), StepError> {
        let programs = Arc::clone(&self.programs);
        let mut frames = programs.take();
        let (bound, frame, stride) = (&programs.step, &mut frames.step, self.running.tile.rows);
        let purpose = self.running.purpose(Purpose::Step, Purpose::EvalStep);
        let mut starts = [0; MAX_ROWS / BLOCK];
        stepped.terminated.fill(0);
        stepped.truncated.fill(0);
        for (column, count) in blocks(stride, bound.program.width()) {
            bound.run(frame, &given(&self.running, column, count, purpose));
            let mut ended = [0; MAX_ROWS];
            for (from, place, kind) in &bound.outputs {
                let (rows, word) = match *place {
                    Binding::State(leaf) => (&mut self.running.words[..], leaf),
                    Binding::Obs(word) => (&mut *stepped.seen.obs, word),
                    Binding::Reward => {
                        let rewards = &mut stepped.rewards[column..column + count];
                        frame.store_with(*from, rewards, f32::from_bits);
                        continue;
                    }
                    Binding::Terminated => {
                        frame.store(*from, &mut ended[..count]);
                        continue;
                    }
                    _ => unreachable!("the world was checked: a step has no other results"),
                };
                store(frame, *from, *kind, &mut rows[word * stride + column..][..count]);
            }
            self.count(column, &ended[..count], &mut stepped, &mut starts);
        }
        let Stepped { seen, final_obs, rewards, terminated, truncated, metrics, .. } = stepped;
        self.write_metrics(frames.metrics.as_mut(), rewards, [terminated, truncated], metrics);
        // Before new episodes begin: these are also the last observations of ended episodes.
        programs.check(seen.obs, stride)?;
        self.running.end(&starts, seen.obs, final_obs);
        self.begin(&mut frames.start, Some(seen.obs), Purpose::Reset, Purpose::EvalReset);
        self.write_legal(frames.legal.as_mut(), seen.legal);
        programs.give(frames);
        if self.running.starting.is_empty() { Ok(()) } else { programs.check(seen.obs, stride) }
    }

    fn save(&self, words: &mut [u32]) {
        words.copy_from_slice(&self.running.words);
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        self.running.words.copy_from_slice(words);
        self.ahead.iter_mut().for_each(Ahead::forget);
        Ok(())
    }

    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError> {
        self.running.restart(rows, seeds, step);
        self.ahead.iter_mut().for_each(Ahead::forget);
        self.begin_first();
        Ok(())
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        self.running.state(row, words);
    }

    fn leaf(&self, leaf: usize, words: &mut [u32]) {
        self.running.leaf(leaf, words);
    }
}
