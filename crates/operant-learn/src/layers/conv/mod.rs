//! Convolutions: no padding, square kernels, images with their channels last. W is row-major `(channels, depth, kernel, kernel)`, as in
//! PyTorch. Layers over the items of a list are convolutions of one pixel.

pub(crate) mod cpu;

use operant_env::ObsSpace;

use super::embed::Embed;
use super::export::{Attribute, Exported, Graph};
use super::{LayerForm, LayerMemory, LayerSizes};
use crate::cpu::network::sparse;
use crate::cpu::network::tile::{LANES, TILE_VECTORS};
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer, Operation};
#[cfg(feature = "cuda")]
use crate::cuda::gemm::maps::Mapped;
use crate::network::{HIDDEN_GAIN, Init, LayerSpec, Network};

/// The part of the input features that is an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Image {
    /// Its first feature.
    pub first: usize,
    /// Height, width and depth; feature `(y width + x) depth + c` is channel c of the pixel (x, y).
    pub extents: [usize; 3],
}

impl Image {
    /// The image among the features of an observation: bits, bytes or indices with dimensions (height, width) or (height, width,
    /// channels). Indices are one-hot along the channels, and every pixel has the same bounds.
    ///
    /// # Errors
    /// A description of the problem if there is none, or more than one, or if its channels come first.
    pub fn of(space: &ObsSpace) -> Result<Self, String> {
        let (mut first, mut images) = (0, Vec::new());
        for (_, part) in space.parts() {
            let extents = match part {
                ObsSpace::Binary { shape } | ObsSpace::Bytes { shape } => match shape[..] {
                    [height, width] => Some([height, width, 1]),
                    [height, width, depth] => Some([height, width, depth]),
                    _ => None,
                },
                ObsSpace::Index { shape, .. } if matches!(shape.len(), 2 | 3) => {
                    let bounds: Vec<u32> = part.bounds().collect();
                    let pixel = &bounds[..shape.get(2).copied().unwrap_or(1)];
                    let is_regular = bounds.chunks(pixel.len()).all(|bounds| bounds == pixel);
                    is_regular.then(|| [shape[0], shape[1], pixel.iter().sum::<u32>() as usize])
                }
                _ => None,
            };
            if let (ObsSpace::Binary { .. } | ObsSpace::Bytes { .. }, Some([planes, height, width])) =
                (part, extents)
                && planes < height.min(width)
            {
                return Err(format!(
                    "the {planes} planes of {height}x{width} have their channels first, not last"
                ));
            }
            images.extend(extents.map(|extents| Image { first, extents }));
            first += part.features();
        }
        match images[..] {
            [image] => Ok(image),
            [] => Err("no part of the observation is an image".to_owned()),
            _ => Err("more than one part of the observation is an image".to_owned()),
        }
    }
}

impl Image {
    /// The same image after an embedding of the observation's indices.
    ///
    /// # Errors
    /// A description of the problem if its pixels are added up there.
    pub fn embedded(self, embed: Option<&Embed>) -> Result<Self, String> {
        let Some(embed) = embed else { return Ok(self) };
        let first = embed.output(self.first).ok_or("the encoder pools the pixels of the image")?;
        let [height, width, depth] = self.extents;
        let depth = match embed.parts.iter().find(|part| part.first == self.first) {
            None => depth,
            Some(part) if part.positions.is_multiple_of(height * width) => {
                part.positions / (height * width) * embed.width
            }
            Some(_) => return Err("the indices of the image have other bounds in each column".to_owned()),
        };
        Ok(Self { first, extents: [height, width, depth] })
    }
}

/// A convolution over the part of a layer's inputs that is an image. Its outputs are an image `(height, width, channels)`, then
/// the inputs that are not of the image, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Conv {
    /// The image's first input.
    pub first: usize,
    /// The image's height, width and depth.
    pub image: [usize; 3],
    /// Output channels.
    pub channels: usize,
    /// Height and width of a patch.
    pub kernel: usize,
    /// Distance between patches, in pixels.
    pub stride: usize,
}

