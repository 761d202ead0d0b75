//! Operations that no engine has, as functions of GpSimdE that call the operation itself: the same arithmetic.

use std::ops::Range;
use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::isa::custom::{GpSimdCall, TileBytes, instruction_name};
use trn3_machine::view::View;

use crate::emitter::{Emitter, stored};
use crate::error::Result;
use crate::execute::ByOperation;
use crate::graph::{OperationCut, TensorOperation};
use crate::options::ExecutionOptions;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// One call on tiles that hold tensors of these types, in row-major order.
///
/// Its cost **(choice)**: a pass over the longest operand as GpSimdE's own elementwise instructions take, for each step of
/// arithmetic that the operation has for an element of it.
fn call(
    emitter: &mut Emitter,
    operation: &Arc<dyn TensorOperation>,
    (kinds, made): (Vec<TensorType>, Vec<TensorType>),
    (inputs, outputs): (Vec<View>, Vec<View>),
    options: ExecutionOptions,
) -> Result<()> {
    let (given, results): (Vec<&TensorType>, Vec<&TensorType>) = (kinds.iter().collect(), made.iter().collect());
    let longest = given.iter().chain(&results).map(|kind| kind.elements() as u64).max().unwrap_or(0);
    let steps = operation.arithmetic(&given, &results).div_ceil(longest.max(1)).max(1);
    let cycles = steps * GpSimdCall::cycles_of_one_pass(emitter.arch(), &outputs, &inputs);
    let name = instruction_name(operation.name());
    let operation = Arc::clone(operation);
    let function = move |inputs: &[TileBytes], outputs: &mut [TileBytes]| {
        let mut tiles = inputs.iter();
        let tensors = kinds.iter().map(|kind| {
            let bytes = if kind.elements() == 0 { None } else { tiles.next().map(|tile| &tile.bytes[..]) };
            Tensor::from_bytes(kind.clone(), bytes.unwrap_or_default())
        });
        let run = || {
            let tensors = tensors.collect::<Result<Vec<Tensor>>>()?;
            let execution = ByOperation::new(&options, &[]);
            operation.execute(&tensors.iter().collect::<Vec<_>>(), &made, &execution)
        };
        let found = run().map_err(|error| error.to_string())?;
        let found = found.iter().filter(|tensor| tensor.kind().elements() > 0);
        outputs.iter_mut().zip(found).for_each(|(tile, tensor)| tile.bytes.copy_from_slice(tensor.bytes()));
        Ok(())
    };
    emitter.issue(GpSimdCall { name, outputs, inputs, cycles, function: Arc::new(function) })
}

/// An elementwise operation on tiles of one shape.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_on_tiles(
    emitter: &mut Emitter,
    operation: &Arc<dyn TensorOperation>,
    (kinds, made): (&[&TensorType], &TensorType),
    inputs: Vec<View>,
    result: &View,
) -> Result<()> {
    let shape = [result.partitions(), result.free_size()];
    let kinds = kinds.iter().map(|kind| kind.with_shape(&shape)).collect();
    let options = ExecutionOptions::default();
    call(emitter, operation, (kinds, vec![made.with_shape(&shape)]), (inputs, vec![result.clone()]), options)
}

/// The tile that a whole tensor is laid into: as many partitions as divide it.
fn tile_shape(arch: &ArchSpec, elements: usize) -> [usize; 2] {
    let most = arch.partitions as usize;
    let partitions = (1..=most).rev().find(|&rows| elements.is_multiple_of(rows)).unwrap_or(1);
    [partitions, elements / partitions]
}

/// Any operation, on whole tensors that fit on chip together, or on parts of them that do; whether there are such.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_whole(
    emitter: &mut Emitter,
    operation: &Arc<dyn TensorOperation>,
    (kinds, made): (&[&TensorType], &[TensorType]),
    operands: &[View],
    results: &[View],
    options: &ExecutionOptions,
) -> Result<bool> {
    // A call that gives nothing is none.
    if made.iter().all(|kind| kind.elements() == 0) {
        return Ok(true);
    }
    let longest = kinds.iter().copied().chain(made).map(TensorType::elements).max().unwrap_or(0);
    let count = emitter.shares(longest, emitter.cores()).len();
    let Some(parts) = parts(emitter.arch(), operation, kinds, made, count) else { return Ok(false) };
    let cut = |view: &View, range: &[(usize, usize)]| {
        let mut view = view.clone();
        for (axis, &(start, length)) in range.iter().enumerate() {
            view.offset += start as i64 * view.strides[axis];
            view.shape[axis] = length;
        }
        view
    };
    let of = |views: &[View], ranges: &[Vec<(usize, usize)>]| -> Vec<View> {
        views.iter().zip(ranges).map(|(view, range)| cut(view, range)).collect()
    };
    let needs =
        |items: &Range<usize>| parts[items.clone()].iter().flat_map(|part| of(operands, &part.operands)).collect();
    emitter.divided(longest, parts.len(), &needs, &mut |emitter, items| {
        for part in &parts[items] {
            let (operands, results) = (of(operands, &part.operands), of(results, &part.results));
            let shaped = |kind: &TensorType, range: &[(usize, usize)]| {
                kind.with_shape(&range.iter().map(|&(_, length)| length).collect::<Vec<_>>())
            };
            let kinds = kinds.iter().zip(&part.operands).map(|(kind, range)| shaped(kind, range)).collect();
            let made = made.iter().zip(&part.results).map(|(kind, range)| shaped(kind, range)).collect();
            emit_part(emitter, operation, (kinds, made), &operands, &results, options)?;
        }
        Ok(())
    })?;
    Ok(true)
}

