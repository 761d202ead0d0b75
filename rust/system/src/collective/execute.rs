//! Executes schedules on data, bit for bit.
//!
//! *Order of additions*: the schedule's (see [`Schedule`]), or with [`Order::Index`] ascending positions, accumulated in
//! float32 and rounded once, whatever the schedule.
//!
//! *Formats*. `wire` is the format in which data travels and partial results are kept. Inputs are rounded to it first,
//! every addition is a float32 addition, and what a step leaves in a slot is rounded to it. Results are rounded to `out`
//! last; where these are the same, nothing happens there. Whole numbers wrap. NaN results are canonical.
//!
//! *Stochastic rounding* takes its draws from one generator, in this order **(choice)**: inputs, rank by rank; then each
//! step's results laid end to end, by position, piece and element, as one cast (before it, what pairs of a KangaRing send,
//! in the same order, as one cast); results last, with the same draws for every rank, so that copies stay equal.

use trn3_numerics::{Format, Rounding, Xorwow, with_default_environment};

use super::name::{Operation, Reduction};
use super::run::{Even, Scaled, in_place, straight};
use super::schedule::{PieceCut, Schedule};
use super::value::{ElementType, Rounder, Value, decode};
use crate::error::{Error, Result};

/// Calls a function with how elements that are computed with exactly are read from bytes and written to them.
macro_rules! for_exact {
    ($element:expr, $call:ident($($argument:expr),*)) => {
        match $element {
            ElementType::Float64 => $call($($argument),*, f64::from_le_bytes, f64::to_le_bytes),
            ElementType::Whole { bytes: 1, is_signed: true } => $call($($argument),*, i8::from_le_bytes, i8::to_le_bytes),
            ElementType::Whole { bytes: 2, is_signed: true } => $call($($argument),*, i16::from_le_bytes, i16::to_le_bytes),
            ElementType::Whole { bytes: 4, is_signed: true } => $call($($argument),*, i32::from_le_bytes, i32::to_le_bytes),
            ElementType::Whole { bytes: 8, is_signed: true } => $call($($argument),*, i64::from_le_bytes, i64::to_le_bytes),
            ElementType::Whole { bytes: 1, is_signed: false } => $call($($argument),*, u8::from_le_bytes, u8::to_le_bytes),
            ElementType::Whole { bytes: 2, is_signed: false } => $call($($argument),*, u16::from_le_bytes, u16::to_le_bytes),
            ElementType::Whole { bytes: 4, is_signed: false } => $call($($argument),*, u32::from_le_bytes, u32::to_le_bytes),
            ElementType::Whole { bytes: 8, is_signed: false } => $call($($argument),*, u64::from_le_bytes, u64::to_le_bytes),
            other => Err(Error::Value(format!("elements of {} bytes; allowed: 1, 2, 4, 8", other.bytes()))),
        }
    };
}

/// Whose order the additions follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The schedule's.
    #[default]
    Schedule,
    /// Ascending positions, in float32, rounded once.
    Index,
}

/// How to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// The reduction.
    pub reduction: Reduction,
    /// Type of the inputs' elements.
    pub element: ElementType,
    /// Format on the wire and of partial results; `None`: that of the elements.
    pub wire: Option<Format>,
    /// Format of the results; `None`: that of the elements.
    pub out: Option<Format>,
    /// How values are rounded to them.
    pub rounding: Rounding,
    /// Whose order the additions follow.
    pub order: Order,
}

impl Arithmetic {
    /// Elements of one type, added in the schedule's order, rounded to nearest in their own format.
    pub fn new(element: ElementType) -> Self {
        Self {
            reduction: Reduction::Add,
            element,
            wire: None,
            out: None,
            rounding: Rounding::Nearest,
            order: Order::Schedule,
        }
    }

    /// The type of the results' elements.
    pub fn result(&self) -> ElementType {
        self.out.map_or(self.element, ElementType::Float)
    }
}