impl Conv {
    /// Convolutions `[channels, kernel, stride]`, one after the other.
    ///
    /// # Errors
    /// A description of the problem if one does not fit into its image.
    pub fn stack(image: Image, convs: &[[usize; 3]]) -> Result<Vec<Self>, String> {
        let Image { mut first, extents: mut image } = image;
        let mut stack = Vec::new();
        for (k, &[channels, kernel, stride]) in convs.iter().enumerate() {
            let [height, width, depth] = image;
            if channels == 0 || kernel == 0 || stride == 0 || kernel > height.min(width) {
                return Err(format!(
                    "convolution {k} has {channels} channels, kernel {kernel} and stride {stride}, and its image is \
                     {height}x{width}x{depth}"
                ));
            }
            let conv = Conv { first, image, channels, kernel, stride };
            let [height, width] = conv.extents();
            (first, image) = (0, [height, width, channels]);
            stack.push(conv);
        }
        Ok(stack)
    }

    /// Height and width of the output.
    pub fn extents(&self) -> [usize; 2] {
        let [height, width, _] = self.image;
        [height, width].map(|extent| (extent - self.kernel) / self.stride + 1)
    }

    /// Pixels of the output.
    pub fn places(&self) -> usize {
        self.extents().iter().product()
    }

    /// Inputs of a patch: kernel x kernel x depth.
    pub fn patch(&self) -> usize {
        self.kernel * self.kernel * self.image[2]
    }

    /// Inputs of the image.
    pub fn image_len(&self) -> usize {
        self.image.iter().product()
    }

    /// Outputs without the inputs that skip the convolution: places x channels.
    pub fn outputs(&self) -> usize {
        self.places() * self.channels
    }

    /// The rows of the patch of output pixel `place`: the first of the `kernel x depth` adjacent inputs of each.
    pub fn runs(&self, place: usize) -> impl Iterator<Item = usize> + use<> {
        let Conv { first, image: [_, width, depth], kernel, stride, .. } = *self;
        let columns = self.extents()[1];
        let (y, x) = (place / columns * stride, place % columns * stride);
        (0..kernel).map(move |row| first + ((y + row) * width + x) * depth)
    }

    /// The inputs that are not of the image, of `inputs` in all.
    pub fn passed(&self, inputs: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.first).chain(self.first + self.image_len()..inputs)
    }

    /// Reorders W from `(channels, depth, kernel, kernel)` to `(channels, kernel, kernel, depth)`, the order of a patch's inputs.
    pub fn to_patches(&self, weight: &[f32], out: &mut [f32]) {
        self.reorder(|patched, given| out[patched] = weight[given]);
    }

    /// Reorders W from `(channels, kernel, kernel, depth)` to `(channels, depth, kernel, kernel)`.
    pub fn from_patches(&self, patched: &[f32], out: &mut [f32]) {
        self.reorder(|from, to| out[to] = patched[from]);
    }

    /// Calls `f` with the index of each weight in the order of patches, and in PyTorch's.
    pub fn reorder(&self, mut f: impl FnMut(usize, usize)) {
        let (area, depth) = (self.kernel * self.kernel, self.image[2]);
        for channel in 0..self.channels {
            for pixel in 0..area {
                for c in 0..depth {
                    f((channel * area + pixel) * depth + c, (channel * depth + c) * area + pixel);
                }
            }
        }
    }
}

/// The same fully connected layer for each item of a list, which is an image of one column; other inputs are dropped. W is row-major
/// `(outputs of an item, features of an item)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Items(pub Conv);

