//! Lists of moving objects as bit planes: bit k of a word belongs to the k-th oldest object, and a word holds one bit of all columns,
//! rows or timers. One operation therefore moves, counts down or compares all objects.
//!
//! An object that disappears leaves a hole. A list holds at most 32 objects; its holes are closed when it is nearly full.

use operant_lane::{Int, Lane, Mask, Uint};

/// Bit planes of a list: presence, four bits of the column, three of the row minus one, the direction; for fish and
/// submarines also three bits of the timer, and for submarines four of the shot timer.
pub const THERE: usize = 0;
pub const X: usize = 1;
pub const Y: usize = 5;
pub const RIGHTWARDS: usize = 8;
pub const TIMER: usize = 9;
pub const SHOT: usize = 12;

/// All ones where `mask` holds, otherwise 0.
#[inline(always)]
pub fn all<L: Lane>(mask: L::Mask) -> L::Uint {
    mask.select(L::Uint::splat(u32::MAX), L::Uint::splat(0))
}

/// All ones if bit number `bit` of `value` is set, otherwise 0.
#[inline(always)]
pub fn plane<L: Lane>(value: L::Uint, bit: usize) -> L::Uint {
    value.shl(31 - bit as u32).to_int().shr(31).to_uint()
}

/// A cell for comparison with lists: a presence mask, then the bit planes of column and row.
#[inline(always)]
pub fn cell<L: Lane>(exists: L::Mask, x: L::Uint, y: L::Uint) -> [L::Uint; 8] {
    // Objects in lists are never at the surface.
    let there = all::<L>(exists & y.ne(L::Uint::splat(0))).named("cell_there");
    let row = y - L::Uint::splat(1);
    core::array::from_fn(|k| match k {
        THERE => there,
        X..Y => plane::<L>(x, k - X),
        _ => plane::<L>(row, k - Y),
    })
}

#[inline(always)]
pub fn in_cell<U: Uint, const N: usize>(list: &[U; N], cell: &[U; 8]) -> U {
    let differs = (X..RIGHTWARDS).fold(U::splat(0), |differs, k| differs | (list[k] ^ cell[k]));
    list[THERE] & cell[THERE] & !differs
}

/// The lowest set bit: the oldest.
#[inline(always)]
pub fn lowest<U: Uint>(bits: U) -> U {
    bits & (U::splat(0) - bits)
}

/// All bits from 0 to the highest set bit.
#[inline(always)]
pub fn filled<U: Uint>(bits: U) -> U {
    [1, 2, 4, 8, 16].into_iter().fold(bits, |bits, shift| bits | bits.shr(shift))
}

/// The highest set bit: the newest.
#[inline(always)]
pub fn highest<U: Uint>(bits: U) -> U {
    let filled = filled(bits);
    filled ^ filled.shr(1)
}

/// Appends an object with these planes to a list where `there` is all ones.
#[inline(always)]
pub fn append<U: Uint, const N: usize>(list: &mut [U; N], there: U, planes: impl Fn(usize) -> U) {
    let slot = (filled(list[THERE]) + U::splat(1)) & there;
    for k in 0..N {
        let value = if k == THERE { slot } else { planes(k) & slot };
        list[k] = (list[k] & !slot) | value;
    }
}

/// Moves the objects in `due` by one cell. Returns those that left the board: only -1 and 10 have both bits 1 and 3
/// set.
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

/// Counts down the timers of `those`. Returns the objects whose timers were at 0, which restart at `again`.
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

/// Closes the holes of a list with the "compress" of Warren's "Hacker's Delight": shifts by 1, 2, 4, 8 and 16.
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

/// Closes the holes of a list that is nearly full.
#[inline(always)]
pub fn tidy<L: Lane, const N: usize>(list: [L::Uint; N]) -> [L::Uint; N] {
    L::when(L::Uint::splat(1 << 24).le(list[THERE]), list, compact)
}
