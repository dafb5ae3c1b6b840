//! Matrices of int8: each row has a scale, which its weights are multiples of.

use operant_learn::PolicyTensor;

use crate::error::Result;
use crate::policy::SavedPolicy;

/// The greatest weight of a row in units of its scale.
const GREATEST: f32 = 127.0;

/// A matrix, or the weights of a convolution.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8 {
    /// Row-major.
    pub values: Vec<i8>,
    /// A scale for each row: an output unit, a channel, or a row of a table.
    pub scales: Vec<f32>,
}

impl Int8 {
    /// The nearest such matrix; None of a vector, which stays as it is.
    pub fn of(tensor: &PolicyTensor) -> Option<Self> {
        let (rows, columns) = match tensor.shape[..] {
            [rows, ref columns @ ..] if !columns.is_empty() => (rows, columns.iter().product::<usize>()),
            _ => return None,
        };
        let mut of = Int8 { values: Vec::new(), scales: Vec::with_capacity(rows) };
        for row in tensor.values.chunks_exact(columns) {
            let greatest = row.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            let scale = greatest / GREATEST;
            of.scales.push(scale);
            of.values.extend(row.iter().map(|x| if scale > 0.0 { (x / scale).round() as i8 } else { 0 }));
        }
        Some(of)
    }

    /// The weights that it stands for.
    fn floats(&self) -> Vec<f32> {
        let rows = self.values.chunks_exact(self.values.len() / self.scales.len());
        rows.zip(&self.scales)
            .flat_map(|(row, scale)| row.iter().map(move |x| f32::from(*x) * scale))
            .collect()
    }
}

/// The policy with the weights that its int8 matrices stand for.
///
/// # Errors
/// When they are not finite.
pub fn rounded(saved: &SavedPolicy) -> Result<SavedPolicy> {
    let mut tensors = saved.policy.tensors();
    for tensor in &mut tensors {
        if let Some(matrix) = Int8::of(tensor) {
            tensor.values = matrix.floats();
        }
    }
    saved.with_tensors(&tensors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_rounded_to_multiples_of_their_own_scale() {
        let tensor = |shape: &[usize], values: &[f32]| PolicyTensor {
            name: "w".to_owned(),
            shape: shape.to_vec(),
            values: values.to_vec(),
        };
        let of = Int8::of(&tensor(&[3, 2], &[1.27, -0.014, 0.0, 0.0, -254.0, 3.1])).expect("a matrix");
        assert_eq!(of.values, [127, -1, 0, 0, -127, 2]);
        assert_eq!(of.scales, [0.01, 0.0, 2.0]);
        assert_eq!(of.floats(), [1.27, -0.01, 0.0, 0.0, -254.0, 4.0]);
        assert_eq!(Int8::of(&tensor(&[2], &[1.0, 2.0])), None);
    }
}
