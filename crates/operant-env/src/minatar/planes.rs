//! Lists of moving things as bit planes: bit k of a word belongs to the k-th oldest, and a word holds one bit of all columns, rows
//! or timers. So all move, count down and are compared with a cell at once.
//!
//! What is gone leaves a hole, and holes are closed when a list nears its end, which is at 32.

use operant_lane::{Int, Lane, Mask, Uint};

/// Bit planes of a list: who is there, four bits of the column, three of the row less one, the direction; then of swimmers
/// three bits of the timer, and of submarines four of the time to their next shot.
pub const THERE: usize = 0;
pub const X: usize = 1;
pub const Y: usize = 5;
pub const RIGHTWARDS: usize = 8;
pub const TIMER: usize = 9;
pub const SHOT: usize = 12;

/// All bits where a truth holds, none elsewhere.
#[inline(always)]
pub fn all<L: Lane>(mask: L::Mask) -> L::Uint {
    mask.select(L::Uint::splat(u32::MAX), L::Uint::splat(0))
}

/// All bits if bit number `bit` of `value` is set, else none.
#[inline(always)]
pub fn plane<L: Lane>(value: L::Uint, bit: usize) -> L::Uint {
    value.shl(31 - bit as u32).to_int().shr(31).to_uint()
}

/// A cell to compare lists with: whether there is one, then the planes of column and row.
#[inline(always)]
pub fn cell<L: Lane>(exists: L::Mask, x: L::Uint, y: L::Uint) -> [L::Uint; 8] {
    // Nothing of a list is at the surface.
    let there = all::<L>(exists & y.ne(L::Uint::splat(0))).named("cell_there");
    let row = y - L::Uint::splat(1);
    core::array::from_fn(|k| match k {
        THERE => there,
        X..Y => plane::<L>(x, k - X),
        _ => plane::<L>(row, k - Y),
    })
}

/// Who of a list is in a cell.
#[inline(always)]
pub fn in_cell<U: Uint, const N: usize>(list: &[U; N], cell: &[U; 8]) -> U {
    let differs = (X..RIGHTWARDS).fold(U::splat(0), |differs, k| differs | (list[k] ^ cell[k]));
    list[THERE] & cell[THERE] & !differs
}

/// The lowest bit: the oldest.
#[inline(always)]
pub fn lowest<U: Uint>(bits: U) -> U {
    bits & (U::splat(0) - bits)
}

/// All bits up to the highest.
#[inline(always)]
pub fn filled<U: Uint>(bits: U) -> U {
    [1, 2, 4, 8, 16].into_iter().fold(bits, |bits, shift| bits | bits.shr(shift))
}

/// The highest bit: the newest.
#[inline(always)]
pub fn highest<U: Uint>(bits: U) -> U {
    let filled = filled(bits);
    filled ^ filled.shr(1)
}

/// Adds one with these planes to the end of a list where `there` has all bits.
#[inline(always)]
pub fn append<U: Uint, const N: usize>(list: &mut [U; N], there: U, planes: impl Fn(usize) -> U) {
    let slot = (filled(list[THERE]) + U::splat(1)) & there;
    for k in 0..N {
        let value = if k == THERE { slot } else { planes(k) & slot };
        list[k] = (list[k] & !slot) | value;
    }
}

/// Moves those in `due` by a cell; returns those that left the board: -1 and 10 have a bit pair that no column has.
#[inline(always)]
pub fn swim<U: Uint, const N: usize>(list: &mut [U; N], due: U) -> U {
    let mut carry = due;
    for k in X..X + 4 {
        let before = list[k];
        list[k] = before ^ carry;
        carry = carry & !(before ^ list[RIGHTWARDS]);
    }
    due & list[X + 1] & list[X + 3]
}

/// Counts timers of `those` down; returns those that were at 0, which begin with `again`.
#[inline(always)]
pub fn count_down<U: Uint>(timers: &mut [U], those: U, again: impl Fn(usize) -> U) -> U {
    let due = timers.iter().fold(those, |due, timer| due & !*timer);
    let mut borrow = those & !due;
    for (bit, timer) in timers.iter_mut().enumerate() {
        let before = *timer;
        *timer = ((before ^ borrow) & !due) | (again(bit) & due);
        borrow = borrow & !before;
    }
    due
}

/// Closes the holes of a list: the "compress" of Warren's "Hacker's Delight", by shifts of 1, 2, 4, 8 and 16.
#[inline(always)]
pub fn compact<U: Uint, const N: usize>(list: [U; N]) -> [U; N] {
    let mut there = list[THERE];
    let mut list = list.map(|plane| plane & there);
    let mut holes = (!there).shl(1);
    for shift in [1, 2, 4, 8, 16] {
        let odd = [1, 2, 4, 8, 16].into_iter().fold(holes, |odd, by| odd ^ odd.shl(by));
        let moving = odd & there;
        for plane in &mut list {
            let part = *plane & moving;
            *plane = (*plane ^ part) | part.shr(shift);
        }
        there = list[THERE];
        holes = holes & !odd;
    }
    list
}

/// The list without holes where it nears its end.
#[inline(always)]
pub fn tidy<L: Lane, const N: usize>(list: [L::Uint; N]) -> [L::Uint; N] {
    L::when(L::Uint::splat(1 << 24).le(list[THERE]), list, compact)
}
