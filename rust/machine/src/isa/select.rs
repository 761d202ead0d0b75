//! select_reduce, range_select and tensor_copy_predicated: one of two values for each element.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::accumulate::{ReduceCommand, Reduction, Registers};
use crate::isa::alu::AluOp;
use crate::isa::{Instruction, OperandRole, ScalarOperand, steps};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;
use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, cast};

/// `select_reduce(dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred)`:
/// dst = predicate ? on_true : on_false, and the largest of each partition in float32, before the cast to dst's type
/// **(choice)**.
#[derive(Debug)]
pub struct SelectReduce {
    /// Result.
    pub dst: View,
    /// Where it is not 0, `on_true` is taken.
    pub predicate: View,
    /// Values where the predicate holds.
    pub on_true: View,
    /// Value where it does not.
    pub on_false: ScalarOperand,
    /// The reduction beside it, `maximum`.
    pub reduction: Reduction,
    /// Whether the predicate's meaning is exchanged.
    pub reverse_pred: bool,
}

impl Instruction for SelectReduce {
    fn name(&self) -> &'static str {
        "select_reduce"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.predicate);
        visit(OperandRole::Read, &self.on_true);
        if let Some(view) = self.on_false.view() {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
        if let Some(view) = &self.reduction.result {
            visit(OperandRole::Write, view);
        }
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (operand, view) in [("dst", &self.dst), ("predicate", &self.predicate), ("on_true", &self.on_true)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            check.no_columns(operand, view)?;
        }
        check.same_tile("predicate", &self.predicate, "dst", &self.dst)?;
        check.same_tile("on_true", &self.on_true, "dst", &self.dst)?;
        check.not_both_psum("on_true", &self.on_true, "predicate", &self.predicate)?;
        check.dtype(
            "predicate",
            &self.predicate,
            &[DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Bool],
        )?;
        if matches!(self.on_true.dtype, DType::TFloat32 | DType::Int32 | DType::UInt32) {
            let got = format!("has dtype {}", self.on_true.dtype);
            return Err(check.refuse("on_true", got, "any dtype but tfloat32, int32 and uint32"));
        }
        if matches!(self.on_false, ScalarOperand::None) {
            return Err(check.refuse("on_false", "is None", "a number or a tile of shape [P, 1]"));
        }
        check.float32_scalar("on_false", &self.on_false, &self.dst)?;
        let commands = [ReduceCommand::Idle, ReduceCommand::ResetReduce, ReduceCommand::Reduce];
        self.reduction.check(&check, &self.dst, &commands, &[AluOp::Maximum])?;
        self.reduction.check_float_result(&check)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::two_stream_rate(arch, &self.dst, &self.on_true, &self.predicate);
        cost::vector(arch, self.dst.free_size(), rate, self.reduction.read_cycles(arch))
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let columns = self.dst.free_size();
        let otherwise = self.on_false.values(state, self.dst.partitions(), 0.0)?;
        let predicate = state.read(&self.predicate)?;
        let mut values = state.read(&self.on_true)?;
        let rows = steps::rows_mut(&mut values, columns).zip(steps::rows(&predicate, columns)).zip(&otherwise);
        for ((row, predicate), &otherwise) in rows {
            for (x, &p) in row.iter_mut().zip(predicate) {
                *x = if (p != 0.0) != self.reverse_pred { *x } else { otherwise };
            }
        }
        let running = self.reduction.start(state, Registers::Vector, &self.dst)?;
        state.write(&self.dst, &values)?;
        self.reduction.join(state, Registers::Vector, &self.dst, &values, running)?;
        state.keep(values);
        state.keep(predicate);
        Ok(())
    }

    fn has_infinite_constant(&self) -> bool {
        self.on_false.is_infinite()
    }
}

