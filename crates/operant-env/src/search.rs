//! Opponents that search, for games without chance: minimax of a given depth, and Monte Carlo tree search. A stepper of the game is
//! their model: it is set to a state, and steps.

use std::str::FromStr;
use std::sync::Arc;

use crate::any::{AnyEnv, StepError, Stepper, TileSpec};
use crate::play::{Outputs, RandomActions};
use crate::rows::set_rows;
use crate::spec::{ActionSpace, EnvSpec};
use crate::vector::Autoreset;
use crate::versus::{Asked, Opponent, OpponentTile, PLAYER, Random};

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
        let (kind, number) = name.split_once(':').unwrap_or((name, ""));
        match (kind, number.parse().unwrap_or(0)) {
            ("random", _) if number.is_empty() => Ok(Self::Random),
            ("minimax", depth @ 1..=6) => Ok(Self::Minimax(depth)),
            ("mcts", playouts @ 1..=100_000) => Ok(Self::Mcts(playouts)),
            _ => Err(()),
        }
    }
}

impl Scripted {
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

struct Search {
    name: String,
    kind: Kind,
}

impl Opponent for Search {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        Ok(Box::new(SearchTile { kind: self.kind, model: Model::new(env, tile)? }))
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
        let moves = match self.kind {
            Kind::Minimax { depth } => {
                let best =
                    |(row, root): (&usize, Position)| minimax(&mut self.model, *row, root, depth, asked.step);
                rows.iter().zip(roots).map(best).collect::<Result<Vec<u32>, _>>()?
            }
            Kind::Mcts { playouts } => mcts(&mut self.model, &rows, roots, playouts, asked.step)?,
        };
        for (row, choice) in rows.into_iter().zip(moves) {
            actions[row] = choice as f32;
        }
        Ok(())
    }
}

/// A state of the game.
#[derive(Debug, Clone)]
struct Position {
    /// `(leaves + 2)`.
    words: Vec<u32>,
    /// The side to move, 0 or 1.
    side: u32,
    legal: Vec<u32>,
    /// The even players' reward, if the game is over.
    result: Option<f32>,
}

/// The game, to be tried out.
struct Model {
    stepper: Box<dyn Stepper>,
    out: Outputs,
    rows: usize,
    first: u32,
    seed: u64,
    player: usize,
    choices: usize,
    random: RandomActions,
    words: Vec<u32>,
    actions: Vec<f32>,
}

impl Model {
    fn new(env: &dyn AnyEnv, tile: TileSpec) -> Result<Self, StepError> {
        let (spec, rows) = (env.spec(), tile.rows);
        let EnvSpec { actions, name, .. } = &spec;
        let refused = |what: &str| StepError {
            env: name.clone(),
            what: what.into(),
            remedy: "use random or a trained agent",
        };
        let choices = match actions {
            ActionSpace::Discrete(choices) if choices.len() == 1 => choices[0],
            _ => return Err(refused("minimax and mcts need one discrete action")),
        };
        let leaves = env.leaves();
        let player = leaves.iter().position(|leaf| leaf.name == PLAYER);
        let player = player.ok_or_else(|| refused("minimax and mcts need a game of several players"))?;
        let free = TileSpec { autoreset: Autoreset::Disabled, time_limit: None, ..tile };
        Ok(Self {
            stepper: env.stepper(free)?,
            out: Outputs::new(&spec, env.masked(), rows),
            rows,
            first: tile.first,
            seed: tile.seed,
            player,
            choices,
            random: RandomActions::new(actions.clone(), tile.seed ^ SEED, tile.first, rows),
            words: vec![0; (leaves.len() + 2) * rows],
            actions: vec![0.0; rows],
        })
    }

    /// The positions in some rows of `(leaves + 2, R)`.
    fn read(&mut self, rows: &[usize], words: &[u32]) -> Result<Vec<Position>, StepError> {
        self.words.copy_from_slice(words);
        self.stepper.load(words)?;
        self.stepper.observe(self.out.seen())?;
        Ok(rows.iter().map(|row| self.position(*row, false)).collect())
    }

