//! exponential: VectorE's fast exponent, with running sums.

use half::{bf16, f16};
use trn3_numerics::{ArrayMut, ArrayView, Bias, exp};

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::accumulate::{ReduceCommand, Reduction, Registers};
use crate::isa::alu::AluOp;
use crate::isa::{Instruction, OperandRole, ScalarOperand};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// Most axes of an operand.
const MOST_AXES: usize = 4;
const FLOATS: [DType; 5] = [DType::Float8E4M3, DType::Float8E5M2, DType::Float16, DType::BFloat16, DType::Float32];
const INTEGERS: [DType; 5] = [DType::Int8, DType::Int16, DType::Int32, DType::UInt8, DType::UInt16];

/// `exponential(dst, src, max_value, reduce_res, reduce_cmd, reduce_init)`, gen4: dst = e^(src - max_value), the
/// subtraction rounded to float32, the exponential as [`trn3_numerics::exp`] does it; the running sums take the values
/// after the cast to dst's type **(choice)**.
#[derive(Debug)]
pub struct Exponential {
    /// Result.
    pub dst: View,
    /// Input.
    pub src: View,
    /// What is subtracted; none: 0.
    pub max_value: ScalarOperand,
    /// The sum beside it. An initial value of 0 may stand with every command.
    pub reduction: Reduction,
}

impl Exponential {
    /// Between 16-bit types the result is correctly rounded, which the float32 result, rounded, would not always be.
    fn narrow(&self, values: &[f32], bias: &[f32], shape: &[usize; 2]) -> Result<Option<Vec<f32>>> {
        macro_rules! through {
            ($encode:expr, $to:ty) => {{
                let input: Vec<_> = values.iter().map(|&x| $encode(x)).collect();
                let mut output = vec![<$to>::ZERO; values.len()];
                exp(
                    &ArrayView::new(&input, shape)?.into(),
                    Bias::PerRow(bias),
                    ArrayMut::new(&mut output, shape)?,
                    None,
                )?;
                Ok(Some(output.iter().map(|x| x.to_f32()).collect()))
            }};
        }
        // Exact: the values were bfloat16 before.
        let upper_half = |x: f32| bf16::from_bits((x.to_bits() >> 16) as u16);
        match (self.src.dtype, self.dst.dtype) {
            (DType::BFloat16, DType::BFloat16) => through!(upper_half, bf16),
            (DType::BFloat16, DType::Float16) => through!(upper_half, f16),
            (DType::Float16, DType::BFloat16) => through!(f16::from_f32, bf16),
            (DType::Float16, DType::Float16) => through!(f16::from_f32, f16),
            _ => Ok(None),
        }
    }

    fn exponentials(&self, state: &State, values: &mut Vec<f32>, bias: &[f32]) -> Result<()> {
        let shape = [self.src.partitions(), self.src.free_size()];
        // Stochastic rounding needs the float32 result.
        if state.stochastic_rounding.is_none()
            && let Some(narrow) = self.narrow(values, bias, &shape)?
        {
            *values = narrow;
            return Ok(());
        }
        let input = std::mem::take(values);
        values.resize(input.len(), 0.0);
        exp(&ArrayView::new(&input, &shape)?.into(), Bias::PerRow(bias), ArrayMut::new(values, &shape)?, None)?;
        Ok(())
    }
}

impl Instruction for Exponential {
    fn name(&self) -> &'static str {
        "exponential"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        for view in [&self.max_value, &self.reduction.initial].into_iter().filter_map(ScalarOperand::view) {
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
        for (operand, view) in [("dst", &self.dst), ("src", &self.src)] {
            check.tile(operand, view, ON_CHIP)?;
            if view.rank() > MOST_AXES {
                let got = format!("has {} axes", view.rank());
                return Err(check.refuse(operand, got, format!("at most {MOST_AXES}")));
            }
        }
        check.same_tile("src", &self.src, "dst", &self.dst)?;
        let types = |more: DType| -> Vec<DType> { FLOATS.into_iter().chain(INTEGERS).chain([more]).collect() };
        check.dtype("src", &self.src, &types(DType::UInt32))?;
        check.dtype("dst", &self.dst, &types(DType::TFloat32))?;
        check.float32_scalar("max_value", &self.max_value, &self.src)?;
        use ReduceCommand::{Idle, LoadReduce, Reduce, ResetReduce};
        self.reduction.check(&check, &self.dst, &[Idle, ResetReduce, Reduce, LoadReduce], &[AluOp::Add])?;
        self.reduction.check_float_result(&check)?;
        if self.reduction.command == LoadReduce || !matches!(self.reduction.initial, ScalarOperand::Constant(0.0)) {
            self.reduction.check_initial(&check, "reduce_init", &self.dst)?;
        }
        check.gathered("src", &self.src)?;
        check.scattered("dst", &self.dst, &self.src)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let views = [&self.dst, &self.src];
        let narrow = views.iter().all(|view| view.dtype.size() <= 2);
        let rate = if narrow { arch.vector_exponential_rate_16bit } else { arch.vector_exponential_rate_32bit };
        let rate = cost::plain_rate(arch, rate, &views);
        cost::vector(arch, self.dst.free_size(), rate, self.reduction.read_cycles(arch))
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let bias = self.max_value.values(state, self.src.partitions(), 0.0)?;
        let mut values = state.read(&self.src)?;
        self.exponentials(state, &mut values, &bias)?;
        let running = self.reduction.start(state, Registers::Vector, &self.dst)?;
        state.write(&self.dst, &values)?;
        self.reduction.join_written(state, Registers::Vector, &self.dst, &values, running)?;
        state.keep(values);
        Ok(())
    }
}