/// Elements of each rank's result.
pub fn output_length(schedule: &Schedule, input: usize) -> usize {
    let ranks = schedule.ranks as usize;
    match schedule.operation {
        Operation::AllGather => input * ranks,
        Operation::ReduceScatter => input / ranks,
        _ => input,
    }
}

/// Executes an operation whose ranks all bring buffers of one length.
///
/// `inputs` and `outputs` are bytes of C-ordered elements, by position. `outputs[i]` has [`output_length`] elements of
/// [`Arithmetic::result`].
///
/// # Errors
/// [`Error::Value`] if numbers or lengths of buffers do not fit, or a format or rounding goes with no float, or stochastic
/// rounding comes without a generator; [`Error::Memory`] where the host has no room to compute in; errors of casts.
///
/// ```
/// use trn3_system::collective::{Algorithm, Arithmetic, ElementType, Extra, RankGroup, Operation, Schedule, execute};
/// use trn3_system::fabric::{Fabric, LinkProfile};
///
/// let fabric = Fabric::built_in("trn2_instance", LinkProfile::Docs)?;
/// let group = RankGroup::new(vec![0, 1, 2, 3], 4, fabric.chips())?;
/// let schedule = Schedule::new(&fabric, &group, Operation::AllReduce, Algorithm::Ring, &Extra::default())?;
/// let inputs = [[1u8, 2], [3, 4], [5, 6], [7, 8]];
/// let mut outputs = [[0u8; 2]; 4];
/// execute(
///     &schedule,
///     &Arithmetic::new("uint8".parse()?),
///     &inputs.each_ref().map(|input| &input[..]),
///     &mut outputs.each_mut().map(|output| &mut output[..]),
///     None,
/// )?;
/// assert_eq!(outputs, [[16, 20]; 4]);
/// # Ok::<(), trn3_system::Error>(())
/// ```
pub fn execute(
    schedule: &Schedule,
    arithmetic: &Arithmetic,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    generator: Option<&mut Xorwow>,
) -> Result<()> {
    let (ranks, size) = (schedule.ranks as usize, arithmetic.element.bytes());
    let refuse = |text: String| Err(Error::Value(text));
    if inputs.len() != ranks || outputs.len() != ranks {
        return refuse(format!("arrays has {} buffers; the group has {ranks} ranks", inputs.len()));
    }
    let length = inputs.first().map_or(0, |input| input.len()) / size;
    if let Some(other) = inputs.iter().position(|input| input.len() != length * size) {
        return refuse(format!(
            "arrays[{other}] has {} bytes and arrays[0] has {}; all must have the same shape and dtype",
            inputs[other].len(),
            length * size
        ));
    }
    if matches!(schedule.operation, Operation::ReduceScatter | Operation::AllToAll) && !length.is_multiple_of(ranks) {
        return refuse(format!(
            "arrays have {length} elements, which {ranks} ranks do not divide; {} would do",
            length.div_ceil(ranks) * ranks
        ));
    }
    let expected = output_length(schedule, length) * arithmetic.result().bytes();
    if let Some(other) = outputs.iter().find(|output| output.len() != expected) {
        return refuse(format!("outputs have {} bytes; needed: {expected}", other.len()));
    }
    if matches!(schedule.operation, Operation::AllToAllV | Operation::AllGatherV) {
        return refuse(format!("{} has buffers of different lengths: use its own function", schedule.operation));
    }
    check(schedule.operation, arithmetic, generator.is_some())?;
    let elements = length.saturating_add(output_length(schedule, length)).saturating_mul(ranks);
    check_scratch(arithmetic, elements)?;
    with_default_environment(|| match arithmetic.element {
        ElementType::Float(format) => floats(schedule, arithmetic, format, inputs, outputs, generator),
        ElementType::Opaque { bytes } => moved(schedule, bytes, inputs, outputs),
        exact => for_exact!(exact, plain(schedule, arithmetic, inputs, outputs)),
    })
}

