//! Snake: a snake grows with each food that it eats, on a board with walls.
//!
//! The board has 10 x 10 cells, or the size set by the option `size`. The snake starts with three cells in the middle
//! of the board, facing right. A step moves the head one cell up, right, down or left; an action opposite to the last
//! motion counts as straight ahead. The tail moves in the same step, so the head may enter the cell that the tail
//! leaves. Food gives a reward of 1 and makes the snake one cell longer (the tail stays); new food appears on a
//! uniformly random free cell. The episode ends when the snake hits a wall or itself, when the board is full, or when
//! the snake has not eaten for twice as many steps as the board has cells.
//!
//! The observation is egocentric and consists of bits: two planes of the 11 x 11 cells around the head, one for blocked
//! cells (walls, and the snake except its last cell) and one for food; then the directions towards the food (up, right,
//! down, left); then the direction of the head.
//!
//! The board is stored as three bit maps with one word per row: the snake, and the two bits of the direction in which
//! the snake left each of its cells, which the tail follows. The k-th free cell is found by counting the free cells of
//! each row and a binary search in the row.

use operant_lane::{Draws, Float, Lane, Mask, Memory, Uint, bundle};

use crate::spec::{OptionError, OptionValue, names};
use crate::{
    ActionSpace, Env, EnvMetric, EnvOption, EnvSpec, GREEN, ObsSpace, RED, Scene, Shape, Step, grid,
};

/// Maximum board size, cells per side.
const MOST: usize = 20;
/// Initial length of the snake.
const START: u32 = 3;
/// Distance that the view extends from the head, in cells.
const SIGHT: u32 = 5;
/// Cells per side of the view.
const VIEW: usize = 2 * SIGHT as usize + 1;
/// Words of the view's two planes.
const WORDS: usize = (2 * VIEW * VIEW).div_ceil(32);
/// Directions.
const UP: u32 = 0;
const RIGHT: u32 = 1;
const DOWN: u32 = 2;
const LEFT: u32 = 3;

