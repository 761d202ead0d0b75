//! activation, activation_reduce and activate2: ScalarE's functions, with running sums.
//!
//! Functions are [`trn3_numerics::activate`]'s: the true function, rounded. The running values take what was written,
//! after the cast to dst's type **(choice)**.

use trn3_numerics::{Activation as Function, activate, multiply_add};

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::accumulate::{ReduceCommand, Reduction, Registers};
use crate::isa::alu::AluOp;
use crate::isa::{Instruction, OperandRole, ScalarOperand, steps, wide};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// What ScalarE's instructions do with the running values.
const COMMANDS: [ReduceCommand; 4] =
    [ReduceCommand::Idle, ReduceCommand::Reset, ReduceCommand::Reduce, ReduceCommand::ResetReduce];

/// The table that a function needs: those of plain arithmetic need none, every other one has its own **(choice)**.
fn table(function: Function) -> Option<u16> {
    let is_plain =
        matches!(function, Function::Copy | Function::Relu | Function::Square | Function::Abs | Function::Sign);
    let number = Function::ALL.iter().position(|other| *other == function);
    number.filter(|_| !is_plain).and_then(|number| u16::try_from(number).ok())
}

/// Every row's function, with a parameter of its own where `parameters` has more than one.
fn apply(function: Function, values: &mut [f32], columns: usize, parameters: &[f32]) -> Result<()> {
    let is_uniform = parameters.iter().all(|parameter| parameter.to_bits() == parameters[0].to_bits());
    if is_uniform {
        activate(values, function, parameters.first().copied().unwrap_or(0.0))?;
        return Ok(());
    }
    for (row, &parameter) in steps::rows_mut(values, columns).zip(parameters) {
        activate(row, function, parameter)?;
    }
    Ok(())
}

/// Counts elements outside the range for which the function's result is documented.
fn note_range(state: &mut State, function: Function, data: &View, values: &[f32]) {
    if let Some(range) = function.valid_range() {
        state.memory.note_range(&data.storage, function.name(), range, values);
    }
}

/// The rules that ScalarE has for its tiles.
fn check_tiles(check: &Check<'_>, dst: &View, data: &View) -> Result<()> {
    for (operand, view) in [("dst", dst), ("data", data)] {
        check.tile(operand, view, ON_CHIP)?;
        check.arithmetic(operand, view)?;
    }
    check.same_tile("data", data, "dst", dst)?;
    check.gathered("data", data)?;
    check.no_psum_scatter("dst", dst)?;
    check.scattered("dst", dst, data)
}

fn scalar_work(arch: &ArchSpec, dst: &View, data: &View, reduction: &Reduction, function: Function) -> Work {
    let rate = cost::plain_rate(arch, arch.scalar_rate, &[dst, data]);
    cost::scalar(arch, dst.free_size(), rate, reduction.read_cycles(arch), table(function))
}

/// `activation(dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd)`: dst = op(data * scale + bias), the
/// argument rounded once to float32 **(choice)**; without a bias it is data * scale.
#[derive(Debug)]
pub struct Activation {
    /// `activation` or `activation_reduce`.
    pub name: &'static str,
    /// Result.
    pub dst: View,
    /// The function.
    pub op: Function,
    /// Input.
    pub data: View,
    /// Added to the scaled input: a number (gen3+) or one value a partition.
    pub bias: ScalarOperand,
    /// Multiplied with the input: a number or one float32 a partition; none: 1.
    pub scale: ScalarOperand,
    /// The sum beside it.
    pub reduction: Reduction,
}

impl Activation {
    fn check_bias(&self, check: &Check<'_>) -> Result<()> {
        let is_gen2 = check.arch.generation <= 2;
        match &self.bias {
            ScalarOperand::None => return Ok(()),
            ScalarOperand::Constant(value) if is_gen2 && *value != 0.0 => {
                let allowed = "a tile of shape [P, 1]; constants are available from gen3 on";
                return Err(check.refuse("bias", format!("is {value} on {}", check.arch.name), allowed));
            }
            ScalarOperand::Constant(_) => {}
            ScalarOperand::Vector(view) => {
                check.vector("bias", view, &self.data)?;
                check.no_columns("bias", view)?;
                check.arithmetic("bias", view)?;
                if view.dtype == DType::TFloat32 {
                    return Err(check.refuse("bias", "has dtype tfloat32", "any other dtype"));
                }
            }
        }
        if is_gen2 && self.op == Function::Reciprocal {
            let got = format!("is given for reciprocal on {}", check.arch.name);
            return Err(check.refuse("bias", got, "None; reciprocal takes a bias from gen3 on"));
        }
        Ok(())
    }
}