/// Reduces buffers into one as [`Order::Index`] does: in their order, accumulated in float32, rounded once.
///
/// # Errors
/// [`Error::Value`] if lengths do not fit, there is no buffer, the elements have no arithmetic, or rounding is stochastic;
/// errors of casts.
///
/// ```
/// use trn3_system::collective::{Arithmetic, reduce};
///
/// let mut sum = [0; 2];
/// reduce(&Arithmetic::new("int8".parse()?), &[&[1, 100], &[2, 100], &[3, 0]], &mut sum)?;
/// assert_eq!(sum.map(|code| code as i8), [6, -56]);
/// # Ok::<(), trn3_system::Error>(())
/// ```
pub fn reduce(arithmetic: &Arithmetic, inputs: &[&[u8]], output: &mut [u8]) -> Result<()> {
    let size = arithmetic.element.bytes();
    let Some(length) = inputs.first().map(|input| input.len() / size) else {
        return Err(Error::Value("there is nothing to reduce; needed: one buffer or more".to_owned()));
    };
    let needed = length * arithmetic.result().bytes();
    if inputs.iter().any(|input| input.len() != length * size) || output.len() != needed {
        return Err(Error::Value(format!(
            "buffers of {length} elements are reduced into {} bytes; needed: {needed}, and buffers of one length",
            output.len()
        )));
    }
    check(Operation::AllReduce, arithmetic, false)?;
    check_scratch(arithmetic, length.saturating_mul(inputs.len() + 1))?;
    with_default_environment(|| match arithmetic.element {
        ElementType::Float(format) => {
            let decoded = |input: &&[u8]| {
                let mut values = vec![0.0; length];
                decode(format, input, &mut values).map(|()| values)
            };
            let loaded = inputs.iter().map(decoded).collect::<Result<Vec<Vec<f32>>>>()?;
            let out = arithmetic.out.unwrap_or(format);
            Rounder { rounding: arithmetic.rounding, generator: None }.encode(
                out,
                &folded(arithmetic.reduction, loaded),
                output,
            )
        }
        ElementType::Opaque { bytes } => Err(Error::Value(format!("elements of {bytes} bytes have no arithmetic"))),
        exact => for_exact!(exact, fold_exact(arithmetic.reduction, inputs, output)),
    })
}

/// Refuses what there is no room to compute in: values of so many elements, and as much again for what travels.
fn check_scratch(arithmetic: &Arithmetic, elements: usize) -> Result<()> {
    let bytes = elements.saturating_mul(2 * arithmetic.element.bytes().max(size_of::<f32>()));
    let mut scratch = Vec::<u8>::new();
    let is_there = scratch.try_reserve_exact(bytes).is_ok();
    // Room that nobody looks at would not be asked for.
    std::hint::black_box(&scratch);
    match is_there {
        true => Ok(()),
        false => Err(Error::Memory(format!("a collective computes in {bytes} bytes; the host has no room for them"))),
    }
}

fn check(operation: Operation, arithmetic: &Arithmetic, has_generator: bool) -> Result<()> {
    let reduces = matches!(operation, Operation::AllReduce | Operation::ReduceScatter);
    if matches!(arithmetic.element, ElementType::Opaque { .. }) && reduces {
        return Err(Error::Value(format!("{operation} needs numbers; the arrays' dtype has no arithmetic")));
    }
    let is_float = matches!(arithmetic.element, ElementType::Float(_));
    if !is_float && (arithmetic.wire.is_some() || arithmetic.out.is_some()) {
        return Err(Error::Value(
            "dtype is given and the arrays are no floats of a format of the hardware; allowed: None, these are exact"
                .to_owned(),
        ));
    }
    if !is_float && arithmetic.rounding != Rounding::Nearest {
        return Err(Error::Value(format!(
            "rounding is {:?} and nothing is rounded; allowed: \"nearest\"",
            arithmetic.rounding.name()
        )));
    }
    if has_generator != (arithmetic.rounding == Rounding::Stochastic) {
        return Err(Error::Value(
            "rounding=\"stochastic\" goes with a generator (seed or rng), and only it does".to_owned(),
        ));
    }
    Ok(())
}

