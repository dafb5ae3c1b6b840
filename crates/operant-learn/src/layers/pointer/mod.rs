//! Pointer heads: an observation lists candidates, one for each action, and their scores are the logits.

pub(crate) mod cpu;

use operant_env::{ActionSpace, EnvSpec, ObsSpace};

use super::conv::Image;
use super::export::{Exported, Graph};
use super::{LayerForm, LayerMemory, LayerSizes};
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer, Operation};
use crate::network::{LayerSpec, Network};

/// A head that scores candidates. Its inputs are the features of items: of the state, then of each candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// Candidates, which are the actions; 0 in a network for values alone.
    pub choices: usize,
    /// H: features of an item.
    pub width: usize,
    /// Whether the value of the state comes after the scores.
    pub value: bool,
}

impl Pointer {
    /// Rows of weights over the state's features: the query's H, and the value's.
    pub fn rows(&self) -> usize {
        if self.choices == 0 { 1 } else { self.width + usize::from(self.value) }
    }

    /// The factor of the scores: 1 / sqrt(H).
    pub fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}

impl LayerForm for Pointer {
    fn outputs(&self, _inputs: usize) -> usize {
        self.choices + usize::from(self.value)
    }

    fn lay(&self, _network: &mut Network, _name: &str, _inputs: usize) {
        unreachable!("a head's parameters have the names of its outputs")
    }

    fn multiply_adds(&self, _inputs: usize) -> [usize; 2] {
        [self.rows() * self.width, self.choices * self.width]
    }

    fn describe(&self, _inputs: usize) -> String {
        let Pointer { choices, width, .. } = self;
        if *choices == 0 {
            format!("{width} -> 1")
        } else {
            format!("{width} -> {width}, {choices} dot products")
        }
    }

    fn needs(&self, _at: &LayerSizes) -> LayerMemory {
        LayerMemory { kept: self.rows(), ..LayerMemory::default() }
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        let product = gemm.lay_product(1, [self.rows(), self.width]);
        vec![Layer::of(layer, Operation::Pointer(product, *self))]
    }

    fn export(&self, _graph: &mut dyn Graph, _of: Exported<'_>) {
        unreachable!("a graph's outputs are made of its heads")
    }
}

/// The items of an observation as an image of one column: the state, then a candidate for each action. Both are parts, one after
/// the other, and each candidate has the shape and bounds of the state.
///
/// # Errors
/// A description of the problem if the observation has no candidates, or more than them and their state.
pub(crate) fn items(spec: &EnvSpec) -> Result<Image, String> {
    let ActionSpace::Discrete(choices) = &spec.actions else {
        return Err("a pointer head needs discrete actions, and these are real numbers".to_owned());
    };
    let [choices] = choices[..] else {
        return Err("a pointer head needs actions with one component".to_owned());
    };
    let parts = spec.obs.parts();
    let [(_, state), (_, candidates)] = parts[..] else {
        return Err("the observation must have two parts, a state and its candidates".to_owned());
    };
    let features = state.features();
    if is_list_of(candidates, state, choices) {
        Ok(Image { first: 0, extents: [choices + 1, 1, features] })
    } else {
        Err(format!(
            "the second part must list {choices} candidates, one for each action, with the shape and bounds of the first part"
        ))
    }
}

/// Whether `list` is `count` observations like `item`.
fn is_list_of(list: &ObsSpace, item: &ObsSpace, count: usize) -> bool {
    let is_shape = |list: &[usize], item: &[usize]| list.split_first() == Some((&count, item));
    match (list, item) {
        (ObsSpace::Box { low, high }, ObsSpace::Box { low: item_low, high: item_high }) => {
            *low == item_low.repeat(count) && *high == item_high.repeat(count)
        }
        (ObsSpace::Binary { shape }, ObsSpace::Binary { shape: item })
        | (ObsSpace::Bytes { shape }, ObsSpace::Bytes { shape: item }) => is_shape(shape, item),
        // Equal bounds of each position, so that they can share a table.
        (ObsSpace::Index { shape, below }, ObsSpace::Index { shape: of_item, below: of_position }) => {
            is_shape(shape, of_item) && below == of_position && item.size().is_multiple_of(below.len())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_as_many_as_actions_and_the_same_bounds() {
        let indices =
            |shape: &[usize], below: &[u32]| ObsSpace::Index { shape: shape.to_vec(), below: below.to_vec() };
        let item = indices(&[2, 3], &[5, 7, 7]);
        let numbers = |bounds: &[f64]| ObsSpace::symmetric(bounds);
        assert!(is_list_of(&numbers(&[1.0, 2.0, 1.0, 2.0]), &numbers(&[1.0, 2.0]), 2));
        assert!(!is_list_of(&numbers(&[1.0, 2.0, 2.0, 1.0]), &numbers(&[1.0, 2.0]), 2));
        assert!(is_list_of(&indices(&[4, 2, 3], &[5, 7, 7]), &item, 4));
        for other in [
            indices(&[3, 2, 3], &[5, 7, 7]),
            indices(&[4, 3, 2], &[5, 7, 7]),
            indices(&[4, 2, 3], &[5, 7, 8]),
            ObsSpace::Binary { shape: vec![4, 2, 3] },
        ] {
            assert!(!is_list_of(&other, &item, 4), "{other}");
        }
    }
}
