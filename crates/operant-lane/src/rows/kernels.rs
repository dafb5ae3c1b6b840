//! The instructions of the row interpreter: each is one function per lane and, for scalar operations, per choice of
//! arguments that are constants.

use core::cell::Cell;
use core::fmt;

use super::{CHUNK, Chunk, ZERO};
use crate::lane::{Packed, Uint};
use crate::philox::philox;
use crate::trace::{Arithmetic, Operation, OperationVisitor};

/// Computes an instruction for a number of chunks.
pub(super) type Kernel = fn(&mut [Chunk], usize, &Instruction, &Constants);

/// A kernel with its rows, as offsets in chunks, and constants.
#[derive(Clone, Copy)]
pub(super) struct Instruction {
    pub(super) run: Kernel,
    /// The row of the result, or the first one of a memory.
    pub(super) to: usize,
    /// Rows or constants.
    pub(super) args: [usize; 3],
    /// What else the kernel needs: words of a memory, the number of a table or of a list of operands.
    pub(super) more: usize,
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <- {:?} ({})", self.to, self.args, self.more)
    }
}

/// An operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Row(usize),
    Constant(u32),
}

/// What instructions refer to by number.
#[derive(Debug, Default)]
pub(super) struct Constants {
    pub(super) tables: Vec<Vec<u32>>,
    pub(super) operands: Vec<Vec<Operand>>,
    /// Chunks from one row to the next.
    pub(super) stride: usize,
}

/// `chunks` chunks from `at` on. As cells, because a result may share its row with an argument.
#[inline(always)]
fn row(rows: &[Cell<Chunk>], at: usize, chunks: usize) -> &[Cell<Chunk>] {
    &rows[at..at + chunks]
}

fn cells(rows: &mut [Chunk]) -> &[Cell<Chunk>] {
    Cell::from_mut(rows).as_slice_of_cells()
}

/// A scalar operation; bit k of LITERALS says that argument k is a constant.
fn map<L: Packed, A: Arithmetic, const LITERALS: u8>(
    rows: &mut [Chunk],
    chunks: usize,
    i: &Instruction,
    _: &Constants,
) {
    let rows = cells(rows);
    let is_row = |k: usize| k < A::ARITY && LITERALS >> k & 1 == 0;
    // Lists instead of `array::from_fn`: its closures would be functions of their own for each of these hundreds of functions.
    let constant = |k: usize| L::Uint::splat(i.args[k] as u32);
    let constants = [constant(0), constant(1), constant(2)];
    let arg = |k: usize| row(rows, if is_row(k) { i.args[k] } else { 0 }, chunks);
    let args = [arg(0), arg(1), arg(2)];
    let to = row(rows, i.to, chunks);
    for k in 0..chunks {
        let args = [args[0][k].get(), args[1][k].get(), args[2][k].get()];
        let mut result = ZERO;
        for part in (0..CHUNK).step_by(L::WIDTH) {
            let word = |k: usize| if is_row(k) { L::load_uint(&args[k].0[part..]) } else { constants[k] };
            L::store_uint(A::words::<L>([word(0), word(1), word(2)]), &mut result.0[part..]);
        }
        to[k].set(result);
    }
}

/// The kernel of a scalar operation.
pub(super) fn scalar<L: Packed>(operation: Operation, literals: u8) -> Kernel {
    struct Choose<L>(u8, core::marker::PhantomData<L>);
    impl<L: Packed> OperationVisitor for Choose<L> {
        type Result = Kernel;
        fn visit<A: Arithmetic>(self) -> Kernel {
            match self.0 {
                0 => map::<L, A, 0>,
                1 => map::<L, A, 1>,
                2 => map::<L, A, 2>,
                3 => map::<L, A, 3>,
                4 => map::<L, A, 4>,
                5 => map::<L, A, 5>,
                6 => map::<L, A, 6>,
                _ => unreachable!("operations on constants are folded"),
            }
        }
    }
    operation.visit(Choose::<L>(literals, core::marker::PhantomData))
}

/// Copies `more` rows.
pub(super) fn copy(rows: &mut [Chunk], chunks: usize, i: &Instruction, constants: &Constants) {
    for row in 0..i.more {
        let from = i.args[0] + row * constants.stride;
        rows.copy_within(from..from + chunks, i.to + row * constants.stride);
    }
}