/// Buffers of one kind of value through the schedule, from `load`ed inputs to `store`d outputs.
fn through<T: Value>(
    schedule: &Schedule,
    reduction: Reduction,
    mut loaded: Vec<Vec<T>>,
    order: Order,
    round: &mut dyn FnMut(&mut [T]) -> Result<()>,
) -> Result<Vec<Vec<T>>> {
    let ranks = schedule.ranks as usize;
    let length = loaded.first().map_or(0, Vec::len);
    match schedule.operation {
        Operation::AllReduce | Operation::ReduceScatter => {
            if order == Order::Index {
                let sum = folded(reduction, loaded);
                let part = |rank: usize| match schedule.operation {
                    Operation::AllReduce => sum.clone(),
                    _ => sum[rank * (length / ranks)..(rank + 1) * (length / ranks)].to_vec(),
                };
                return Ok((0..ranks).map(part).collect());
            }
            in_place(schedule, &Even { schedule, length }, reduction, &mut loaded, round)?;
            if schedule.operation == Operation::ReduceScatter {
                let part = length / ranks;
                loaded = loaded.iter().enumerate().map(|(i, all)| all[i * part..(i + 1) * part].to_vec()).collect();
            }
            Ok(loaded)
        }
        Operation::AllGather => {
            let mut buffers: Vec<Vec<T>> = (0..ranks).map(|_| vec![T::default(); length * ranks]).collect();
            for (i, (buffer, own)) in buffers.iter_mut().zip(&loaded).enumerate() {
                buffer[i * length..(i + 1) * length].copy_from_slice(own);
            }
            in_place(schedule, &Even { schedule, length: length * ranks }, reduction, &mut buffers, round)?;
            Ok(buffers)
        }
        Operation::Broadcast => {
            let root = schedule.root as usize;
            let mut buffers: Vec<Vec<T>> = (0..ranks).map(|_| vec![T::default(); length]).collect();
            buffers[root] = std::mem::take(&mut loaded[root]);
            in_place(schedule, &Even { schedule, length }, reduction, &mut buffers, round)?;
            Ok(buffers)
        }
        Operation::AllToAll | Operation::AllToAllV | Operation::AllGatherV => {
            let part = length / ranks;
            let mut results: Vec<Vec<T>> = (0..ranks).map(|_| vec![T::default(); length]).collect();
            let mut move_one = |piece: u32, from: u32, to: u32| {
                let (a, b) = ((piece / schedule.ranks) as usize, (piece % schedule.ranks) as usize);
                let source = &loaded[from as usize][b * part..(b + 1) * part];
                results[to as usize][a * part..(a + 1) * part].copy_from_slice(source);
            };
            (0..schedule.ranks).for_each(|rank| move_one(rank * schedule.ranks + rank, rank, rank));
            straight(schedule, move_one);
            Ok(results)
        }
        Operation::Permute => {
            let mut results = loaded.clone();
            straight(schedule, |_, from, to| results[to as usize].copy_from_slice(&loaded[from as usize]));
            Ok(results)
        }
    }
}

/// Buffers reduced in their order.
fn folded<T: Value>(reduction: Reduction, loaded: Vec<Vec<T>>) -> Vec<T> {
    let mut loaded = loaded.into_iter();
    let mut sum = loaded.next().unwrap_or_default();
    loaded.for_each(|next| T::reduce(reduction, &mut sum, &next));
    sum
}

fn loaded<T, const N: usize>(inputs: &[&[u8]], from: fn([u8; N]) -> T) -> Vec<Vec<T>> {
    inputs.iter().map(|bytes| bytes.as_chunks::<N>().0.iter().map(|code| from(*code)).collect()).collect()
}

fn store<T: Copy, const N: usize>(values: &[T], output: &mut [u8], to: fn(T) -> [u8; N]) {
    output.as_chunks_mut::<N>().0.iter_mut().zip(values).for_each(|(code, value)| *code = to(*value));
}

