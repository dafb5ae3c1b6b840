//! A game as an environment of one player: an [`Opponent`] makes the moves of the other side.
//!
//! A step is a move of the agent's side, then the opponent's moves until it is the agent's turn again. The reward is that of the agent's side over all of
//! them. In environment k the agent is on the side of player k mod 2 first, and changes sides with every episode. An episode that ends before the agent has
//! moved is not reported.
//!
//! Some environments of a tile have to wait while the opponent moves in others. They make any legal move too, and are then set back.

use std::any::Any;
use std::num::Wrapping;
use std::ops::Range;
use std::sync::Arc;

use operant_lane::{Draws, Float, Kind, Lane, Leaf, Mask, Purpose};

use crate::any::{AnyEnv, Seen, StepError, Stepped, Stepper, TileSpec, running_words};
use crate::play::{Outputs, RandomActions};
use crate::registry::EnvOptions;
use crate::rows::set_rows;
use crate::running::BLOCK;
use crate::scene::Scene;
use crate::spec::{ActionSpace, EnvMetric, EnvSpec, OptionError};
use crate::vector::{Autoreset, ENDED};

/// The field of a state that is the number of the player to move.
pub const PLAYER: &str = "player";

impl EnvSpec {
    /// Sides of a game, of which each has a memory of its own in self-play: players with even numbers, and those with odd ones. Otherwise 1.
    pub fn sides(&self) -> usize {
        self.players.min(2) as usize
    }
}

/// Numbers of moves in a step of the agent: 0 its own, then those of the opponent, and from [`FIRST`] on those before its first step.
const MOVES: u64 = 1 << 10;
/// See [`MOVES`].
const FIRST: u64 = MOVES / 2;

/// Moves for one side of a game.
pub trait Opponent: Any + Send + Sync {
    /// Its name, for people.
    fn name(&self) -> String;

    /// Its moves in a tile of `env`, a game of several players.
    ///
    /// # Errors
    /// When it cannot play the game.
    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError>;

    /// M: words of memory of each environment.
    fn memory(&self) -> usize {
        0
    }

    /// Words that it needs for each environment while it moves.
    fn words(&self, env: &dyn AnyEnv) -> usize {
        let _ = env;
        0
    }

    /// Words that it needs for all environments together.
    fn shared_words(&self) -> usize {
        0
    }

    /// Whether it is made of what a run learns, so that evaluations need another one.
    fn is_of_the_run(&self) -> bool {
        false
    }
}

/// The environments in which an opponent is to move. Columns are environments.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// `(R / 16)`: bit i of word k is set if environment 16 k + i is asked for a move. Moves elsewhere are ignored.
    pub rows: &'a [u16],
    /// `(words, R)`: observations of the player to move.
    pub obs: &'a [u32],
    /// `(ceil(logits / 32), R)`: legal choices; see [`Seen::legal`].
    pub legal: &'a [u32],
    /// `(leaves + 2, R)`: see [`Stepper::save`].
    pub states: &'a [u32],
    /// `(R)`: seeds and numbers of the random streams.
    pub keys: &'a [(u64, u32)],
    /// Whether random streams are those of evaluation.
    pub evaluation: bool,
    /// The number of the move, which no other move of the environment has.
    pub step: u64,
}

impl Asked<'_> {
    /// The random stream of a move.
    pub fn draws(&self, row: usize) -> Draws<'static, f32> {
        let (seed, number) = self.keys[row];
        let purpose = if self.evaluation { Purpose::EvalOpponent } else { Purpose::Opponent };
        Draws::at(seed, Wrapping(number), self.step, purpose)
    }
}

/// A uniformly random one of the legal choices from logit `first` on; see [`Seen::legal`]. All are legal without a mask; None if none is.
pub(crate) fn legal_choice(
    draws: &mut Draws<'_, f32>,
    (legal, row, rows): (&[u32], usize, usize),
    first: usize,
    choices: usize,
) -> Option<usize> {
    let is_legal = |choice: &usize| {
        let bit = first + choice;
        legal.get(bit / 32 * rows + row).is_none_or(|word| word >> (bit % 32) & 1 == 1)
    };
    let count = (0..choices).filter(is_legal).count();
    (0..choices).filter(is_legal).nth(draws.below_each(Wrapping(count as u32)).0 as usize)
}

