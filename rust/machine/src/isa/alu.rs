//! The operators of tensor_tensor, tensor_scalar, reductions and scans.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// An operator, named as in `nki.language`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AluOp {
    /// Bit pattern complement.
    Invert,
    /// Bitwise and.
    BitwiseAnd,
    /// Bitwise or.
    BitwiseOr,
    /// Bitwise exclusive or.
    BitwiseXor,
    /// Shift towards the high bits; zero from a width on.
    LeftShift,
    /// Logical shift towards the low bits; zero from a width on.
    RightShift,
    /// x + y.
    Add,
    /// x - y.
    Subtract,
    /// x * y.
    Multiply,
    /// The larger; NaN if either is **(choice)**.
    Maximum,
    /// The smaller; NaN if either is **(choice)**.
    Minimum,
    /// 1 where equal, else 0.
    Equal,
    /// 1 where not equal, else 0.
    NotEqual,
    /// 1 where x >= y, else 0.
    GreaterEqual,
    /// 1 where x > y, else 0.
    Greater,
    /// 1 where x <= y, else 0.
    LessEqual,
    /// 1 where x < y, else 0.
    Less,
    /// 1 where both are nonzero, else 0.
    LogicalAnd,
    /// 1 where either is nonzero, else 0.
    LogicalOr,
    /// 1 where exactly one is nonzero, else 0.
    LogicalXor,
    /// x to the power y (GpSimdE).
    Power,
    /// The operand of larger magnitude, with its sign; y on a tie (gen4).
    AbsMax,
    /// The operand of smaller magnitude, with its sign; y on a tie (gen4).
    AbsMin,
    /// |x|, unary.
    Abs,
    /// x * x, unary.
    Square,
    /// max(x, 0), unary.
    Relu,
    /// 1 / sqrt(x), unary.
    Rsqrt,
    /// 1 / x, unary.
    Reciprocal,
    /// x, unary.
    Bypass,
    /// Mean; of tensor_partition_reduce alone.
    Average,
}

use AluOp::*;

impl AluOp {
    /// Every operator.
    pub const ALL: [AluOp; 30] = [
        Invert,
        BitwiseAnd,
        BitwiseOr,
        BitwiseXor,
        LeftShift,
        RightShift,
        Add,
        Subtract,
        Multiply,
        Maximum,
        Minimum,
        Equal,
        NotEqual,
        GreaterEqual,
        Greater,
        LessEqual,
        Less,
        LogicalAnd,
        LogicalOr,
        LogicalXor,
        Power,
        AbsMax,
        AbsMin,
        Abs,
        Square,
        Relu,
        Rsqrt,
        Reciprocal,
        Bypass,
        Average,
    ];

