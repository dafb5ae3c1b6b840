//! Kinds of layers. A folder contains everything about a kind: its shape and parameters, its operations on a GPU's GEMM path and in an ONNX
//! graph (`mod.rs`), and its arithmetic on the CPU (`cpu.rs`). Its line in `layers!` registers it.

pub mod bins;
pub mod cell;
pub mod conv;
pub mod dense;
pub mod dueling;
pub mod embed;
pub mod export;
pub mod norm;
pub mod pointer;
pub mod residual;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope, one_of};
use crate::cpu::network::tile::Row;
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer};
use crate::network::{Chain, LayerSpec, Network};
use export::{Exported, Graph};

/// Properties of a layer of this kind with that many inputs, and the operations it consists of.
pub(crate) trait LayerForm {
    /// Outputs.
    fn outputs(&self, inputs: usize) -> usize;
    /// Adds its parameters to the network under this name, in the order in which everything else reads them.
    fn lay(&self, network: &mut Network, name: &str, inputs: usize);
    /// Multiply-adds of a sample: with the inputs, whose gradient the first layer of a network does not need; and all others.
    fn multiply_adds(&self, inputs: usize) -> [usize; 2];
    /// Outputs that pass the nonlinearity; those after them are inputs that skip the layer.
    fn active(&self, inputs: usize) -> usize {
        self.outputs(inputs)
    }
    /// Its shape in words, such as `4 -> 64`.
    fn describe(&self, inputs: usize) -> String;
    /// Memory on the CPU, in addition to parameters and outputs.
    fn needs(&self, _at: &LayerSizes) -> LayerMemory {
        LayerMemory::default()
    }
    /// Its operations on a GPU, one after the other.
    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer>;
    /// Adds its nodes to a graph.
    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>);
}

/// A kind's arithmetic on the CPU.
pub(crate) trait OnCpu {
    /// Its packed weights.
    type Packed: LayerKind;
    /// A layer before its parameters are packed.
    fn on_cpu(&self, at: &LayerContext<'_>) -> Self::Packed;
}

/// Position of a layer.
pub(crate) struct LayerContext<'a> {
    pub network: &'a Network,
    pub chain: &'a Chain,
    /// The layer's number in the chain.
    pub k: usize,
    /// Inputs of the layer.
    pub inputs: usize,
    /// Whether they are packed bits.
    pub bits: bool,
}

/// The sizes that decide how much memory a layer needs.
pub(crate) struct LayerSizes {
    pub inputs: usize,
    /// Whether they are packed bits.
    pub bits: bool,
    /// Vectors of samples in a pass.
    pub vectors: usize,
}

/// Memory that a layer needs on the CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LayerMemory {
    /// Rows kept from the forward pass for the gradient.
    pub kept: usize,
    /// Vectors of scratch space.
    pub scratch: usize,
    /// Words of its tables, and of a thread's update buffers.
    pub words: [usize; 2],
}

/// The kinds, by name.
macro_rules! layers {
    ($($(#[$doc:meta])* $kind:ident($form:ty);)+) => {
        /// A kind of layer with its shape.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Form {
            $($(#[$doc])* $kind($form),)+
        }

        impl Form {
            pub(crate) fn kind(&self) -> &dyn LayerForm {
                match self { $(Self::$kind(form) => form,)+ }
            }

            pub(crate) fn on_cpu(&self, at: &LayerContext<'_>) -> Kind {
                match self { $(Self::$kind(form) => Kind::$kind(form.on_cpu(at)),)+ }
            }
        }

        $(impl From<$form> for Form {
            fn from(form: $form) -> Self {
                Self::$kind(form)
            }
        })+

        one_of! {
            /// A layer on the CPU with its weights packed.
            Kind, Sums { $($kind: <$form as OnCpu>::Packed;)+ }
        }
    };
}

layers! {
    /// Fully connected.
    Dense(dense::Dense);
    /// A convolution; inputs that are not of its image skip it.
    Conv(conv::Conv);
    /// The same fully connected layer for each item of a list.
    Items(conv::Items);
    /// Tables of the rows that indices take.
    Embed(embed::Embed);
    /// Layer normalisation.
    Norm(norm::Norm);
    /// Units with memory.
    Cell(cell::CellSpec);
    /// Scores of candidates.
    Pointer(pointer::Pointer);
    /// A residual block.
    Residual(residual::Residual);
    /// Advantages and a value.
    Dueling(dueling::Dueling);
    /// Expected values of distributions.
    Bins(bins::Bins);
}