/// An opponent in a tile.
pub trait OpponentTile: Send {
    /// Writes its moves, `(components, R)`, and updates its memory, `(M, R)`, of the rows that are asked.
    ///
    /// # Errors
    /// When it cannot move.
    fn act(&mut self, asked: &Asked<'_>, memory: &mut [u32], actions: &mut [f32]) -> Result<(), StepError>;
}

/// Uniformly random legal moves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

impl Opponent for Random {
    fn name(&self) -> String {
        "random".into()
    }

    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        let EnvSpec { name, actions, .. } = env.spec();
        Ok(Box::new(RandomTile { name, actions, first: tile.first as usize, rows: tile.rows }))
    }
}

struct RandomTile {
    name: String,
    first: usize,
    actions: ActionSpace,
    rows: usize,
}

impl OpponentTile for RandomTile {
    fn act(&mut self, asked: &Asked<'_>, _: &mut [u32], actions: &mut [f32]) -> Result<(), StepError> {
        let rows = self.rows;
        for row in set_rows(asked.rows) {
            let (mut draws, mut logit) = (asked.draws(row), 0);
            for component in 0..self.actions.components() {
                actions[component * rows + row] = match &self.actions {
                    ActionSpace::Discrete(choices) => {
                        let place = (asked.legal, row, rows);
                        let choice = legal_choice(&mut draws, place, logit, choices[component]);
                        logit += choices[component];
                        choice.ok_or_else(|| StepError::no_legal_action(&self.name, self.first + row))? as f32
                    }
                    ActionSpace::Box { low, high } => draws.between(low[component], high[component]),
                };
            }
        }
        Ok(())
    }
}

/// A game in which an opponent plays one side.
pub struct Versus {
    game: Arc<dyn AnyEnv>,
    opponent: Arc<dyn Opponent>,
}

impl Versus {
    /// A game of several players against an opponent.
    pub fn new(game: Arc<dyn AnyEnv>, opponent: Arc<dyn Opponent>) -> Self {
        Self { game, opponent }
    }

    /// Who plays the other side.
    pub fn opponent(&self) -> &dyn Opponent {
        &*self.opponent
    }
}

/// Metrics of a game with a winner, for [`EnvSpec::metrics`]: whether the first player wins, and whether nobody does.
pub fn result_metrics() -> Vec<EnvMetric> {
    vec![
        EnvMetric::new("first_wins", "Share of the episodes that the first player wins, 0 to 1."),
        EnvMetric::new("drawn", "Share of the episodes that end in a draw, 0 to 1."),
    ]
}

/// One of [`result_metrics`], from the last reward.
#[inline(always)]
pub fn result_metric<L: Lane>(reward: L::Float, index: usize) -> L::Float {
    let zero = L::Float::splat(0.0);
    let is = if index == 0 { reward.gt(zero) } else { reward.eq(zero) };
    is.select(L::Float::splat(1.0), zero)
}

/// What evaluations play: the environment, or a game against random moves if the agent would play itself.
pub fn evaluated(env: &Arc<dyn AnyEnv>) -> Arc<dyn AnyEnv> {
    let game = match env.versus() {
        Some(Versus { game, opponent }) if opponent.is_of_the_run() => game,
        _ => env,
    };
    match game.spec().players {
        1 => Arc::clone(game),
        _ => Arc::new(Versus::new(Arc::clone(game), Arc::new(Random))),
    }
}

impl AnyEnv for Versus {
    fn spec(&self) -> EnvSpec {
        EnvSpec { players: 1, ..self.game.spec() }
    }

    /// Those of the game, then the agent's side and the opponent's memory.
    fn leaves(&self) -> Vec<Leaf> {
        // No field of a state has a dot in its name.
        let own = |name: &str| Leaf { name: format!("versus.{name}"), kind: Kind::Uint };
        let memory = (0..self.opponent.memory()).map(|word| own(&format!("memory[{word}]")));
        self.game.leaves().into_iter().chain([own("side")]).chain(memory).collect()
    }