bundle! {
    /// The state of the game.
    pub struct State {
        /// Column of the head, 0 at the left.
        x: Uint,
        /// Row of the head, 0 at the top.
        y: Uint,
        /// Direction of the head's last motion: 0 up, 1 right, 2 down, 3 left.
        heading: Uint,
        /// Column of the tail.
        tail_x: Uint,
        /// Row of the tail.
        tail_y: Uint,
        /// Column of the food.
        food_x: Uint,
        /// Row of the food.
        food_y: Uint,
        /// Length of the snake, in cells.
        length: Uint,
        /// Steps since the snake last ate.
        hunger: Uint,
        /// Cells of the snake, one word per row.
        body: (Memory MOST),
        /// Low bit of the direction in which the snake left each of its cells.
        low: (Memory MOST),
        /// High bit of this direction.
        high: (Memory MOST),
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Snake {
    /// Cells per side.
    size: usize,
}

impl Default for Snake {
    fn default() -> Self {
        Snake { size: 10 }
    }
}

/// Bit `x` of row `y` of a bit map.
#[inline(always)]
fn at<L: Lane>(map: &L::Memory<MOST>, x: L::Uint, y: L::Uint) -> L::Uint {
    map.get(y).shr_by(x) & L::Uint::splat(1)
}

/// Sets bit `x` of row `y` to `bit` where `mask` holds.
#[inline(always)]
fn put<L: Lane>(map: &mut L::Memory<MOST>, mask: L::Mask, x: L::Uint, y: L::Uint, bit: L::Uint) {
    let others = map.get(y) & !L::Uint::splat(1).shl_by(x);
    map.set(mask, y, others | bit.shl_by(x));
}

/// The cell next to (x, y) in a direction. Beyond the left or top edge the coordinate wraps around to a large number.
#[inline(always)]
fn next<L: Lane>(x: L::Uint, y: L::Uint, direction: L::Uint) -> (L::Uint, L::Uint) {
    let u = L::Uint::splat;
    let step = |forward: u32, back: u32| {
        direction.eq(u(forward)).select(u(1), u(0)) - direction.eq(u(back)).select(u(1), u(0))
    };
    ((x + step(RIGHT, LEFT)).named("x"), (y + step(DOWN, UP)).named("y"))
}

impl Snake {
    /// A row with all bits of the board set.
    fn row(&self) -> u32 {
        (1 << self.size) - 1
    }

    /// Number of cells of the board.
    fn cells(&self) -> u32 {
        (self.size * self.size) as u32
    }

    /// A uniformly random free cell. There must be at least one.
    fn place<L: Lane>(&self, body: &L::Memory<MOST>, length: L::Uint, draws: &mut Draws<L>) -> [L::Uint; 2] {
        let u = L::Uint::splat;
        let mut k = draws.below_each(u(self.cells()) - length).named("k");
        let (mut x, mut y, mut found) = (u(0), u(0), L::Mask::splat(false));
        for row in 0..self.size {
            let free = !body.word(row) & u(self.row());
            let count = free.count_ones();
            let here = (!found & k.lt(count)).named("here");
            x = here.select(free, x);
            y = here.select(u(row as u32), y);
            found = found | here;
            k = found.select(k, k - count).named("k");
        }
        [grid::find(x, k), y]
    }
}

impl Env for Snake {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = ([L::Uint; WORDS], L::Uint, L::Uint);
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let bits = |shape: &[usize]| ObsSpace::Binary { shape: shape.to_vec() };
        EnvSpec {
            name: "snake".into(),
            aliases: vec!["Snake".into()],
            family: "arcade".into(),
            summary: "eat and grow without hitting the walls or yourself; +1 per food".into(),
            rules: "Move up, right, down or left. Food gives 1 and makes the snake one cell longer. The episode ends when the \
                    snake hits a wall or itself, when the board is full, or after 2 size^2 steps without food."
                .into(),
            reference: "No external reference; tests compare with a second implementation.".into(),
            obs: ObsSpace::Parts(vec![
                ("view".into(), bits(&[2, VIEW, VIEW])),
                ("food".into(), bits(&[4])),
                ("heading".into(), bits(&[4])),
            ]),
            obs_names: names(["view: 11 x 11 cells around the head, first where walls and body are (without the end of the tail), then where the food is", "food: whether it is above, to the right, below, to the left", "heading: up, right, down, left"]),
            actions: ActionSpace::Discrete(vec![4]),
            action_names: names(["up", "right", "down", "left"]),
            metrics: vec![EnvMetric::new("snake_length", "Length of the snake at the end of the episode, in cells.")],
            fps: 10.0,
            options: vec![EnvOption::whole("size", 10, 10, MOST as u32, "cells per side")],
            preset: Some(include_str!("../presets/snake.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        self.spec().check_option(name, value)?;
        self.size = value.whole() as usize;
        Ok(())
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let middle = self.size / 2;
        let map = |bits: u32| {
            let mut rows = [0; MOST];
            rows[middle] = bits;
            L::Memory::<MOST>::splat(&rows)
        };
        let (body, low, high) = (map(0b111 << (middle - 2)), map(0b011 << (middle - 2)), map(0));
        let [food_x, food_y] = self.place::<L>(&body, u(START), draws);
        let middle = middle as u32;
        State {
            x: u(middle),
            y: u(middle),
            heading: u(RIGHT),
            tail_x: u(middle - 2),
            tail_y: u(middle),
            food_x,
            food_y,
            length: u(START),
            hunger: u(0),
            body,
            low,
            high,
        }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        let (all, size) = (L::Mask::splat(true), u(self.size as u32));
        let State { mut body, mut low, mut high, .. } = *s;
        let heading = action.eq(s.heading ^ u(2)).select(s.heading, *action).named("heading");
        let (x, y) = next::<L>(s.x, s.y, heading);
        let wall = (x.ge(size) | y.ge(size)).named("wall");
        let eats = (x.eq(s.food_x) & y.eq(s.food_y)).named("eats");
        put::<L>(&mut low, all, s.x, s.y, heading & u(1));
        put::<L>(&mut high, all, s.x, s.y, heading.shr(1));

        // The tail leaves its cell before the head enters its own.
        let follows = at::<L>(&low, s.tail_x, s.tail_y) | at::<L>(&high, s.tail_x, s.tail_y).shl(1);
        let (next_x, next_y) = next::<L>(s.tail_x, s.tail_y, follows);
        put::<L>(&mut body, !eats, s.tail_x, s.tail_y, u(0));
        let bites = (!wall & at::<L>(&body, x, y).ne(u(0))).named("bites");
        put::<L>(&mut body, !wall, x, y, u(1));

        let length = s.length + eats.select(u(1), u(0));
        let hunger = eats.select(u(0), s.hunger + u(1));
        let full = length.eq(u(self.cells()));
        let mut draws = draws.reserve(1);
        let [food_x, food_y] =
            L::when(eats & !full, [s.food_x, s.food_y], |_| self.place::<L>(&body, length, &mut draws));
        let state = State {
            x,
            y,
            heading,
            tail_x: eats.select(s.tail_x, next_x),
            tail_y: eats.select(s.tail_y, next_y),
            food_x,
            food_y,
            length,
            hunger,
            body,
            low,
            high,
        };
        let starves = hunger.ge(u(2 * self.cells()));
        let reward = eats.select(L::Float::splat(1.0), L::Float::splat(0.0));
        Step { state, reward, terminated: wall | bites | full | starves }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> Self::Obs<L> {
        let u = L::Uint::splat;
        // Each row has a margin of walls as wide as the view distance, so the bits from the head's column on are the
        // cells around the head.
        let (outside, margin) = (u(!self.row()), u((1 << SIGHT) - 1));
        let tail = u(1).shl_by(s.tail_x);
        let mut view = [u(0); WORDS];
        for line in 0..VIEW {
            let y = s.y + u(line as u32) - u(SIGHT);
            let row = s.body.get(y) & !y.eq(s.tail_y).select(tail, u(0));
            let row = y.lt(u(self.size as u32)).select(row | outside, u(u32::MAX)).named("row");
            let seen = (row.shl(SIGHT) | margin).shr_by(s.x) & u((1 << VIEW) - 1);
            let (word, bit) = (line * VIEW / 32, (line * VIEW % 32) as u32);
            view[word] = view[word] | seen.shl(bit);
            if bit as usize + VIEW > 32 {
                view[word + 1] = view[word + 1] | seen.shr(32 - bit);
            }
        }
        let (column, row) = (s.food_x + u(SIGHT) - s.x, s.food_y + u(SIGHT) - s.y);
        let near = (column.lt(u(VIEW as u32)) & row.lt(u(VIEW as u32))).named("near");
        let food = u((VIEW * VIEW) as u32) + row * u(VIEW as u32) + column;
        for (word, view) in view.iter_mut().enumerate().skip(VIEW * VIEW / 32) {
            *view = *view | near.select(grid::bit(food, word), u(0));
        }
        let flag = |holds: L::Mask, direction: u32| holds.select(u(1 << direction), u(0));
        let compass = flag(s.food_y.lt(s.y), UP)
            | flag(s.x.lt(s.food_x), RIGHT)
            | flag(s.y.lt(s.food_y), DOWN)
            | flag(s.food_x.lt(s.x), LEFT);
        (view, compass, u(1).shl_by(s.heading))
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, _index: usize) -> L::Float {
        L::Float::from_uint(last.state.length)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let (size, side) = (self.size as f32, self.size as u32);
        let holds = |map: &<f32 as Lane>::Memory<MOST>, x: usize, y: usize| {
            Memory::<f32, MOST>::word(map, y).0 >> x & 1 == 1
        };
        let edge = [[0.0, 0.0], [0.0, size], [size, size], [size, 0.0], [0.0, 0.0]];
        let mut shapes = vec![Shape::line(edge, 0)];
        for (x, y) in (0..self.size).flat_map(|y| (0..self.size).map(move |x| (x, y))) {
            if holds(&s.body, x, y) {
                shapes.push(grid::square(side, x as f32, y as f32, GREEN));
            }
        }
        shapes.push(grid::square(side, s.food_x.0 as f32, s.food_y.0 as f32, RED));
        // The head is an arrow within its square. After a step into a wall it lies beyond the edge.
        let (x, y) = (s.x.0 as i32 as f32 + 0.5, size - 0.5 - s.y.0 as i32 as f32);
        let (ahead, aside) = match s.heading.0 {
            UP => ([0.0, 0.4], [0.4, 0.0]),
            RIGHT => ([0.4, 0.0], [0.0, 0.4]),
            DOWN => ([0.0, -0.4], [0.4, 0.0]),
            _ => ([-0.4, 0.0], [0.0, 0.4]),
        };
        let corner = |a: f32, b: f32| [x + a * ahead[0] + b * aside[0], y + a * ahead[1] + b * aside[1]];
        shapes.push(Shape::polygon([corner(1.0, 0.0), corner(-1.0, 1.0), corner(-1.0, -1.0)], 2));
        Scene { low: [-0.5, -0.5], high: [size + 0.5, size + 0.5], shapes }
    }
}
