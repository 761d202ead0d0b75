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
use super::run::{Even, Layout, Listed, in_place, straight};
use super::schedule::{Cut, Schedule};
use super::value::{Element, Rounder, Value, decode};
use crate::error::{Error, Result};

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
    pub element: Element,
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
    pub fn new(element: Element) -> Self {
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
    pub fn result(&self) -> Element {
        self.out.map_or(self.element, Element::Float)
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
/// rounding comes without a generator; errors of casts.
///
/// ```
/// use trn3_system::collective::{Algorithm, Arithmetic, Element, Extra, Group, Operation, Schedule, execute};
/// use trn3_system::fabric::{Fabric, LinkProfile};
///
/// let fabric = Fabric::built_in("trn2_instance", LinkProfile::Docs)?;
/// let group = Group::new(vec![0, 1, 2, 3], 4, fabric.chips())?;
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
    check(schedule, arithmetic, generator.is_some())?;
    with_default_environment(|| match arithmetic.element {
        Element::Float(format) => floats(schedule, arithmetic, format, inputs, outputs, generator),
        Element::Float64 => plain(schedule, arithmetic, inputs, outputs, f64::from_le_bytes, f64::to_le_bytes),
        Element::Whole { bytes, is_signed } => match (bytes, is_signed) {
            (1, true) => plain(schedule, arithmetic, inputs, outputs, i8::from_le_bytes, i8::to_le_bytes),
            (2, true) => plain(schedule, arithmetic, inputs, outputs, i16::from_le_bytes, i16::to_le_bytes),
            (4, true) => plain(schedule, arithmetic, inputs, outputs, i32::from_le_bytes, i32::to_le_bytes),
            (8, true) => plain(schedule, arithmetic, inputs, outputs, i64::from_le_bytes, i64::to_le_bytes),
            (1, false) => plain(schedule, arithmetic, inputs, outputs, u8::from_le_bytes, u8::to_le_bytes),
            (2, false) => plain(schedule, arithmetic, inputs, outputs, u16::from_le_bytes, u16::to_le_bytes),
            (4, false) => plain(schedule, arithmetic, inputs, outputs, u32::from_le_bytes, u32::to_le_bytes),
            (8, false) => plain(schedule, arithmetic, inputs, outputs, u64::from_le_bytes, u64::to_le_bytes),
            _ => Err(Error::Value(format!("whole numbers of {bytes} bytes; allowed: 1, 2, 4, 8"))),
        },
        Element::Opaque { bytes } => moved(schedule, bytes, inputs, outputs),
    })
}

fn check(schedule: &Schedule, arithmetic: &Arithmetic, has_generator: bool) -> Result<()> {
    let reduces = matches!(schedule.operation, Operation::AllReduce | Operation::ReduceScatter);
    if matches!(arithmetic.element, Element::Opaque { .. }) && reduces {
        return Err(Error::Value(format!("{} needs numbers; the arrays' dtype has no arithmetic", schedule.operation)));
    }
    let is_float = matches!(arithmetic.element, Element::Float(_));
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
                let mut loaded = loaded.into_iter();
                let mut sum = loaded.next().unwrap_or_default();
                loaded.for_each(|next| T::reduce(reduction, &mut sum, &next));
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

fn plain<T: Value, const N: usize>(
    schedule: &Schedule,
    arithmetic: &Arithmetic,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    from: fn([u8; N]) -> T,
    to: fn(T) -> [u8; N],
) -> Result<()> {
    let load = |bytes: &&[u8]| bytes.as_chunks::<N>().0.iter().map(|code| from(*code)).collect::<Vec<T>>();
    let loaded = inputs.iter().map(load).collect();
    let results = through(schedule, arithmetic.reduction, loaded, arithmetic.order, &mut |_| Ok(()))?;
    for (output, values) in outputs.iter_mut().zip(&results) {
        for (code, value) in output.as_chunks_mut::<N>().0.iter_mut().zip(values) {
            *code = to(*value);
        }
    }
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
        Cut::Buffer => {
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
        Cut::Pairs | Cut::Whole => {
            let loaded = inputs.iter().map(|input| input.to_vec()).collect();
            let results = through::<u8>(schedule, Reduction::Add, loaded, Order::Schedule, &mut |_| Ok(()))?;
            outputs.iter_mut().zip(&results).for_each(|(output, result)| output.copy_from_slice(result));
        }
    }
    Ok(())
}

struct Scaled<L> {
    inner: L,
    bytes: usize,
}

impl<L: Layout> Layout for Scaled<L> {
    fn range(&self, rank: u32, piece: u32) -> std::ops::Range<usize> {
        let range = self.inner.range(rank, piece);
        range.start * self.bytes..range.end * self.bytes
    }
}

/// Executes an all_gather of buffers of any lengths; each output has the sum of the lengths.
///
/// # Errors
/// [`Error::Value`] if numbers or lengths of buffers do not fit.
pub fn all_gather_v(schedule: &Schedule, bytes: usize, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
    let ranks = schedule.ranks as usize;
    let mut starts = vec![0];
    inputs.iter().for_each(|input| starts.push(starts[starts.len() - 1] + input.len() / bytes));
    let total = starts[starts.len() - 1] * bytes;
    if inputs.len() != ranks || outputs.len() != ranks || outputs.iter().any(|output| output.len() != total) {
        return Err(Error::Value(format!(
            "arrays has {} buffers and outputs {} of them; needed: {ranks} of each, outputs of {total} bytes",
            inputs.len(),
            outputs.len()
        )));
    }
    let mut buffers: Vec<Vec<u8>> = (0..ranks).map(|_| vec![0; total]).collect();
    for (i, (buffer, own)) in buffers.iter_mut().zip(inputs).enumerate() {
        buffer[starts[i] * bytes..][..own.len()].copy_from_slice(own);
    }
    let layout = Scaled { inner: Listed { schedule, starts: &starts }, bytes };
    in_place(schedule, &layout, Reduction::Add, &mut buffers, &mut |_| Ok(()))?;
    outputs.iter_mut().zip(&buffers).for_each(|(output, buffer)| output.copy_from_slice(buffer));
    Ok(())
}

/// What goes from whom to whom in an [`all_to_all_v`], in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `counts[a * ranks + b]` elements go from `a` to `b`.
    pub counts: Vec<u64>,
    /// Where they begin in `a`'s buffer.
    pub from: Vec<u64>,
    /// Where they begin in `b`'s.
    pub to: Vec<u64>,
}

/// Executes an all-to-all of any counts. What nobody writes in an output stays as it is.
///
/// # Errors
/// [`Error::Value`] if lists have wrong lengths, or a chunk lies outside its buffer; named by ranks.
pub fn all_to_all_v(
    schedule: &Schedule,
    bytes: usize,
    counts: &Counts,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> Result<()> {
    let ranks = schedule.ranks as usize;
    let needed = ranks * ranks;
    if [&counts.counts, &counts.from, &counts.to].iter().any(|list| list.len() != needed) {
        return Err(Error::Value(format!("counts has {} entries; needed: {ranks} x {ranks}", counts.counts.len())));
    }
    if inputs.len() != ranks || outputs.len() != ranks {
        return Err(Error::Value(format!("arrays has {} buffers; the group has {ranks} ranks", inputs.len())));
    }
    let place = |start: u64, count: u64, length: usize| {
        let end = start.checked_add(count).filter(|&end| end <= (length / bytes) as u64)?;
        Some(start as usize * bytes..end as usize * bytes)
    };
    for a in 0..ranks {
        for b in 0..ranks {
            let at = a * ranks + b;
            let (count, from, to) = (counts.counts[at], counts.from[at], counts.to[at]);
            for (start, length, whose) in [(from, inputs[a].len(), a), (to, outputs[b].len(), b)] {
                if place(start, count, length).is_none() {
                    return Err(Error::Value(format!(
                        "counts: {count} elements from position {a} to {b} begin at {start} of position {whose}'s buffer of {} elements",
                        length / bytes
                    )));
                }
            }
        }
    }
    let mut copy = |piece: u32, from: u32, to: u32| {
        let at = piece as usize;
        let source = place(counts.from[at], counts.counts[at], inputs[from as usize].len());
        let target = place(counts.to[at], counts.counts[at], outputs[to as usize].len());
        if let (Some(source), Some(target)) = (source, target) {
            outputs[to as usize][target].copy_from_slice(&inputs[from as usize][source]);
        }
    };
    (0..schedule.ranks).for_each(|rank| copy(rank * schedule.ranks + rank, rank, rank));
    straight(schedule, copy);
    Ok(())
}
