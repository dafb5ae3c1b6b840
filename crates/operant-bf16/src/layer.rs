//! A layer's packed weights, and its products.

use crate::activation::Activation;
use crate::gradient::DeltaBlock;
use crate::unit::{Mode, Order, Unit};
use crate::{Floats, LANES, TILE_FEATURES, Tile, Words, pair_of, twin};

/// The weights of a layer, or their transpose, in tiles of 16 outputs x 32 inputs; absent ones are zero.
#[derive(Debug, Clone)]
pub struct Weights {
    inputs: usize,
    outputs: usize,
    /// `[16 outputs][32 inputs]`.
    tiles: Vec<Tile<u32>>,
    /// `[16 outputs]`.
    bias: Vec<[f32; LANES]>,
}

impl Weights {
    /// Zero weights.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let rows = outputs.div_ceil(LANES);
        Self {
            inputs,
            outputs,
            tiles: vec![Tile([[0; LANES]; LANES]); rows * inputs.div_ceil(TILE_FEATURES)],
            bias: vec![[0.0; LANES]; rows],
        }
    }

    /// Takes `weight`, row-major `(outputs, inputs)`, and `bias`.
    pub fn pack(&mut self, weight: &[f32], bias: &[f32]) {
        assert_eq!((weight.len(), bias.len()), (self.inputs * self.outputs, self.outputs));
        self.bias.as_flattened_mut()[..bias.len()].copy_from_slice(bias);
        let columns = self.columns();
        for (o, row) in weight.chunks_exact(self.inputs).enumerate() {
            let tiles = &mut self.tiles[o / LANES * columns..][..columns];
            for (tile, row) in tiles.iter_mut().zip(row.chunks(TILE_FEATURES)) {
                let (pairs, last) = row.as_chunks::<2>();
                let words = &mut tile.0[o % LANES];
                match pairs.first_chunk::<LANES>() {
                    // A loop of constant length has no branches.
                    Some(pairs) => *words = pairs.map(|[low, high]| pair_of(low, high)),
                    None => {
                        let last = last.first().map(|&low| [low, 0.0]);
                        for (word, [low, high]) in words.iter_mut().zip(pairs.iter().copied().chain(last)) {
                            *word = pair_of(low, high);
                        }
                    }
                }
            }
        }
    }

    /// Takes the transpose of `weight`, which is row-major `(inputs, outputs)` of this layer. No bias.
    pub fn pack_transposed(&mut self, weight: &[f32]) {
        assert_eq!(weight.len(), self.inputs * self.outputs);
        let columns = self.columns();
        for (p, rows) in weight.chunks(2 * self.outputs).enumerate() {
            let (low, high) = rows.split_at(self.outputs);
            for (block, low) in low.chunks(LANES).enumerate() {
                let high = high.get(block * LANES..).unwrap_or_default();
                let words: Words = match (low.first_chunk::<LANES>(), high.first_chunk::<LANES>()) {
                    (Some(low), Some(high)) => core::array::from_fn(|o| pair_of(low[o], high[o])),
                    _ => {
                        let at = |row: &[f32], o: usize| row.get(o).copied().unwrap_or_default();
                        core::array::from_fn(|o| pair_of(at(low, o), at(high, o)))
                    }
                };
                let tile = &mut self.tiles[block * columns + p / LANES];
                for (row, word) in tile.0.iter_mut().zip(words) {
                    row[p % LANES] = word;
                }
            }
        }
    }

    /// Inputs and outputs.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.inputs, self.outputs]
    }

    /// Tiles side by side.
    fn columns(&self) -> usize {
        self.inputs.div_ceil(TILE_FEATURES)
    }

    /// Outputs of a row of tiles, and words of the inputs, without padding.
    fn used(&self, row: usize) -> [usize; 2] {
        [LANES.min(self.outputs - LANES * row), self.inputs.div_ceil(2)]
    }

    fn row(&self, number: usize) -> &[Tile<u32>] {
        &self.tiles[number * self.columns()..][..self.columns()]
    }
}

/// Pairs of numbers in rows: `rows` is `(features, V)`, `pairs` as in the crate's table.
pub fn pack_pairs<const V: usize>(rows: &[Floats], pairs: &mut [Words]) {
    let rows = rows.as_chunks::<V>().0;
    let (pairs, rest) = pairs.as_chunks_mut::<V>().0.split_at_mut(rows.len().div_ceil(2));
    for (pairs, rows) in pairs.iter_mut().zip(rows.chunks(2)) {
        for (v, pair) in pairs.iter_mut().enumerate() {
            let high = rows.get(1).map_or([0.0; LANES], |row| row[v]);
            *pair = core::array::from_fn(|lane| pair_of(rows[0][v][lane], high[lane]));
        }
    }
    rest.fill([[0; LANES]; V]);
}

