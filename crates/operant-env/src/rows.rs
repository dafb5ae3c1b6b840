//! Bundles in memory: one row of WIDTH or more environments per leaf, every leaf in a 32-bit word.
//!
//! A buffer holds `leaves` rows of `stride` words; floats are held as their bits, so that a state with floats and
//! integers is one buffer.

use operant_lane::{Float, Lane, Mask, Packed, Sink, Source, Uint};

/// Reads a bundle from rows.
#[derive(Debug)]
pub struct Rows<'a> {
    words: &'a [u32],
    stride: usize,
    at: usize,
}

impl<'a> Rows<'a> {
    /// The environments from column `column` on, in rows of `stride` words.
    pub fn new(words: &'a [u32], stride: usize, column: usize) -> Self {
        Self { words, stride, at: column }
    }

    #[inline(always)]
    fn next(&mut self) -> &'a [u32] {
        let row = &self.words[self.at..];
        self.at += self.stride;
        row
    }
}

/// Writes a bundle to rows.
#[derive(Debug)]
pub struct RowsMut<'a> {
    words: &'a mut [u32],
    stride: usize,
    at: usize,
}

impl<'a> RowsMut<'a> {
    /// The environments from column `column` on, in rows of `stride` words.
    pub fn new(words: &'a mut [u32], stride: usize, column: usize) -> Self {
        Self { words, stride, at: column }
    }

    #[inline(always)]
    fn next(&mut self) -> &mut [u32] {
        let row = &mut self.words[self.at..];
        self.at += self.stride;
        row
    }
}

/// The rows whose bits are set, in order: bit i of word k is row 16 k + i.
#[inline]
pub fn set_rows(words: &[u16]) -> impl Iterator<Item = usize> {
    // 64 rows at a time, because the end of the inner loop is never predicted.
    words.chunks(4).enumerate().flat_map(|(chunk, words)| {
        let mut bits = words.iter().rev().fold(0u64, |bits, &word| bits << 16 | u64::from(word));
        core::iter::from_fn(move || {
            let row = 64 * chunk + bits.trailing_zeros() as usize;
            (bits != 0).then(|| {
                bits &= bits - 1;
                row
            })
        })
    })
}

/// WIDTH words as floats, by their bits.
#[inline(always)]
fn to_floats<L: Packed>(words: &[u32]) -> L::Float {
    let mut floats = [0.0; 16];
    for (float, word) in floats[..L::WIDTH].iter_mut().zip(&words[..L::WIDTH]) {
        *float = f32::from_bits(*word);
    }
    L::load_float(&floats)
}

impl<L: Packed> Source<L> for Rows<'_> {
    #[inline(always)]
    fn float(&mut self) -> L::Float {
        to_floats::<L>(self.next())
    }
    #[inline(always)]
    fn uint(&mut self) -> L::Uint {
        L::load_uint(self.next())
    }
    #[inline(always)]
    fn int(&mut self) -> L::Int {
        L::load_uint(self.next()).to_int()
    }
    #[inline(always)]
    fn mask(&mut self) -> L::Mask {
        L::load_uint(self.next()).ne(L::Uint::splat(0))
    }
}

impl<L: Packed> Sink<L> for RowsMut<'_> {
    #[inline(always)]
    fn float(&mut self, value: L::Float) {
        let mut floats = [0.0; 16];
        L::store_float(value, &mut floats);
        for (word, float) in self.next()[..L::WIDTH].iter_mut().zip(floats) {
            *word = float.to_bits();
        }
    }
    #[inline(always)]
    fn uint(&mut self, value: L::Uint) {
        L::store_uint(value, self.next());
    }
    #[inline(always)]
    fn int(&mut self, value: L::Int) {
        use operant_lane::Int;
        L::store_uint(value.to_uint(), self.next());
    }
    #[inline(always)]
    fn mask(&mut self, value: L::Mask) {
        L::store_uint(value.select(L::Uint::splat(1), L::Uint::splat(0)), self.next());
    }
}

/// Gives every leaf the number of a list, in all lanes: how a state enters from its public form.
pub(crate) struct Splat<'a>(pub(crate) std::slice::Iter<'a, f64>);

impl Splat<'_> {
    fn next(&mut self) -> f64 {
        *self.0.next().expect("as many numbers as leaves")
    }
}

impl<L: Lane> Source<L> for Splat<'_> {
    fn float(&mut self) -> L::Float {
        L::Float::splat(self.next())
    }
    fn uint(&mut self) -> L::Uint {
        L::Uint::splat(self.next() as u32)
    }
    fn int(&mut self) -> L::Int {
        use operant_lane::Int;
        L::Int::splat(self.next() as i32)
    }
    fn mask(&mut self) -> L::Mask {
        L::Mask::splat(self.next() != 0.0)
    }
}
