//! Names of functions of one element.

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the table says what each is")]
pub enum UnaryFunction {
    Abs,
    Negate,
    Sign,
    Ceil,
    Floor,
    RoundNearestEven,
    RoundNearestAfz,
    Exponential,
    ExponentialMinusOne,
    Log,
    LogPlusOne,
    Logistic,
    Tanh,
    Tan,
    Sine,
    Cosine,
    Arctan,
    Sqrt,
    Rsqrt,
    Cbrt,
    Erf,
    Erfc,
    ErfInv,
    IsFinite,
    Not,
    PopulationCount,
    CountLeadingZeros,
}
