//! From a function to a program: drafts, rows, and kernels for a lane.

use std::collections::HashMap;

use super::draft::{Draft, Drafts, Id, Term, draft};
use super::kernels::{self, Constants, Instruction, Kernel, Operand};
use super::slots::{RowAllocation, allocate_rows};
use super::{CACHE_BYTES, CHUNK, Code, Input, MOST_CHUNKS, Program, Result, Source};
use crate::lane::Packed;
use crate::trace::{Function, Type};

impl Program {
    /// Compiles a function for a lane; the lane changes the time, never a result.
    pub fn compile<L: Packed>(function: &Function) -> Self {
        let mut drafts = draft(function);
        let allocation = allocate_rows(&mut drafts);
        let row_bytes = allocation.count.max(1) * CHUNK * 4;
        let stride = (CACHE_BYTES / row_bytes).clamp(1, MOST_CHUNKS);
        let tables =
            function.steps.tables.iter().map(|table| table.iter().map(|entry| entry.word()).collect());
        let constants = Constants { tables: tables.collect(), operands: Vec::new(), stride };
        let mut assembler = Assembler { allocation, sizes: &drafts.sizes, constants, code: Vec::new() };
        let mut labels = HashMap::new();
        let mut begins = Vec::new();
        for draft in &drafts.code {
            match draft {
                Draft::Here { label } => drop(labels.insert(*label, assembler.code.len())),
                Draft::Begin { index } => {
                    let index = index.map(|index| assembler.at(index));
                    begins.push((assembler.code.len(), index));
                    assembler.code.push(Code::Begin { index });
                }
                Draft::End { count } => {
                    let (begin, index) = begins.pop().expect("a loop begins");
                    assembler.code.push(Code::End { begin, count: *count, index });
                }
                other => assembler.instruction::<L>(other),
            }
        }
        for code in &mut assembler.code {
            if let Code::Skip { to, .. } | Code::Break { to, .. } = code {
                *to = labels[to];
            }
        }
        let Assembler { allocation, constants, code, .. } = assembler;
        let Drafts { parameters, outputs, .. } = &drafts;
        let inputs = parameters.iter().map(|(name, kind, id)| Input {
            name: name.clone(),
            kind: *kind,
            row: allocation.rows[*id].expect("parameters are placed"),
        });
        let results = function.outputs().iter().zip(outputs).map(|(output, term)| Result {
            place: output.place.clone(),
            kind: output.kind,
            words: match (*term, output.kind) {
                (Term::Constant(word), _) => vec![Source::Constant(word)],
                (Term::Value(id), kind) => {
                    let first = allocation.rows[id].expect("results are written");
                    let words = if let Type::Memory(size) = kind { size } else { 1 };
                    (first..first + words).map(Source::Row).collect()
                }
            },
        });
        Program {
            inputs: inputs.collect(),
            outputs: results.collect(),
            rows: allocation.count,
            code,
            constants,
            stride,
        }
    }
}

struct Assembler<'a> {
    allocation: RowAllocation,
    sizes: &'a [usize],
    constants: Constants,
    code: Vec<Code>,
}

