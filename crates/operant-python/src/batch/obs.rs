//! Observations as Python has them: rows of numbers, made from the words of a tile.

use operant_env::{ObsSpace, indices_per_word};

/// The type of a part's numbers in Python's arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    F32,
    Bool,
    U8,
    U16,
    I64,
}

impl Dtype {
    /// The layout of a space without parts. A single index, and a list of indices with their own bounds, are whole numbers as
    /// Gymnasium's Discrete and MultiDiscrete have them; other indices are as small as their bounds allow.
    pub fn of(space: &ObsSpace) -> Self {
        match space {
            ObsSpace::Box { .. } => Dtype::F32,
            ObsSpace::Binary { .. } => Dtype::Bool,
            ObsSpace::Index { shape, below } => match shape[..] {
                [] => Dtype::I64,
                [_] if below.iter().any(|bound| *bound != below[0]) => Dtype::I64,
                _ if is_small(below) => Dtype::U8,
                _ => Dtype::U16,
            },
            ObsSpace::Bytes { .. } => Dtype::U8,
            ObsSpace::Parts(_) => unreachable!("parts have no parts"),
        }
    }

    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Bool | Dtype::U8 => 1,
            Dtype::U16 => 2,
            Dtype::F32 => 4,
            Dtype::I64 => 8,
        }
    }

    /// NumPy's name.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "float32",
            Dtype::Bool => "bool",
            Dtype::U8 => "uint8",
            Dtype::U16 => "uint16",
            Dtype::I64 => "int64",
        }
    }
}

/// The parts of a space whose observations are [`Obs::Parts`].
fn parts_of(space: &ObsSpace) -> &[(String, ObsSpace)] {
    let ObsSpace::Parts(parts) = space else { unreachable!("the arrays are of this space") };
    parts
}

/// Whether indices with these bounds are packed as bytes, four to a word; else two are.
pub fn is_small(below: &[u32]) -> bool {
    indices_per_word(below) == 4
}

