//! Arrays of an environment in memory: for boards of hundreds of cells, read and written at an index per environment.
//!
//! [`crate::array`] keeps its elements in registers and looks through all of them; that is faster up to about 32 elements.
//! A [`Memory`] addresses one word: on SIMD lanes by a load for each environment, in CUDA as an array.
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

use crate::bundle::{Bundle, Leaf, Sink, Source};
use crate::lane::{Lane, Select, Uint};

/// N words per environment. An index past the end reads the last word and writes nothing.
pub trait Memory<L: Lane, const N: usize>: Bundle<L> + core::fmt::Debug {
    /// The same words in all environments.
    ///
    /// # Panics
    /// When there are not N of them.
    fn splat(words: &[u32]) -> Self;

    /// From its words.
    fn from_words(words: [L::Uint; N]) -> Self;

    /// The word at `index`.
    fn get(&self, index: L::Uint) -> L::Uint;

    /// Writes `value` to `index` where `at` holds.
    fn set(&mut self, at: L::Mask, index: L::Uint, value: L::Uint);

    /// The word at a constant index.
    fn word(&self, index: usize) -> L::Uint;

    /// Writes the word at a constant index.
    fn set_word(&mut self, index: usize, value: L::Uint);

    /// Byte number `index`, four to a word, the lowest first; past the end, one of the last word.
    #[inline(always)]
    fn byte(&self, index: L::Uint) -> L::Uint {
        self.get(index.shr(2)).shr_by(shift::<L>(index)) & L::Uint::splat(255)
    }

    /// Writes byte number `index` where `at` holds; `value` is below 256.
    #[inline(always)]
    fn set_byte(&mut self, at: L::Mask, index: L::Uint, value: L::Uint) {
        let (word, shift) = (index.shr(2), shift::<L>(index));
        let others = self.get(word) & !L::Uint::splat(255).shl_by(shift);
        self.set(at, word, others | value.shl_by(shift));
    }
}

/// Where a byte begins in its word.
#[inline(always)]
fn shift<L: Lane>(index: L::Uint) -> L::Uint {
    (index & L::Uint::splat(3)).shl(3)
}

/// The memory of the lanes that compute: N words, each of all environments of the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<T, const N: usize>(pub(crate) [T; N]);

/// Unsigned integers of a lane whose memory is a list of [`Words`].
pub(crate) trait Addressed<M>: Copy {
    /// The word at `index`, the last if it is past the end.
    fn read<const N: usize>(words: &[Self; N], index: Self) -> Self;
    /// Writes `value` to `index` where `at` holds and the index exists.
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
}

impl<L: Lane, const N: usize> Memory<L, N> for Words<L::Uint, N>
where
    L::Uint: Addressed<L::Mask>,
{
    #[inline(always)]
    fn splat(words: &[u32]) -> Self {
        assert_eq!(words.len(), N, "a word for every place");
        Self(core::array::from_fn(|k| L::Uint::splat(words[k])))
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
}
