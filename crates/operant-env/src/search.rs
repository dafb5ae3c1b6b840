//! Opponents that search, for games without chance: minimax of a given depth, and Monte Carlo tree search. A stepper of the game is
//! their model: it is set to a state, and steps.

use std::str::FromStr;
use std::sync::Arc;

use operant_lane::{Draws, Float};

use crate::any::{AnyEnv, StepError, Stepper, TileSpec, running_words};
use crate::play::Outputs;
use crate::rows::set_rows;
use crate::spec::{ActionSpace, EnvSpec};
use crate::vector::Autoreset;
use crate::versus::{Asked, Opponent, OpponentTile, PLAYER, Random, legal_choice};

/// Opponents by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripted {
    /// `random`.
    Random,
    /// `minimax:D`: the best move by the results of all games of at most D moves, and a random one among equals.
    Minimax(u32),
    /// `mcts:N`: the move that Monte Carlo tree search (UCT; Kocsis and Szepesvari 2006) tries most often in N playouts of random moves.
    Mcts(u32),
}

/// What [`Scripted`] opponents are called.
pub const SCRIPTED: &str = "random, minimax:DEPTH with 1 to 6 moves, or mcts:PLAYOUTS with 1 to 100000";

impl FromStr for Scripted {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let (kind, text) = name.split_once(':').unwrap_or((name, ""));
        let number = text.parse::<u32>().ok().filter(|number| number.to_string() == text);
        match (kind, number) {
            ("random", None) if name == "random" => Ok(Self::Random),
            ("minimax", Some(depth @ 1..=6)) => Ok(Self::Minimax(depth)),
            ("mcts", Some(playouts @ 1..=100_000)) => Ok(Self::Mcts(playouts)),
            _ => Err(()),
        }
    }
}

impl Scripted {
    /// Why it does not play a game, if it does not.
    pub fn refused(self, spec: &EnvSpec) -> Option<String> {
        unfair(spec).filter(|_| self != Self::Random)
    }

    /// The opponent.
    pub fn opponent(self) -> Arc<dyn Opponent> {
        match self {
            Self::Random => Arc::new(Random),
            Self::Minimax(depth) => {
                Arc::new(Search { name: format!("minimax:{depth}"), kind: Kind::Minimax { depth } })
            }
            Self::Mcts(playouts) => {
                Arc::new(Search { name: format!("mcts:{playouts}"), kind: Kind::Mcts { playouts } })
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Minimax { depth: u32 },
    Mcts { playouts: u32 },
}

/// What to do where a search is refused.
pub const REMEDY: &str = "use random or a trained agent";

/// Why searches do not play a game, if they do not.
fn unfair(spec: &EnvSpec) -> Option<String> {
    match spec {
        EnvSpec { hidden: true, .. } => {
            Some("minimax and mcts would see what the players of this game hide from each other".into())
        }
        EnvSpec { simultaneous: true, .. } => {
            Some("minimax and mcts would see what the other player chooses at the same time".into())
        }
        _ => None,
    }
}

struct Search {
    name: String,
    kind: Kind,
}

impl Opponent for Search {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        if let Some(what) = unfair(&env.spec()) {
            return Err(StepError { env: env.spec().name, what, remedy: REMEDY });
        }
        Ok(Box::new(SearchTile { kind: self.kind, model: Model::new(env, tile)? }))
    }

    /// The model, and the tree of Monte Carlo tree search. A minimax search keeps the positions of one move at a time, for one environment.
    fn words(&self, env: &dyn AnyEnv) -> usize {
        let (spec, running) = (env.spec(), running_words(env));
        let model = 2 * running + env.kept_words() + 2 * spec.obs.words() + spec.actions.mask_words();
        match self.kind {
            Kind::Minimax { .. } => model,
            // A position, and the numbers of a node.
            Kind::Mcts { playouts } => {
                model + playouts as usize * (running + 32 * spec.actions.mask_words() + 32)
            }
        }
    }
}

struct SearchTile {
    kind: Kind,
    model: Model,
}

impl OpponentTile for SearchTile {
    fn act(&mut self, asked: &Asked<'_>, _: &mut [u32], actions: &mut [f32]) -> Result<(), StepError> {
        let rows: Vec<usize> = set_rows(asked.rows).collect();
        let roots = self.model.read(&rows, asked.states)?;
        let mut draws: Vec<Draws<'_, f32>> = rows.iter().map(|row| asked.draws(*row)).collect();
        let moves = match self.kind {
            Kind::Minimax { depth } => {
                let best = |(root, draws)| minimax(&mut self.model, root, depth, draws);
                roots.into_iter().zip(&mut draws).map(best).collect::<Result<Vec<u32>, _>>()?
            }
            Kind::Mcts { playouts } => mcts(&mut self.model, &rows, roots, playouts, &mut draws)?,
        };
        for (row, choice) in rows.into_iter().zip(moves) {
            actions[row] = choice as f32;
        }
        Ok(())
    }
}

/// A state of the game.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    /// `(leaves + 2)`.
    words: Vec<u32>,
    /// The side to move, 0 or 1.
    pub(crate) side: u32,
    pub(crate) legal: Vec<u32>,
    /// The even players' return so far.
    pub(crate) score: f32,
    pub(crate) is_over: bool,
}

/// The game, to be tried out.
pub(crate) struct Model {
    name: String,
    stepper: Box<dyn Stepper>,
    out: Outputs,
    rows: usize,
    first: u32,
    player: usize,
    choices: usize,
    words: Vec<u32>,
    actions: Vec<f32>,
}

impl Model {
    pub(crate) fn new(env: &dyn AnyEnv, tile: TileSpec) -> Result<Self, StepError> {
        let (spec, rows) = (env.spec(), tile.rows);
        let EnvSpec { actions, name, .. } = &spec;
        let refused = |what: &str| StepError { env: name.clone(), what: what.into(), remedy: REMEDY };
        let choices = match actions {
            ActionSpace::Discrete(choices) if choices.len() == 1 => choices[0],
            _ => return Err(refused("minimax and mcts need one discrete action")),
        };
        let leaves = env.leaves();
        let player = leaves.iter().position(|leaf| leaf.name == PLAYER);
        let player = player.ok_or_else(|| refused("minimax and mcts need a game of several players"))?;
        Ok(Self {
            name: name.clone(),
            stepper: env.stepper(TileSpec { autoreset: Autoreset::Disabled, count: rows, ..tile })?,
            out: Outputs::new(&spec, env.masked(), rows),
            rows,
            first: tile.first,
            player,
            choices,
            words: vec![0; (leaves.len() + 2) * rows],
            actions: vec![0.0; rows],
        })
    }

