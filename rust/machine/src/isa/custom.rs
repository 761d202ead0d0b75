//! GpSimdE is programmable: a user's own function as an instruction, with the cost its author declares.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

use crate::arch::ArchSpec;
use crate::check::{Check, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// A tile as a user's function sees it: elements in C order of [partitions, elements], little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileBytes {
    /// Element type.
    pub dtype: DType,
    /// Partitions: the lanes, 16 to each of the eight processors.
    pub partitions: usize,
    /// Elements in each partition.
    pub elements: usize,
    /// The elements.
    pub bytes: Vec<u8>,
}

/// What GpSimdE runs: reads input tiles, fills output tiles (which come zeroed, and whose size must stay).
pub trait GpSimdFunction: Send + Sync {
    /// Computes the outputs.
    ///
    /// # Errors
    /// A text that says what went wrong; the instruction then fails with it.
    fn call(&self, inputs: &[TileBytes], outputs: &mut [TileBytes]) -> std::result::Result<(), String>;

    /// As [`GpSimdFunction::call`], for one that asks for the tiles' own shapes: of the inputs, then of the outputs.
    ///
    /// # Errors
    /// As [`GpSimdFunction::call`].
    fn call_shaped(
        &self,
        inputs: &[TileBytes],
        outputs: &mut [TileBytes],
        _shapes: &[&[usize]],
    ) -> std::result::Result<(), String> {
        self.call(inputs, outputs)
    }

    /// Whether what it computes depends on nothing but its inputs, so that a program can hold a call of it by its name.
    fn is_nameable(&self) -> bool {
        true
    }
}

impl<F> GpSimdFunction for F
where
    F: Fn(&[TileBytes], &mut [TileBytes]) -> std::result::Result<(), String> + Send + Sync,
{
    fn call(&self, inputs: &[TileBytes], outputs: &mut [TileBytes]) -> std::result::Result<(), String> {
        self(inputs, outputs)
    }
}

/// A name that lives as long as the process, as instruction names do; each distinct one is kept once.
pub fn instruction_name(name: &str) -> &'static str {
    static NAMES: OnceLock<Mutex<HashSet<&'static str>>> = OnceLock::new();
    let Ok(mut names) = NAMES.get_or_init(Mutex::default).lock() else { return "gpsimd" };
    if let Some(&known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

/// One call of a user's function on SBUF tiles.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::core::{At, CoreOptions, NeuronCore};
/// use trn3_machine::dtype::DType;
/// use trn3_machine::isa::custom::{GpSimdCall, TileBytes, instruction_name};
/// use trn3_machine::memory::Request;
/// use trn3_machine::storage::Buffer;
/// use trn3_machine::view::View;
///
/// let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), CoreOptions::default())?;
/// let request = Request {
///     name: "bytes", shape: &[128, 4], dtype: DType::UInt8, buffer: Buffer::Sbuf, address: None, site: Default::default(),
/// };
/// let out = View::whole(core.allocate(&request)?);
/// let count_up = |_: &[TileBytes], outputs: &mut [TileBytes]| {
///     outputs[0].bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
///     Ok(())
/// };
/// let call = GpSimdCall {
///     name: instruction_name("count_up"), outputs: vec![out.clone()], inputs: vec![], cycles: 4, function: Arc::new(count_up),
/// };
/// core.issue(&call, At::default())?;
/// assert_eq!(core.state.read_bytes(&out)?[..5], [0, 1, 2, 3, 4]);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Clone)]
pub struct GpSimdCall {
    /// Name on the timeline.
    pub name: &'static str,
    /// Tiles it fills.
    pub outputs: Vec<View>,
    /// Tiles it reads.
    pub inputs: Vec<View>,
    /// Cycles of the slowest processor beyond the start of an instruction, as its author declares.
    pub cycles: u64,
    /// The function.
    pub function: Arc<dyn GpSimdFunction>,
}

impl GpSimdCall {
    /// Cycles of one pass over the operands, as GpSimdE's own elementwise instructions take for that: what a function costs
    /// whose author declares nothing **(choice)**.
    pub fn cycles_of_one_pass(arch: &ArchSpec, outputs: &[View], inputs: &[View]) -> u64 {
        let views: Vec<&View> = outputs.iter().chain(inputs).collect();
        let longest = views.iter().map(|view| view.free_size()).max();
        cost::gpsimd_stream(arch, longest.unwrap_or(0), &views)
    }
}

impl Instruction for GpSimdCall {
    fn name(&self) -> &'static str {
        self.name
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        self.inputs.iter().for_each(|view| visit(OperandRole::Read, view));
        self.outputs.iter().for_each(|view| visit(OperandRole::Write, view));
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name };
        if self.outputs.is_empty() {
            return Err(check.refuse("outputs", "is empty", "at least one tile"));
        }
        self.inputs.iter().try_for_each(|view| check.tile("inputs", view, SBUF))?;
        self.outputs.iter().try_for_each(|view| check.tile("outputs", view, SBUF))
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        cost::gpsimd(arch, self.cycles)
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for view in &self.inputs {
            inputs.push(TileBytes { bytes: state.read_bytes(view)?, ..shape(view) });
        }
        let mut outputs: Vec<TileBytes> = self.outputs.iter().map(shape).collect();
        let sizes: Vec<usize> = outputs.iter().map(|tile| tile.bytes.len()).collect();
        let shapes: Vec<&[usize]> = self.inputs.iter().chain(&self.outputs).map(|view| &view.shape[..]).collect();
        let called = self.function.call_shaped(&inputs, &mut outputs, &shapes);
        called.map_err(|text| Error::Value(format!("{}: {text}", self.name)))?;
        for ((view, tile), size) in self.outputs.iter().zip(&outputs).zip(sizes) {
            if tile.bytes.len() != size {
                let text = format!("{} gave {} bytes for an output; allowed: {size}", self.name, tile.bytes.len());
                return Err(Error::Value(text));
            }
            state.write_bytes(view, &tile.bytes)?;
            state.memory.inspect_written(view)?;
        }
        Ok(())
    }
}

fn shape(view: &View) -> TileBytes {
    let (partitions, elements) = (view.partitions(), view.free_size());
    TileBytes { dtype: view.dtype, partitions, elements, bytes: vec![0; partitions * elements * view.dtype.size()] }
}
