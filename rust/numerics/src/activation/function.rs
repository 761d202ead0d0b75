//! The names of the functions, and where the hardware's results are valid.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A function of the scalar engine, of one float32.
///
/// Phi is the normal distribution's cumulative function, s(x) = 1 / (1 + e^-x).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActivationFunction {
    /// x.
    Copy,
    /// x^2.
    Square,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// x where it is positive, else +0.
    Relu,
    /// x where it is at least 0 (-0 too), else x times the parameter.
    Prelu,
    /// x * Phi(x).
    Gelu,
    /// The derivative of gelu: Phi(x) + x * Phi'(x).
    GeluDx,
    /// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
    GeluApprxTanh,
    /// x * s(1.702 x).
    GeluApprxSigmoid,
    /// The derivative of that: s + 1.702 x s (1 - s), s taken of 1.702 x.
    GeluApprxSigmoidDx,
    /// x * s(x).
    Silu,
    /// The derivative of silu: s (1 + x (1 - s)).
    SiluDx,
    /// tanh x.
    Tanh,
    /// ln(1 + e^x).
    Softplus,
    /// x * tanh(ln(1 + e^x)).
    Mish,
    /// erf x.
    Erf,
    /// The derivative of erf: 2 / sqrt(pi) * e^(-x^2).
    ErfDx,
    /// e^x: the bits of [`crate::exp`] without bias.
    Exp,
    /// ln x.
    Log,
    /// sin x from -pi to pi; beyond, see [`crate::activation`].
    Sin,
    /// arctan x.
    Arctan,
    /// The square root.
    Sqrt,
    /// 1 over the square root.
    Rsqrt,
    /// 1 / x.
    Reciprocal,
    /// -1, +0 or 1.
    Sign,
    /// The magnitude.
    Abs,
}

impl ActivationFunction {
    /// Every function.
    pub const ALL: [ActivationFunction; 26] = [
        ActivationFunction::Copy,
        ActivationFunction::Square,
        ActivationFunction::Sigmoid,
        ActivationFunction::Relu,
        ActivationFunction::Prelu,
        ActivationFunction::Gelu,
        ActivationFunction::GeluDx,
        ActivationFunction::GeluApprxTanh,
        ActivationFunction::GeluApprxSigmoid,
        ActivationFunction::GeluApprxSigmoidDx,
        ActivationFunction::Silu,
        ActivationFunction::SiluDx,
        ActivationFunction::Tanh,
        ActivationFunction::Softplus,
        ActivationFunction::Mish,
        ActivationFunction::Erf,
        ActivationFunction::ErfDx,
        ActivationFunction::Exp,
        ActivationFunction::Log,
        ActivationFunction::Sin,
        ActivationFunction::Arctan,
        ActivationFunction::Sqrt,
        ActivationFunction::Rsqrt,
        ActivationFunction::Reciprocal,
        ActivationFunction::Sign,
        ActivationFunction::Abs,
    ];

    /// The name, as `nki.language` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            ActivationFunction::Copy => "copy",
            ActivationFunction::Square => "square",
            ActivationFunction::Sigmoid => "sigmoid",
            ActivationFunction::Relu => "relu",
            ActivationFunction::Prelu => "prelu",
            ActivationFunction::Gelu => "gelu",
            ActivationFunction::GeluDx => "gelu_dx",
            ActivationFunction::GeluApprxTanh => "gelu_apprx_tanh",
            ActivationFunction::GeluApprxSigmoid => "gelu_apprx_sigmoid",
            ActivationFunction::GeluApprxSigmoidDx => "gelu_apprx_sigmoid_dx",
            ActivationFunction::Silu => "silu",
            ActivationFunction::SiluDx => "silu_dx",
            ActivationFunction::Tanh => "tanh",
            ActivationFunction::Softplus => "softplus",
            ActivationFunction::Mish => "mish",
            ActivationFunction::Erf => "erf",
            ActivationFunction::ErfDx => "erf_dx",
            ActivationFunction::Exp => "exp",
            ActivationFunction::Log => "log",
            ActivationFunction::Sin => "sin",
            ActivationFunction::Arctan => "arctan",
            ActivationFunction::Sqrt => "sqrt",
            ActivationFunction::Rsqrt => "rsqrt",
            ActivationFunction::Reciprocal => "reciprocal",
            ActivationFunction::Sign => "sign",
            ActivationFunction::Abs => "abs",
        }
    }

    /// The smallest and the largest magnitude for which the hardware's result is documented to be valid; `None` where
    /// that is every number. Results of this crate are right outside as well, but for `sin`.
    ///
    /// ```
    /// use trn3_numerics::ActivationFunction;
    ///
    /// assert_eq!(ActivationFunction::Sin.valid_range(), Some((0.0, std::f32::consts::PI)));
    /// assert_eq!(ActivationFunction::Tanh.valid_range(), None);
    /// ```
    pub const fn valid_range(self) -> Option<(f32, f32)> {
        match self {
            ActivationFunction::Log => Some((power_of_two(-64), power_of_two(64))),
            ActivationFunction::Sin => Some((0.0, std::f32::consts::PI)),
            ActivationFunction::Arctan => Some((0.0, std::f32::consts::FRAC_PI_2)),
            ActivationFunction::Sqrt => Some((power_of_two(-116), power_of_two(118))),
            ActivationFunction::Rsqrt => Some((power_of_two(-87), power_of_two(97))),
            ActivationFunction::Reciprocal => Some((power_of_two(-42), power_of_two(42))),
            _ => None,
        }
    }
}

const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}

impl fmt::Display for ActivationFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ActivationFunction {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        ActivationFunction::ALL.into_iter().find(|function| function.name() == name).ok_or_else(|| {
            let names = ActivationFunction::ALL.map(ActivationFunction::name).join(", ");
            Error::value("function", format!("{name:?}"), format!("allowed: {names}"))
        })
    }
}
