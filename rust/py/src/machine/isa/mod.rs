//! The instructions: one function each, made from the machine's table.

mod custom;
mod described;
mod meeting;

use pyo3::prelude::*;
use trn3_machine::isa::Instruction;
use trn3_machine::isa::table::{held, makers};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::kinds::{self, Kind, given};
use crate::machine::spelling;

pub(crate) use described::{dropped_keywords, family_of, instruction_table};

/// Issues an instruction on the line of the kernel that is calling.
fn issue(
    core: &Bound<'_, PyCore>,
    instruction: &mut (dyn Instruction + Send + Sync),
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let id = core.get().issue(core.py(), instruction, name)?;
    Ok(PyInstruction { core: core.clone().unbind(), id })
}

/// A function for each row of the table: `(core, arguments by position or keyword, name=None)`.
macro_rules! functions {
    ($($(#[$attribute:meta])* $instruction:ident($($argument:ident: $kind:ident $(= $default:tt)?),* $(,)?)
        $family:ident on $($engine:ident)|+ => $type:ident
        { $($field:ident $(= $maker:ident($($from:ident),* $(,)?))? $(:= $constant:expr)?),* $(,)? })*) => {
        $($(#[$attribute])*
        #[doc = concat!(
            stringify!($instruction), "(core", $(", ", stringify!($argument), $("=", python!($default),)?)* ", name=None)",
            "\n--\n\nIssue the instruction; see the function of `trn3.nki.isa`.",
        )]
        #[allow(clippy::too_many_arguments, reason = "as many as its row has, which nobody spells again")]
        #[pyfunction]
        #[pyo3(signature = (core, $($argument $(= given!($kind $default))?,)* name = None), text_signature = None)]
        fn $instruction(
            core: &Bound<'_, PyCore>,
            $($argument: <kinds::$kind as Kind>::Given<'_, '_>,)*
            name: Option<&str>,
        ) -> PyResult<PyInstruction> {
            $(let $argument = <kinds::$kind as Kind>::take(stringify!($instruction), stringify!($argument), $argument)?;)*
            let mut made = held::$type { $($field: field!($field $(= $maker($($from),*))? $(:= $constant)?)),* };
            issue(core, &mut made, name)
        })*

        fn register_listed(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $($(#[$attribute])* module.add_function(wrap_pyfunction!($instruction, module)?)?;)*
            Ok(())
        }
    };
}

macro_rules! field {
    ($field:ident) => {
        $field
    };
    ($field:ident = $maker:ident($($from:ident),*)) => {
        makers::$maker($($from),*)
    };
    ($field:ident := $constant:expr) => {
        $constant
    };
}

/// A default as Python writes it.
macro_rules! python {
    (true) => {
        "True"
    };
    (false) => {
        "False"
    };
    ((-$number:literal)) => {
        concat!("-", stringify!($number))
    };
    ($other:tt) => {
        stringify!($other)
    };
}

trn3_machine::instructions!(functions);

/// Adds every instruction to the submodule.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_listed(module)?;
    spelling::register(module)?;
    meeting::register(module)?;
    custom::register(module)
}