/// Bytes that tiles are counted in: no less than places on chip are apart **(choice)**.
const TILE_UNIT: usize = 64;

/// A part of an operation: first and number of elements along every axis, of operands and results.
#[derive(Clone, Debug)]
struct Part {
    operands: Vec<Vec<(usize, usize)>>,
    results: Vec<Vec<(usize, usize)>>,
}

impl Part {
    /// Whether its tiles fit on chip together, and each into an instruction.
    fn fits(&self, arch: &ArchSpec, kinds: &[&TensorType], made: &[TensorType]) -> bool {
        let room = (arch.sbuf_partition_bytes - arch.sbuf_reserved_bytes) as usize;
        let is_short = |range: &Vec<(usize, usize)>| {
            tile_shape(arch, range.iter().map(|(_, length)| length).product())[1] as u64 <= arch.sbuf_operand_elements
        };
        self.operands.iter().chain(&self.results).all(is_short) && self.bytes(arch, kinds, made) <= room
    }

    /// Bytes that its tiles take of a partition.
    fn bytes(&self, arch: &ArchSpec, kinds: &[&TensorType], made: &[TensorType]) -> usize {
        let of = |kind: &TensorType, range: &[(usize, usize)]| {
            let elements = range.iter().map(|(_, length)| length).product();
            (tile_shape(arch, elements)[1] * kind.dtype.size()).next_multiple_of(TILE_UNIT)
        };
        let operands: usize = kinds.iter().zip(&self.operands).map(|(kind, range)| of(kind, range)).sum();
        let results: usize = made.iter().zip(&self.results).map(|(kind, range)| of(kind, range)).sum();
        operands + results
    }

    fn length(&self, cut: &OperationCut) -> usize {
        cut.results.first().map_or(1, |&axis| self.results[0][axis].1)
    }

    /// Its two halves along an axis.
    fn halves(&self, cut: &OperationCut) -> [Part; 2] {
        let middle = self.length(cut).div_ceil(2);
        [false, true].map(|is_second| {
            let mut half = self.clone();
            let narrow = |range: &mut (usize, usize)| {
                *range = if is_second { (range.0 + middle, range.1 - middle) } else { (range.0, middle) };
            };
            for (range, axis) in half.operands.iter_mut().zip(&cut.operands) {
                axis.map(|axis| narrow(&mut range[axis]));
            }
            half.results.iter_mut().zip(&cut.results).for_each(|(range, &axis)| narrow(&mut range[axis]));
            half
        })
    }
}

/// The parts of an operation that fit, as few as halving gives, but at least as many as cores share it if it can be cut;
/// none where it cannot be cut so far that they fit.
fn parts(
    arch: &ArchSpec,
    operation: &Arc<dyn TensorOperation>,
    kinds: &[&TensorType],
    made: &[TensorType],
    cores: usize,
) -> Option<Vec<Part>> {
    let all = |kind: &TensorType| kind.shape.iter().map(|&length| (0, length)).collect::<Vec<_>>();
    let whole =
        Part { operands: kinds.iter().map(|kind| all(kind)).collect(), results: made.iter().map(all).collect() };
    let cuts = operation.cuts(kinds, &made.iter().collect::<Vec<_>>());
    let (mut waiting, mut fitting) = (vec![whole], Vec::new());
    let mut halved = 1;
    while let Some(part) = waiting.pop() {
        let longest = cuts.iter().max_by_key(|cut| part.length(cut)).filter(|cut| part.length(cut) > 1);
        if part.fits(arch, kinds, made) && (halved >= cores || longest.is_none()) {
            fitting.push(part);
            continue;
        }
        let longest = longest?;
        halved += 1;
        let [first, second] = part.halves(longest);
        waiting.extend([second, first]);
    }
    Some(fitting)
}

/// A call on tensors that fit on chip. What has no elements has no tile.
fn emit_part(
    emitter: &mut Emitter,
    operation: &Arc<dyn TensorOperation>,
    (kinds, made): (Vec<TensorType>, Vec<TensorType>),
    operands: &[View],
    results: &[View],
    options: &ExecutionOptions,
) -> Result<()> {
    let mut inputs = Vec::with_capacity(operands.len());
    let is_there = |kind: &TensorType| kind.elements() > 0;
    for (view, kind) in operands.iter().zip(&kinds).filter(|(_, kind)| is_there(kind)) {
        let shape = tile_shape(emitter.arch(), kind.elements());
        let tile = emitter.sbuf(&shape, stored(kind.dtype))?;
        emitter.copy(&tile, view)?;
        inputs.push(tile);
    }
    let mut outputs = Vec::with_capacity(results.len());
    for kind in made.iter().filter(|kind| is_there(kind)) {
        let shape = tile_shape(emitter.arch(), kind.elements());
        outputs.push(emitter.sbuf(&shape, stored(kind.dtype))?);
    }
    let places: Vec<&View> =
        results.iter().zip(&made).filter(|(_, kind)| is_there(kind)).map(|(view, _)| view).collect();
    call(emitter, operation, (kinds, made), (inputs, outputs.clone()), *options)?;
    for (view, tile) in places.into_iter().zip(&outputs) {
        emitter.copy(view, tile)?;
    }
    Ok(())
}