    fn masked(&self) -> bool {
        self.game.masked()
    }

    fn content(&self) -> Option<u64> {
        self.game.content()
    }

    fn versus(&self) -> Option<&Versus> {
        Some(self)
    }

    /// Beside the game: its state before and after a move, two steps, and what the opponent needs.
    fn kept_words(&self) -> usize {
        let spec = self.game.spec();
        let step = 2 * spec.obs.words() + spec.actions.mask_words() + spec.measured() + 4;
        let own = 2 * (running_words(&*self.game) + step + spec.actions.components());
        self.game.kept_words() + own + self.opponent.words(&*self.game)
    }

    fn with_options(&self, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, OptionError> {
        Ok(Arc::new(Self { game: self.game.with_options(options)?, opponent: self.opponent.clone() }))
    }

    fn stepper(&self, tile: TileSpec) -> Result<Box<dyn Stepper>, StepError> {
        let (spec, leaves, rows) = (self.game.spec(), self.game.leaves(), tile.rows);
        let player = leaves.iter().position(|leaf| leaf.name == PLAYER).ok_or_else(|| one_player(&spec))?;
        let outputs = || Outputs::new(&spec, self.game.masked(), rows);
        Ok(Box::new(VersusStepper {
            game: self.game.stepper(tile)?,
            opponent: self.opponent.tile(&*self.game, tile)?,
            others: RandomActions::new(spec.actions.clone(), tile.seed, tile.first, rows),
            keys: (0..rows as u32).map(|row| (tile.seed, tile.first.wrapping_add(row))).collect(),
            tile,
            name: spec.name.clone(),
            player,
            leaves: leaves.len(),
            sides: (0..rows as u32).map(|row| (tile.first.wrapping_add(row)) & 1).collect(),
            memory: vec![0; self.opponent.memory() * rows],
            over: vec![0; rows / BLOCK],
            step: tile.step,
            players: vec![0; rows],
            actions: vec![0.0; spec.actions.components() * rows],
            states: vec![0; (leaves.len() + 2) * rows],
            moved: vec![0; (leaves.len() + 2) * rows],
            now: outputs(),
            next: outputs(),
            is_fresh: true,
        }))
    }

    fn picture(&self, state: &[u32]) -> Scene {
        self.game.picture(&state[..self.game.leaves().len()])
    }

    fn messages(&self) -> Vec<String> {
        self.game.messages()
    }
}

/// Results of games between two players, from the first one's view: 1, 0 or -1 for each. In game k the first one has the side of player k mod 2. The first
/// `openings` moves of a game are random, the same in games 2 k and 2 k + 1.
///
/// # Errors
/// When one of them cannot play the game.
pub fn play(
    game: &dyn AnyEnv,
    players: [&dyn Opponent; 2],
    seed: u64,
    openings: u64,
    games: Range<u32>,
) -> Result<Vec<f32>, StepError> {
    let spec = game.spec();
    let leaves = game.leaves();
    let player = leaves.iter().position(|leaf| leaf.name == PLAYER).ok_or_else(|| one_player(&spec))?;
    let mut results = Vec::new();
    for first in games.clone().step_by(ROWS) {
        let count = ROWS.min((games.end - first) as usize);
        let tile =
            TileSpec { evaluation: true, autoreset: Autoreset::Disabled, ..TileSpec::new(seed, first, ROWS) };
        let mut stepper = game.stepper(tile)?;
        let mut out = Outputs::new(&spec, game.masked(), ROWS);
        stepper.observe(out.seen())?;
        let mut sides =
            [players[0].tile(game, tile)?, players[1].tile(game, tile)?, Random.tile(game, tile)?];
        let numbers = || (0..ROWS as u32).map(|row| first + row);
        // Both may be one and the same policy: their streams differ.
        let own = |k: u64| numbers().map(move |number| (seed ^ k << 32, number)).collect();
        let keys: [Vec<_>; 3] = [own(0), own(1), numbers().map(|number| (!seed, number / 2)).collect()];
        let mut memory = [players[0].memory(), players[1].memory(), 0].map(|words| vec![0; words * ROWS]);
        let (mut states, mut turns) = (vec![0; (leaves.len() + 2) * ROWS], vec![0; ROWS]);
        let mut actions = vec![0.0; spec.actions.components() * ROWS];
        let mut won = [None; ROWS];
        for step in 0.. {
            stepper.save(&mut states);
            stepper.leaf(player, &mut turns);
            let plays = |row: usize| won[row].is_none() && row < count;
            let turn = |row: usize| (turns[row] ^ (first + row as u32)) as usize & 1;
            for (k, side) in sides.iter_mut().enumerate() {
                let is_opening = k == 2;
                // An agent with memory sees the opening too.
                let is_asked = match is_opening {
                    true => step < openings,
                    false => step >= openings || !memory[k].is_empty(),
                };
                let mut rows = [0u16; ROWS / BLOCK];
                (0..ROWS)
                    .filter(|row| plays(*row) && is_asked && (is_opening || turn(*row) == k))
                    .for_each(|row| rows[row / BLOCK] |= 1 << (row % BLOCK));
                if rows == [0; ROWS / BLOCK] {
                    continue;
                }
                let (obs, legal) = (&out.obs, &out.legal);
                let keys = &keys[k];
                let asked = Asked { rows: &rows, obs, legal, states: &states, keys, evaluation: true, step };
                let mut moves = vec![0.0; actions.len()];
                side.act(&asked, &mut memory[k], &mut moves)?;
                copy(&rows, &moves, &mut actions);
            }
            stepper.submit(&actions, step)?;
            stepper.collect(out.stepped())?;
            for row in 0..count {
                if won[row].is_none() && out.ended(row) != [false; 2] {
                    won[row] = Some(signed(out.returns[row], first + row as u32));
                }
            }
            if won[..count].iter().all(Option::is_some) {
                break;
            }
        }
        results.extend(won[..count].iter().flatten());
    }
    Ok(results)
}

/// The even players' reward, or a return, as that of `side`.
fn signed(x: f32, side: u32) -> f32 {
    // Not the negative of 0.
    if side & 1 == 1 { 0.0 - x } else { x }
}

/// Games that [`play`] has side by side.
const ROWS: usize = 64;

fn one_player(spec: &EnvSpec) -> StepError {
    let what = "it has one player, so there is nobody to play against".into();
    StepError { env: spec.name.clone(), what, remedy: "choose a game, such as connect_four" }
}

struct VersusStepper {
    game: Box<dyn Stepper>,
    opponent: Box<dyn OpponentTile>,
    /// Moves in environments that wait.
    others: RandomActions,
    tile: TileSpec,
    /// `(R)`: see [`Asked::keys`].
    keys: Vec<(u64, u32)>,
    name: String,
    /// The leaf of the player to move, and the number of leaves.
    player: usize,
    leaves: usize,
    /// `(R)`: the agent's side, 0 or 1.
    sides: Vec<u32>,
    /// `(M, R)`.
    memory: Vec<u32>,
    /// `(R / 16)`: episodes that have ended, whose state is still there.
    over: Vec<u16>,
    step: u64,
    players: Vec<u32>,
    actions: Vec<f32>,
    /// `(leaves + 2, R)`: before and after a move of the opponent.
    states: Vec<u32>,
    moved: Vec<u32>,
    /// The step, and a move of the opponent.
    now: Outputs,
    next: Outputs,
    /// Whether episodes begin in which the opponent has not moved yet.
    is_fresh: bool,
}

/// Copies the columns `rows` of `from` to `to`, both `(.., R)`.
fn copy<T: Copy>(rows: &[u16], from: &[T], to: &mut [T]) {
    let stride = rows.len() * BLOCK;
    for (to, from) in to.chunks_exact_mut(stride).zip(from.chunks_exact(stride)) {
        set_rows(rows).for_each(|row| to[row] = from[row]);
    }
}

impl VersusStepper {
    /// The rows in which it is the opponent's turn.
    fn waiting(&mut self) -> Vec<u16> {
        self.game.leaf(self.player, &mut self.players);
        let mut rows = vec![0; self.over.len()];
        for (row, (player, side)) in self.players.iter().zip(&self.sides).enumerate().take(self.tile.count) {
            let bit = 1 << (row % BLOCK);
            if player & 1 != *side && self.over[row / BLOCK] & bit == 0 {
                rows[row / BLOCK] |= bit;
            }
        }
        rows
    }