    /// The position in a row, with its result if it may be over.
    fn position(&self, row: usize, may_be_over: bool) -> Position {
        let words: Vec<u32> = self.words.iter().copied().skip(row).step_by(self.rows).collect();
        let is_legal = |choice: &u32| {
            let word =
                self.out.legal.get(*choice as usize / 32 * self.rows + row).copied().unwrap_or(u32::MAX);
            word >> (choice % 32) & 1 == 1
        };
        Position {
            side: words[self.player] & 1,
            legal: (0..self.choices as u32).filter(is_legal).collect(),
            result: (may_be_over && self.out.ended(row) != [false; 2]).then_some(self.out.rewards[row]),
            words,
        }
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
    fn after(&mut self, moves: &[(&Position, u32)]) -> Result<Vec<Position>, StepError> {
        let mut all = Vec::with_capacity(moves.len());
        for moves in moves.chunks(self.rows) {
            self.set(moves.iter().map(|(position, _)| *position).enumerate())?;
            for (action, (_, choice)) in self.actions.iter_mut().zip(moves) {
                *action = *choice as f32;
            }
            self.step()?;
            all.extend((0..moves.len()).map(|row| self.position(row, true)));
        }
        Ok(all)
    }
}

/// Separates draws of playouts from others.
const SEED: u64 = 0x7365_6172_6368;
/// Discount per move, so that sooner wins are better.
const LATER: f32 = 0.99;

/// The best move in a position by the results within `depth` moves.
fn minimax(model: &mut Model, row: usize, root: Position, depth: u32, step: u64) -> Result<u32, StepError> {
    // Levels of positions; each with its parent in the level before, except the first.
    let mut levels = vec![vec![(0, root)]];
    for _ in 0..depth {
        let last = levels.last().expect("the root");
        let open = last.iter().enumerate().filter(|(_, (_, position))| position.result.is_none());
        let moves: Vec<(usize, &Position, u32)> = open
            .flat_map(|(at, (_, position))| position.legal.iter().map(move |choice| (at, position, *choice)))
            .collect();
        let steps: Vec<(&Position, u32)> =
            moves.iter().map(|(_, position, choice)| (*position, *choice)).collect();
        let after = model.after(&steps)?;
        levels.push(moves.iter().map(|(at, ..)| *at).zip(after).collect());
    }
    let root = &levels[0][0].1;
    let mut below: Vec<f32> = Vec::new();
    for level in (1..levels.len()).rev() {
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
        below = levels[level]
            .iter()
            .zip(best)
            .map(|((_, position), best)| LATER * position.result.or(best).unwrap_or(0.0))
            .collect();
    }
    let sign = if root.side == 0 { 1.0 } else { -1.0 };
    let most = below.iter().map(|value| sign * value).fold(f32::NEG_INFINITY, f32::max);
    let best: Vec<u32> = root
        .legal
        .iter()
        .zip(&below)
        .filter(|(_, value)| sign * **value == most)
        .map(|(choice, _)| *choice)
        .collect();
    let number = u64::from(model.first) + row as u64;
    let draw = operant_lane::philox::philox::<f32>(
        [number as u32, step as u32, (step >> 32) as u32, SEED as u32].map(std::num::Wrapping),
        [model.seed as u32, (model.seed >> 32) as u32].map(std::num::Wrapping),
    )[0];
    Ok(best[((u64::from(draw.0) * best.len() as u64) >> 32) as usize])
}

/// A position that has been tried.
struct Node {
    position: Position,
    /// Of each legal move that was tried, in their order.
    children: Vec<usize>,
    visits: f32,
    /// Sum of the even players' results.
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
            if position.result.is_some() {
                return None;
            }
            if let Some(choice) = position.legal.get(children.len()) {
                return Some((at, *choice));
            }
            let sign = if position.side == 0 { 1.0 } else { -1.0 };
            // Results between 0 and 1, as UCT assumes.
            let bound = |child: &usize| {
                let Node { visits: own, sum, .. } = &self.nodes[*child];
                (sign * sum / own + 1.0) / 2.0 + (2.0 * visits.ln() / own).sqrt()
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

/// Moves in a playout, at most; one that is longer counts as a draw.
const LONGEST: u64 = 4096;

/// The most tried move in each of the positions, which are those of `rows`: their playouts run side by side.
fn mcts(
    model: &mut Model,
    rows: &[usize],
    roots: Vec<Position>,
    playouts: u32,
    step: u64,
) -> Result<Vec<u32>, StepError> {
    let tree = |root| Tree { nodes: vec![Node::new(root)], path: Vec::new() };
    let mut trees: Vec<Tree> = roots.into_iter().map(tree).collect();
    for playout in 0..u64::from(playouts) {
        // One new position in each tree, in the row of its environment.
        let tries: Vec<Option<(usize, u32)>> = trees.iter_mut().map(Tree::select).collect();
        let tried = rows.iter().zip(&trees).zip(&tries);
        model
            .set(tried.filter_map(|((row, tree), tried)| Some((*row, &tree.nodes[(*tried)?.0].position))))?;
        for (row, tried) in rows.iter().zip(&tries) {
            model.actions[*row] = tried.map_or(0.0, |(_, choice)| choice as f32);
        }
        model.step()?;
        let mut results = vec![None; rows.len()];
        for (number, (row, tried)) in rows.iter().zip(tries).enumerate() {
            let tree = &mut trees[number];
            if let Some((parent, _)) = tried {
                tree.add(parent, model.position(*row, true));
            }
            let last = tree.path.last().expect("the root");
            results[number] = tree.nodes[*last].position.result;
        }
        for number in 0..LONGEST {
            if results.iter().all(Option::is_some) {
                break;
            }
            let draw =
                step.wrapping_mul(1 << 17).wrapping_add(playout).wrapping_mul(LONGEST).wrapping_add(number);
            model.random.fill(draw, &model.out.legal, &mut model.actions);
            model.stepper.submit(&model.actions, 0)?;
            model.stepper.collect(model.out.stepped())?;
            for (result, row) in results.iter_mut().zip(rows) {
                if result.is_none() && model.out.ended(*row) != [false; 2] {
                    *result = Some(model.out.rewards[*row]);
                }
            }
        }
        trees.iter_mut().zip(results).for_each(|(tree, result)| tree.back_up(result.unwrap_or(0.0)));
    }
    Ok(trees.iter().map(Tree::best).collect())
}