impl Instruction for Activation {
    fn name(&self) -> &'static str {
        self.name
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Scalar
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        for view in [&self.bias, &self.scale].into_iter().filter_map(ScalarOperand::view) {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
        if let Some(view) = &self.reduction.result {
            visit(OperandRole::Write, view);
        }
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_tiles(&check, &self.dst, &self.data)?;
        check.float32_scalar("scale", &self.scale, &self.data)?;
        self.check_bias(&check)?;
        if self.op == Function::Prelu {
            return Err(check.refuse("op", "is prelu", "activate2, which takes its slope"));
        }
        self.reduction.check(&check, &self.dst, &COMMANDS, &[AluOp::Add])
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        scalar_work(arch, &self.dst, &self.data, &self.reduction, self.op)
    }

    fn has_infinite_constant(&self) -> bool {
        self.bias.is_infinite() || self.scale.is_infinite()
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (partitions, columns) = (self.data.partitions(), self.data.free_size());
        let scales = self.scale.values(state, partitions, 1.0)?;
        let biases = self.bias.values(state, partitions, 0.0)?;
        let mut values = state.read(&self.data)?;
        let is_scaled = scales.iter().any(|&scale| scale != 1.0);
        match (matches!(self.bias, ScalarOperand::None), is_scaled) {
            (true, false) => {}
            (true, true) => steps::scalar(AluOp::Multiply, &mut values, columns, &scales, false),
            // x * 1 is exact.
            (false, false) => steps::scalar(AluOp::Add, &mut values, columns, &biases, false),
            (false, true) => multiply_add(&mut values, columns, &scales, &biases)?,
        }
        note_range(state, self.op, &self.data, &values);
        activate(&mut values, self.op, 0.0)?;
        let running = self.reduction.start(state, Registers::Scalar, &self.dst)?;
        state.write(&self.dst, &values)?;
        self.reduction.join_written(state, Registers::Scalar, &self.dst, &values, running)?;
        state.keep(values);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        let Some(function) = wide::function(self.op) else { return self.execute(state) };
        let (partitions, columns) = (self.data.partitions(), self.data.free_size());
        let scales = wide::scalars(state, &self.scale, partitions, 1.0)?;
        let biases = wide::scalars(state, &self.bias, partitions, 0.0)?;
        let mut values = wide::read(state, &self.data)?;
        for ((row, scale), bias) in values.chunks_exact_mut(columns.max(1)).zip(&scales).zip(&biases) {
            row.iter_mut().for_each(|x| *x = function(*x * scale + bias));
        }
        state.memory.write_f64(&self.dst, &values)?;
        wide::join(&self.reduction, state, Registers::Scalar, &self.dst, &values)
    }
}

/// `activate2(dst, op, data, imm0, imm1, op0, op1, relu_param, reverse0, reverse1, reduce_op, reduce_res, reduce_cmd)`,
/// gen4: dst = op((data op0 imm0) op1 imm1). A product and what is added to it or taken from it are rounded once
/// **(choice)**.
#[derive(Debug)]
pub struct Activate2 {
    /// Result.
    pub dst: View,
    /// The function.
    pub op: Function,
    /// Input.
    pub data: View,
    /// Operand of op0.
    pub imm0: ScalarOperand,
    /// Operand of op1.
    pub imm1: ScalarOperand,
    /// multiply, add, subtract or bypass; None: bypass.
    pub op0: Option<AluOp>,
    /// add or subtract after multiply, else bypass; None: bypass.
    pub op1: Option<AluOp>,
    /// Slope of prelu.
    pub relu_param: ScalarOperand,
    /// Whether op0's operands are exchanged.
    pub reverse0: bool,
    /// Whether op1's operands are exchanged.
    pub reverse1: bool,
    /// The reduction beside it.
    pub reduction: Reduction,
}

/// What activate2 reduces with.
const REDUCTIONS: [AluOp; 5] = [AluOp::Add, AluOp::Maximum, AluOp::Minimum, AluOp::AbsMax, AluOp::AbsMin];