    /// Episodes have ended: begins the next ones, or marks that they will begin.
    fn end(&mut self, ended: &[u16]) {
        for row in set_rows(ended) {
            if self.tile.autoreset == Autoreset::SameStep {
                self.begin(row);
            } else {
                self.over[row / BLOCK] |= 1 << (row % BLOCK);
            }
        }
    }

    /// An episode begins in which the agent has the other side.
    fn begin(&mut self, row: usize) {
        self.sides[row] ^= 1;
        self.memory.iter_mut().skip(row).step_by(self.tile.rows).for_each(|word| *word = 0);
    }

    /// Lets the opponent move until it is the agent's turn everywhere; `number` is that of its first move within the step.
    fn reply(&mut self, mut number: u64) -> Result<(), StepError> {
        loop {
            let rows = self.waiting();
            if rows.iter().all(|rows| *rows == 0) {
                return Ok(());
            }
            let step = self.step.wrapping_mul(MOVES) + number;
            number += 1;
            if number.is_multiple_of(FIRST) {
                return Err(StepError {
                    env: self.name.clone(),
                    what: format!("the opponent moves {} times in a row", FIRST - 1),
                    remedy: "let the `player` of a state change sooner",
                });
            }
            self.game.save(&mut self.states);
            let (obs, legal, states, keys) = (&self.now.obs, &self.now.legal, &self.states, &self.keys);
            let asked =
                Asked { rows: &rows, obs, legal, states, keys, evaluation: self.tile.evaluation, step };
            let mut moves = vec![0.0; self.actions.len()];
            self.opponent.act(&asked, &mut self.memory, &mut moves)?;
            self.others.fill(step, &self.now.legal, &mut self.actions);
            copy(&rows, &moves, &mut self.actions);
            self.game.submit(&self.actions, step)?;
            self.game.collect(self.next.stepped())?;
            self.game.save(&mut self.moved);
            let waited: Vec<u16> = rows.iter().map(|rows| !rows).collect();
            copy(&waited, &self.states, &mut self.moved);
            self.game.load(&self.moved)?;
            self.take(&rows);
        }
    }