impl Unit {
    /// Vectors of scratch space that a product over V x 16 samples takes.
    pub const fn scratch<const V: usize>() -> usize {
        4 * LANES * if V > 2 { 2 } else { V }
    }

    /// How many of the V vectors one product computes (a part). With AMX the product of a part overlaps with the nonlinearity of another.
    pub(crate) fn part<const V: usize>(self) -> usize {
        match self.0.order() {
            Order::Amx => V.min(2),
            Order::Dot => V,
        }
    }

    /// Pairs of the layer's outputs, after the nonlinearity. `x` and `y` are pairs; rows of `y` past the outputs are not written, or zero.
    pub fn hidden<const V: usize>(
        self,
        weights: &Weights,
        x: &[Words],
        activation: Activation,
        scratch: &mut [Floats],
        y: &mut [Words],
    ) {
        let y = y.as_chunks_mut::<V>().0.as_chunks_mut::<{ LANES / 2 }>().0;
        match self.part::<V>() {
            2 => self.products::<V, 2>(weights, x, scratch, |row, part, sums| {
                self.activate(activation, sums, &weights.bias[row], &mut y[row], part);
            }),
            _ => self.products::<V, V>(weights, x, scratch, |row, part, sums| {
                self.activate(activation, sums, &weights.bias[row], &mut y[row], part);
            }),
        }
    }

    /// The layer's outputs in f32: `y` is `(outputs, V)`.
    pub fn rows<const V: usize>(
        self,
        weights: &Weights,
        x: &[Words],
        scratch: &mut [Floats],
        y: &mut [Floats],
    ) {
        let y = y.as_chunks_mut::<V>().0;
        assert_eq!(y.len(), weights.outputs);
        match self.part::<V>() {
            2 => self.products::<V, 2>(weights, x, scratch, |row, part, sums| {
                put_rows(sums, &weights.bias[row], &mut y[LANES * row..], part);
            }),
            _ => self.products::<V, V>(weights, x, scratch, |row, part, sums| {
                put_rows(sums, &weights.bias[row], &mut y[LANES * row..], part);
            }),
        }
    }

    /// Calls `finish` with each part's products: 16 outputs x H vectors. With AMX the product of part k is begun before `finish` of part
    /// k - 2 and stored after it, so that the two overlap. `finish` then reads part k - 1, whose buffer is an odd number of buffers of 1 or
    /// 2 KiB from the one just stored, so their addresses differ in the lower 12 bits. The CPU delays a load whose lower 12 address bits
    /// match those of an earlier pending store (4K aliasing). Other units compute in `end`.
    pub(crate) fn products<const V: usize, const H: usize>(
        self,
        weights: &Weights,
        x: &[Words],
        scratch: &mut [Floats],
        mut finish: impl FnMut(usize, usize, &[[Floats; H]; LANES]),
    ) {
        let x = &x.as_chunks::<V>().0[..LANES * weights.columns()];
        let buffers = scratch.as_chunks_mut::<H>().0.as_chunks_mut::<LANES>().0;
        let (parts, ahead) = (V / H, Self::scratch::<V>() / (2 * LANES * H));
        let count = parts * weights.bias.len();
        for k in 0..count + ahead {
            let (row, part) = (k / parts, k % parts);
            if k < count {
                self.begin::<V, H>(weights.row(row), x, part);
            }
            if let Some(before) = k.checked_sub(ahead) {
                finish(before / parts, before % parts, &buffers[before % (2 * ahead)]);
            }
            if k < count {
                let c = &mut buffers[k % (2 * ahead)];
                self.end::<V, H>(weights.used(row), weights.row(row), x, part, c);
            }
        }
    }

    /// See [`crate::amx::begin`]. Other units multiply in `end`.
    #[inline]
    fn begin<const V: usize, const H: usize>(self, a: &[Tile<u32>], b: &[[Words; V]], part: usize) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.0 == Mode::Amx {
            // SAFETY: a unit with this mode is only made after `amx::request` has succeeded.
            #[allow(unsafe_code)]
            unsafe {
                crate::amx::begin::<V, H>(a, b, part);
            }
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        let _ = (a, b, part);
    }

    /// Stores the product that `begin` started with the same arguments; other units compute it here. `used` is how many outputs, and words of a
    /// row, are not padding.
    #[inline]
    #[allow(unsafe_code)]
    fn end<const V: usize, const H: usize>(
        self,
        used: [usize; 2],
        a: &[Tile<u32>],
        b: &[[Words; V]],
        part: usize,
        c: &mut [[Floats; H]; LANES],
    ) {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            // SAFETY: `products`, the only caller, has called `begin`.
            Mode::Amx => unsafe { crate::amx::end::<H>(c) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a unit with this mode is only made where the CPU has AVX512_BF16.
            Mode::Dot => unsafe { crate::avx512_bf16::product::<V, H>(used, a, b, part, c) },
            mode => twin::product::<V, H>(mode.order(), used, a, b, part, c),
        }
    }
}