    /// The positions in some rows of `(leaves + 2, R)`.
    fn read(&mut self, rows: &[usize], words: &[u32]) -> Result<Vec<Position>, StepError> {
        self.words.copy_from_slice(words);
        self.stepper.load(words)?;
        self.stepper.observe(self.out.seen())?;
        rows.iter().map(|row| self.position(*row, false)).collect()
    }

    /// The positions in at most R first states, `(leaves)` each.
    pub(crate) fn positions(&mut self, states: &[&[u32]]) -> Result<Vec<Position>, StepError> {
        let mut words = self.words.clone();
        for (row, state) in states.iter().enumerate() {
            // No step yet, and a return of 0.
            let all = state.iter().copied().chain([0, 0]);
            words.iter_mut().skip(row).step_by(self.rows).zip(all).for_each(|(to, word)| *to = word);
        }
        self.read(&(0..states.len()).collect::<Vec<_>>(), &words)
    }

    /// The observations of the players to move.
    pub(crate) fn observe(&mut self, positions: &[&Position]) -> Result<Vec<Vec<u32>>, StepError> {
        let mut all = Vec::with_capacity(positions.len());
        for positions in positions.chunks(self.rows) {
            self.set(positions.iter().copied().enumerate())?;
            self.stepper.observe(self.out.seen())?;
            let column = |row| self.out.obs.iter().copied().skip(row).step_by(self.rows).collect();
            all.extend((0..positions.len()).map(column));
        }
        Ok(all)
    }

    /// The position in a row, which may be over if a step led to it.
    fn position(&self, row: usize, has_stepped: bool) -> Result<Position, StepError> {
        let words: Vec<u32> = self.words.iter().copied().skip(row).step_by(self.rows).collect();
        let is_legal = |choice: &u32| {
            let word =
                self.out.legal.get(*choice as usize / 32 * self.rows + row).copied().unwrap_or(u32::MAX);
            word >> (choice % 32) & 1 == 1
        };
        let position = Position {
            side: words[self.player] & 1,
            legal: (0..self.choices as u32).filter(is_legal).collect(),
            // The last words of a running environment: the length and the return of its episode.
            score: f32::from_bits(*words.last().unwrap_or(&0)),
            is_over: has_stepped && self.out.ended(row) != [false; 2],
            words,
        };
        let number = self.first as usize + row;
        if !position.score.is_finite() {
            let what = format!("the return of environment {number} is {}", position.score);
            return Err(StepError {
                env: self.name.clone(),
                what,
                remedy: "let `step` return finite rewards",
            });
        }
        if position.legal.is_empty() && !position.is_over {
            return Err(StepError::no_legal_action(&self.name, number));
        }
        Ok(position)
    }