impl Activate2 {
    fn ops(&self) -> (AluOp, AluOp) {
        (self.op0.unwrap_or(AluOp::Bypass), self.op1.unwrap_or(AluOp::Bypass))
    }

    fn check_ops(&self, check: &Check<'_>) -> Result<()> {
        use AluOp::{Add, Bypass, Multiply, Subtract};
        let (op0, op1) = self.ops();
        let legal = [
            (Multiply, Add),
            (Multiply, Subtract),
            (Multiply, Bypass),
            (Add, Bypass),
            (Subtract, Bypass),
            (Bypass, Bypass),
        ];
        if !legal.contains(&(op0, op1)) {
            let allowed: Vec<String> = legal.iter().map(|(op0, op1)| format!("({op0}, {op1})")).collect();
            return Err(check.refuse("op0, op1", format!("are ({op0}, {op1})"), allowed.join(", ")));
        }
        if self.op0.is_none() && self.op1.is_some() {
            return Err(check.refuse("op1", "is given without op0", "name op0 too"));
        }
        let steps = [
            ("imm0", "reverse0", op0, self.op0, &self.imm0, self.reverse0),
            ("imm1", "reverse1", op1, self.op1, &self.imm1, self.reverse1),
        ];
        for (operand, reverse, op, given, imm, reversed) in steps {
            if reversed && given.is_none() {
                return Err(check.refuse(reverse, "is True without its operator", "name the operator too"));
            }
            if op != Bypass && matches!(imm, ScalarOperand::None) {
                return Err(check.refuse(operand, format!("is None for {op}"), "a number or a tile of shape [P, 1]"));
            }
            if let Some(view) = imm.view() {
                check.vector(operand, view, &self.data)?;
                check.no_columns(operand, view)?;
                check.arithmetic(operand, view)?;
            }
        }
        match (self.imm0.view(), self.imm1.view()) {
            (Some(imm0), Some(imm1)) => check.same_dtype("imm1", imm1, "imm0", imm0),
            _ => Ok(()),
        }
    }
}

impl Instruction for Activate2 {
    fn name(&self) -> &'static str {
        "activate2"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Scalar
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        for view in [&self.imm0, &self.imm1, &self.relu_param].into_iter().filter_map(ScalarOperand::view) {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
        if let Some(view) = &self.reduction.result {
            visit(OperandRole::Write, view);
        }
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 4)?;
        check_tiles(&check, &self.dst, &self.data)?;
        self.check_ops(&check)?;
        if let Some(view) = self.relu_param.view() {
            check.vector("relu_param", view, &self.data)?;
            check.no_columns("relu_param", view)?;
            check.arithmetic("relu_param", view)?;
        }
        self.reduction.check(&check, &self.dst, &COMMANDS, &REDUCTIONS)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        scalar_work(arch, &self.dst, &self.data, &self.reduction, self.op)
    }

    fn has_infinite_constant(&self) -> bool {
        self.imm0.is_infinite() || self.imm1.is_infinite()
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (partitions, columns) = (self.data.partitions(), self.data.free_size());
        let imm0 = self.imm0.values(state, partitions, 0.0)?;
        let mut imm1 = self.imm1.values(state, partitions, 0.0)?;
        let parameters = self.relu_param.values(state, partitions, 0.0)?;
        let mut values = state.read(&self.data)?;
        match self.ops() {
            (AluOp::Bypass, _) => {}
            (op0, AluOp::Bypass) => steps::scalar(op0, &mut values, columns, &imm0, self.reverse0),
            (_, op1) => {
                // x * a - b is x * a + (-b), b - x * a is (-x) * a + b.
                if op1 == AluOp::Subtract && self.reverse1 {
                    values.iter_mut().for_each(|x| *x = -*x);
                } else if op1 == AluOp::Subtract {
                    imm1.iter_mut().for_each(|x| *x = -*x);
                }
                multiply_add(&mut values, columns, &imm0, &imm1)?;
            }
        }
        note_range(state, self.op, &self.data, &values);
        apply(self.op, &mut values, columns, &parameters)?;
        let running = self.reduction.start(state, Registers::Scalar, &self.dst)?;
        state.write(&self.dst, &values)?;
        self.reduction.join_written(state, Registers::Scalar, &self.dst, &values, running)?;
        state.keep(values);
        Ok(())
    }
}