/// Writes `sums + bias` of 16 outputs, or of as many as `y` has rows, to the vectors of a part.
fn put_rows<const V: usize, const H: usize>(
    sums: &[[Floats; H]; LANES],
    bias: &[f32; LANES],
    y: &mut [[Floats; V]],
    part: usize,
) {
    for ((y, sums), bias) in y.iter_mut().zip(sums).zip(bias) {
        for (y, sums) in y[H * part..][..H].iter_mut().zip(sums) {
            *y = core::array::from_fn(|lane| sums[lane] + bias);
        }
    }
}

/// Dispatches by a unit's mode to the function of one module or the other.
macro_rules! by_mode {
    ($($(#[$doc:meta])* fn $name:ident$(<$(const $v:ident: usize),+>)?($($argument:ident: $type:ty),+) = $kind:ident::$function:ident;)+) => {
        #[allow(unsafe_code)]
        impl Unit {
            $($(#[$doc])*
            #[inline]
            pub(crate) fn $name$(<$(const $v: usize),+>)?(self, $($argument: $type),+) {
                by_mode!(@call $kind, self.0, $function$(::<$($v),+>)?, $($argument),+)
            })+
        }
    };
    (@call product, $mode:expr, $function:ident$(::<$($v:ident),+>)?, $($argument:ident),+) => {
        match $mode {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            // SAFETY: a unit with this mode is only made after `amx::request` has succeeded.
            Mode::Amx => unsafe { crate::amx::$function$(::<$($v),+>)?($($argument),+) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a unit with this mode is only made where the CPU has AVX512_BF16.
            Mode::Dot => unsafe { crate::avx512_bf16::$function$(::<$($v),+>)?($($argument),+) },
            mode => twin::$function$(::<$($v),+>)?(mode.order(), $($argument),+),
        }
    };
    (@call vectors, $mode:expr, $function:ident$(::<$($v:ident),+>)?, $($argument:ident),+) => {
        match $mode {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: units with these modes are only made where the CPU has AVX-512.
            Mode::Amx | Mode::Dot | Mode::Vectors => unsafe { crate::avx512::$function$(::<$($v),+>)?($($argument),+) },
            _ => twin::$function$(::<$($v),+>)?($($argument),+),
        }
    };
}

by_mode! {
    /// `sums[o][h] += deltas[o][.., k] inputs[k][h]`, for k = 0 and then 1, of 16 outputs for each o and 16 inputs for each h.
    fn outer(deltas: &[[[Words; 2]; LANES]], inputs: &[[Tile<u32>; 2]; 2], sums: &mut [[Tile<f32>; 2]]) = product::outer;
    /// Pairs of the nonlinearity of `sums + bias`, of 16 outputs and the vectors of a part.
    fn activate<const V: usize, const H: usize>(
        activation: Activation,
        sums: &[[Floats; H]; LANES],
        bias: &[f32; LANES],
        y: &mut [[Words; V]; LANES / 2],
        part: usize
    ) = vectors::activate;
    /// The gradient of the inputs of a nonlinearity with outputs `x`, from the gradient of its outputs, for the vectors of a part.
    fn deltas<const H: usize>(
        activation: Activation,
        sums: &[[Floats; H]; LANES],
        x: &[[Words; crate::VECTORS]; LANES / 2],
        block: DeltaBlock<'_>,
        part: usize
    ) = vectors::deltas;
    /// Pairs of 32 features over 64 samples, as pairs of samples.
    fn transpose(x: &[[Words; crate::VECTORS]; LANES], out: &mut [[Tile<u32>; 2]; 2]) = vectors::transpose;
}

impl Unit {
    /// Multiplies and adds on this core as fast as it can, `rounds` times; returns the floating-point operations done. None for twins.
    pub fn multiply_adds(self, rounds: usize) -> Option<f64> {
        #[allow(unsafe_code)]
        let each = match self.0 {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Mode::Amx => {
                // SAFETY: a unit with this mode is only made after `amx::request` has succeeded.
                unsafe { crate::amx::multiply_adds(rounds) };
                Some(4 * LANES * LANES * TILE_FEATURES)
            }
            #[cfg(target_arch = "x86_64")]
            Mode::Dot => {
                // SAFETY: a unit with this mode is only made where the CPU has AVX512_BF16.
                unsafe { crate::avx512_bf16::multiply_adds(rounds) };
                Some(LANES * TILE_FEATURES)
            }
            _ => None,
        };
        each.map(|each: usize| (rounds * 2 * each) as f64)
    }
}
