//! Recorded programs, run on a device as a host without Python runs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use trn3_embed::{Command, Device, Error, ErrorKind, GpSimdFunction, Space};

use crate::door::{self, Fault};
use crate::machine::programs::{Inputs, registry};

type Output<'py> = (String, Bound<'py, PyArray1<u8>>, Vec<usize>, String);

/// Runs programs (JSON), one a core of a device (JSON of its spec), from one moment on; inputs are the bytes of each one's
/// tensors by name, functions what they call by name. Returns for each its outputs' names, bytes, shapes and types (none without values), and how long its run
/// took, in picoseconds.
#[pyfunction]
#[pyo3(signature = (programs, device, inputs, functions=Vec::new()))]
pub(crate) fn replay<'py>(
    py: Python<'py>,
    programs: Vec<String>,
    device: &str,
    inputs: Vec<Inputs<'py>>,
    functions: Vec<(String, Py<PyAny>)>,
) -> PyResult<Vec<(Vec<Output<'py>>, u64)>> {
    let slices = |inputs: &'_ Inputs<'py>| -> PyResult<Vec<(String, Vec<u8>)>> {
        inputs.iter().map(|(name, bytes)| Ok((name.clone(), bytes.as_slice()?.to_vec()))).collect()
    };
    let inputs = inputs.iter().map(slices).collect::<PyResult<Vec<_>>>()?;
    let functions = registry(functions);
    let ran = door::run(py, || run(&programs, device, &inputs, functions))?;
    let array = |(name, bytes, shape, dtype)| (name, PyArray1::from_vec(py, bytes), shape, dtype);
    Ok(ran.into_iter().map(|(outputs, time)| (outputs.into_iter().map(array).collect(), time)).collect())
}

impl Fault for Error {
    fn exception(self, _line: &str) -> PyErr {
        match self.kind {
            ErrorKind::Type => PyTypeError::new_err(self.message),
            ErrorKind::Unsupported => PyNotImplementedError::new_err(self.message),
            _ => PyValueError::new_err(self.message),
        }
    }
}

type Plain = (String, Vec<u8>, Vec<usize>, String);

fn run(
    programs: &[String],
    device: &str,
    inputs: &[Vec<(String, Vec<u8>)>],
    functions: BTreeMap<String, Arc<dyn GpSimdFunction>>,
) -> Result<Vec<(Vec<Plain>, u64)>, Error> {
    let mut device = Device::from_json(device)?;
    for (name, function) in functions {
        device.register_function(&name, function)?;
    }
    let mut loaded = Vec::with_capacity(programs.len());
    for (program, inputs) in programs.iter().zip(inputs) {
        let program = device.load(program.as_bytes())?;
        for (name, bytes) in inputs {
            let place = device.tensor(program, name)?;
            if place.space != Space::Hbm || place.bytes != bytes.len() as u64 {
                let (got, needed) = (bytes.len(), place.bytes);
                let text =
                    format!("input {name:?} has {got} bytes; tensor {:?} of {} has {needed}", place.shape, place.dtype);
                return Err(Error::new(ErrorKind::Shape, text));
            }
            device.write(Space::Hbm, 0, place.address, bytes)?;
        }
        loaded.push(program);
    }
    for (core, &program) in (0..).zip(&loaded) {
        device.submit(Command::Run { core, program }, core.into())?;
    }
    while let Some(next) = device.next_event() {
        device.advance(next)?;
    }
    let mut times = vec![None; loaded.len()];
    while let Some(done) = device.poll() {
        done.status?;
        times[done.core as usize] = Some(done.end.since(done.start).0);
    }
    let count = |device: &Device, program| {
        if device.spec().values { device.outputs(program).map(<[_]>::len) } else { Ok(0) }
    };
    let mut ran = Vec::with_capacity(loaded.len());
    for ((core, &program), time) in (0..).zip(&loaded).zip(times) {
        let Some(time) = time else {
            let name = &device.loaded(program)?.name;
            return Err(Error::new(ErrorKind::Value, format!("program {name} waits for ranks that never come")));
        };
        let outputs = (0..count(&device, program)?).map(|number| {
            let output = device.read_output(program, core, number)?;
            Ok((output.name, output.bytes, output.shape, output.dtype))
        });
        ran.push((outputs.collect::<Result<Vec<_>, Error>>()?, time));
    }
    Ok(ran)
}
