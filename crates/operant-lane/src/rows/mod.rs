//! The row interpreter: runs a recorded [`Function`](crate::trace::Function) on a CPU without a compiler.
//!
//! An instruction computes one operation for a row of up to 256 environments, so that its dispatch costs little. Rows
//! are allocated by lifetime: a row is reused after the last instruction that reads its value. The number of chunks per row is
//! chosen so that all rows fit into the L1 cache, if that is possible. Cold paths are skipped when no environment needs them.
//!
//! ```
//! use operant_lane::rows::Program;
//! use operant_lane::trace::{Graph, Literal, Operation, Outputs, Type};
//! use operant_lane::trace::Arg;
//! use operant_lane::Kind;
//!
//! // y = 2 x
//! let (graph, mut outputs) = (Graph::new(), Outputs::new());
//! let float = Type::Scalar(Kind::Float);
//! let (x, two) = (graph.parameter("x", float), Arg::Literal(Literal::Float(2f32.to_bits())));
//! outputs.put("y".into(), float, graph.scalar(Operation::FloatMul, &[x, two]));
//!
//! let program = Program::compile::<f32>(&graph.finish(outputs));
//! let mut frame = program.frame();
//! let xs: Vec<u32> = (0..16).map(|i| (i as f32).to_bits()).collect();
//! frame.load(program.input("x").expect("x is used"), 0, &xs);
//! program.run(&mut frame, 1);
//! let mut ys = [0; 16];
//! frame.store(program.outputs()[0].words[0], &mut ys);
//! assert_eq!(f32::from_bits(ys[3]), 6.0);
//! ```

mod compile;
mod draft;
mod kernels;
mod slots;

use crate::trace::Type;

/// Environments of a chunk, the unit in which rows are processed.
pub const CHUNK: usize = 16;

/// Maximum chunks of a row.
const MOST_CHUNKS: usize = 16;

/// Memory that the rows of a program may take, so that they stay in the L1 cache of every common CPU.
const CACHE_BYTES: usize = 32 << 10;

/// The words of 16 environments.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Chunk([u32; CHUNK]);

const ZERO: Chunk = Chunk([0; CHUNK]);

/// A parameter of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type. Memory takes as many rows as it has words.
    pub kind: Type,
    /// Its first row.
    row: usize,
}

/// Where a word of a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In a row. Masks have all bits of a word or none.
    Row(usize),
    /// It is the same in all environments and calls.
    Constant(u32),
}

/// A result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Result {
    /// The place that the function names.
    pub place: String,
    /// Its type.
    pub kind: Type,
    /// Its words: one, or those of a memory.
    pub words: Vec<Source>,
}

/// A function as instructions over rows.
#[derive(Debug)]
pub struct Program {
    code: Vec<Code>,
    constants: kernels::Constants,
    inputs: Vec<Input>,
    outputs: Vec<Result>,
    rows: usize,
    /// Chunks from one row to the next.
    stride: usize,
}

/// An instruction. Rows are offsets in chunks.
#[derive(Debug)]
enum Code {
    /// Computes.
    Run(kernels::Instruction),
    /// Continues at `to` if the mask holds in no environment.
    Skip { mask: usize, to: usize },
    /// Ends the innermost loop, and continues at `to`, if the mask holds in no environment.
    Break { mask: usize, to: usize },
    /// Starts a loop, with 0 in the row `index`.
    Begin { index: Option<usize> },
    /// Counts the turn and continues after `begin`, unless it was the last.
    End { begin: usize, count: u32, index: Option<usize> },
}

/// The memory of a program that runs.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    chunks: Vec<Chunk>,
    stride: usize,
    /// Turns of the running loops, innermost last.
    turns: Vec<u32>,
}

impl Program {
    /// The most environments of a run.
    pub fn width(&self) -> usize {
        self.stride * CHUNK
    }

    /// Memory for a run.
    pub fn frame(&self) -> Frame {
        Frame { chunks: vec![ZERO; self.rows * self.stride], stride: self.stride, turns: Vec::new() }
    }