impl Conv {
    fn needs(&self, at: &LayerSizes) -> LayerMemory {
        if at.bits {
            let (places, taps) = (self.places(), self.places() * self.patch());
            return LayerMemory {
                scratch: sparse::scratch(places, self.channels),
                words: sparse::words(at.inputs, taps, places, self.channels),
                ..LayerMemory::default()
            };
        }
        let words = [0, TILE_VECTORS * LANES * self.patch()];
        LayerMemory { scratch: at.vectors * self.patch(), words, ..LayerMemory::default() }
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec, passes: bool) -> Vec<Layer> {
        let product = gemm.lay_product(self.places(), [self.channels, self.patch()]);
        let mapped = Mapped::conv(product, self, [layer.inputs, layer.outputs], passes);
        vec![Layer::of(layer, Operation::Mapped(Box::new(mapped)))]
    }
}

impl LayerForm for Conv {
    fn outputs(&self, inputs: usize) -> usize {
        Conv::outputs(self) + inputs - self.image_len()
    }

    fn lay(&self, network: &mut Network, name: &str, _inputs: usize) {
        let shape = [self.channels, self.image[2], self.kernel, self.kernel];
        network.lay(format!("{name}.weight"), &shape, Init::Orthogonal(HIDDEN_GAIN));
        network.lay(format!("{name}.bias"), &[self.channels], Init::Constant(0.0));
    }

    fn multiply_adds(&self, _inputs: usize) -> [usize; 2] {
        [self.channels * self.patch() * self.places(), 0]
    }

    fn active(&self, _inputs: usize) -> usize {
        Conv::outputs(self)
    }

    fn describe(&self, _inputs: usize) -> String {
        let ([rows, columns], Conv { image: [height, width, depth], channels, kernel, stride, .. }) =
            (self.extents(), self);
        format!("{height}x{width}x{depth} -> {rows}x{columns}x{channels}, {kernel}x{kernel}, stride {stride}")
    }

    fn needs(&self, at: &LayerSizes) -> LayerMemory {
        Conv::needs(self, at)
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        Conv::gemm(self, gemm, layer, true)
    }

    /// The features of the convolution, whose images have their channels last; then the other inputs.
    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let own = |what: &str| of.own(what);
        let image = self.first..self.first + self.image_len();
        let columns = graph.ints(&own("image_columns"), &image.collect::<Vec<_>>());
        let flat = graph.along("Gather", &[of.x, &columns], &own("image"));
        // 0 keeps the batch.
        let shape = graph.ints(&own("shape"), &[&[0], &self.image[..]].concat());
        let image = graph.node("Reshape", &[&flat, &shape], &own("pixels"), &[]);
        let turned = |graph: &mut dyn Graph, x: &str, order: &[usize], what: &str| {
            graph.node("Transpose", &[x], &own(what), &[Attribute::Ints("perm", order)])
        };
        let image = turned(graph, &image, &[0, 3, 1, 2], "channels_first");
        let (weight, bias) = (own("weight"), own("bias"));
        let strides = [Attribute::Ints("strides", &[self.stride, self.stride])];
        let sums = graph.node("Conv", &[&image, &weight, &bias], &own("sum"), &strides);
        let sums = graph.node(of.op, &[&sums], &own("channels"), &[]);
        let sums = turned(graph, &sums, &[0, 2, 3, 1], "channels_last");
        let passed: Vec<usize> = self.passed(of.layer.inputs).collect();
        if passed.is_empty() {
            graph.along("Flatten", &[&sums], of.output);
            return;
        }
        let made = graph.along("Flatten", &[&sums], &own("made"));
        let columns = graph.ints(&own("passed_columns"), &passed);
        let passed = graph.along("Gather", &[of.x, &columns], &own("passed"));
        graph.along("Concat", &[&made, &passed], of.output);
    }
}

impl LayerForm for Items {
    fn outputs(&self, _inputs: usize) -> usize {
        self.0.outputs()
    }

    fn lay(&self, network: &mut Network, name: &str, _inputs: usize) {
        let shape = [self.0.channels, self.0.image[2]];
        network.lay(format!("{name}.weight"), &shape, Init::Orthogonal(HIDDEN_GAIN));
        network.lay(format!("{name}.bias"), &shape[..1], Init::Constant(0.0));
    }

    fn multiply_adds(&self, inputs: usize) -> [usize; 2] {
        self.0.multiply_adds(inputs)
    }