    /// Sets rows to positions.
    fn set<'a>(&mut self, positions: impl Iterator<Item = (usize, &'a Position)>) -> Result<(), StepError> {
        for (row, position) in positions {
            let to = self.words.iter_mut().skip(row).step_by(self.rows);
            to.zip(&position.words).for_each(|(to, from)| *to = *from);
        }
        self.stepper.load(&self.words)
    }

    /// Makes the moves of `self.actions`.
    fn step(&mut self) -> Result<(), StepError> {
        self.stepper.submit(&self.actions, 0)?;
        self.stepper.collect(self.out.stepped())?;
        self.stepper.save(&mut self.words);
        Ok(())
    }

    /// The positions after these moves.
    pub(crate) fn after(&mut self, moves: &[(&Position, u32)]) -> Result<Vec<Position>, StepError> {
        let mut all = Vec::with_capacity(moves.len());
        for moves in moves.chunks(self.rows) {
            self.set(moves.iter().map(|(position, _)| *position).enumerate())?;
            for (action, (_, choice)) in self.actions.iter_mut().zip(moves) {
                *action = *choice as f32;
            }
            self.step()?;
            for row in 0..moves.len() {
                all.push(self.position(row, true)?);
            }
        }
        Ok(all)
    }
}

/// Discount per move, so that sooner wins are better.
const LATER: f32 = 0.99;

/// The best move in a position by the returns after at most `depth` moves, a random one among equals.
fn minimax(
    model: &mut Model,
    root: Position,
    depth: u32,
    draws: &mut Draws<'_, f32>,
) -> Result<u32, StepError> {
    let sign = if root.side == 0 { 1.0 } else { -1.0 };
    let mut values = Vec::with_capacity(root.legal.len());
    for choice in &root.legal {
        let next = model.after(&[(&root, *choice)])?;
        values.push(sign * value(model, next, root.score, depth - 1)?);
    }
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let best: Vec<u32> = root
        .legal
        .iter()
        .zip(&values)
        .filter(|(_, value)| **value == most)
        .map(|(choice, _)| *choice)
        .collect();
    Ok(best[draws.below(best.len() as u32).0 as usize])
}

/// What the even players gain from `score` on with best play of `depth` more moves from a first position, level by level.
fn value(model: &mut Model, first: Vec<Position>, score: f32, depth: u32) -> Result<f32, StepError> {
    // Levels of positions; each with its parent in the level before.
    let mut levels: Vec<Vec<(usize, Position)>> = vec![first.into_iter().map(|first| (0, first)).collect()];
    for _ in 0..depth {
        let last = &levels[levels.len() - 1];
        let open = last.iter().enumerate().filter(|(_, (_, position))| !position.is_over);
        let moves: Vec<(usize, &Position, u32)> = open
            .flat_map(|(at, (_, position))| position.legal.iter().map(move |choice| (at, position, *choice)))
            .collect();
        let steps: Vec<(&Position, u32)> =
            moves.iter().map(|(_, position, choice)| (*position, *choice)).collect();
        let after = model.after(&steps)?;
        levels.push(moves.iter().map(|(at, ..)| *at).zip(after).collect());
    }
    let mut below: Vec<f32> = Vec::new();
    for level in (0..levels.len()).rev() {
        let mut best: Vec<Option<f32>> = vec![None; levels[level].len()];
        if let Some(next) = levels.get(level + 1) {
            for ((parent, _), value) in next.iter().zip(&below) {
                let side = levels[level][*parent].1.side;
                let is_better = |best: f32| if side == 0 { *value > best } else { *value < best };
                if best[*parent].is_none_or(is_better) {
                    best[*parent] = Some(*value);
                }
            }
        }
        let gained = |position: &Position| position.score - score;
        below = levels[level]
            .iter()
            .zip(best)
            .map(|((_, position), best)| LATER * best.unwrap_or_else(|| gained(position)))
            .collect();
    }
    Ok(below[0])
}

/// A position that has been tried.
struct Node {
    position: Position,
    /// Those after the legal moves that were tried, in the order of the moves.
    children: Vec<usize>,
    visits: f32,
    /// Sum of the even players' results, between -1 and 1 each.
    sum: f32,
}

impl Node {
    fn new(position: Position) -> Self {
        Self { position, children: Vec::new(), visits: 0.0, sum: 0.0 }
    }
}

/// The tree of a position.
struct Tree {
    nodes: Vec<Node>,
    /// From the root to the position of the running playout.
    path: Vec<usize>,
}

