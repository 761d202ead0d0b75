//! tensor_reduce: the last axes of a tile to one value.

use smallvec::SmallVec;

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::alu::AluOp;
use crate::isa::{Instruction, OperandRole, steps, wide};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `tensor_reduce(dst, op, data, axis, negate, keepdims)`.
///
/// Arithmetic runs in float32, in ascending order **(choice)**; `subtract` is x0 - x1 - x2 ... **(choice)**, every other
/// operator starts from its identity. Bit operators work on patterns.
#[derive(Debug)]
pub struct TensorReduce {
    /// Result: one element per partition for each position of the axes that stay.
    pub dst: View,
    /// A reduction operator.
    pub op: AluOp,
    /// Input.
    pub data: View,
    /// Axes of `data` to reduce, the last ones; negative ones count from the end.
    pub axes: SmallVec<[i64; 4]>,
    /// Whether the result is multiplied by -1.
    pub negate: bool,
    /// Whether the reduced axes stay in `dst` with length 1. `dst` says so itself: what counts is its number of
    /// elements.
    pub keepdims: bool,
}

impl TensorReduce {
    /// The first axis that is reduced.
    fn first_axis(&self, check: &Check<'_>) -> Result<usize> {
        let rank = self.data.rank() as i64;
        let allowed = || format!("a tile of {rank} axes has partitions on axis 0, which stay");
        let refuse = || {
            let axes: Vec<String> = self.axes.iter().map(i64::to_string).collect();
            let comma = if axes.len() == 1 { "," } else { "" };
            let rule = "must be the last contiguous dim(s) of the tile";
            check.refuse("axis", format!("{rule}. Got axis=({}{comma})", axes.join(", ")), allowed())
        };
        let mut axes: SmallVec<[i64; 4]> =
            self.axes.iter().map(|&axis| if axis < 0 { axis + rank } else { axis }).collect();
        axes.sort_unstable();
        let first = *axes.first().ok_or_else(refuse)?;
        let is_tail = axes.iter().copied().eq(first..rank);
        if first < 1 || !is_tail { Err(refuse()) } else { Ok(first as usize) }
    }

    fn reduced(&self, first: usize) -> usize {
        self.data.shape[first..].iter().product()
    }

    fn columns(&self) -> usize {
        self.data.free_size().checked_div(self.dst.free_size()).unwrap_or(0)
    }
}

impl Instruction for TensorReduce {
    fn name(&self) -> &'static str {
        "tensor_reduce"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        if !self.op.is_reduction() {
            return Err(check.refuse("op", format!("is {}", self.op), "an operator that may reduce"));
        }
        for (operand, view) in [("dst", &self.dst), ("data", &self.data)] {
            check.tile(operand, view, ON_CHIP)?;
            if self.op.is_bitvec() { check.integer(operand, view)? } else { check.arithmetic(operand, view)? }
        }
        check.same_partitions("data", &self.data, "dst", &self.dst)?;
        let first = self.first_axis(&check)?;
        check.free_size("dst", &self.dst, self.data.shape[1..first].iter().product())?;
        if self.reduced(first) == 0 {
            return Err(check.refuse("data", format!("has shape {:?}", &self.data.shape[..]), "something to reduce"));
        }
        if self.negate && self.op.is_bitvec() {
            return Err(check.refuse("negate", format!("is True for {}", self.op), "an arithmetic operator"));
        }
        check.gathered("data", &self.data)?;
        check.scattered("dst", &self.dst, &self.data)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let is_fast = self.dst.dtype == DType::BFloat16
            && self.data.dtype == DType::BFloat16
            && matches!(self.op, AluOp::Add | AluOp::Maximum);
        let rate = if is_fast { arch.vector_reduce_rate_16bit } else { arch.vector_rate };
        cost::vector(arch, self.data.free_size(), cost::plain_rate(arch, rate, &[&self.data]), 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let columns = self.columns();
        if self.op.is_bitvec() {
            let width = 8 * self.data.dtype.size() as u32;
            let bits = state.read_bits(&self.data)?;
            let fold = |row: &[u32]| row.iter().copied().reduce(|x, y| self.op.apply_bits(x, y, width)).unwrap_or(0);
            let results: Vec<u32> = bits.chunks_exact(columns.max(1)).map(fold).collect();
            return state.memory.write_bits(&self.dst, &results);
        }
        let mut values = state.read(&self.data)?;
        let mut results = vec![self.op.identity(); self.dst.len()];
        if self.op == AluOp::Subtract {
            // The first element is what the others are taken from, and takes nothing from itself.
            for (result, row) in results.iter_mut().zip(steps::rows_mut(&mut values, columns)) {
                *result = row[0];
                row[0] = 0.0;
            }
        }
        steps::fold(self.op, &mut results, &values, columns)?;
        if self.negate {
            results.iter_mut().for_each(|value| *value = -*value);
        }
        state.write(&self.dst, &results)?;
        state.keep(values);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        if self.op.is_bitvec() {
            return self.execute(state);
        }
        let columns = self.columns();
        let mut values = wide::read(state, &self.data)?;
        let mut results = vec![f64::from(self.op.identity()); self.dst.len()];
        if self.op == AluOp::Subtract {
            for (result, row) in results.iter_mut().zip(values.chunks_exact_mut(columns.max(1))) {
                *result = row[0];
                row[0] = 0.0;
            }
        }
        wide::fold(self.op, &mut results, &values, columns);
        if self.negate {
            results.iter_mut().for_each(|value| *value = -*value);
        }
        state.memory.write_f64(&self.dst, &results)
    }
}
