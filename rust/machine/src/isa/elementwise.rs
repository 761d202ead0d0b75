//! tensor_tensor, scalar_tensor_tensor and reciprocal: elementwise work on one or two tiles.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::alu::AluOp;
use crate::isa::{Instruction, OperandRole, ScalarOperand, operators, steps, wide};
use crate::state::State;
use crate::storage::Buffer;
use crate::timing::work::Work;
use crate::view::View;

/// `tensor_tensor(dst, data1, data2, op, engine)`: dst = data1 op data2.
///
/// Arithmetic is float32, on GpSimdE's 32-bit integers exact and wrapping **(choice)**; bit operators work on patterns,
/// those of narrower operands extended by zeros **(choice)**.
#[derive(Debug)]
pub struct TensorTensor {
    /// Result.
    pub dst: View,
    /// Left operand.
    pub data1: View,
    /// Right operand.
    pub data2: View,
    /// An operator of two operands.
    pub op: AluOp,
    /// VectorE or GpSimdE (SBUF alone); None: GpSimdE for `power` and for 32-bit integers in SBUF, else VectorE.
    pub engine: Option<Engine>,
}

impl TensorTensor {
    fn views(&self) -> [&View; 3] {
        [&self.dst, &self.data1, &self.data2]
    }

    fn is_all_integer32(&self) -> bool {
        self.views().iter().all(|view| matches!(view.dtype, DType::Int32 | DType::UInt32))
    }

    /// Whether GpSimdE computes in integers.
    fn is_native_integer(&self, arch: &ArchSpec) -> bool {
        self.engine(arch) == Engine::GpSimd && self.is_all_integer32() && self.op != AluOp::Power
    }

    fn execute_bits(&self, state: &mut State) -> Result<()> {
        let width = 8 * self.data1.dtype.size().max(self.data2.dtype.size()) as u32;
        let (mut x, y) = (state.read_bits(&self.data1)?, state.read_bits(&self.data2)?);
        steps::pair_bits(self.op, &mut x, &y, width);
        state.memory.write_bits(&self.dst, &x)
    }

    fn execute_integer(&self, state: &mut State) -> Result<()> {
        let (mut x, y) = (state.read_bits(&self.data1)?, state.read_bits(&self.data2)?);
        let signed = [&self.data1, &self.data2].map(|view| view.dtype.is_signed_integer());
        steps::pair_integers(self.op, &mut x, &y, signed);
        state.memory.write_bits(&self.dst, &x)
    }
}

impl Instruction for TensorTensor {
    fn name(&self) -> &'static str {
        "tensor_tensor"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        let in_sbuf = || self.views().iter().all(|view| view.storage.buffer == Buffer::Sbuf);
        match self.engine {
            Some(engine) => engine,
            None if self.op == AluOp::Power => Engine::GpSimd,
            None if !self.op.is_bitvec() && self.is_all_integer32() && in_sbuf() => Engine::GpSimd,
            None => Engine::Vector,
        }
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data1);
        visit(OperandRole::Read, &self.data2);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        let memories = match self.engine(arch) {
            Engine::Vector if self.op == AluOp::Power => {
                return Err(check.refuse("engine", "is vector for power", "gpsimd, which alone computes power"));
            }
            Engine::Vector => ON_CHIP,
            Engine::GpSimd if self.op.is_bitvec() => {
                return Err(check.refuse("engine", format!("is gpsimd for {}", self.op), "vector for bit operators"));
            }
            Engine::GpSimd => SBUF,
            other => return Err(check.refuse("engine", format!("is {other}"), "vector or gpsimd")),
        };
        if self.op.is_unary() || self.op == AluOp::Average {
            return Err(check.refuse("op", format!("is {}", self.op), "an operator of two operands"));
        }
        operators::check_generation(&check, "op", self.op)?;
        for (operand, view) in [("dst", &self.dst), ("data1", &self.data1), ("data2", &self.data2)] {
            check.tile(operand, view, memories)?;
            if self.op.is_bitvec() { check.integer(operand, view)? } else { check.arithmetic(operand, view)? }
        }
        check.same_tile("data1", &self.data1, "dst", &self.dst)?;
        check.same_tile("data2", &self.data2, "dst", &self.dst)?;
        check.not_both_psum("data1", &self.data1, "data2", &self.data2)?;
        check.gathered("data1", &self.data1)?;
        check.scattered("dst", &self.dst, &self.data1)?;
        check.no_columns("data2", &self.data2)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let elements = self.dst.free_size();
        if self.engine(arch) == Engine::GpSimd {
            return cost::gpsimd(arch, cost::gpsimd_stream(arch, elements, &self.views()));
        }
        let has_fast_mode = matches!(self.op, AluOp::Add | AluOp::Subtract | AluOp::Multiply);
        let rate = cost::pair_rate(arch, &self.dst, &self.data1, &self.data2, has_fast_mode);
        cost::vector(arch, elements, rate, 0)
    }

    /// 32-bit integers are exact on GpSimdE and go through float32 on VectorE.
    fn is_same_on_engines(&self) -> bool {
        !self.is_all_integer32() || self.op.is_bitvec()
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if self.op.is_bitvec() {
            return self.execute_bits(state);
        }
        if self.is_native_integer(&state.arch) {
            return self.execute_integer(state);
        }
        let mut x = state.read(&self.data1)?;
        let y = state.read(&self.data2)?;
        steps::pair(self.op, &mut x, &y);
        state.write(&self.dst, &x)?;
        state.keep(x);
        state.keep(y);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        if self.op.is_bitvec() || self.is_native_integer(&state.arch) {
            return self.execute(state);
        }
        let mut x = wide::read(state, &self.data1)?;
        let y = wide::read(state, &self.data2)?;
        x.iter_mut().zip(&y).for_each(|(x, y)| *x = wide::apply(self.op, *x, *y));
        state.memory.write_f64(&self.dst, &x)
    }
}