    /// The parameters that are used.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The parameter of a name, if it is used.
    pub fn input(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// The results, in the function's order.
    pub fn outputs(&self) -> &[Result] {
        &self.outputs
    }

    /// Number of instructions, for tests and diagnostics.
    pub fn instructions(&self) -> usize {
        self.code.len()
    }

    /// Number of rows that it needs at the same time.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Computes the results for the first `chunks` chunks of the rows.
    pub fn run(&self, frame: &mut Frame, chunks: usize) {
        assert!(
            chunks <= self.stride && frame.chunks.len() == self.rows * self.stride,
            "a frame of this program"
        );
        let mut at = 0;
        while let Some(code) = self.code.get(at) {
            at += 1;
            match code {
                Code::Run(instruction) => {
                    (instruction.run)(&mut frame.chunks, chunks, instruction, &self.constants);
                }
                Code::Skip { mask, to } => {
                    if !frame.holds_anywhere(*mask, chunks) {
                        at = *to;
                    }
                }
                Code::Break { mask, to } => {
                    if !frame.holds_anywhere(*mask, chunks) {
                        frame.turns.pop();
                        at = *to;
                    }
                }
                Code::Begin { index } => {
                    frame.turns.push(0);
                    frame.fill(*index, chunks, 0);
                }
                Code::End { begin, count, index } => {
                    let turn = frame.turns.last_mut().expect("a loop runs");
                    *turn += 1;
                    let turn = *turn;
                    if turn < *count {
                        frame.fill(*index, chunks, turn);
                        at = begin + 1;
                    } else {
                        frame.turns.pop();
                    }
                }
            }
        }
    }
}

impl Frame {
    /// Writes a parameter's word number `word` of the first environments. Masks are given as 0 or not 0.
    pub fn load(&mut self, input: &Input, word: usize, from: &[u32]) {
        let is_mask = input.kind == Type::Scalar(crate::Kind::Mask);
        self.load_with(input, word, from, |word| if is_mask && word != 0 { u32::MAX } else { word });
    }

    /// Like `load`, converting each value to a word.
    #[inline(always)]
    pub fn load_with<T: Copy>(&mut self, input: &Input, word: usize, from: &[T], convert: impl Fn(T) -> u32) {
        let first = (input.row + word) * self.stride;
        let to = &mut self.chunks[first..first + self.stride];
        let (whole, rest) = from.as_chunks::<CHUNK>();
        to.iter_mut().zip(whole).for_each(|(to, from)| to.0 = from.map(&convert));
        if !rest.is_empty() {
            to[whole.len()].0.iter_mut().zip(rest).for_each(|(to, from)| *to = convert(*from));
        }
    }

    /// Writes a parameter with the same word in all environments.
    pub fn load_constant(&mut self, input: &Input, word: u32) {
        let first = input.row * self.stride;
        self.chunks[first..first + self.stride].fill(Chunk([word; CHUNK]));
    }

    /// Reads a word of a result, of the first environments.
    pub fn store(&self, from: Source, to: &mut [u32]) {
        self.store_with(from, to, |word| word);
    }

    /// Like `store`, converting each word to a value.
    #[inline(always)]
    pub fn store_with<T>(&self, from: Source, to: &mut [T], convert: impl Fn(u32) -> T) {
        match from {
            Source::Constant(word) => to.iter_mut().for_each(|to| *to = convert(word)),
            Source::Row(row) => {
                let from = &self.chunks[row * self.stride..][..self.stride];
                let (whole, rest) = to.as_chunks_mut::<CHUNK>();
                whole.iter_mut().zip(from).for_each(|(to, from)| *to = from.0.map(&convert));
                if !rest.is_empty() {
                    rest.iter_mut().zip(from[whole.len()].0).for_each(|(to, from)| *to = convert(from));
                }
            }
        }
    }

    fn fill(&mut self, row: Option<usize>, chunks: usize, word: u32) {
        if let Some(row) = row {
            self.chunks[row..row + chunks].fill(Chunk([word; CHUNK]));
        }
    }

    fn holds_anywhere(&self, mask: usize, chunks: usize) -> bool {
        self.chunks[mask..mask + chunks]
            .iter()
            .any(|chunk| chunk.0.iter().fold(0, |any, word| any | word) != 0)
    }
}
