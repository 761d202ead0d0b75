//! tensor_tensor_scan and tensor_scalar_cumulative: each element from the one before.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::accumulate::{ReduceCommand, Reduction, Registers};
use crate::isa::alu::AluOp;
use crate::isa::steps::with_known;
use crate::isa::{Instruction, OperandRole, ScalarOperand, operators, steps};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0, reverse1)`:
/// r_i = (data0_i op0 r_{i-1}) op1 data1_i, from `initial`; the running value is float32, not rounded to dst's type
/// between steps **(choice)**.
#[derive(Debug)]
pub struct TensorTensorScan {
    /// Result: every r_i.
    pub dst: View,
    /// First input.
    pub data0: View,
    /// Second input.
    pub data1: View,
    /// Where it starts.
    pub initial: ScalarOperand,
    /// First operator.
    pub op0: AluOp,
    /// Second operator.
    pub op1: AluOp,
    /// Whether op0's operands are exchanged.
    pub reverse0: bool,
    /// Whether op1's operands are exchanged.
    pub reverse1: bool,
}

impl TensorTensorScan {
    /// All rows step by step: a row's chain cannot be shortened, but rows do not wait for one another.
    fn scan(&self, running: &mut [f32], data0: &mut [f32], data1: &[f32], columns: usize) {
        let (op0, op1) = (self.op0, self.op1);
        if self.reverse0 || self.reverse1 {
            return steps::recur_reversed((op0, self.reverse0), (op1, self.reverse1), running, data0, data1, columns);
        }
        // Those that recurrences are written with.
        with_known!(op0, inner => with_known!(op1, outer => {
            steps::recur(inner, outer, running, data0, data1, columns);
        }; Add Subtract Multiply Maximum Minimum); Add Subtract Multiply Maximum Minimum);
    }
}

impl Instruction for TensorTensorScan {
    fn name(&self) -> &'static str {
        "tensor_tensor_scan"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data0);
        visit(OperandRole::Read, &self.data1);
        if let Some(view) = self.initial.view() {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (operand, view) in [("dst", &self.dst), ("data0", &self.data0), ("data1", &self.data1)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            check.no_columns(operand, view)?;
        }
        check.same_tile("data0", &self.data0, "dst", &self.dst)?;
        check.same_tile("data1", &self.data1, "dst", &self.dst)?;
        check.not_both_psum("data0", &self.data0, "data1", &self.data1)?;
        operators::check_binary(&check, "op0", self.op0)?;
        operators::check_binary(&check, "op1", self.op1)?;
        if matches!(self.initial, ScalarOperand::None) {
            return Err(check.refuse("initial", "is None", "a number or a tile of shape [P, 1]"));
        }
        // Its type is not documented; a running value of another tile often starts it.
        let Some(view) = self.initial.view() else { return Ok(()) };
        check.vector("initial", view, &self.dst)?;
        check.no_columns("initial", view)?;
        check.float("initial", view)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_scan_rate, &[&self.dst, &self.data0, &self.data1]);
        cost::vector(arch, self.dst.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let mut running = self.initial.values(state, self.dst.partitions(), 0.0)?;
        let mut data0 = state.read(&self.data0)?;
        let data1 = state.read(&self.data1)?;
        self.scan(&mut running, &mut data0, &data1, self.dst.free_size());
        state.write(&self.dst, &data0)?;
        state.keep(data0);
        state.keep(data1);
        Ok(())
    }

    fn has_infinite_constant(&self) -> bool {
        self.initial.is_infinite()
    }
}

/// `tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1, reduce_cmd)`: VectorE's running value of the partition
/// takes op1(src_i op0 imm0, running), and every step of it is written.
#[derive(Debug)]
pub struct TensorScalarCumulative {
    /// Result: every step of the running values.
    pub dst: View,
    /// Input.
    pub src: View,
    /// Operator between input and `imm0`.
    pub op0: AluOp,
    /// Operator between that and the running value.
    pub op1: AluOp,
    /// Right operand of op0.
    pub imm0: ScalarOperand,
    /// Where load_reduce starts.
    pub imm1: ScalarOperand,
    /// reset_reduce, reduce or load_reduce.
    pub command: ReduceCommand,
}

/// What a running value may be computed with.
const CUMULATIVE_OPS: [AluOp; 5] = [AluOp::Add, AluOp::Subtract, AluOp::Multiply, AluOp::Maximum, AluOp::Minimum];
const COMMANDS: [ReduceCommand; 3] = [ReduceCommand::ResetReduce, ReduceCommand::Reduce, ReduceCommand::LoadReduce];

impl TensorScalarCumulative {
    fn reduction(&self) -> Reduction {
        Reduction { initial: self.imm1.clone(), ..Reduction::new(self.op1, self.command, None) }
    }
}

impl Instruction for TensorScalarCumulative {
    fn name(&self) -> &'static str {
        "tensor_scalar_cumulative"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        for view in [&self.imm0, &self.imm1].into_iter().filter_map(ScalarOperand::view) {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (operand, view) in [("dst", &self.dst), ("src", &self.src)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            if matches!(view.dtype, DType::Int32 | DType::UInt32) {
                return Err(check.refuse(operand, format!("has dtype {}", view.dtype), "no 32-bit integers"));
            }
        }
        check.same_tile("src", &self.src, "dst", &self.dst)?;
        operators::check_arithmetic(&check, "op0", self.op0)?;
        operators::check_scalar(&check, "imm0", self.op0, &self.imm0, &self.src)?;
        if !CUMULATIVE_OPS.contains(&self.op1) {
            return Err(check.refuse("op1", format!("is {}", self.op1), CUMULATIVE_OPS.map(AluOp::name).join(", ")));
        }
        let reduction = self.reduction();
        reduction.check(&check, &self.dst, &COMMANDS, &CUMULATIVE_OPS)?;
        reduction.check_initial(&check, "imm1", &self.dst)?;
        check.gathered("src", &self.src)?;
        check.scattered("dst", &self.dst, &self.src)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_rate, &[&self.dst, &self.src]);
        cost::vector(arch, self.dst.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let columns = self.dst.free_size();
        let scalars = self.imm0.values(state, self.src.partitions(), 0.0)?;
        let mut values = state.read(&self.src)?;
        steps::scalar(self.op0, &mut values, columns, &scalars, false);
        let mut running = self.reduction().start(state, Registers::Vector, &self.dst)?;
        steps::cumulate(self.op1, &mut running, &mut values, columns);
        let first = self.dst.start_partition();
        state.vector_accumulator[first..first + running.len()].copy_from_slice(&running);
        state.write(&self.dst, &values)?;
        state.keep(values);
        Ok(())
    }
}