    /// Adds a move of the opponent in `rows` to the step.
    fn take(&mut self, rows: &[u16]) {
        let (now, next) = (&mut self.now, &self.next);
        copy(rows, &next.obs, &mut now.obs);
        copy(rows, &next.legal, &mut now.legal);
        let (mut ended, mut unseen) = (vec![0; rows.len()], vec![0; rows.len()]);
        for (word, rows) in rows.iter().enumerate() {
            // An episode that begins within this step is none of the agent's yet.
            let goes_on = rows & !(now.terminated[word] | now.truncated[word]);
            let ends = next.terminated[word] | next.truncated[word];
            (ended[word], unseen[word]) = (ends & goes_on, ends & rows & !goes_on);
            now.terminated[word] |= next.terminated[word] & goes_on;
            now.truncated[word] |= next.truncated[word] & goes_on;
            for row in set_rows(&[goes_on]).map(|bit| word * BLOCK + bit) {
                let side = self.sides[row];
                now.rewards[row] += signed(next.rewards[row], side);
                (now.returns[row], now.lengths[row]) = (signed(next.returns[row], side), next.lengths[row]);
            }
        }
        copy(&ended, &next.final_obs, &mut now.final_obs);
        copy(&ended, &next.metrics, &mut now.metrics);
        self.end(&ended);
        self.end(&unseen);
    }
}

impl Stepper for VersusStepper {
    fn observe(&mut self, seen: Seen<'_>) -> Result<(), StepError> {
        self.game.observe(self.now.seen())?;
        if std::mem::take(&mut self.is_fresh) {
            self.now.terminated.fill(0);
            self.now.truncated.fill(0);
            self.reply(FIRST + 1)?;
        }
        seen.obs.copy_from_slice(&self.now.obs);
        seen.legal.copy_from_slice(&self.now.legal);
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        self.step = step;
        self.game.submit(actions, step.wrapping_mul(MOVES))
    }

