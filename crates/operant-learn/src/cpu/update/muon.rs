//! Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024): the step of a matrix is its momentum made nearly
//! orthogonal by five rounds of Newton and Schulz's iteration, `X <- a X + (b A + c A A) X` with `A = X X^T`.
//!
//! All in f32. An element of a product adds up its terms in their order, whatever threads compute it.

use operant_lane::isa::f32x16;
use rayon::prelude::*;

use crate::cpu::network::tile::{LANES, fma};

/// a, b and c, which bring singular values near 1 in few rounds; those of Jordan's code.
const COEFFICIENTS: [f32; 3] = [3.4445, -4.7750, 2.0315];
const ROUNDS: usize = 5;
/// The root mean square of a step's elements, near that of Adam's, so that both may have one learning rate (Liu et al., "Muon is Scalable
/// for LLM Training", 2025).
const STEP: f64 = 0.2;
/// Vectors of a row that are added up together.
const AT_ONCE: usize = 4;

/// A matrix with rows padded to whole vectors, of zeros.
#[derive(Clone)]
struct Matrix {
    columns: usize,
    /// Vectors of a row.
    width: usize,
    vectors: Vec<f32x16>,
}

impl Matrix {
    fn zeros(rows: usize, columns: usize) -> Self {
        let width = columns.div_ceil(LANES);
        Self { columns, width, vectors: vec![f32x16::ZERO; rows * width] }
    }

    fn of(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> Self {
        let mut matrix = Self::zeros(rows, columns);
        for (row, vectors) in matrix.vectors.chunks_exact_mut(matrix.width).enumerate() {
            for column in 0..columns {
                vectors[column / LANES].as_mut_array()[column % LANES] = element(row, column);
            }
        }
        matrix
    }

    fn at(&self, row: usize, column: usize) -> f32 {
        self.vectors[row * self.width + column / LANES].as_array()[column % LANES]
    }

    fn rows(&self) -> usize {
        self.vectors.len() / self.width
    }

    fn transposed(&self) -> Self {
        Self::of(self.columns, self.rows(), |row, column| self.at(column, row))
    }

    /// `start + self x other`.
    fn times(&self, other: &Self, start: Self, parallel: bool) -> Self {
        let mut sums = start;
        let width = sums.width;
        let of_row = |(row, vectors): (usize, &mut [f32x16])| {
            for (part, sums) in vectors.chunks_mut(AT_ONCE).enumerate() {
                let mut own = [f32x16::ZERO; AT_ONCE];
                own[..sums.len()].copy_from_slice(sums);
                for k in 0..self.columns {
                    let factor = f32x16::splat(self.at(row, k));
                    let from = &other.vectors[k * width + part * AT_ONCE..][..sums.len()];
                    own.iter_mut().zip(from).for_each(|(sum, value)| *sum = fma(factor, *value, *sum));
                }
                sums.copy_from_slice(&own[..sums.len()]);
            }
        };
        if parallel {
            sums.vectors.par_chunks_mut(width).enumerate().for_each(of_row);
        } else {
            sums.vectors.chunks_mut(width).enumerate().for_each(of_row);
        }
        sums
    }

    fn scaled(&self, factor: f32) -> Self {
        let factor = f32x16::splat(factor);
        Self { vectors: self.vectors.iter().map(|vector| *vector * factor).collect(), ..*self }
    }
}

/// A matrix `(rows, columns)`, row by row, with the singular vectors of `values` and singular values near 1.
fn orthogonalised(values: &[f32], [rows, columns]: [usize; 2], norm: f64, parallel: bool) -> Vec<f32> {
    // Wide, so that A is as small as it can be.
    let is_tall = rows > columns;
    let [short, long] = [rows.min(columns), rows.max(columns)];
    let at =
        |row: usize, column: usize| if is_tall { column * columns + row } else { row * columns + column };
    let scale = (1.0 / (norm + 1e-7)) as f32;
    let mut x = Matrix::of(short, long, |row, column| values[at(row, column)] * scale);
    let [a, b, c] = COEFFICIENTS;
    for _ in 0..ROUNDS {
        let square = x.times(&x.transposed(), Matrix::zeros(short, short), parallel);
        let factors = square.scaled(c).times(&square, square.scaled(b), parallel);
        x = factors.times(&x, x.scaled(a), parallel);
    }
    let mut result = vec![0.0; values.len()];
    for row in 0..short {
        (0..long).for_each(|column| result[at(row, column)] = x.at(row, column));
    }
    result
}

/// One step of a matrix along its gradient, which is multiplied by `scale` first.
pub(super) fn step(
    params: &mut [f32],
    momentum: &mut [f32],
    gradient: &[f32],
    scale: f32,
    shape: [usize; 2],
    (rate, decay): (f64, f64),
    parallel: bool,
) {
    let (keep, take) = (decay as f32, (1.0 - decay) as f32);
    // Nesterov's: one step ahead of the momentum.
    let ahead: Vec<f32> = (momentum.iter_mut().zip(gradient))
        .map(|(m, g)| {
            let g = g * scale;
            *m = *m * keep + g * take;
            *m * keep + g * take
        })
        .collect();
    let step = (rate * STEP * (shape[0].max(shape[1]) as f64).sqrt()) as f32;
    let direction = orthogonalised(&ahead, shape, super::adam::norm(&ahead), parallel);
    params.iter_mut().zip(direction).for_each(|(param, direction)| *param -= step * direction);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_values_come_near_one_and_threads_change_no_bit() {
        for shape @ [rows, columns] in [[1, 1], [5, 5], [7, 40], [64, 17], [33, 70]] {
            let values: Vec<f32> =
                (0..rows * columns).map(|i| ((i * 7919 % 1_009) as f32 - 504.0) / 300.0).collect();
            let norm = super::super::adam::norm(&values);
            let result = orthogonalised(&values, shape, norm, false);
            assert_eq!(orthogonalised(&values, shape, norm, true), result);
            // The trace of X X^T is the sum of squared singular values, and that of its square of their fourth powers: the iteration leaves
            // them between 0.7 and 1.2, but those of a matrix that is nearly singular.
            let short = rows.min(columns) as f64;
            let mean = result.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / short;
            assert!((0.4..1.4).contains(&mean), "{shape:?}: {mean}");
            // Its singular vectors are those of the values: the product of both has a positive trace of nearly their nuclear norm.
            let along = values.iter().zip(&result).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            assert!(along >= 0.65 * norm, "{shape:?}: {along} of {norm}");
        }
    }
}
