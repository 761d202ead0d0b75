//! The extension module `trn3._trn3`: converts arguments, releases the interpreter lock, forwards to `trn3-numerics`.
//!
//! The public Python interface is the package `trn3`, which re-exports what stands here with its documentation or calls
//! it; types are described for type checkers in `python/trn3/_trn3/`.
#![deny(unsafe_code)]

mod activation;
mod arguments;
mod array;
mod cast;
mod checkpoint;
mod compiler;
mod door;
mod draws;
mod dtype;
mod error;
mod exp;
mod facts;
mod graph;
mod graph_kernel;
mod graph_tensor;
mod k8s;
mod load;
mod machine;
mod matmul;
mod mx;
mod mx_array;
mod mx_errors;
mod mx_layout;
mod planner;
mod profile;
mod quantize;
mod run_figures;
mod sparse;
mod system;
mod threads;
mod value;
mod xorwow;

use pyo3::prelude::*;

/// Compiled core of the package trn3; use the documented functions of `trn3` and `trn3.numerics`.
#[pymodule(gil_used = false)]
mod _trn3 {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::activation::activation;
    #[pymodule_export]
    use crate::cast::cast;
    #[pymodule_export]
    use crate::dtype::TFloat32;
    #[pymodule_export]
    use crate::exp::exp;
    #[pymodule_export]
    use crate::matmul::{matmul, matmul_mx};
    #[pymodule_export]
    use crate::mx_array::MxArray;
    #[pymodule_export]
    use crate::mx_layout::{pack_array, unpack_x4};
    #[pymodule_export]
    use crate::quantize::quantize_mx;
    #[pymodule_export]
    use crate::sparse::{SparseArray, compress, matmul_sparse, prune};
    #[pymodule_export]
    use crate::threads::{get_num_threads, kept_bytes, set_num_threads, simd_level};
    #[pymodule_export]
    use crate::xorwow::PyXorwow;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::dtype::register(module.py())?;
        crate::checkpoint::register(module)?;
        crate::machine::register(module)?;
        crate::compiler::register(module)?;
        crate::graph::register(module)?;
        crate::planner::register(module)?;
        crate::load::register(module)?;
        crate::profile::register(module)?;
        crate::run_figures::register(module)?;
        crate::facts::register(module)?;
        crate::k8s::register(module)?;
        crate::system::register(module)?;
        module.add("ACTIVATIONS", crate::activation::names(module.py())?)?;
        module.add("tfloat32", Py::new(module.py(), crate::dtype::TFloat32)?)?;
        module.add("__version__", crate::python_version(env!("CARGO_PKG_VERSION")))
    }
}

/// A Cargo version as Python packaging writes it: `1.2.0-rc.1` becomes `1.2.0rc1`.
fn python_version(cargo: &str) -> String {
    let Some((release, tag)) = cargo.split_once('-') else { return cargo.to_owned() };
    let tag = tag.replace("alpha", "a").replace("beta", "b").replace('.', "");
    format!("{release}{tag}")
}