fn fold_exact<T: Value, const N: usize>(
    reduction: Reduction,
    inputs: &[&[u8]],
    output: &mut [u8],
    from: fn([u8; N]) -> T,
    to: fn(T) -> [u8; N],
) -> Result<()> {
    store(&folded(reduction, loaded(inputs, from)), output, to);
    Ok(())
}

fn plain<T: Value, const N: usize>(
    schedule: &Schedule,
    arithmetic: &Arithmetic,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    from: fn([u8; N]) -> T,
    to: fn(T) -> [u8; N],
) -> Result<()> {
    let given = loaded(inputs, from);
    let results = through(schedule, arithmetic.reduction, given, arithmetic.order, &mut |_| Ok(()))?;
    outputs.iter_mut().zip(&results).for_each(|(output, values)| store(values, output, to));
    Ok(())
}

fn floats(
    schedule: &Schedule,
    arithmetic: &Arithmetic,
    format: Format,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    mut generator: Option<&mut Xorwow>,
) -> Result<()> {
    let is_index = arithmetic.order == Order::Index;
    let wire = if is_index { Format::F32 } else { arithmetic.wire.unwrap_or(format) };
    let out = arithmetic.out.unwrap_or(format);
    let mut rounder = Rounder { rounding: arithmetic.rounding, generator: generator.as_deref_mut() };
    let mut loaded = Vec::with_capacity(inputs.len());
    for input in inputs {
        let mut values = vec![0.0; input.len() / format.item_size()];
        decode(format, input, &mut values)?;
        if wire != format {
            rounder.round(wire, &mut values)?;
        }
        loaded.push(values);
    }
    let results = through(schedule, arithmetic.reduction, loaded, arithmetic.order, &mut |values: &mut [f32]| {
        rounder.round(wire, values)
    })?;
    // Codes of a format that holds every value of the wire's need no draws.
    let needs_draws = wire != out;
    let before = generator.as_deref().cloned();
    let mut after = None;
    for (output, values) in outputs.iter_mut().zip(&results) {
        let mut own = before.clone();
        let rounding = if needs_draws { arithmetic.rounding } else { Rounding::Nearest };
        Rounder { rounding, generator: own.as_mut() }.encode(out, values, output)?;
        after = own;
    }
    if let (Some(generator), Some(after)) = (generator, after) {
        *generator = after;
    }
    Ok(())
}

fn moved(schedule: &Schedule, bytes: usize, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
    // Elements of any size, as numbers of pieces: each piece's bytes are those of its elements.
    let length = inputs.first().map_or(0, |input| input.len()) / bytes;
    let ranks = schedule.ranks as usize;
    let total = output_length(schedule, length);
    match schedule.cut {
        PieceCut::Buffer => {
            let mut buffers: Vec<Vec<u8>> = (0..ranks).map(|_| vec![0; total * bytes]).collect();
            for (i, (buffer, own)) in buffers.iter_mut().zip(inputs).enumerate() {
                match schedule.operation {
                    Operation::Broadcast if i == schedule.root as usize => buffer.copy_from_slice(own),
                    Operation::Broadcast => {}
                    _ => buffer[i * own.len()..(i + 1) * own.len()].copy_from_slice(own),
                }
            }
            let layout = Scaled { inner: Even { schedule, length: total }, bytes };
            in_place(schedule, &layout, Reduction::Add, &mut buffers, &mut |_| Ok(()))?;
            outputs.iter_mut().zip(&buffers).for_each(|(output, buffer)| output.copy_from_slice(buffer));
        }
        PieceCut::Pairs | PieceCut::Whole => {
            let loaded = inputs.iter().map(|input| input.to_vec()).collect();
            let results = through::<u8>(schedule, Reduction::Add, loaded, Order::Schedule, &mut |_| Ok(()))?;
            outputs.iter_mut().zip(&results).for_each(|(output, result)| output.copy_from_slice(result));
        }
    }
    Ok(())
}
