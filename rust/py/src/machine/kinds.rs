//! What a Python object may be in the place of an instruction's argument, kind by kind of the machine's table. Every
//! refusal names the instruction and the argument.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use trn3_machine::isa::ScalarOperand;
use trn3_machine::isa::register::RegisterValue;
use trn3_machine::isa::select::CopySource;
use trn3_machine::isa::table::values;
use trn3_machine::isa::tensor::Tile as ArrayTile;
use trn3_machine::storage::Buffer;

use crate::machine::error::exception;
use crate::machine::operand;
use crate::machine::spelling::{Sort, meant};

/// A kind of argument.
pub(crate) trait Kind {
    /// Type in the stub.
    const ANNOTATION: &'static str;
    /// What a call hands over.
    type Given<'a, 'py>;
    /// What the instruction holds.
    type Value;

    /// The value of what came.
    fn take(instruction: &'static str, argument: &'static str, given: Self::Given<'_, '_>) -> PyResult<Self::Value>;
}

/// Any object, looked at later.
pub(crate) struct Object<'a, 'py>(Borrowed<'a, 'py, PyAny>);

impl<'a, 'py> FromPyObject<'a, 'py> for Object<'a, 'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(object))
    }
}

/// Any object, or the number that stands for one that is left out.
pub(crate) enum Operand<'a, 'py, T> {
    Object(Object<'a, 'py>),
    Default(T),
}

impl<'a, 'py, T> FromPyObject<'a, 'py> for Operand<'a, 'py, T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Object(Object(object)))
    }
}

/// A word, or the one that stands for it where it is left out.
type Word<'a, 'py> = Operand<'a, 'py, &'static str>;

impl Word<'_, '_> {
    fn meant<T>(&self, sort: Sort, argument: &'static str, parse: impl Fn(&str) -> PyResult<T>) -> PyResult<T> {
        match self {
            Operand::Object(object) => meant(sort, argument, &object.0, parse),
            Operand::Default(word) => parse(word),
        }
    }
}

/// The default of a row as what a call would hand over.
macro_rules! given {
    (Scalar $default:tt) => {
        $crate::machine::kinds::Operand::Default(given!(@scalar $default))
    };
    (@scalar None) => {
        None
    };
    (@scalar $default:tt) => {
        Some($default)
    };
    (IntegerOrRegister $default:tt) => {
        $crate::machine::kinds::Operand::Default($default)
    };
    (Op $default:tt) => {
        $crate::machine::kinds::Operand::Default($default)
    };
    (Command $default:tt) => {
        $crate::machine::kinds::Operand::Default($default)
    };
    (NamedEngine $default:tt) => {
        $crate::machine::kinds::Operand::Default($default)
    };
    (OobMode $default:tt) => {
        $crate::machine::kinds::Operand::Default($default)
    };
    ($kind:ident $default:tt) => {
        $default
    };
}
pub(crate) use given;

type Pair = (usize, usize);

macro_rules! kinds {
    ($($kind:ident: $annotation:literal, $given:ty,
        |$instruction:pat_param, $argument:pat_param, $value:pat_param| $take:expr;)*) => {$(
        pub(crate) struct $kind;

        impl Kind for $kind {
            const ANNOTATION: &'static str = $annotation;
            type Given<'a, 'py> = $given;
            type Value = values::$kind;

            #[inline]
            fn take(
                $instruction: &'static str, $argument: &'static str, $value: Self::Given<'_, '_>,
            ) -> PyResult<Self::Value> {
                $take
            }
        }
    )*

        /// The type in the stub of a kind.
        pub(crate) fn annotation(kind: trn3_machine::isa::table::Kind) -> &'static str {
            match kind {
                $(trn3_machine::isa::table::Kind::$kind => $kind::ANNOTATION,)*
            }
        }
    };
}