/// `range_select(dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd, reduce_res, reduce_op, range_start,
/// on_false_value)`, gen3+: an element stays where both comparisons of its place with the bounds hold, and is the lowest
/// float32 elsewhere. The largest of each partition is taken in float32, before the cast to dst's type **(choice)**.
#[derive(Debug)]
pub struct RangeSelect {
    /// Result.
    pub dst: View,
    /// Values.
    pub on_true: View,
    /// Comparison of the place (left) with `bound0`.
    pub comp_op0: AluOp,
    /// Comparison of the place (left) with `bound1`.
    pub comp_op1: AluOp,
    /// First bounds, [P, 1].
    pub bound0: View,
    /// Second bounds, [P, 1].
    pub bound1: View,
    /// The reduction beside it, `maximum`.
    pub reduction: Reduction,
    /// Place of the first element.
    pub range_start: i64,
    /// What stands where the comparisons fail: the lowest float32.
    pub on_false_value: f64,
}

const COMPARISONS: [AluOp; 5] = [AluOp::Equal, AluOp::Less, AluOp::LessEqual, AluOp::Greater, AluOp::GreaterEqual];

impl Instruction for RangeSelect {
    fn name(&self) -> &'static str {
        "range_select"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        for view in [&self.on_true, &self.bound0, &self.bound1] {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Write, &self.dst);
        if let Some(view) = &self.reduction.result {
            visit(OperandRole::Write, view);
        }
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 3)?;
        for (operand, view) in [("dst", &self.dst), ("on_true_tile", &self.on_true)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            check.no_columns(operand, view)?;
        }
        check.same_tile("on_true_tile", &self.on_true, "dst", &self.dst)?;
        check.float("on_true_tile", &self.on_true)?;
        for (operand, op) in [("comp_op0", self.comp_op0), ("comp_op1", self.comp_op1)] {
            if !COMPARISONS.contains(&op) {
                return Err(check.refuse(operand, format!("is {op}"), COMPARISONS.map(AluOp::name).join(", ")));
            }
        }
        for (operand, bound) in [("bound0", &self.bound0), ("bound1", &self.bound1)] {
            check.vector(operand, bound, &self.dst)?;
            check.no_columns(operand, bound)?;
            check.dtype(operand, bound, &[DType::Float32])?;
        }
        if self.on_false_value as f32 != f32::MIN {
            let got = format!("is {:e}", self.on_false_value);
            return Err(check.refuse("on_false_value", got, "the lowest float32, -3.4028235e38 (FP32_MIN)"));
        }
        let commands = [ReduceCommand::ResetReduce, ReduceCommand::Reduce, ReduceCommand::Reset, ReduceCommand::Idle];
        self.reduction.check(&check, &self.dst, &commands, &[AluOp::Maximum])
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_rate, &[&self.dst, &self.on_true]);
        cost::vector(arch, self.dst.free_size(), rate, self.reduction.read_cycles(arch))
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let columns = self.dst.free_size();
        let (bound0, bound1) = (state.read(&self.bound0)?, state.read(&self.bound1)?);
        let mut values = state.read(&self.on_true)?;
        let places: Vec<f32> = (0..columns as i64).map(|column| (self.range_start + column) as f32).collect();
        let (mut first, mut second) = (places.clone(), places.clone());
        for ((row, &low), &high) in steps::rows_mut(&mut values, columns).zip(&bound0).zip(&bound1) {
            first.copy_from_slice(&places);
            second.copy_from_slice(&places);
            steps::scalar(self.comp_op0, &mut first, columns, &[low], false);
            steps::scalar(self.comp_op1, &mut second, columns, &[high], false);
            for ((x, &first), &second) in row.iter_mut().zip(&first).zip(&second) {
                *x = if first * second != 0.0 { *x } else { f32::MIN };
            }
        }
        let running = self.reduction.start(state, Registers::Vector, &self.dst)?;
        state.write(&self.dst, &values)?;
        self.reduction.join(state, Registers::Vector, &self.dst, &values, running)?;
        state.keep(values);
        Ok(())
    }

    fn has_infinite_constant(&self) -> bool {
        self.on_false_value.is_infinite()
    }
}

/// Where tensor_copy_predicated copies from.
#[derive(Clone, Debug)]
pub enum CopySource {
    /// A tile of dst's type.
    Tile(View),
    /// One value for all.
    Constant(f64),
}

