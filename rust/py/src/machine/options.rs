//! What a new core is made with, as Python's keywords say it.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trn3_compiler::CompileLevel;
use trn3_machine::core::CoreOptions;
use trn3_machine::memory::Precision;

use crate::machine::error::exception;

/// Keywords of a new core as its options, and the level of the compiler.
pub(super) fn core_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<(CoreOptions, CompileLevel)> {
    let (mut options, mut level) = (CoreOptions::default(), CompileLevel::default());
    for (key, value) in given.into_iter().flat_map(|given| given.iter()) {
        let key: String = key.extract()?;
        let flag = || value.extract::<bool>();
        if key == "compile" {
            level = value.extract::<String>()?.parse().map_err(exception)?;
            continue;
        }
        let taken = match key.as_str() {
            "values" => flag().map(|flag| options.values = flag),
            "timing" => flag().map(|flag| options.timing = flag),
            "strict" => flag().map(|flag| options.strict = flag),
            "throttle" => flag().map(|flag| options.throttle = flag),
            "nan_origin" => flag().map(|flag| options.nan_origin = flag),
            "shadow" => flag().map(|flag| options.shadow = flag),
            "unlimited" => flag().map(|flag| options.unlimited = flag),
            "precise" => flag().map(|flag| {
                options.precision = if flag { Precision::Float32 } else { Precision::Declared };
            }),
            "max_instructions" => value.extract().map(|most| options.max_instructions = most),
            "max_host_bytes" => value.extract().map(|most| options.max_host_bytes = most),
            _ => {
                let text = format!("NeuronCore.__new__() got an unexpected keyword argument '{key}'");
                return Err(PyTypeError::new_err(text));
            }
        };
        taken.map_err(|error| PyTypeError::new_err(format!("argument '{key}': {}", error.value(value.py()))))?;
    }
    // What compiles gives places afterwards.
    options.unlimited |= level != CompileLevel::AsWritten;
    Ok((options, level))
}
