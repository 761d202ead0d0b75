//! tensor_scalar and tensor_scalar_reduce: a tile and one or two values a partition.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP, SBUF};
use crate::cost;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::accumulate::{ReduceCommand, Reduction, Registers};
use crate::isa::alu::AluOp;
use crate::isa::{Instruction, OperandRole, ScalarOperand, operators, steps, wide};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `tensor_scalar(dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine)`:
/// dst = (data op0 operand0) op1 operand1.
///
/// Arithmetic is float32, each operator rounded by itself **(choice)**; bit operators work on patterns of data's width.
#[derive(Debug)]
pub struct TensorScalar {
    /// Result.
    pub dst: View,
    /// Input.
    pub data: View,
    /// First operator.
    pub op0: AluOp,
    /// Its other operand.
    pub operand0: ScalarOperand,
    /// Whether op0's operands are exchanged.
    pub reverse0: bool,
    /// Second operator.
    pub op1: Option<AluOp>,
    /// Its other operand.
    pub operand1: ScalarOperand,
    /// Whether op1's operands are exchanged.
    pub reverse1: bool,
    /// VectorE, ScalarE (gen3+, few operators) or GpSimdE (`rsqrt`, `power`); None: GpSimdE for those two, else VectorE
    /// **(choice)**.
    pub engine: Option<Engine>,
}

/// What GpSimdE alone computes.
const GPSIMD_OPS: [AluOp; 2] = [AluOp::Rsqrt, AluOp::Power];
/// What ScalarE computes on gen4 **(choice)**: what it does on gen3, and its likes.
const SCALAR_OPS: [AluOp; 5] = [AluOp::Multiply, AluOp::Add, AluOp::Subtract, AluOp::Maximum, AluOp::Minimum];

impl TensorScalar {
    fn ops(&self) -> impl Iterator<Item = (&'static str, AluOp)> {
        std::iter::once(("op0", self.op0)).chain(self.op1.map(|op| ("op1", op)))
    }

    fn needs_gpsimd(&self) -> bool {
        self.ops().any(|(_, op)| GPSIMD_OPS.contains(&op))
    }

    fn check_engine(&self, check: &Check<'_>) -> Result<()> {
        match self.engine(check.arch) {
            Engine::GpSimd if !self.needs_gpsimd() => Err(check.refuse(
                "engine",
                format!("is gpsimd for {}", self.op0),
                "gpsimd computes rsqrt and power alone",
            )),
            Engine::GpSimd => Ok(()),
            Engine::Vector => match self.ops().find(|(_, op)| GPSIMD_OPS.contains(op)) {
                Some((_, op)) => {
                    Err(check.refuse("engine", format!("is vector for {op}"), "gpsimd, which alone computes it"))
                }
                None => Ok(()),
            },
            Engine::Scalar => {
                check.generation("engine scalar", 3)?;
                use AluOp::{Add, Multiply};
                let is_allowed = match (check.arch.generation, self.op0, self.op1) {
                    (..=3, Multiply, None | Some(Add)) | (..=3, Add, None) => true,
                    (..=3, ..) => false,
                    _ => self.ops().all(|(_, op)| SCALAR_OPS.contains(&op)),
                };
                if is_allowed {
                    return Ok(());
                }
                let ops: Vec<&str> = self.ops().map(|(_, op)| op.name()).collect();
                let allowed = match check.arch.generation {
                    ..=3 => "scalar computes (multiply, add), multiply or add on gen3".to_owned(),
                    _ => format!("scalar computes {}", SCALAR_OPS.map(AluOp::name).join(", ")),
                };
                Err(check.refuse("engine", format!("is scalar for {}", ops.join(", ")), allowed))
            }
            other => Err(check.refuse("engine", format!("is {other}"), "vector, scalar or gpsimd")),
        }
    }

