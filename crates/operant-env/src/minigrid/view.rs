//! What the agent sees: 7 x 7 cells in front of it, without those that walls and closed doors hide.

use operant_lane::{Bundle, Lane, Leaf, Mask, Memory, Select, Sink, Source, Uint};

use super::State;
use super::cell::{self, EMPTY, OPAQUE_BIT, UNSEEN, WALL};

/// Cells along a side of the view.
pub const SIDE: usize = 7;
/// Cells of the view.
pub const CELLS: usize = SIDE * SIDE;
/// The agent's place in the view: the middle of the last row.
const OWN: usize = SIDE / 2;

/// Up to O words, of which the first `count` are the observation: how many is the environment's.
#[derive(Debug, Clone, Copy)]
pub struct Words<L: Lane, const O: usize> {
    words: [L::Uint; O],
    count: usize,
}

impl<L: Lane, const O: usize> Words<L, O> {
    /// None yet.
    #[inline(always)]
    pub fn new() -> Self {
        Self { words: [L::Uint::splat(0); O], count: 0 }
    }

    /// Adds a word.
    #[inline(always)]
    pub fn push(&mut self, word: L::Uint) {
        self.words[self.count] = word;
        self.count += 1;
    }

    /// Adds bytes, four to a word.
    #[inline(always)]
    pub fn push_bytes(&mut self, bytes: &[L::Uint]) {
        for bytes in bytes.chunks(4) {
            let word = bytes.iter().enumerate().fold(L::Uint::splat(0), |word, (k, &byte)| word | byte.shl(8 * k as u32));
            self.push(word);
        }
    }

    /// Adds cells, each three bytes.
    #[inline(always)]
    pub fn push_cells(&mut self, cells: &[L::Uint]) {
        for four in cells.chunks(4) {
            let cell = |k: usize| four.get(k).copied().unwrap_or(L::Uint::splat(0));
            let words = [
                cell(0) | cell(1).shl(24),
                cell(1).shr(8) | cell(2).shl(16),
                cell(2).shr(16) | cell(3).shl(8),
            ];
            words[..(3 * four.len()).div_ceil(4)].iter().for_each(|&word| self.push(word));
        }
    }
}

impl<L: Lane, const O: usize> Select<L::Mask> for Words<L, O> {
    #[inline(always)]
    fn select(mask: L::Mask, yes: Self, no: Self) -> Self {
        Self { words: Select::select(mask, yes.words, no.words), count: yes.count.max(no.count) }
    }
}

impl<L: Lane, const O: usize> Bundle<L> for Words<L, O> {
    fn leaves(name: &str, out: &mut Vec<Leaf>) {
        <[L::Uint; O] as Bundle<L>>::leaves(name, out);
    }
    #[inline(always)]
    fn store(&self, sink: &mut impl Sink<L>) {
        self.words[..self.count].iter().for_each(|&word| sink.uint(word));
    }
    #[inline(always)]
    fn load(source: &mut impl Source<L>) -> Self {
        Self { words: Bundle::<L>::load(source), count: O }
    }
}

/// Cells of the view, column by column, the farthest first: the package's order.
pub type View<L> = [<L as Lane>::Uint; CELLS];

