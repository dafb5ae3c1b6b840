//! The map: 64 x 64 blocks, four bits each.

use operant_lane::{Int, Lane, Mask, Memory, Uint};

/// Cells per side of the map.
pub const SIDE: u32 = 64;
/// Words of the map: eight cells in each, row by row, the first in the lowest bits.
pub const WORDS: usize = 512;

/// The map of an environment.
pub type Map<L> = <L as Lane>::Memory<WORDS>;

/// Codes of blocks. The package's number of a block is one more, and two more from the path on: it has a block, wood, that never occurs.
pub const OUTSIDE: u32 = 0;
pub const GRASS: u32 = 1;
pub const WATER: u32 = 2;
pub const STONE: u32 = 3;
pub const TREE: u32 = 4;
pub const PATH: u32 = 5;
pub const COAL: u32 = 6;
pub const IRON: u32 = 7;
pub const DIAMOND: u32 = 8;
pub const TABLE: u32 = 9;
pub const FURNACE: u32 = 10;
pub const SAND: u32 = 11;
pub const LAVA: u32 = 12;
pub const PLANT: u32 = 13;
pub const RIPE: u32 = 14;

/// A set of blocks, a bit for each code.
pub const fn set(blocks: &[u32]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < blocks.len() {
        bits |= 1 << blocks[at];
        at += 1;
    }
    bits
}

/// Blocks that nobody enters.
pub const SOLID: u32 = set(&[WATER, STONE, TREE, COAL, IRON, DIAMOND, TABLE, FURNACE, PLANT, RIPE]);

/// The package's number of a block.
pub const fn public(code: u32) -> u32 {
    code + 1 + (code >= PATH) as u32
}

/// The code of a block by the package's number, if that block can occur.
pub fn of_public(number: u32) -> Option<u32> {
    (GRASS..=RIPE).find(|&code| public(code) == number)
}

/// Whether a block is in a set.
#[inline(always)]
pub fn is_in<U: Uint>(block: U, blocks: u32) -> U::Mask {
    (U::splat(blocks).shr_by(block) & U::splat(1)).ne(U::splat(0))
}

/// Row and column, which may lie outside the map.
pub type At<L> = [<L as Lane>::Int; 2];

/// Row and column of a place.
#[inline(always)]
pub fn at<L: Lane>(place: L::Uint) -> At<L> {
    [place.shr(6).to_int(), (place & L::Uint::splat(SIDE - 1)).to_int()]
}

/// The place of a cell of the map: 64 row + column. Only right for cells inside it.
#[inline(always)]
pub fn place<L: Lane>([row, column]: At<L>) -> L::Uint {
    row.to_uint().shl(6) | column.to_uint()
}

/// Whether a cell lies in the map.
#[inline(always)]
pub fn inside<L: Lane>([row, column]: At<L>) -> L::Mask {
    row.to_uint().lt(L::Uint::splat(SIDE)) & column.to_uint().lt(L::Uint::splat(SIDE))
}

/// The cell at an offset.
#[inline(always)]
pub fn moved<L: Lane>([row, column]: At<L>, [rows, columns]: At<L>) -> At<L> {
    [row + rows, column + columns]
}

/// The offset of a direction, numbered like the actions that walk: 1 left, 2 right, 3 up, 4 down; none for other numbers.
#[inline(always)]
pub fn offset<L: Lane>(direction: L::Uint) -> At<L> {
    let is = |of: u32| direction.eq(L::Uint::splat(of)).select(L::Int::splat(1), L::Int::splat(0));
    [is(4) - is(3), is(2) - is(1)]
}

/// |rows| + |columns| between two cells.
#[inline(always)]
pub fn distance<L: Lane>([row, column]: At<L>, [other_row, other_column]: At<L>) -> L::Uint {
    ((row - other_row).abs() + (column - other_column).abs()).to_uint()
}

/// The block at a place of the map.
#[inline(always)]
pub fn get<L: Lane>(map: &Map<L>, place: L::Uint) -> L::Uint {
    map.get(place.shr(3)).shr_by((place & L::Uint::splat(7)).shl(2)) & L::Uint::splat(15)
}

/// Sets the block at a place where `mask` holds.
#[inline(always)]
pub fn put<L: Lane>(map: &mut Map<L>, mask: L::Mask, place: L::Uint, block: L::Uint) {
    let (word, shift) = (place.shr(3), (place & L::Uint::splat(7)).shl(2));
    let others = map.get(word) & !L::Uint::splat(15).shl_by(shift);
    map.set(mask, word, others | block.shl_by(shift));
}

/// The block that the package reads at a cell: just outside the map it is one of the edge at row or column 63.
#[inline(always)]
pub fn read<L: Lane>(map: &Map<L>, cell: At<L>) -> L::Uint {
    let last = L::Int::splat(SIDE as i32 - 1);
    let wrapped = |x: L::Int| x.lt(L::Int::splat(0)).select(last, x.min(last));
    get::<L>(map, place::<L>([wrapped(cell[0]), wrapped(cell[1])]))
}

/// The cell that the package writes to for a cell: for row or column -1 it is at 63.
#[inline(always)]
pub fn wrapped<L: Lane>(cell: At<L>) -> At<L> {
    let wrapped = |x: L::Int| x.eq(L::Int::splat(-1)).select(L::Int::splat(SIDE as i32 - 1), x);
    [wrapped(cell[0]), wrapped(cell[1])]
}

/// Nine cells of a row from a column on, which may begin up to seven columns before the map: eight in a word, and the last one. Outside the
/// map they are [`OUTSIDE`].
#[inline(always)]
pub fn window<L: Lane>(map: &Map<L>, row: L::Int, column: L::Int) -> [L::Uint; 2] {
    let (u, i) = (L::Uint::splat, L::Int::splat);
    let word = row.shl(3) + column.shr(3);
    let shift = (column.to_uint() & u(7)).shl(2);
    let (first, second) = (map.get(word.to_uint()), map.get((word + i(1)).to_uint()));
    let eight = first.shr_by(shift) | second.shl_by(u(28) - shift).shl(4);
    let ninth = second.shr_by(shift) & u(15);
    let in_row = row.to_uint().lt(u(SIDE));
    // Cells before column 0, and from column 64 on.
    let before = (-column).max(i(0)).to_uint().shl(2);
    let after = (column - i(56)).max(i(0)).to_uint().shl(2);
    let kept = u(u32::MAX).shl_by(before) & after.lt(u(32)).select(u(u32::MAX).shr_by(after), u(0));
    [in_row.select(eight & kept, u(OUTSIDE)), (in_row & column.lt(i(56))).select(ninth, u(OUTSIDE))]
}

/// The lowest bit of each nibble that equals a block.
#[inline(always)]
pub fn equal<U: Uint>(nibbles: U, block: u32) -> U {
    let different = nibbles ^ U::splat(block * 0x1111_1111);
    let pairs = different | different.shr(1);
    !(pairs | pairs.shr(2)) & U::splat(0x1111_1111)
}
