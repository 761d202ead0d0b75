//! Recorded programs, run on a device as a host without Python runs them.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use trn3_embed::{Command, Device, Error, ErrorKind, Space};

use crate::door::{self, Fault};

type Output<'py> = (String, Bound<'py, PyArray1<u8>>, Vec<usize>, String);

/// Runs a program (JSON) on a device (JSON of its spec), inputs being the bytes of its tensors by name. Returns each
/// output's name, bytes, shape and type (none without values), and how long the run took, in picoseconds.
#[pyfunction]
pub(crate) fn replay<'py>(
    py: Python<'py>,
    program: &str,
    device: &str,
    inputs: Vec<(String, PyReadonlyArray1<'py, u8>)>,
) -> PyResult<(Vec<Output<'py>>, u64)> {
    let inputs =
        inputs.iter().map(|(name, bytes)| Ok((name.as_str(), bytes.as_slice()?))).collect::<PyResult<Vec<_>>>()?;
    let (outputs, time) = door::run(py, || run(program, device, &inputs))?;
    let array = |(name, bytes, shape, dtype)| (name, PyArray1::from_vec(py, bytes), shape, dtype);
    Ok((outputs.into_iter().map(array).collect(), time))
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

fn run(program: &str, device: &str, inputs: &[(&str, &[u8])]) -> Result<(Vec<Plain>, u64), Error> {
    let mut device = Device::from_json(device)?;
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
    device.submit(Command::Run { core: 0, program }, 0)?;
    while let Some(next) = device.next_event() {
        device.advance(next)?;
    }
    let done = device.poll().ok_or_else(|| Error::new(ErrorKind::Internal, "a run has no end"))?;
    done.status?;
    let count = if device.spec().values { device.outputs(program)?.len() } else { 0 };
    let outputs = (0..count).map(|number| {
        let output = device.read_output(program, 0, number)?;
        Ok((output.name, output.bytes, output.shape, output.dtype))
    });
    Ok((outputs.collect::<Result<Vec<_>, Error>>()?, done.end.since(done.start).0))
}
