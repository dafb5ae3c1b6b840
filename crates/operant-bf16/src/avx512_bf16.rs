//! The products of `amx.rs` with AVX512_BF16's `vdpbf16ps`: 16 sums in registers, one operand broadcast.

use std::arch::x86_64::*;

use crate::avx512::{load, load_words, store};
use crate::{Floats, LANES, Tile, Words};

/// `sum + a b`: a word of the one, words of the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn dot(sum: __m512, a: u32, b: __m512bh) -> __m512 {
    _mm512_dpbf16_ps(sum, bf16(_mm512_set1_epi32(a as i32)), b)
}

/// Words as pairs.
#[inline]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code)]
fn bf16(words: __m512i) -> __m512bh {
    // SAFETY: both are vectors of 64 bytes without invalid values.
    unsafe { core::mem::transmute(words) }
}

/// See [`crate::amx::begin`]; padding is omitted.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) fn product<const V: usize, const H: usize>(
    used: [usize; 2],
    a: &[Tile<u32>],
    b: &[[Words; V]],
    part: usize,
    c: &mut [[Floats; H]; LANES],
) {
    assert!(b.len() == LANES * a.len() && used[1] <= b.len());
    match H {
        1 => rows::<V, H, 16>(used, a, b, part, c),
        2 => rows::<V, H, 8>(used, a, b, part, c),
        _ => rows::<V, H, 4>(used, a, b, part, c),
    }
}

/// R outputs at a time.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rows<const V: usize, const H: usize, const R: usize>(
    [outputs, words]: [usize; 2],
    a: &[Tile<u32>],
    b: &[[Words; V]],
    part: usize,
    c: &mut [[Floats; H]; LANES],
) {
    let (c, padding) = c.as_chunks_mut::<R>().0.split_at_mut(outputs.div_ceil(R));
    padding.fill([[[0.0; LANES]; H]; R]);
    for (block, c) in c.iter_mut().enumerate() {
        let mut sums = [[_mm512_setzero_ps(); H]; R];
        for (a, b) in a.iter().zip(b[..words].chunks(LANES)) {
            let a: &[Words; R] = &a.0.as_chunks().0[block];
            for (k, b) in b.iter().enumerate().take(LANES) {
                for h in 0..H {
                    let b = bf16(load_words(&b[H * part + h]));
                    for r in 0..R {
                        sums[r][h] = dot(sums[r][h], a[r][k], b);
                    }
                }
            }
        }
        for (c, sums) in c.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            store(c, *sums);
        }
    }
}

/// See [`crate::amx::outer`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) fn outer(
    deltas: &[[[Words; 2]; LANES]],
    inputs: &[[Tile<u32>; 2]; 2],
    sums: &mut [[Tile<f32>; 2]],
) {
    for (deltas, sums) in deltas.iter().zip(sums) {
        outer_block(deltas, inputs, sums);
    }
}

/// [`outer`] for one block of 16 outputs.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn outer_block(deltas: &[[Words; 2]; LANES], inputs: &[[Tile<u32>; 2]; 2], sums: &mut [Tile<f32>; 2]) {
    const R: usize = 8;
    for block in 0..LANES / R {
        let mut rows = [[_mm512_setzero_ps(); 2]; R];
        for r in 0..R {
            for half in 0..2 {
                rows[r][half] = load(&sums[half].0[R * block + r]);
            }
        }
        let deltas: &[[Words; 2]; R] = &deltas.as_chunks().0[block];
        for k in 0..2 {
            for n in 0..LANES {
                let x = [0, 1].map(|half| bf16(load_words(&inputs[k][half].0[n])));
                for r in 0..R {
                    for half in 0..2 {
                        rows[r][half] = dot(rows[r][half], deltas[r][k][n], x[half]);
                    }
                }
            }
        }
        for r in 0..R {
            for half in 0..2 {
                store(&mut sums[half].0[R * block + r], rows[r][half]);
            }
        }
    }
}

/// `rounds` times a product for each of 16 sums in registers.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) fn multiply_adds(rounds: usize) {
    let mut sums = [_mm512_setzero_ps(); LANES];
    let [a, b] = [0, 1].map(core::hint::black_box).map(|word| bf16(_mm512_set1_epi32(word)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbf16_ps(*sum, a, b);
        }
    }
    core::hint::black_box(sums);
}