/// `tensor_copy_predicated(dst, src, predicate, reverse_pred)`: bits of src where the predicate is not 0; elsewhere dst
/// stays as it is.
#[derive(Debug)]
pub struct TensorCopyPredicated {
    /// What is written to.
    pub dst: View,
    /// What is copied.
    pub src: CopySource,
    /// Where it is copied.
    pub predicate: View,
    /// Whether the predicate's meaning is exchanged.
    pub reverse_pred: bool,
}

impl TensorCopyPredicated {
    fn tile(&self) -> Option<&View> {
        if let CopySource::Tile(view) = &self.src { Some(view) } else { None }
    }

    /// The bit pattern of a constant in dst's type.
    fn pattern(&self, value: f64) -> Result<u32> {
        match self.dst.dtype.format().filter(|_| !self.dst.dtype.is_packed()) {
            Some(format) => {
                let (value, mut code) = ([value as f32], [0u8; 4]);
                let source = ArrayView::new(&value, &[1])?.into();
                let out = ArrayMut::from_codes(format, &mut code[..self.dst.dtype.size()], &[1])?;
                cast(&source, out, CastOptions::default(), Draws::None)?;
                Ok(u32::from_le_bytes(code))
            }
            None => Ok(value as i64 as u32),
        }
    }
}

impl Instruction for TensorCopyPredicated {
    fn name(&self) -> &'static str {
        "tensor_copy_predicated"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        if let Some(view) = self.tile() {
            visit(OperandRole::Read, view);
        }
        visit(OperandRole::Read, &self.predicate);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.tile("dst", &self.dst, ON_CHIP)?;
        check.tile("predicate", &self.predicate, ON_CHIP)?;
        check.same_tile("predicate", &self.predicate, "dst", &self.dst)?;
        check.dtype("predicate", &self.predicate, &[DType::UInt8, DType::UInt16, DType::UInt32, DType::Bool])?;
        check.gathered("predicate", &self.predicate)?;
        match &self.src {
            CopySource::Tile(src) => {
                check.tile("src", src, ON_CHIP)?;
                check.same_tile("src", src, "dst", &self.dst)?;
                check.same_dtype("src", src, "dst", &self.dst)?;
                check.not_both_psum("src", src, "predicate", &self.predicate)?;
                check.no_columns("src", src)?;
                check.scattered("dst", &self.dst, src)
            }
            CopySource::Constant(value) => {
                check.arithmetic("dst", &self.dst)?;
                if self.dst.dtype.is_integer() && value.fract() != 0.0 {
                    let allowed = format!("a whole number for {}", self.dst.dtype);
                    return Err(check.refuse("src", format!("is {value}"), allowed));
                }
                check.scattered("dst", &self.dst, &self.predicate)
            }
        }
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let src = self.tile().unwrap_or(&self.predicate);
        let rate = cost::two_stream_rate(arch, &self.dst, src, &self.predicate);
        cost::vector(arch, self.dst.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let predicate = state.read_bits(&self.predicate)?;
        let mask: Vec<bool> = predicate.iter().map(|&bits| (bits != 0) != self.reverse_pred).collect();
        if state.memory.keeps_exact(self.dst.dtype) {
            return match &self.src {
                CopySource::Tile(view) => {
                    let words = state.read_words(view)?;
                    state.memory.write_words(&self.dst, &words, view.dtype, Some(&mask))
                }
                CopySource::Constant(value) => {
                    let values = vec![*value as f32; mask.len()];
                    state.memory.write_f32_where(&self.dst, &values, &mask, Default::default())
                }
            };
        }
        let mut bits = match &self.src {
            CopySource::Tile(view) => state.read_bits(view)?,
            CopySource::Constant(value) => vec![self.pattern(*value)?; mask.len()],
        };
        if !state.memory.is_initialised(&self.dst)? {
            // What is not written stays uninitialised.
            return state.memory.write_bits_where(&self.dst, &bits, &mask);
        }
        let old = state.read_bits(&self.dst)?;
        for ((bits, &copied), &old) in bits.iter_mut().zip(&mask).zip(&old) {
            *bits = if copied { *bits } else { old };
        }
        state.memory.write_bits(&self.dst, &bits)
    }
}