/// Observations of N environments: `(N, numbers)`, or as much for each part.
pub enum Obs<'a> {
    F32(&'a mut [f32]),
    Bool(&'a mut [u8]),
    U8(&'a mut [u8]),
    U16(&'a mut [u16]),
    I64(&'a mut [i64]),
    Parts(Vec<Obs<'a>>),
}

impl Obs<'_> {
    /// The first `rows` observations, and the others.
    pub fn split(self, rows: usize, space: &ObsSpace) -> (Self, Self) {
        fn halves<'a, T>(
            all: &'a mut [T],
            rows: usize,
            space: &ObsSpace,
            kind: fn(&'a mut [T]) -> Obs<'a>,
        ) -> (Obs<'a>, Obs<'a>) {
            let (a, b) = all.split_at_mut(rows * space.size());
            (kind(a), kind(b))
        }
        match self {
            Obs::F32(all) => halves(all, rows, space, Obs::F32),
            Obs::Bool(all) => halves(all, rows, space, Obs::Bool),
            Obs::U8(all) => halves(all, rows, space, Obs::U8),
            Obs::U16(all) => halves(all, rows, space, Obs::U16),
            Obs::I64(all) => halves(all, rows, space, Obs::I64),
            Obs::Parts(parts) => {
                let halves =
                    parts.into_iter().zip(parts_of(space)).map(|(part, (_, space))| part.split(rows, space));
                let (a, b) = halves.unzip();
                (Obs::Parts(a), Obs::Parts(b))
            }
        }
    }

    /// Writes observations from `words`, `(words, R)`: from its column `first` on as many as fit.
    pub fn write(&mut self, space: &ObsSpace, words: &[u32], rows: usize, first: usize) {
        let (words, size) = (&words[first..], space.size());
        match (self, space) {
            (Obs::Parts(parts), space) => {
                let mut word = 0;
                for (part, (_, space)) in parts.iter_mut().zip(parts_of(space)) {
                    part.write(space, &words[word * rows..], rows, 0);
                    word += space.words();
                }
            }
            (Obs::F32(to), _) => write_floats(words, rows, size, to),
            (Obs::Bool(to), _) => write_fields(words, rows, size, to, bits::<32>),
            (Obs::U8(to), _) => write_fields(words, rows, size, to, u32::to_le_bytes),
            (Obs::U16(to), _) => write_fields(words, rows, size, to, halves),
            (Obs::I64(to), ObsSpace::Index { below, .. }) if is_small(below) => {
                write_fields(words, rows, size, to, |word| word.to_le_bytes().map(i64::from));
            }
            (Obs::I64(to), _) => write_fields(words, rows, size, to, |word| halves(word).map(i64::from)),
        }
    }

    /// Writes row `row` from the same row of `words`.
    pub fn write_row(&mut self, space: &ObsSpace, words: &[u32], rows: usize, row: usize) {
        fn of<T>(all: &mut [T], size: usize, row: usize) -> &mut [T] {
            &mut all[row * size..][..size]
        }
        let size = space.size();
        match self {
            Obs::F32(to) => {
                for (number, to) in of(to, size, row).iter_mut().enumerate() {
                    *to = f32::from_bits(words[number * rows + row]);
                }
            }
            Obs::Bool(to) => Obs::Bool(of(to, size, row)).write(space, words, rows, row),
            Obs::U8(to) => Obs::U8(of(to, size, row)).write(space, words, rows, row),
            Obs::U16(to) => Obs::U16(of(to, size, row)).write(space, words, rows, row),
            Obs::I64(to) => Obs::I64(of(to, size, row)).write(space, words, rows, row),
            Obs::Parts(parts) => {
                let mut word = 0;
                for (part, (_, space)) in parts.iter_mut().zip(parts_of(space)) {
                    part.write_row(space, &words[word * rows..], rows, row);
                    word += space.words();
                }
            }
        }
    }
}

/// The N low bits of a word, the lowest first.
pub fn bits<const N: usize>(word: u32) -> [u8; N] {
    std::array::from_fn(|i| (word >> i & 1) as u8)
}

fn halves(word: u32) -> [u16; 2] {
    [word as u16, (word >> 16) as u16]
}

fn write_floats(words: &[u32], rows: usize, size: usize, to: &mut [f32]) {
    match size {
        1 => rows_of::<1>(words, rows, to),
        2 => rows_of::<2>(words, rows, to),
        3 => rows_of::<3>(words, rows, to),
        4 => rows_of::<4>(words, rows, to),
        6 => rows_of::<6>(words, rows, to),
        8 => rows_of::<8>(words, rows, to),
        _ => {
            for (row, to) in to.chunks_exact_mut(size).enumerate() {
                to.iter_mut().enumerate().for_each(|(i, to)| *to = f32::from_bits(words[i * rows + row]));
            }
        }
    }
}

/// Writes rows of `size` numbers that lie N to a word.
fn write_fields<T: Copy, const N: usize>(
    words: &[u32],
    rows: usize,
    size: usize,
    to: &mut [T],
    fields: impl Fn(u32) -> [T; N],
) {
    if size == 1 {
        return to.iter_mut().zip(words).for_each(|(to, &word)| *to = fields(word)[0]);
    }
    for (row, to) in to.chunks_exact_mut(size).enumerate() {
        spread(words.iter().skip(row).step_by(rows).copied(), to, &fields);
    }
}

/// The fields of words, one after the other.
pub fn spread<T: Copy, const N: usize>(
    mut words: impl Iterator<Item = u32>,
    to: &mut [T],
    fields: impl Fn(u32) -> [T; N],
) {
    let (whole, rest) = to.as_chunks_mut::<N>();
    whole.iter_mut().zip(&mut words).for_each(|(to, word)| *to = fields(word));
    if !rest.is_empty()
        && let Some(word) = words.next()
    {
        rest.copy_from_slice(&fields(word)[..rest.len()]);
    }
}

/// Numbers from `(O, rows)` to `(count, O)`.
fn rows_of<const O: usize>(words: &[u32], rows: usize, to: &mut [f32]) {
    let count = to.len() / O;
    let columns: [&[u32]; O] = std::array::from_fn(|i| &words[i * rows..][..count]);
    for (row, to) in to.as_chunks_mut::<O>().0.iter_mut().enumerate() {
        *to = std::array::from_fn(|i| f32::from_bits(columns[i][row]));
    }
}