/// Fills a row with a constant.
pub(super) fn fill(rows: &mut [Chunk], chunks: usize, i: &Instruction, _: &Constants) {
    rows[i.to..i.to + chunks].fill(Chunk([i.args[0] as u32; CHUNK]));
}

/// Fills rows with the words of table `more`.
pub(super) fn fill_memory(rows: &mut [Chunk], chunks: usize, i: &Instruction, constants: &Constants) {
    for (row, word) in constants.tables[i.more].iter().enumerate() {
        let to = i.to + row * constants.stride;
        rows[to..to + chunks].fill(Chunk([*word; CHUNK]));
    }
}

/// `more` rows from the second argument where the mask holds; the other rows are kept.
pub(super) fn replace_memory<L: Packed>(
    rows: &mut [Chunk],
    chunks: usize,
    i: &Instruction,
    constants: &Constants,
) {
    let run = scalar::<L>(Operation::UintSelect, 0);
    for row in 0..i.more {
        let (to, from) = (i.to + row * constants.stride, i.args[1] + row * constants.stride);
        run(rows, chunks, &Instruction { to, args: [i.args[0], from, to], ..*i }, constants);
    }
}

/// Entries of table `more`.
pub(super) fn look_up(rows: &mut [Chunk], chunks: usize, i: &Instruction, constants: &Constants) {
    let table = &constants.tables[i.more][..];
    let last = table.len() - 1;
    for k in 0..chunks {
        let index = rows[i.args[0] + k].0;
        rows[i.to + k].0 = index.map(|index| table[(index as usize).min(last)]);
    }
}

/// Words of a memory of `more` rows: `(memory, index)`.
pub(super) fn element(rows: &mut [Chunk], chunks: usize, i: &Instruction, constants: &Constants) {
    let last = i.more - 1;
    for k in 0..chunks {
        let index = rows[i.args[1] + k].0;
        let memory = &rows[i.args[0] + k..];
        let read =
            core::array::from_fn(|lane| memory[(index[lane] as usize).min(last) * constants.stride].0[lane]);
        rows[i.to + k].0 = read;
    }
}

/// Writes a memory of `more` rows: `to` at the index that the second operand names where the first one holds. The
/// operands are those of the list `args[0]`: `(condition, index, value)`.
pub(super) fn write(rows: &mut [Chunk], chunks: usize, i: &Instruction, constants: &Constants) {
    let operands = &constants.operands[i.args[0]];
    for k in 0..chunks {
        let [at, index, value] = core::array::from_fn(|operand| match operands[operand] {
            Operand::Row(row) => rows[row + k].0,
            Operand::Constant(word) => [word; CHUNK],
        });
        let memory = &mut rows[i.to + k..];
        for lane in 0..CHUNK {
            if at[lane] != 0 && (index[lane] as usize) < i.more {
                memory[index[lane] as usize * constants.stride].0[lane] = value[lane];
            }
        }
    }
}

/// Philox: the four results and the six arguments are the list `args[0]`; an unused result is a constant.
pub(super) fn random<L: Packed>(rows: &mut [Chunk], chunks: usize, i: &Instruction, constants: &Constants) {
    let rows = cells(rows);
    let operands = &constants.operands[i.args[0]];
    for k in 0..chunks {
        let args: [Chunk; 6] = core::array::from_fn(|operand| match operands[4 + operand] {
            Operand::Row(row) => rows[row + k].get(),
            Operand::Constant(word) => Chunk([word; CHUNK]),
        });
        let mut results = [ZERO; 4];
        for part in (0..CHUNK).step_by(L::WIDTH) {
            let [c0, c1, c2, c3, k0, k1] = core::array::from_fn(|k| L::load_uint(&args[k].0[part..]));
            let words = philox::<L>([c0, c1, c2, c3], [k0, k1]);
            results.iter_mut().zip(words).for_each(|(to, word)| L::store_uint(word, &mut to.0[part..]));
        }
        for (operand, result) in operands.iter().zip(results) {
            if let Operand::Row(row) = operand {
                rows[row + k].set(result);
            }
        }
    }
}
