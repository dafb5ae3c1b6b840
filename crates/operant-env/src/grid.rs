//! Boards of square cells as bit maps: for environments whose state or observation is a grid.
//!
//! A bit map of a board packs one bit per cell, row by row, 32 to a word, the first lowest. Words are picked by a constant
//! index, so that an observation is built word by word without a loop on lane values.

use operant_lane::{Mask, Uint};

use crate::scene::Shape;

/// The word number `word` of a bit map in which only bit number `index` is set.
#[inline(always)]
pub fn bit<U: Uint>(index: U, word: usize) -> U {
    let here = index.shr(5).eq(U::splat(word as u32));
    here.select(U::splat(1).shl_by(index), U::splat(0))
}

/// Like `bit`, for a bit map with four channels per cell: bit `channel` of cell number `cell`.
#[inline(always)]
pub fn mark<U: Uint>(cell: U, channel: u32, word: usize) -> U {
    let here = cell.shr(3).eq(U::splat(word as u32));
    here.select(U::splat(1 << channel).shl_by((cell & U::splat(7)).shl(2)), U::splat(0))
}

/// The low eight bits of a word, spread to every fourth bit: eight cells as channel 0 of four.
#[inline(always)]
pub fn spread<U: Uint>(byte: U) -> U {
    let pairs = (byte | byte.shl(12)) & U::splat(0x000f_000f);
    let twos = (pairs | pairs.shl(6)) & U::splat(0x0303_0303);
    (twos | twos.shl(3)) & U::splat(0x1111_1111)
}

/// The position of the set bit number `k` of a word, both counted from 0 at the lowest bit. There must be more than `k`.
#[inline(always)]
pub fn find<U: Uint>(word: U, k: U) -> U {
    let u = U::splat;
    let (mut word, mut k, mut position) = (word, k, u(0));
    for half in [16, 8, 4, 2, 1] {
        let count = (word & u((1 << half) - 1)).count_ones();
        let above = k.ge(count);
        k = above.select(k - count, k);
        word = above.select(word.shr(half), word);
        position = (position + above.select(u(half), u(0))).named("position");
    }
    position
}

/// The bit map with the bits `first .. end` set.
pub const fn mask<const WORDS: usize>(first: usize, end: usize) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    let mut cell = first;
    while cell < end {
        words[cell / 32] |= 1 << (cell % 32);
        cell += 1;
    }
    words
}

/// The bit map of cells given as one number each, 0 if empty: the leaves of a public state.
pub fn pack<const WORDS: usize>(cells: &[f64]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    for (cell, filled) in cells.iter().enumerate() {
        words[cell / 32] |= u32::from(*filled != 0.0) << (cell % 32);
    }
    words
}

/// Whether a bit map has bit number `index`.
pub fn holds(words: &[u32], index: usize) -> bool {
    words[index / 32] >> (index % 32) & 1 == 1
}

/// The cell in column `x` and row `y`, row 0 at the top of a board with `rows` rows, as a shape.
pub fn square(rows: u32, x: f32, y: f32, tone: u8) -> Shape {
    Shape::rectangle([x + 0.5, rows as f32 - 0.5 - y], 0.9, 0.9, tone)
}