    fn check_ops(&self, check: &Check<'_>) -> Result<()> {
        for (operand, op) in self.ops() {
            if matches!(op, AluOp::Bypass | AluOp::Average) {
                return Err(check.refuse(operand, format!("is {op}"), "an operator of tensor_scalar"));
            }
            operators::check_generation(check, operand, op)?;
            if op.is_bitvec() != self.op0.is_bitvec() {
                let got = format!("is {op} beside op0 {}", self.op0);
                return Err(check.refuse(operand, got, "both must be bit operators or both arithmetic"));
            }
        }
        operators::check_scalar(check, "operand0", self.op0, &self.operand0, &self.data)?;
        match (self.op1, &self.operand1) {
            (Some(op), operand) => operators::check_scalar(check, "operand1", op, operand, &self.data),
            (None, ScalarOperand::None) => Ok(()),
            (None, _) => Err(check.refuse("operand1", "is given without op1", "name op1 too")),
        }
    }

    fn execute_bits(&self, state: &mut State) -> Result<()> {
        let width = 8 * self.data.dtype.size() as u32;
        let mut bits = state.read_bits(&self.data)?;
        let second = self.op1.map(|op| (op, &self.operand1, self.reverse1));
        for (op, operand, reverse) in std::iter::once((self.op0, &self.operand0, self.reverse0)).chain(second) {
            let scalars = match operand {
                ScalarOperand::Vector(view) => state.read_bits(view)?,
                ScalarOperand::Constant(value) => vec![*value as i64 as u32; self.data.partitions()],
                ScalarOperand::None => vec![0; self.data.partitions()],
            };
            steps::scalar_bits(op, &mut bits, self.data.free_size(), &scalars, reverse, width);
        }
        state.memory.write_bits(&self.dst, &bits)
    }
}

impl Instruction for TensorScalar {
    fn name(&self) -> &'static str {
        "tensor_scalar"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        let fitting = if self.needs_gpsimd() { Engine::GpSimd } else { Engine::Vector };
        self.engine.unwrap_or(fitting)
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        for view in [&self.operand0, &self.operand1].into_iter().filter_map(ScalarOperand::view) {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        self.check_engine(&check)?;
        let memories = if self.engine(arch) == Engine::GpSimd { SBUF } else { ON_CHIP };
        for (operand, view) in [("dst", &self.dst), ("data", &self.data)] {
            check.tile(operand, view, memories)?;
            if self.op0.is_bitvec() { check.integer(operand, view)? } else { check.arithmetic(operand, view)? }
        }
        check.same_tile("data", &self.data, "dst", &self.dst)?;
        self.check_ops(&check)?;
        if self.engine(arch) == Engine::GpSimd {
            for (operand, scalar) in [("operand0", &self.operand0), ("operand1", &self.operand1)] {
                scalar.view().map_or(Ok(()), |view| check.memory(operand, view, SBUF))?;
            }
        }
        if self.engine(arch) == Engine::Scalar {
            check.no_psum_scatter("dst", &self.dst)?;
        }
        check.gathered("data", &self.data)?;
        check.scattered("dst", &self.dst, &self.data)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let elements = self.dst.free_size();
        match self.engine(arch) {
            Engine::GpSimd => cost::gpsimd(arch, cost::stream_cycles(elements, arch.gpsimd_rsqrt_rate)),
            Engine::Scalar => {
                let views = [&self.dst, &self.data];
                let narrow = views.iter().all(|view| view.dtype.is_float() && view.dtype.size() <= 2);
                let rate = if narrow { arch.scalar_copy_rate_16bit } else { arch.scalar_rate };
                cost::scalar(arch, elements, cost::plain_rate(arch, rate, &views), 0, None)
            }
            _ => cost::vector(arch, elements, cost::copy_rate(arch, &self.dst, &self.data), 0),
        }
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if self.op0.is_bitvec() {
            return self.execute_bits(state);
        }
        let (partitions, columns) = (self.data.partitions(), self.data.free_size());
        let first = self.operand0.values(state, partitions, 0.0)?;
        let second = self.operand1.values(state, partitions, 0.0)?;
        let mut values = state.read(&self.data)?;
        steps::scalar(self.op0, &mut values, columns, &first, self.reverse0);
        if let Some(op) = self.op1 {
            steps::scalar(op, &mut values, columns, &second, self.reverse1);
        }
        state.write(&self.dst, &values)?;
        state.keep(values);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        if self.op0.is_bitvec() {
            return self.execute(state);
        }
        let (partitions, columns) = (self.data.partitions(), self.data.free_size());
        let first = wide::scalars(state, &self.operand0, partitions, 0.0)?;
        let second = wide::scalars(state, &self.operand1, partitions, 0.0)?;
        let mut values = wide::read(state, &self.data)?;
        wide::scalar(self.op0, &mut values, columns, &first, self.reverse0);
        if let Some(op) = self.op1 {
            wide::scalar(op, &mut values, columns, &second, self.reverse1);
        }
        state.memory.write_f64(&self.dst, &values)
    }