impl Tree {
    /// Walks down to a move that was not tried yet. None where the game is over before.
    fn select(&mut self) -> Option<(usize, u32)> {
        self.path.clear();
        let mut at = 0;
        loop {
            self.path.push(at);
            let Node { position, children, visits, .. } = &self.nodes[at];
            if position.is_over {
                return None;
            }
            if let Some(choice) = position.legal.get(children.len()) {
                return Some((at, *choice));
            }
            let sign = if position.side == 0 { 1.0 } else { -1.0 };
            // Results between 0 and 1, as UCT assumes.
            let bound = |child: &usize| {
                let Node { visits: own, sum, .. } = &self.nodes[*child];
                (sign * sum / own + 1.0) / 2.0 + (2.0 * Float::ln(*visits) / own).sqrt()
            };
            let bounds = children.iter().map(|child| (bound(child), *child));
            at = bounds
                .fold((f32::NEG_INFINITY, at), |best, next| if next.0 > best.0 { next } else { best })
                .1;
        }
    }

    fn add(&mut self, parent: usize, position: Position) {
        let child = self.nodes.len();
        self.nodes.push(Node::new(position));
        self.nodes[parent].children.push(child);
        self.path.push(child);
    }

    fn back_up(&mut self, result: f32) {
        for at in &self.path {
            self.nodes[*at].visits += 1.0;
            self.nodes[*at].sum += result;
        }
    }

    /// The move that was tried most often.
    fn best(&self) -> u32 {
        let Node { position, children, .. } = &self.nodes[0];
        let visits = children.iter().map(|child| self.nodes[*child].visits);
        let moves = position.legal.iter().zip(visits);
        moves
            .fold((0, -1.0), |best, (choice, visits)| if visits > best.1 { (*choice, visits) } else { best })
            .0
    }
}

/// Moves in a playout, at most; one that is longer counts as it stands.
const LONGEST: usize = 4096;

/// The most tried move in each of the positions, which are those of `rows`: their playouts run side by side.
fn mcts(
    model: &mut Model,
    rows: &[usize],
    roots: Vec<Position>,
    playouts: u32,
    draws: &mut [Draws<'_, f32>],
) -> Result<Vec<u32>, StepError> {
    let tree = |root| Tree { nodes: vec![Node::new(root)], path: Vec::new() };
    let mut trees: Vec<Tree> = roots.into_iter().map(tree).collect();
    for _ in 0..playouts {
        // One new position in each tree, in the row of its environment.
        let tries: Vec<Option<(usize, u32)>> = trees.iter_mut().map(Tree::select).collect();
        let tried = rows.iter().zip(&trees).zip(&tries);
        model
            .set(tried.filter_map(|((row, tree), tried)| Some((*row, &tree.nodes[(*tried)?.0].position))))?;
        for (row, tried) in rows.iter().zip(&tries) {
            model.actions[*row] = tried.map_or(0.0, |(_, choice)| choice as f32);
        }
        model.step()?;
        let mut plays = vec![false; rows.len()];
        for (number, (row, tried)) in rows.iter().zip(tries).enumerate() {
            let Some((parent, _)) = tried else { continue };
            let position = model.position(*row, true)?;
            plays[number] = !position.is_over;
            trees[number].add(parent, position);
        }
        // The scores of positions that are over, and of those where the playouts end.
        let last = |tree: &Tree| tree.path.last().map_or(0.0, |at| tree.nodes[*at].position.score);
        let mut scores: Vec<f32> = trees.iter().map(last).collect();
        for _ in 0..LONGEST {
            if !plays.contains(&true) {
                break;
            }
            for (number, row) in rows.iter().enumerate().filter(|(number, _)| plays[*number]) {
                let place = (&*model.out.legal, *row, model.rows);
                let choice = legal_choice(&mut draws[number], place, 0, model.choices);
                let choice = choice
                    .ok_or_else(|| StepError::no_legal_action(&model.name, model.first as usize + row))?;
                model.actions[*row] = choice as f32;
            }
            model.stepper.submit(&model.actions, 0)?;
            model.stepper.collect(model.out.stepped())?;
            for (number, row) in
                rows.iter().enumerate().filter(|(number, _)| plays[*number]).collect::<Vec<_>>()
            {
                scores[number] = model.out.returns[*row];
                plays[number] = model.out.ended(*row) == [false; 2];
            }
        }
        for (tree, score) in trees.iter_mut().zip(scores) {
            tree.back_up(score - tree.nodes[0].position.score);
        }
    }
    Ok(trees.iter().map(Tree::best).collect())
}
