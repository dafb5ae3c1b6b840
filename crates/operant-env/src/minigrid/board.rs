//! A grid under construction: draws the cells of a layout.
//!
//! The package draws cells until one is legal. Here the legal cells are counted and one of them is drawn, which gives
//! the same distribution without a loop of unknown length.

use operant_lane::{Draws, Lane, Mask, Memory, Uint};

use super::State;
use super::cell::{self, EMPTY, WALL};
use super::tasks::EXTRA;

/// A rectangle of cells, not randomised: left, top, width, height.
pub type Rect = [u32; 4];

/// Column and row of a cell.
pub type At<L> = (<L as Lane>::Uint, <L as Lane>::Uint);

/// The initial state of an episode, under construction.
pub struct Board<L: Lane, const W: usize> {
    /// Columns of the grid.
    pub width: u32,
    /// Rows of the grid.
    pub height: u32,
    pub state: State<L, W>,
}

/// A cell at a constant position.
#[inline(always)]
pub fn at<L: Lane>(x: u32, y: u32) -> At<L> {
    (L::Uint::splat(x), L::Uint::splat(y))
}

/// Refuses no cell.
#[inline(always)]
pub fn any<L: Lane>(_: At<L>) -> L::Mask {
    L::Mask::splat(false)
}

/// The absolute difference.
#[inline(always)]
pub fn gap<U: Uint>(a: U, b: U) -> U {
    a.max(b) - a.min(b)
}

impl<L: Lane, const W: usize> Board<L, W> {
    /// A grid with these cells, four per word; the agent is at (1, 1) and faces right.
    pub fn new(width: u32, height: u32, cells: &[u32]) -> Self {
        let zero = L::Uint::splat(0);
        let one = L::Uint::splat(1);
        let state = State {
            cells: L::Memory::<W>::splat(cells),
            x: one,
            y: one,
            dir: zero,
            carried: zero,
            steps: zero,
            extra: [zero; EXTRA],
        };
        Self { width, height, state }
    }

    /// The rectangle of all cells.
    pub fn all(&self) -> Rect {
        [0, 0, self.width, self.height]
    }

    #[inline(always)]
    fn index(&self, (x, y): At<L>) -> L::Uint {
        y * L::Uint::splat(self.width) + x
    }

    /// The content of a cell.
    #[inline(always)]
    pub fn get(&self, at: At<L>) -> L::Uint {
        self.state.cells.byte(self.index(at))
    }

    /// Sets the content of a cell.
    #[inline(always)]
    pub fn put(&mut self, at: At<L>, what: L::Uint) {
        self.put_where(L::Mask::splat(true), at, what);
    }

    /// Sets the content of a cell where `mask` holds.
    pub fn put_where(&mut self, mask: L::Mask, at: At<L>, what: L::Uint) {
        let index = self.index(at);
        self.state.cells.set_byte(mask, index, what);
    }

    /// Sets a cell to a constant content.
    pub fn put_fixed(&mut self, at: At<L>, what: u32) {
        self.put(at, L::Uint::splat(what));
    }

    /// The next cell of a rectangle, row by row.
    #[inline(always)]
    fn next([left, _, width, _]: Rect, (x, y): At<L>) -> At<L> {
        let u = L::Uint::splat;
        let x = x + u(1);
        let over = x.eq(u(left + width));
        (over.select(u(left), x), over.select(y + u(1), y))
    }

    /// A uniformly random cell among the empty cells of a rectangle that are not refused.
    pub fn place(
        &self,
        rect: Rect,
        draws: &mut Draws<L>,
        refused: impl Fn(At<L>) -> L::Mask + Copy,
    ) -> At<L> {
        let u = L::Uint::splat;
        let [left, top, width, height] = rect;
        let first = at::<L>(left, top);
        let legal = |at: At<L>| self.get(at).eq(u(EMPTY)) & !refused(at);
        let (count, _) = L::repeat(width * height, (draws.zero(), first), |_, (count, at)| {
            (legal(at).select(count + u(1), count), Self::next(rect, at))
        });
        let drawn = draws.below_each(count);
        let (_, _, chosen) = L::repeat(width * height, (drawn, first, first), |_, (left, at, chosen)| {
            let here = legal(at);
            let chosen = (here & left.eq(u(0))).select(at, chosen);
            (here.select(left - u(1), left), Self::next(rect, at), chosen)
        });
        chosen
    }

    /// Places the agent in a rectangle, facing a random direction.
    pub fn place_agent(&mut self, rect: Rect, draws: &mut Draws<L>) {
        (self.state.x, self.state.y) = self.place(rect, draws, any::<L>);
        self.state.dir = draws.below(4);
    }

    pub fn agent(&self) -> At<L> {
        (self.state.x, self.state.y)
    }

    /// Whether the agent can start in a cell and direction: the cell is empty, and the one in front is empty or a wall.
    #[inline(always)]
    fn is_start(&self, at: At<L>, dir: u32) -> L::Mask {
        let u = L::Uint::splat;
        let front = match dir {
            0 => (at.0 + u(1), at.1),
            1 => (at.0, at.1 + u(1)),
            2 => (at.0 - u(1), at.1),
            _ => (at.0, at.1 - u(1)),
        };
        let front = self.get(front);
        self.get(at).eq(u(EMPTY)) & (front.eq(u(EMPTY)) | cell::kind(front).eq(u(WALL & cell::KIND)))
    }

    /// Places the agent in a room so that it does not face an object. All such pairs of cell and direction have the
    /// same probability.
    pub fn place_agent_in_room(&mut self, rect: Rect, draws: &mut Draws<L>) {
        let u = L::Uint::splat;
        let [left, top, width, height] = rect;
        let first = at::<L>(left, top);
        let (count, _) = L::repeat(width * height, (draws.zero(), first), |_, (count, at)| {
            let more = (0..4).fold(count, |count, dir| self.is_start(at, dir).select(count + u(1), count));
            (more, Self::next(rect, at))
        });
        let drawn = draws.below_each(count);
        let begin = (drawn, first, (first, u(0)));
        let (_, _, ((x, y), dir)) = L::repeat(width * height, begin, |_, (mut left, at, mut chosen)| {
            for dir in 0..4 {
                let here = self.is_start(at, dir);
                chosen = (here & left.eq(u(0))).select((at, u(dir)), chosen);
                left = here.select(left - u(1), left);
            }
            (left, Self::next(rect, at), chosen)
        });
        (self.state.x, self.state.y, self.state.dir) = (x, y, dir);
    }

    /// Places an object in a room of a task with several rooms, at least two steps from `kept`, where the package keeps
    /// the agent while it places objects.
    pub fn put_in_room(&mut self, rect: Rect, what: L::Uint, kept: (u32, u32), draws: &mut Draws<L>) {
        let u = L::Uint::splat;
        let near = |(x, y): At<L>| (gap(x, u(kept.0)) + gap(y, u(kept.1))).lt(u(2));
        let at = self.place(rect, draws, near);
        self.put(at, what);
    }
}