/// `scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0, reverse1)`:
/// dst = (data op0 operand0) op1 operand1, in float32.
#[derive(Debug)]
pub struct ScalarTensorTensor {
    /// Result.
    pub dst: View,
    /// First input.
    pub data: View,
    /// First operator.
    pub op0: AluOp,
    /// Its other operand.
    pub operand0: ScalarOperand,
    /// Second operator.
    pub op1: AluOp,
    /// Its other operand, as large as `data`.
    pub operand1: View,
    /// Whether op0's operands are exchanged.
    pub reverse0: bool,
    /// Whether op1's operands are exchanged.
    pub reverse1: bool,
}

impl Instruction for ScalarTensorTensor {
    fn name(&self) -> &'static str {
        "scalar_tensor_tensor"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Read, &self.operand1);
        if let Some(view) = self.operand0.view() {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (operand, view) in [("dst", &self.dst), ("data", &self.data), ("operand1", &self.operand1)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            check.no_columns(operand, view)?;
        }
        check.same_tile("data", &self.data, "dst", &self.dst)?;
        check.same_tile("operand1", &self.operand1, "dst", &self.dst)?;
        check.not_both_psum("data", &self.data, "operand1", &self.operand1)?;
        operators::check_arithmetic(&check, "op0", self.op0)?;
        match self.operand0.view() {
            // Widened on the way in.
            Some(view) if view.dtype == DType::BFloat16 && !self.op0.is_unary() => {
                check.vector("operand0", view, &self.data)?;
                check.no_columns("operand0", view)?;
            }
            _ => operators::check_scalar(&check, "operand0", self.op0, &self.operand0, &self.data)?,
        }
        operators::check_binary(&check, "op1", self.op1)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let elements = self.dst.free_size();
        let has_fast_mode = (self.op0, self.op1) == (AluOp::Subtract, AluOp::Multiply) && elements.is_multiple_of(2);
        let rate = cost::pair_rate(arch, &self.dst, &self.data, &self.operand1, has_fast_mode);
        cost::vector(arch, elements, rate, 0)
    }

    fn has_infinite_constant(&self) -> bool {
        self.operand0.is_infinite()
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let scalars = self.operand0.values(state, self.data.partitions(), 0.0)?;
        let mut x = state.read(&self.data)?;
        let y = state.read(&self.operand1)?;
        steps::scalar(self.op0, &mut x, self.data.free_size(), &scalars, self.reverse0);
        if self.reverse1 {
            steps::pair_reversed(self.op1, &mut x, &y)
        } else {
            steps::pair(self.op1, &mut x, &y)
        }
        state.write(&self.dst, &x)?;
        state.keep(x);
        state.keep(y);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        let scalars = wide::scalars(state, &self.operand0, self.data.partitions(), 0.0)?;
        let mut x = wide::read(state, &self.data)?;
        let y = wide::read(state, &self.operand1)?;
        wide::scalar(self.op0, &mut x, self.data.free_size(), &scalars, self.reverse0);
        for (x, y) in x.iter_mut().zip(&y) {
            *x = if self.reverse1 { wide::apply(self.op1, *y, *x) } else { wide::apply(self.op1, *x, *y) };
        }
        state.memory.write_f64(&self.dst, &x)
    }
}

/// `reciprocal(dst, data)`: 1 / data, correctly rounded to float32 **(choice)**.
#[derive(Debug)]
pub struct Reciprocal {
    /// Result.
    pub dst: View,
    /// Input.
    pub data: View,
}

impl Instruction for Reciprocal {
    fn name(&self) -> &'static str {
        "reciprocal"
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
        for (operand, view) in [("dst", &self.dst), ("data", &self.data)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            check.no_columns(operand, view)?;
        }
        check.same_tile("data", &self.data, "dst", &self.dst)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_reciprocal_rate, &[&self.dst, &self.data]);
        cost::vector(arch, self.dst.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let mut values = state.read(&self.data)?;
        steps::scalar(AluOp::Reciprocal, &mut values, self.data.len(), &[0.0], false);
        state.write(&self.dst, &values)?;
        state.keep(values);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        let mut values = wide::read(state, &self.data)?;
        values.iter_mut().for_each(|x| *x = 1.0 / *x);
        state.memory.write_f64(&self.dst, &values)
    }
}