kinds! {
    Tile: "NkiTensor", Object<'a, 'py>, |instruction, argument, given| {
        operand::tensor(instruction, argument, &given.0).cloned()
    };
    MaybeTile: "NkiTensor | None", Option<Object<'a, 'py>>, |instruction, argument, given| {
        given.map(|object| operand::tensor(instruction, argument, &object.0).cloned()).transpose()
    };
    Tiles: "Sequence[NkiTensor]", Vec<Bound<'py, PyAny>>, |instruction, argument, given| {
        given.iter().map(|object| operand::tensor(instruction, argument, object).cloned()).collect()
    };
    Scalar: "float | NkiTensor | None", Operand<'a, 'py, Option<f64>>, |instruction, argument, given| match given {
        Operand::Object(object) => operand::scalar(instruction, argument, &object.0),
        Operand::Default(number) => Ok(number.map_or(ScalarOperand::None, ScalarOperand::Constant)),
    };
    NumberOrTile: "float | NkiTensor", Object<'a, 'py>, |instruction, argument, given| {
        match operand::scalar(instruction, argument, &given.0)? {
            ScalarOperand::Vector(view) => Ok(CopySource::Tile(view)),
            ScalarOperand::Constant(value) => Ok(CopySource::Constant(value)),
            ScalarOperand::None => {
                Err(PyTypeError::new_err(format!("{instruction} {argument} is None; allowed: an NkiTensor or a number")))
            }
        }
    };
    Op: "Any", Word<'a, 'py>, |_, argument, given| given.meant(Sort::Operator, argument, operand::op);
    MaybeOp: "Any", Option<Object<'a, 'py>>, |_, argument, given| {
        given.map(|object| meant(Sort::Operator, argument, &object.0, operand::op)).transpose()
    };
    Function: "Any", Word<'a, 'py>, |_, argument, given| given.meant(Sort::Operator, argument, |name| {
        name.parse().map_err(|error| exception(trn3_machine::Error::Numerics(error)))
    });
    Command: "str | Enum", Word<'a, 'py>, |_, argument, given| {
        given.meant(Sort::ReduceCommand, argument, |name| name.parse().map_err(exception))
    };
    MaybeEngine: "str | Enum | None", Option<Object<'a, 'py>>, |_, argument, given| match given {
        Some(object) => meant(Sort::Engine, argument, &object.0, |name| operand::engine(Some(name))),
        None => Ok(None),
    };
    NamedEngine: "str | Enum", Word<'a, 'py>, |_, argument, given| {
        given.meant(Sort::Engine, argument, |name| operand::named_engine(argument, name))
    };
    DmaEngine: "str", &'a str, |_, _, given| Ok(given == "gpsimd_dma");
    Flag: "bool", bool, |_, _, given| Ok(given);
    MaybeFlag: "bool | None", Option<bool>, |_, _, given| Ok(given);
    Integer: "int", i64, |_, _, given| Ok(given);
    Integers: "Sequence[int]", Vec<i64>, |_, _, given| Ok(given);
    Pairs: "Sequence[tuple[int, int]]", Vec<(i64, i64)>, |_, _, given| Ok(given);
    Axes: "Sequence[int]", Vec<i64>, |_, _, given| Ok(given.into());
    Count: "int", i64, |instruction, argument, given| operand::count(instruction, argument, given);
    MaybeCount: "int | None", Option<i64>, |instruction, argument, given| {
        given.map(|number| operand::count(instruction, argument, number)).transpose()
    };
    MaybeCounts: "Sequence[int] | None", Option<Vec<usize>>, |_, _, given| Ok(given);
    Number: "float", f64, |_, _, given| Ok(given);
    MaybeNumbers: "Sequence[float] | None", Option<Vec<f64>>, |_, _, given| Ok(given);
    Priority: "int | None", Option<u8>, |_, _, given| Ok(given);
    OobMode: "str | Enum", Word<'a, 'py>, |_, argument, given| {
        given.meant(Sort::OutOfBounds, argument, |name| name.parse().map_err(exception))
    };
    DgeMode: "str | Enum | None", Option<Object<'a, 'py>>, |_, argument, given| match given {
        Some(object) => meant(Sort::DescriptorMode, argument, &object.0, |name| match name {
            "unknown" => Ok(None),
            name => name.parse().map(Some).map_err(exception),
        }),
        None => Ok(None),
    };
    MaybeArrayTile: "tuple[tuple[int, int], tuple[int, int]] | None", Option<(Pair, Pair)>, |_, _, given| {
        Ok(given.map(|(position, size)| ArrayTile { position, size }))
    };
    SparsityPattern: "str", &'a str, |_, _, given| given.parse().map_err(crate::error::exception);
    Register: "VirtualRegister", Object<'a, 'py>, |instruction, argument, given| {
        operand::register(instruction, argument, &given.0)
    };
    IntegerOrRegister: "int | VirtualRegister", Operand<'a, 'py, i64>, |instruction, argument, given| {
        match given {
            Operand::Object(object) => operand::register_value(instruction, argument, &object.0),
            Operand::Default(number) => Ok(RegisterValue::Number(number)),
        }
    };
}

/// The memory that a number stands for.
pub(super) fn buffer_of(code: u8) -> Buffer {
    match code {
        0 => Buffer::Sbuf,
        1 => Buffer::Psum,
        2 => Buffer::PrivateHbm,
        _ => Buffer::SharedHbm,
    }
}