impl Assembler<'_> {
    /// The offset of a value's first row, in chunks.
    fn at(&self, id: Id) -> usize {
        self.allocation.rows[id].expect("a value is written before it is read") * self.constants.stride
    }

    fn operand(&self, term: Term) -> Operand {
        match term {
            Term::Value(id) => Operand::Row(self.at(id)),
            Term::Constant(word) => Operand::Constant(word),
        }
    }

    fn run(&mut self, run: Kernel, to: usize, args: &[usize], more: usize) {
        let args = core::array::from_fn(|k| args.get(k).copied().unwrap_or(0));
        self.code.push(Code::Run(Instruction { run, to, args, more }));
    }

    /// Copies a value of `size` rows.
    fn copy(&mut self, to: usize, from: Term, size: usize) {
        match from {
            Term::Value(from) => self.run(kernels::copy, to, &[self.at(from)], size),
            Term::Constant(word) => self.run(kernels::fill, to, &[word as usize], 0),
        }
    }

    fn operands(&mut self, operands: Vec<Operand>) -> usize {
        self.constants.operands.push(operands);
        self.constants.operands.len() - 1
    }

    fn instruction<L: Packed>(&mut self, draft: &Draft) {
        match draft {
            Draft::Scalar { operation, to, args } => {
                let (mut literals, mut offsets) = (0, [0; 3]);
                for (k, arg) in args.iter().enumerate() {
                    offsets[k] = match self.operand(*arg) {
                        Operand::Row(row) => row,
                        Operand::Constant(word) => {
                            literals |= 1 << k;
                            word as usize
                        }
                    };
                }
                self.run(kernels::scalar::<L>(*operation, literals), self.at(*to), &offsets, 0);
            }
            Draft::Copy { to, from } => self.copy(self.at(*to), *from, self.sizes[*to]),
            Draft::LookUp { to, index, table } => {
                self.run(kernels::look_up, self.at(*to), &[self.at(*index)], *table);
            }
            Draft::Element { to, memory, index } => {
                let (to, first, size) = (self.at(*to), self.at(*memory), self.sizes[*memory]);
                match self.operand(*index) {
                    Operand::Row(index) => self.run(kernels::element, to, &[first, index], size),
                    Operand::Constant(index) => {
                        let from = first + (index as usize).min(size - 1) * self.constants.stride;
                        self.run(kernels::copy, to, &[from], 1);
                    }
                }
            }
            Draft::Write { memory, operands } => {
                let (to, size) = (self.at(*memory), self.sizes[*memory]);
                let operands = operands.map(|operand| self.operand(operand));
                if let [Operand::Constant(u32::MAX), Operand::Constant(index), value] = operands {
                    let to = to + index as usize * self.constants.stride;
                    match value {
                        Operand::Row(from) => self.run(kernels::copy, to, &[from], 1),
                        Operand::Constant(word) => self.run(kernels::fill, to, &[word as usize], 0),
                    }
                } else if let [Operand::Row(at), Operand::Constant(index), value] = operands {
                    let to = to + index as usize * self.constants.stride;
                    let (value, literals) = match value {
                        Operand::Row(from) => (from, 0),
                        Operand::Constant(word) => (word as usize, 2),
                    };
                    let select = crate::trace::Operation::UintSelect;
                    self.run(kernels::scalar::<L>(select, literals), to, &[at, value, to], 0);
                } else {
                    let operands = self.operands(operands.to_vec());
                    self.run(kernels::write, to, &[operands], size);
                }
            }
            Draft::Fill { to, table } => self.run(kernels::fill_memory, self.at(*to), &[], *table),
            Draft::Gather { to, words } => {
                let first = self.at(*to);
                for (k, word) in words.iter().enumerate() {
                    self.copy(first + k * self.constants.stride, *word, 1);
                }
            }
            Draft::Replace { to, mask, from } => {
                let args = [self.at(*mask), self.at(*from)];
                self.run(kernels::replace_memory::<L>, self.at(*to), &args, self.sizes[*to]);
            }
            Draft::Random { to, args } => {
                let results = to.iter().map(|to| match to {
                    Some(id) => Operand::Row(self.at(*id)),
                    None => Operand::Constant(0),
                });
                let operands = results.chain(args.iter().map(|arg| self.operand(*arg))).collect();
                let operands = self.operands(operands);
                self.run(kernels::random::<L>, 0, &[operands], 0);
            }
            Draft::Skip { mask, label } => {
                let mask = self.at(*mask);
                self.code.push(Code::Skip { mask, to: *label });
            }
            Draft::Break { mask, label } => {
                let mask = self.at(*mask);
                self.code.push(Code::Break { mask, to: *label });
            }
            Draft::Here { .. } | Draft::Begin { .. } | Draft::End { .. } => {
                unreachable!("handled by the caller")
            }
        }
    }
}
