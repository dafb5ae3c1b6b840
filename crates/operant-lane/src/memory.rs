//! Arrays of an environment in memory, for boards of hundreds of cells. Each environment reads and writes at its own
//! index.
//!
//! [`crate::array`] keeps its elements in registers and selects among all of them, which is faster up to about 32
//! elements. A [`Memory`] accesses only the addressed word: with one load per environment on SIMD lanes, and as an
//! array in CUDA.
//!
//! ```
//! use operant_lane::{Lane, Mask, Memory, Uint};
//!
//! fn swap<L: Lane>(cells: &mut L::Memory<100>, a: L::Uint, b: L::Uint) {
//!     let (at_a, at_b) = (cells.get(a), cells.get(b));
//!     cells.set(L::Mask::splat(true), a, at_b);
//!     cells.set(L::Mask::splat(true), b, at_a);
//! }
//!
//! let numbers: [u32; 100] = core::array::from_fn(|k| k as u32);
//! let mut cells: <f32 as Lane>::Memory<100> = Memory::<f32, 100>::splat(&numbers);
//! swap::<f32>(&mut cells, Uint::splat(3), Uint::splat(42));
//! assert_eq!(Memory::<f32, 100>::word(&cells, 42).0, 3);
//! ```

use core::num::Wrapping;

use crate::bundle::{Bundle, Leaf, Sink, Source};
use crate::lane::{Lane, Select, Uint};

/// N words per environment. Reading past the end returns the last word; writing past the end does nothing.
pub trait Memory<L: Lane, const N: usize>: Bundle<L> + core::fmt::Debug {
    /// A memory with the same words in all environments.
    ///
    /// # Panics
    /// If `words` does not have length N.
    fn splat(words: &[u32]) -> Self;

    /// Creates a memory from its words.
    fn from_words(words: [L::Uint; N]) -> Self;

    /// Reads the word at `index`.
    fn get(&self, index: L::Uint) -> L::Uint;

    /// Writes `value` at `index` where `at` holds.
    fn set(&mut self, at: L::Mask, index: L::Uint, value: L::Uint);

    /// Reads the word at a constant index.
    fn word(&self, index: usize) -> L::Uint;

    /// Writes the word at a constant index.
    fn set_word(&mut self, index: usize, value: L::Uint);

    /// Reads the word at an index that all environments share, with one load for all.
    fn at(&self, index: L::Same) -> L::Uint;

    /// Writes the word at an index that all environments share.
    fn put(&mut self, index: L::Same, value: L::Uint);

    /// Reads byte number `index`: four bytes per word, the lowest first. Past the end it returns a byte of the last
    /// word.
    #[inline(always)]
    fn byte(&self, index: L::Uint) -> L::Uint {
        self.get(index.shr(2)).shr_by(shift::<L>(index)) & L::Uint::splat(255)
    }

    /// Writes byte number `index` where `at` holds. `value` must be below 256.
    #[inline(always)]
    fn set_byte(&mut self, at: L::Mask, index: L::Uint, value: L::Uint) {
        let (word, shift) = (index.shr(2), shift::<L>(index));
        let others = self.get(word) & !L::Uint::splat(255).shl_by(shift);
        self.set(at, word, others | value.shl_by(shift));
    }
}

/// The bit offset of a byte in its word.
#[inline(always)]
fn shift<L: Lane>(index: L::Uint) -> L::Uint {
    (index & L::Uint::splat(3)).shl(3)
}

/// The memory of lanes that compute: N words, each holding the values of all environments of the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<T, const N: usize>(pub(crate) [T; N]);

/// Unsigned integers of a lane whose memory is [`Words`].
pub(crate) trait Addressed<M>: Copy {
    /// Reads the word at `index`, or the last word if the index is past the end.
    fn read<const N: usize>(words: &[Self; N], index: Self) -> Self;
    /// Writes `value` at `index` where `at` holds and the index is in range.
    fn write<const N: usize>(words: &mut [Self; N], at: M, index: Self, value: Self);
}

impl<M: Copy, T: Select<M>, const N: usize> Select<M> for Words<T, N> {
    #[inline(always)]
    fn select(mask: M, yes: Self, no: Self) -> Self {
        Self(Select::select(mask, yes.0, no.0))
    }
}

impl<L: Lane, const N: usize> Bundle<L> for Words<L::Uint, N>
where
    L::Uint: Addressed<L::Mask>,
{
    fn leaves(name: &str, out: &mut Vec<Leaf>) {
        <[L::Uint; N] as Bundle<L>>::leaves(name, out);
    }
    #[inline(always)]
    fn store(&self, sink: &mut impl Sink<L>) {
        self.0.store(sink);
    }
    #[inline(always)]
    fn load(source: &mut impl Source<L>) -> Self {
        Self(Bundle::<L>::load(source))
    }
    #[inline(always)]
    fn reload(&mut self, source: &mut impl Source<L>) {
        Bundle::<L>::reload(&mut self.0, source);
    }
}

impl<L: Lane<Same = Wrapping<u32>>, const N: usize> Memory<L, N> for Words<L::Uint, N>
where
    L::Uint: Addressed<L::Mask>,
{
    #[inline(always)]
    fn splat(words: &[u32]) -> Self {
        assert_eq!(words.len(), N, "a word for every place");
        let mut all = [L::Uint::splat(0); N];
        for (to, word) in all.iter_mut().zip(words) {
            *to = L::Uint::splat(*word);
        }
        Self(all)
    }
    #[inline(always)]
    fn from_words(words: [L::Uint; N]) -> Self {
        Self(words)
    }
    #[inline(always)]
    fn get(&self, index: L::Uint) -> L::Uint {
        L::Uint::read(&self.0, index)
    }
    #[inline(always)]
    fn set(&mut self, at: L::Mask, index: L::Uint, value: L::Uint) {
        L::Uint::write(&mut self.0, at, index, value);
    }
    #[inline(always)]
    fn word(&self, index: usize) -> L::Uint {
        self.0[index]
    }
    #[inline(always)]
    fn set_word(&mut self, index: usize, value: L::Uint) {
        self.0[index] = value;
    }
    #[inline(always)]
    fn at(&self, index: Wrapping<u32>) -> L::Uint {
        self.0[(index.0 as usize).min(N - 1)]
    }
    #[inline(always)]
    fn put(&mut self, index: Wrapping<u32>, value: L::Uint) {
        if let Some(word) = self.0.get_mut(index.0 as usize) {
            *word = value;
        }
    }
}
