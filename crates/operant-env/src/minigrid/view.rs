//! The agent's view: 7 x 7 cells in front of it, except those that are hidden by walls and closed doors.

use operant_lane::{Bundle, Lane, Leaf, Mask, Memory, Select, Sink, Source, Uint};

use super::State;
use super::cell::{self, COLOURS, EMPTY, OPAQUE_BIT, UNSEEN, WALL};

/// Cells per side of the view.
pub const SIDE: usize = 7;
/// Number of cells of the view.
pub const CELLS: usize = SIDE * SIDE;
/// Number of cell types, including the agent's.
pub const TYPES: u32 = 11;
/// The type of the agent's cell in a full view.
const AGENT: u32 = 10;
/// The agent's position in the view: the middle of the last row.
const OWN: usize = SIDE / 2;

/// Up to O words, of which the first `count` are the observation. The count depends on the environment.
#[derive(Debug, Clone, Copy)]
pub struct Words<L: Lane, const O: usize> {
    words: [L::Uint; O],
    count: usize,
}

impl<L: Lane, const O: usize> Words<L, O> {
    /// An observation without words.
    #[inline(always)]
    pub fn new() -> Self {
        Self { words: [L::Uint::splat(0); O], count: 0 }
    }

    #[inline(always)]
    pub fn push(&mut self, word: L::Uint) {
        self.words[self.count] = word;
        self.count += 1;
    }

    /// Appends bytes, four per word.
    #[inline(always)]
    pub fn push_bytes(&mut self, bytes: &[L::Uint]) {
        for bytes in bytes.chunks(4) {
            let word = bytes
                .iter()
                .enumerate()
                .fold(L::Uint::splat(0), |word, (k, &byte)| word | byte.shl(8 * k as u32));
            self.push(word);
        }
    }

    /// Appends cells as indices, three bytes per cell.
    #[inline(always)]
    pub fn push_cells(&mut self, count: usize, cell: impl Fn(usize) -> L::Uint) {
        for first in (0..count).step_by(4) {
            let cell = |k: usize| if first + k < count { cell(first + k) } else { L::Uint::splat(0) };
            let cells: [L::Uint; 4] = core::array::from_fn(cell);
            let words = [
                cells[0] | cells[1].shl(24),
                cells[1].shr(8) | cells[2].shl(16),
                cells[2].shr(16) | cells[3].shl(8),
            ];
            let used = (3 * (count - first).min(4)).div_ceil(4);
            words[..used].iter().for_each(|&word| self.push(word));
        }
    }

    /// Appends numbers of `width` bits each, packed without gaps.
    #[inline(always)]
    pub fn push_bits(&mut self, width: usize, numbers: &[L::Uint]) {
        let first = self.count;
        (0..(width * numbers.len()).div_ceil(32)).for_each(|_| self.push(L::Uint::splat(0)));
        for (k, &number) in numbers.iter().enumerate() {
            let (word, shift) = (first + k * width / 32, (k * width % 32) as u32);
            self.words[word] = self.words[word] | number.shl(shift);
            if shift as usize + width > 32 {
                self.words[word + 1] = self.words[word + 1] | number.shr(32 - shift);
            }
        }
    }
}

/// One-hot bits of a cell of the view: type, colour and state.
#[inline(always)]
pub fn one_hot<L: Lane>(shown: L::Uint) -> L::Uint {
    let u = L::Uint::splat;
    let bit = |index: L::Uint| u(1).shl_by(index);
    let (colour, state) = (shown.shr(8) & u(255), shown.shr(16));
    bit(shown & u(31)) | bit(colour + u(TYPES)) | bit(state + u(TYPES + COLOURS))
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

/// Cells of the view, column by column, farthest first, as in the package.
pub type View<L> = [<L as Lane>::Uint; CELLS];

/// The 7 x 7 cells of the grid that are in view, row by row, not rotated; walls outside the grid.
#[inline(always)]
fn window<L: Lane, const W: usize>(s: &State<L, W>, width: u32, height: u32) -> [[L::Uint; SIDE]; SIDE] {
    let u = L::Uint::splat;
    // The agent is in the middle of one of the square's sides.
    let right = s.dir.eq(u(0));
    let (down, left, up) = (s.dir.eq(u(1)), s.dir.eq(u(2)), s.dir.eq(u(3)));
    let (middle, last) = (SIDE as u32 / 2, SIDE as u32 - 1);
    let x0 = s.x - right.select(u(0), left.select(u(last), u(middle)));
    let y0 = s.y - down.select(u(0), up.select(u(last), u(middle)));
    // Negative numbers wrap around and exceed any width.
    let inside: [L::Mask; SIDE] = core::array::from_fn(|i| (x0 + u(i as u32)).lt(u(width)));
    core::array::from_fn(|j| {
        let y = y0 + u(j as u32);
        let first = y * u(width) + x0;
        let (word, shift) = (first.shr(2), (first & u(3)).shl(3));
        let words: [L::Uint; 3] = core::array::from_fn(|k| {
            // A negative word index wraps around too.
            s.cells.get((word + u(k as u32)) & u(u32::MAX >> 2))
        });
        let aligned: [L::Uint; 2] =
            core::array::from_fn(|k| words[k].shr_by(shift) | words[k + 1].shl(8).shl_by(u(24) - shift));
        let in_rows = y.lt(u(height));
        core::array::from_fn(|i| {
            let cell = aligned[i / 4].shr(8 * (i as u32 % 4)) & u(255);
            (in_rows & inside[i]).select(cell, u(WALL))
        })
    })
}

/// The visible cells of each row, one bit per column. Visibility starts at the agent and spreads row by row away from
/// it through cells that do not block the view: along the row to both sides, and to the three neighbours in the next
/// row.
#[inline(always)]
fn visible<L: Lane>(cells: &View<L>) -> [L::Uint; SIDE] {
    let u = L::Uint::splat;
    let mut rows = [u(0); SIDE];
    rows[SIDE - 1] = u(1 << OWN);
    for y in (0..SIDE).rev() {
        let hides = (0..SIDE).fold(u(0), |row, x| row | cells[SIDE * x + y].shr(OPAQUE_BIT).shl(x as u32));
        // The first sweep goes right and excludes the last column; the second goes left and excludes the first.
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

/// The cells in view as the package encodes them: type, colour and state in three bytes.
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
    // The agent's cell shows the carried object instead of its own content.
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

/// Cell number `place` of the whole grid, column by column. The agent's cell has its type, the colour red, and its
/// direction as the state.
#[inline(always)]
pub fn full<L: Lane, const W: usize>(s: &State<L, W>, width: u32, height: u32, place: usize) -> L::Uint {
    let u = L::Uint::splat;
    let (x, y) = (place as u32 / height, place as u32 % height);
    let at = y * width + x;
    let cell = s.cells.word(at as usize / 4).shr(8 * (at % 4)) & u(255);
    let agent = s.dir.shl(16) | u(AGENT);
    (s.x.eq(u(x)) & s.y.eq(u(y))).select(agent, cell::shown::<L>(cell))
}