    fn has_stepped(&mut self) -> bool {
        self.game.has_stepped()
    }

    fn collect(&mut self, stepped: Stepped<'_>) -> Result<(), StepError> {
        self.game.collect(self.now.stepped())?;
        let now = &mut self.now;
        for (x, side) in
            now.rewards.iter_mut().zip(&self.sides).chain(now.returns.iter_mut().zip(&self.sides))
        {
            *x = signed(*x, *side);
        }
        // If the limit falls on the agent's own move, the next observation is the opponent's, of which no value is known: the game counts as terminated.
        now.terminated.iter_mut().zip(&now.truncated).for_each(|(ended, cut)| *ended |= cut);
        if self.tile.autoreset == Autoreset::NextStep {
            // Where the last step ended an episode, this one began the next.
            for row in set_rows(&std::mem::take(&mut self.over)) {
                self.begin(row);
            }
            self.over.resize(self.tile.rows / BLOCK, 0);
        }
        let (terminated, truncated) = (&self.now.terminated, &self.now.truncated);
        let ended: Vec<u16> = terminated.iter().zip(truncated).map(|(a, b)| a | b).collect();
        self.end(&ended);
        self.reply(1)?;
        let now = &self.now;
        stepped.seen.obs.copy_from_slice(&now.obs);
        stepped.seen.legal.copy_from_slice(&now.legal);
        stepped.final_obs.copy_from_slice(&now.final_obs);
        stepped.rewards.copy_from_slice(&now.rewards);
        stepped.terminated.copy_from_slice(&now.terminated);
        stepped.truncated.copy_from_slice(&now.truncated);
        stepped.returns.copy_from_slice(&now.returns);
        stepped.lengths.copy_from_slice(&now.lengths);
        let metrics = stepped.metrics.len();
        stepped.metrics.copy_from_slice(&now.metrics[..metrics]);
        Ok(())
    }

    /// `(leaves + 1 + M + 2, R)`.
    fn save(&self, words: &mut [u32]) {
        let (rows, mut all) = (self.tile.rows, vec![0; self.states.len()]);
        self.game.save(&mut all);
        let (state, episode) = all.split_at(self.leaves * rows);
        let parts = [state, &self.sides, &self.memory, episode];
        let mut words = words.iter_mut();
        parts.into_iter().flatten().zip(&mut words).for_each(|(from, to)| *to = *from);
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        let rows = self.tile.rows;
        let (state, rest) = words.split_at(self.leaves * rows);
        let (sides, rest) = rest.split_at(rows);
        let (memory, episode) = rest.split_at(self.memory.len());
        self.sides.copy_from_slice(sides);
        self.memory.copy_from_slice(memory);
        self.over.fill(0);
        let lengths = &episode[..rows];
        for row in
            (0..rows).filter(|row| self.tile.autoreset == Autoreset::NextStep && lengths[*row] == ENDED)
        {
            self.over[row / BLOCK] |= 1 << (row % BLOCK);
        }
        self.is_fresh = false;
        self.game.load(&[state, episode].concat())
    }

    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError> {
        self.game.restart(rows, seeds, step)?;
        for row in set_rows(rows) {
            self.begin(row);
            self.over[row / BLOCK] &= !(1 << (row % BLOCK));
            // As the only environment of that seed.
            if let Some(seeds) = seeds {
                (self.sides[row], self.keys[row]) = (0, (seeds[row], 0));
            }
        }
        (self.step, self.is_fresh) = (step, true);
        Ok(())
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        let (state, own) = words.split_at_mut(self.leaves);
        self.game.state(row, state);
        let memory = self.memory.iter().skip(row).step_by(self.tile.rows);
        own.iter_mut().zip([&self.sides[row]].into_iter().chain(memory)).for_each(|(to, from)| *to = *from);
    }

    fn leaf(&self, leaf: usize, words: &mut [u32]) {
        let rows = self.tile.rows;
        match leaf.checked_sub(self.leaves) {
            None => self.game.leaf(leaf, words),
            Some(0) => words.copy_from_slice(&self.sides),
            Some(word) => words.copy_from_slice(&self.memory[(word - 1) * rows..][..rows]),
        }
    }
}