    /// The `nki.language` name.
    pub const fn name(self) -> &'static str {
        match self {
            Invert => "invert",
            BitwiseAnd => "bitwise_and",
            BitwiseOr => "bitwise_or",
            BitwiseXor => "bitwise_xor",
            LeftShift => "left_shift",
            RightShift => "right_shift",
            Add => "add",
            Subtract => "subtract",
            Multiply => "multiply",
            Maximum => "maximum",
            Minimum => "minimum",
            Equal => "equal",
            NotEqual => "not_equal",
            GreaterEqual => "greater_equal",
            Greater => "greater",
            LessEqual => "less_equal",
            Less => "less",
            LogicalAnd => "logical_and",
            LogicalOr => "logical_or",
            LogicalXor => "logical_xor",
            Power => "power",
            AbsMax => "abs_max",
            AbsMin => "abs_min",
            Abs => "abs",
            Square => "square",
            Relu => "relu",
            Rsqrt => "rsqrt",
            Reciprocal => "reciprocal",
            Bypass => "bypass",
            Average => "average",
        }
    }

    /// Whether the operator works on bit patterns of integers; all others compute in float32.
    pub const fn is_bitvec(self) -> bool {
        matches!(self, Invert | BitwiseAnd | BitwiseOr | BitwiseXor | LeftShift | RightShift)
    }

    /// Whether the operator has one operand.
    pub const fn is_unary(self) -> bool {
        matches!(self, Invert | Abs | Square | Relu | Rsqrt | Reciprocal | Bypass)
    }

    /// Whether the result is 0 or 1.
    pub const fn is_predicate(self) -> bool {
        matches!(
            self,
            Equal | NotEqual | GreaterEqual | Greater | LessEqual | Less | LogicalAnd | LogicalOr | LogicalXor
        )
    }

    /// Whether reductions may use it.
    pub const fn is_reduction(self) -> bool {
        matches!(
            self,
            BitwiseAnd
                | BitwiseOr
                | BitwiseXor
                | Add
                | Subtract
                | Multiply
                | Maximum
                | Minimum
                | LogicalAnd
                | LogicalOr
                | LogicalXor
        )
    }

    /// Whether VectorE has the operator in float32: all but the bit operators, what GpSimdE alone computes (`power`,
    /// `rsqrt`), and `bypass` and `average`, which belong to other instructions.
    pub const fn is_vector_arithmetic(self) -> bool {
        !self.is_bitvec() && !matches!(self, Power | Rsqrt | Bypass | Average)
    }

    /// Generation from which the operator exists.
    pub const fn least_generation(self) -> u64 {
        if matches!(self, AbsMax | AbsMin | Square | Relu) { 4 } else { 2 }
    }

    /// The value that a float32 reduction starts from.
    pub const fn identity(self) -> f32 {
        match self {
            Multiply | LogicalAnd => 1.0,
            Maximum => f32::NEG_INFINITY,
            Minimum | AbsMin => f32::INFINITY,
            _ => 0.0,
        }
    }

    /// One step in float32; unary operators ignore y. Which NaN a result is does not matter: writing makes it canonical.
    #[inline(always)]
    pub fn apply(self, x: f32, y: f32) -> f32 {
        let truth = |holds: bool| if holds { 1.0 } else { 0.0 };
        match self {
            Add => x + y,
            Subtract => x - y,
            Multiply => x * y,
            // A comparison with NaN is false: the sum brings the NaN through.
            Maximum => {
                if x >= y {
                    x
                } else if y > x {
                    y
                } else {
                    x + y
                }
            }
            Minimum => {
                if x <= y {
                    x
                } else if y < x {
                    y
                } else {
                    x + y
                }
            }
            Equal => truth(x == y),
            NotEqual => truth(x != y),
            GreaterEqual => truth(x >= y),
            Greater => truth(x > y),
            LessEqual => truth(x <= y),
            Less => truth(x < y),
            LogicalAnd => truth(x != 0.0 && y != 0.0),
            LogicalOr => truth(x != 0.0 || y != 0.0),
            LogicalXor => truth((x != 0.0) != (y != 0.0)),
            AbsMax => {
                if x.abs() > y.abs() {
                    x
                } else if y.abs() >= x.abs() {
                    y
                } else {
                    x + y
                }
            }
            AbsMin => {
                if x.abs() < y.abs() {
                    x
                } else if y.abs() <= x.abs() {
                    y
                } else {
                    x + y
                }
            }
            Abs => x.abs(),
            Square => x * x,
            Relu => {
                if x > 0.0 {
                    x
                } else if x <= 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Rsqrt => (1.0 / f64::from(x).sqrt()) as f32,
            Reciprocal => 1.0 / x,
            Power => power(x, y),
            Bypass | Average => x,
            // Bit patterns have no float32 step; checks refuse them before.
            Invert | BitwiseAnd | BitwiseOr | BitwiseXor | LeftShift | RightShift => f32::NAN,
        }
    }

    /// One step on bit patterns `width` bits wide.
    #[inline(always)]
    pub fn apply_bits(self, x: u32, y: u32, width: u32) -> u32 {
        let mask = if width >= 32 { u32::MAX } else { (1 << width) - 1 };
        let value = match self {
            Invert => !x,
            BitwiseAnd => x & y,
            BitwiseOr => x | y,
            BitwiseXor => x ^ y,
            LeftShift if y < width => x << y,
            RightShift if y < width => x >> y,
            _ => 0,
        };
        value & mask
    }

    /// One step on 32-bit integers, wrapping: what GpSimdE computes natively.
    #[inline(always)]
    pub fn apply_integer(self, x: i64, y: i64) -> i64 {
        let truth = |holds: bool| i64::from(holds);
        match self {
            Add => x.wrapping_add(y),
            Subtract => x.wrapping_sub(y),
            Multiply => x.wrapping_mul(y),
            Maximum => x.max(y),
            Minimum => x.min(y),
            Equal => truth(x == y),
            NotEqual => truth(x != y),
            GreaterEqual => truth(x >= y),
            Greater => truth(x > y),
            LessEqual => truth(x <= y),
            Less => truth(x < y),
            LogicalAnd => truth(x != 0 && y != 0),
            LogicalOr => truth(x != 0 || y != 0),
            LogicalXor => truth((x != 0) != (y != 0)),
            AbsMax => {
                if x.abs() > y.abs() {
                    x
                } else {
                    y
                }
            }
            AbsMin => {
                if x.abs() < y.abs() {
                    x
                } else {
                    y
                }
            }
            Abs => x.abs(),
            Square => x.wrapping_mul(x),
            Relu => x.max(0),
            _ => x,
        }
    }
}

impl fmt::Display for AluOp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for AluOp {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        AluOp::ALL
            .into_iter()
            .find(|op| op.name() == name)
            .ok_or_else(|| Error::Type(format!("op is {name}; allowed: {}", AluOp::ALL.map(AluOp::name).join(", "))))
    }
}

/// x to the power y. Roots are what kernels ask for most: rounded from float64 they are the same, and ten times as fast.
#[inline(always)]
fn power(x: f32, y: f32) -> f32 {
    let wide = f64::from(x);
    if x > 0.0 && y == 0.5 {
        return wide.sqrt() as f32;
    }
    if x > 0.0 && y == -0.5 {
        return (1.0 / wide.sqrt()) as f32;
    }
    libm::pow(wide, f64::from(y)) as f32
}

#[cfg(test)]
mod tests {
    use super::power;

    fn check(bits: u32, y: f32) {
        let x = f32::from_bits(bits);
        let (found, expected) = (power(x, y), libm::pow(f64::from(x), f64::from(y)) as f32);
        let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(is_same, "{x:e} to the power {y}: {found:e}, not {expected:e}");
    }

    #[test]
    fn test_roots_are_what_the_general_power_gives() {
        for y in [0.5, -0.5] {
            // Two exponents that follow one another are all there is to a root's mantissa.
            (0x3f80_0000..0x4080_0000).step_by(251).for_each(|bits| check(bits, y));
            (0..=u32::MAX).step_by(65_521).for_each(|bits| check(bits, y));
            for x in [0.0, -0.0, f32::INFINITY, -f32::INFINITY, f32::NAN, -1.0, 1e-45, f32::MAX, f32::MIN_POSITIVE] {
                check(x.to_bits(), y);
            }
        }
    }

    #[test]
    #[ignore = "every mantissa: some seconds in an optimised build"]
    fn test_every_root_is_what_the_general_power_gives() {
        for y in [0.5, -0.5] {
            (0x3f80_0000..0x4080_0000).for_each(|bits| check(bits, y));
        }
    }
}