    fn describe(&self, _inputs: usize) -> String {
        let Conv { image: [items, _, depth], channels, .. } = self.0;
        if items == 1 {
            format!("{depth} -> {channels}")
        } else {
            format!("{items} x ({depth} -> {channels})")
        }
    }

    fn needs(&self, at: &LayerSizes) -> LayerMemory {
        self.0.needs(at)
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        self.0.gemm(gemm, layer, false)
    }

    /// Of the first layer over items, a row for each item; they stay rows until the heads.
    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let mut x = of.x.to_owned();
        if of.layer.name.ends_with(".0") {
            let range = self.0.first..self.0.first + self.0.image_len();
            let columns = graph.ints(&of.own("columns"), &range.collect::<Vec<_>>());
            let features = graph.along("Gather", &[&x, &columns], &of.own("items"));
            let shape = graph.sizes(&of.own("shape"), &[-1, self.0.image[2] as i64]);
            x = graph.node("Reshape", &[&features, &shape], &of.own("rows"), &[]);
        }
        let sum = graph.dense(&of.layer.name, &x, &of.own("sum"));
        graph.node(of.op, &[&sum], of.output, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_among_parts() {
        let bits = |shape: &[usize]| ObsSpace::Binary { shape: shape.to_vec() };
        let parts = |parts: &[ObsSpace]| {
            ObsSpace::Parts(parts.iter().enumerate().map(|(k, part)| (k.to_string(), part.clone())).collect())
        };
        let cells = ObsSpace::Index { shape: vec![7, 7, 3], below: vec![11, 6, 3] };
        let reals = ObsSpace::symmetric(&[1.0; 5]);
        let found = |space: &ObsSpace| Image::of(space).map(|image| (image.first, image.extents));
        assert_eq!(found(&bits(&[10, 9, 4])), Ok((0, [10, 9, 4])));
        assert_eq!(found(&parts(&[reals.clone(), bits(&[6, 18])])), Ok((5, [6, 18, 1])));
        assert_eq!(found(&parts(&[ObsSpace::index(4), cells.clone()])), Ok((4, [7, 7, 20])));
        let regular = |shape: &[usize]| ObsSpace::Index { shape: shape.to_vec(), below: vec![18] };
        assert_eq!(found(&regular(&[4, 5])), Ok((0, [4, 5, 18])));
        assert_eq!(found(&regular(&[4, 5, 2])), Ok((0, [4, 5, 36])));
        let irregular = ObsSpace::Index { shape: vec![10, 3], below: vec![9, 30, 30] };
        assert!(found(&irregular).is_err_and(|problem| problem.contains("no part")));
        assert!(found(&bits(&[2, 11, 11])).is_err_and(|problem| problem.contains("channels first")));
        assert!(found(&reals).is_err_and(|problem| problem.contains("no part")));
        assert!(
            found(&parts(&[cells, bits(&[3, 3])])).is_err_and(|problem| problem.contains("more than one"))
        );
    }

    #[test]
    fn patches_lie_where_they_should() {
        let conv = Conv { first: 2, image: [5, 7, 3], channels: 4, kernel: 2, stride: 3 };
        assert_eq!((conv.extents(), conv.places(), conv.patch()), ([2, 2], 4, 12));
        assert_eq!(conv.runs(3).collect::<Vec<_>>(), [2 + (3 * 7 + 3) * 3, 2 + (4 * 7 + 3) * 3]);
        assert_eq!(conv.passed(109).collect::<Vec<_>>(), [0, 1, 107, 108]);
        let weight: Vec<f32> = (0..48).map(|k| k as f32).collect();
        let (mut patched, mut back) = (vec![0.0; 48], vec![0.0; 48]);
        conv.to_patches(&weight, &mut patched);
        // Channel 1, row 1, column 0, depth 2.
        assert_eq!(patched[12 + 2 * 3 + 2], weight[12 + 2 * 4 + 2]);
        conv.from_patches(&patched, &mut back);
        assert_eq!(back, weight);
    }
}