/// The square of 7 x 7 cells of the grid that the agent looks at, row by row; walls where the grid has none.
#[inline(always)]
fn window<L: Lane, const W: usize>(s: &State<L, W>, width: u32, height: u32) -> [[L::Uint; SIDE]; SIDE] {
    let u = L::Uint::splat;
    // The agent is in the middle of one of the square's sides.
    let right = s.dir.eq(u(0));
    let (down, left, up) = (s.dir.eq(u(1)), s.dir.eq(u(2)), s.dir.eq(u(3)));
    let (middle, last) = (SIDE as u32 / 2, SIDE as u32 - 1);
    let x0 = s.x - right.select(u(0), left.select(u(last), u(middle)));
    let y0 = s.y - down.select(u(0), up.select(u(last), u(middle)));
    // Numbers below 0 wrap around, beyond any width.
    let inside: [L::Mask; SIDE] = core::array::from_fn(|i| (x0 + u(i as u32)).lt(u(width)));
    core::array::from_fn(|j| {
        let y = y0 + u(j as u32);
        let first = y * u(width) + x0;
        let (word, shift) = (first.shr(2), (first & u(3)).shl(3));
        let words: [L::Uint; 3] = core::array::from_fn(|k| {
            // A word number below 0 wraps around too.
            s.cells.get((word + u(k as u32)) & u(u32::MAX >> 2))
        });
        let aligned: [L::Uint; 2] = core::array::from_fn(|k| {
            words[k].shr_by(shift) | words[k + 1].shl(8).shl_by(u(24) - shift)
        });
        let in_rows = y.lt(u(height));
        core::array::from_fn(|i| {
            let cell = aligned[i / 4].shr(8 * (i as u32 % 4)) & u(255);
            (in_rows & inside[i]).select(cell, u(WALL))
        })
    })
}

/// Which cells of each row are visible, a bit for each column. Light enters at the agent and spreads, row by row away from it,
/// through cells that hide nothing: along the row to both sides, and to the three neighbours in the next row.
#[inline(always)]
fn visible<L: Lane>(cells: &View<L>) -> [L::Uint; SIDE] {
    let u = L::Uint::splat;
    let mut rows = [u(0); SIDE];
    rows[SIDE - 1] = u(1 << OWN);
    for y in (0..SIDE).rev() {
        let hides = (0..SIDE).fold(u(0), |row, x| {
            row | cells[SIDE * x + y].shr(OPAQUE_BIT).shl(x as u32)
        });
        // The first sweep goes right and leaves the last column out, the second goes left and leaves the first out.
        let mut clear = !hides & u(0x3f);
        let mut lit = rows[y] & clear;
        for step in [1, 2, 4] {
            lit = lit | (clear & lit.shl(step));
            clear = clear & clear.shl(step);
        }
        let mut row = rows[y] | lit.shl(1);
        let mut beyond = lit | lit.shl(1);
        clear = !hides & u(0x7e);
        lit = row & clear;
        for step in [1, 2, 4] {
            lit = lit | (clear & lit.shr(step));
            clear = clear & clear.shr(step);
        }
        row = row | lit.shr(1);
        beyond = beyond | lit | lit.shr(1);
        rows[y] = row;
        if y > 0 {
            rows[y - 1] = beyond;
        }
    }
    rows
}

/// The cells that the agent sees, as the package shows them: type, colour and state in three bytes.
pub fn view<L: Lane, const W: usize>(s: &State<L, W>, width: u32, height: u32, see_through: bool) -> View<L> {
    let u = L::Uint::splat;
    let window = window(s, width, height);
    let (odd, back) = ((s.dir & u(1)).ne(u(0)), s.dir.ge(u(2)));
    let mut cells: View<L> = core::array::from_fn(|place| {
        let (x, y) = (place / SIDE, place % SIDE);
        let (across, along) = (SIDE - 1 - x, SIDE - 1 - y);
        let vertical = back.select(window[y][x], window[along][across]);
        odd.select(vertical, back.select(window[across][y], window[x][along]))
    });
    let visible = if see_through { None } else { Some(visible::<L>(&cells)) };
    // The agent sees what it carries, not what it stands on.
    let own = SIDE * OWN + SIDE - 1;
    cells[own] = s.carried.eq(u(UNSEEN)).select(u(EMPTY), s.carried);
    core::array::from_fn(|place| {
        let shown = cell::shown::<L>(cells[place]);
        match &visible {
            None => shown,
            Some(rows) => {
                let bit = rows[place % SIDE].shr((place / SIDE) as u32) & u(1);
                shown & (u(0) - bit)
            }
        }
    })
}
