//! Layers whose weights serve several places of a sample: convolutions and items. Each is a matrix product over rows of
//! places; tables of indices map the numbers of one row to the numbers of another, and one kernel (`gemm_map`) applies them.

use super::layout::{PAD, Product};
use crate::network::Conv;

/// No bias and no second input; the same as NONE in `gemm/math.cu`.
const NONE: u32 = u32::MAX;
/// Marks an index into the biases; the same as BIAS_BIT in `gemm/math.cu`.
const BIAS: u32 = 1 << 31;

/// For each element of a row, the elements of another row whose sum it is (CSR form).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Map {
    /// Number j is the sum of the input's numbers `uses[starts[j]..starts[j + 1]]`.
    pub starts: Vec<u32>,
    pub uses: Vec<u32>,
    /// A number of a second input, or a bias, that is added; or none.
    pub others: Vec<u32>,
}

impl Map {
    fn new(columns: usize, of: impl Fn(usize) -> (Vec<usize>, u32)) -> Self {
        let mut map = Self { starts: vec![0], ..Self::default() };
        for (uses, other) in (0..columns).map(of) {
            map.uses.extend(uses.into_iter().map(|at| at as u32));
            map.starts.push(map.uses.len() as u32);
            map.others.push(other);
        }
        // Device buffers cannot be empty.
        map.uses.resize(map.uses.len().max(1), 0);
        map
    }

    /// Numbers of a row.
    pub fn columns(&self) -> usize {
        self.others.len()
    }
}

/// A product over places, between the rows of two layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapped {
    pub product: Product,
    /// im2col: from the layer's inputs to rows of patches.
    pub unfold: Map,
    /// From the product's results and the inputs to the layer's outputs.
    pub place: Map,
    /// Outputs that it makes, with the nonlinearity if the layer has any; the others passed the layer.
    pub made: usize,
    /// From the gradient of the outputs to the gradient of the product's results.
    pub split: Map,
    /// col2im: from the gradients of the patches and of copied inputs to the gradient of the layer's inputs.
    pub fold: Map,
}

fn padded(count: usize) -> usize {
    count.next_multiple_of(PAD)
}

impl Mapped {
    /// A convolution over `inputs` numbers, of which those outside of the image pass if `passes`.
    pub fn conv(product: Product, conv: &Conv, [inputs, outputs]: [usize; 2], passes: bool) -> Self {
        let Conv { image: [_, _, depth], kernel, channels, .. } = *conv;
        let (patch, made) = (conv.patch(), conv.outputs());
        // Columns of a patch are in the order of weights: (depth, kernel, kernel).
        let input = |place: usize, column: usize| {
            let (d, y, x) = (column / (kernel * kernel), column / kernel % kernel, column % kernel);
            let row = conv.runs(place).nth(y).expect("a row of the patch");
            row + x * depth + d
        };
        let passed: Vec<usize> = if passes { conv.passed(inputs).collect() } else { Vec::new() };
        let unfold = Map::new(conv.places() * product.inputs, |at| {
            let (place, column) = (at / product.inputs, at % product.inputs);
            (if column < patch { vec![input(place, column)] } else { vec![] }, NONE)
        });
        let place = Map::new(padded(outputs), |j| match j.checked_sub(made) {
            None => (vec![j / channels * product.outputs + j % channels], BIAS | (j % channels) as u32),
            Some(k) => (vec![], passed.get(k).map_or(NONE, |&input| input as u32)),
        });
        let split = Map::new(conv.places() * product.outputs, |at| {
            let (place, channel) = (at / product.outputs, at % product.outputs);
            (if channel < channels { vec![place * channels + channel] } else { vec![] }, NONE)
        });
        let mut uses = vec![Vec::new(); inputs];
        for (at, range) in unfold.starts.windows(2).enumerate() {
            unfold.uses[range[0] as usize..range[1] as usize].iter().for_each(|&i| uses[i as usize].push(at));
        }
        let mut others = vec![NONE; padded(inputs)];
        passed.iter().enumerate().for_each(|(k, &input)| others[input] = (made + k) as u32);
        let fold = Map::new(padded(inputs), |i| (uses.get(i).cloned().unwrap_or_default(), others[i]));
        Self { product, unfold, place, made, split, fold }
    }
}
