//! dropout: elements set to zero at random.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole, ScalarOperand, random};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `dropout(dst, data, prob)`: zero where VectorE's generator draws a number in [0, 1) below `prob`, else the bits of
/// data. Row p takes the draws of lane p of the partitions that dst lies on; every lane moves on by as many draws as dst
/// has elements per partition **(choice)**.
#[derive(Debug)]
pub struct Dropout {
    /// Result.
    pub dst: View,
    /// Input, of dst's type.
    pub data: View,
    /// Probability of zero.
    pub prob: ScalarOperand,
}

impl Instruction for Dropout {
    fn draws(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "dropout"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        if let Some(view) = self.prob.view() {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (operand, view) in [("dst", &self.dst), ("data", &self.data)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            check.no_columns(operand, view)?;
        }
        check.same_tile("data", &self.data, "dst", &self.dst)?;
        check.same_dtype("dst", &self.dst, "data", &self.data)?;
        match &self.prob {
            ScalarOperand::None => Err(check.refuse("prob", "is None", "a number or a tile of shape [P, 1]")),
            ScalarOperand::Constant(_) => Ok(()),
            ScalarOperand::Vector(view) => {
                check.vector("prob", view, &self.dst)?;
                check.no_columns("prob", view)?;
                if self.data.dtype.is_integer() {
                    return check.dtype("prob", view, &[DType::Float32]);
                }
                check.float("prob", view)
            }
        }
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_rate, &[&self.dst, &self.data]);
        cost::vector(arch, self.dst.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (first, columns) = (self.dst.start_partition(), self.dst.free_size());
        let inputs = std::iter::once(&self.data).chain(self.prob.view());
        if !random::draws_are_wanted(state, Engine::Vector, &self.dst, inputs)? {
            return random::skip(state, Engine::Vector, &self.dst);
        }
        let probabilities = self.prob.values(state, self.dst.partitions(), 0.0)?;
        let mut draws = vec![0; state.vector_random.lanes() * columns];
        state.vector_random.uint32(columns, &mut draws)?;
        // As the arithmetic core's uniform numbers from 0 to 1.
        let draws: Vec<f32> = draws.iter().map(|draw| (draw >> 8) as f32 / (1 << 24) as f32).collect();
        let mut bits = state.read_words(&self.data)?;
        let rows = bits.chunks_exact_mut(columns.max(1)).zip(draws[first * columns..].chunks_exact(columns.max(1)));
        for ((row, draws), &probability) in rows.zip(&probabilities) {
            for (bits, &draw) in row.iter_mut().zip(draws) {
                *bits = if draw < probability { 0 } else { *bits };
            }
        }
        state.memory.write_words(&self.dst, &bits, self.data.dtype, None)
    }

    fn is_control(&self) -> bool {
        // In timing-only runs too the draws take the generator ahead.
        true
    }
}