    fn has_infinite_constant(&self) -> bool {
        self.operand0.is_infinite() || self.operand1.is_infinite()
    }
}

/// `tensor_scalar_reduce(dst, data, op0, operand0, reduce_op, reduce_res, reverse0, reduce_cmd, reduce_init,
/// reduce_res_negate)`: dst = data op0 operand0; what VectorE computed in float32, before the cast to dst's type
/// **(choice)**, joins its running values.
#[derive(Debug)]
pub struct TensorScalarReduce {
    /// Result.
    pub dst: View,
    /// Input.
    pub data: View,
    /// Operator.
    pub op0: AluOp,
    /// Its other operand.
    pub operand0: ScalarOperand,
    /// Whether op0's operands are exchanged; refused, as the documentation says "not supported yet".
    pub reverse0: bool,
    /// The reduction beside it.
    pub reduction: Reduction,
}

/// reset_reduce, reduce and load_reduce.
const REDUCING: [ReduceCommand; 3] = [ReduceCommand::ResetReduce, ReduceCommand::Reduce, ReduceCommand::LoadReduce];

impl Instruction for TensorScalarReduce {
    fn name(&self) -> &'static str {
        "tensor_scalar_reduce"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        for view in [&self.operand0, &self.reduction.initial].into_iter().filter_map(ScalarOperand::view) {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
        if let Some(view) = &self.reduction.result {
            visit(OperandRole::Write, view);
        }
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (operand, view) in [("dst", &self.dst), ("data", &self.data)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
        }
        check.same_tile("data", &self.data, "dst", &self.dst)?;
        operators::check_arithmetic(&check, "op0", self.op0)?;
        operators::check_scalar(&check, "operand0", self.op0, &self.operand0, &self.data)?;
        if self.reverse0 {
            return Err(check.refuse("reverse0", "is True", "False; reversed operands are not supported yet"));
        }
        let ops = [AluOp::Add, AluOp::Multiply, AluOp::Maximum, AluOp::Minimum];
        self.reduction.check(&check, &self.dst, &REDUCING, &ops)?;
        self.reduction.check_initial(&check, "reduce_init", &self.dst)?;
        check.gathered("data", &self.data)?;
        check.scattered("dst", &self.dst, &self.data)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_rate, &[&self.dst, &self.data]);
        cost::vector(arch, self.dst.free_size(), rate, self.reduction.read_cycles(arch))
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let scalars = self.operand0.values(state, self.data.partitions(), 0.0)?;
        let mut values = state.read(&self.data)?;
        steps::scalar(self.op0, &mut values, self.data.free_size(), &scalars, false);
        let running = self.reduction.start(state, Registers::Vector, &self.dst)?;
        state.write(&self.dst, &values)?;
        self.reduction.join(state, Registers::Vector, &self.dst, &values, running)?;
        state.keep(values);
        Ok(())
    }
}
