//! Chains at work: blocks of rows on all threads, each step on a block while it is in cache.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use trn3_machine::dtype::DType;
use trn3_numerics::{PairStep, StepOperand, bf16_to_f32, f32_to_bf16, for_each, join_rows, pair_step, round_to_bf16};

use super::lanes::{Chain, ChainInput, LaneFunction, LaneStep, Place, Reading};
use crate::error::{GraphError, Result};
use crate::operations::{BinaryFunction, Direction, UnaryFunction};
use crate::strided::read_look;
use crate::tensor::{Tensor, Words};
use crate::tensor_type::TensorType;

/// Elements of a task.
const TASK: usize = 1 << 15;

/// An input's memory.
enum Given<'t> {
    Floats(&'t [f32]),
    Codes(&'t [u16]),
    Truths(&'t [u8]),
}

/// Memory of a result, whole or the part of a task.
enum Kept<T, U, V> {
    Floats(T),
    Codes(U),
    Truths(V),
}

type Part<'o> = Kept<&'o mut [f32], &'o mut [u16], &'o mut [u8]>;
type Whole = Kept<Vec<f32>, Vec<u16>, Vec<u8>>;

/// Buffers of one block; which of the two a slot is, its lanes say.
#[derive(Default)]
struct Slots {
    floats: Vec<Vec<f32>>,
    truths: Vec<Vec<u8>>,
}

thread_local! {
    /// Those of the chains that this thread ran before.
    static SLOTS: RefCell<Slots> = RefCell::default();
}

impl Chain {
    /// Runs the chain; the results are the kept values, by number.
    pub(crate) fn run(
        &self,
        types: &[TensorType],
        value: impl Fn(u32) -> Option<Tensor>,
    ) -> Result<Vec<(u32, Tensor)>> {
        let missing = || GraphError::Argument("an operand was never made".to_owned());
        let tensors: Option<Vec<Tensor>> = self.inputs.iter().map(|input| value(input.value)).collect();
        let tensors = tensors.ok_or_else(missing)?;
        let given: Vec<Given<'_>> = tensors.iter().map(|tensor| given(tensor)).collect();
        let mut whole: Vec<Whole> = self.outputs.iter().map(|&(lane, _)| self.memory(lane)).collect();
        let task_rows = (TASK / (self.block_rows() * self.columns)).max(1) * self.block_rows();
        let count = self.rows.div_ceil(task_rows);
        let mut parts: Vec<_> =
            whole.iter_mut().zip(&self.outputs).map(|(out, &(lane, _))| self.cut(out, lane, task_rows)).collect();
        let tasks: Vec<Vec<Part<'_>>> =
            (0..count).map(|_| parts.iter_mut().filter_map(Iterator::next).collect()).collect();
        drop(parts);
        let failure = OnceLock::new();
        for_each(tasks.into_iter().enumerate(), |(task, mut parts)| {
            let first = task * task_rows;
            let rows = first..self.rows.min(first + task_rows);
            let mut slots = SLOTS.take();
            if let Err(error) = self.blocks(&given, rows, &mut slots, &mut parts) {
                // Any of several failures will do.
                let _ = failure.set(error);
            }
            SLOTS.set(slots);
        })?;
        if let Some(error) = failure.into_inner() {
            return Err(error);
        }
        let made = whole.into_iter().zip(&self.outputs).map(|(out, &(_, value))| {
            let words = match out {
                Kept::Floats(values) => Words::Four(Arc::new(bytemuck::cast_vec(values))),
                Kept::Codes(codes) => Words::Two(Arc::new(codes)),
                Kept::Truths(truths) => Words::One(Arc::new(truths)),
            };
            Ok((value, Tensor::new(types[value as usize].clone(), words)?))
        });
        made.collect()
    }

    fn width(&self, lane: usize) -> usize {
        if self.lanes[lane].per_row { 1 } else { self.columns }
    }

    fn memory(&self, lane: usize) -> Whole {
        let count = self.rows * self.width(lane);
        match self.lanes[lane].dtype {
            DType::Float32 => Kept::Floats(vec![0.0; count]),
            DType::BFloat16 => Kept::Codes(vec![0; count]),
            _ => Kept::Truths(vec![0; count]),
        }
    }

    fn cut<'o>(&self, out: &'o mut Whole, lane: usize, rows: usize) -> Box<dyn Iterator<Item = Part<'o>> + 'o> {
        let size = rows * self.width(lane);
        match out {
            Kept::Floats(values) => Box::new(values.chunks_mut(size).map(Part::Floats)),
            Kept::Codes(codes) => Box::new(codes.chunks_mut(size).map(Part::Codes)),
            Kept::Truths(truths) => Box::new(truths.chunks_mut(size).map(Part::Truths)),
        }
    }

    fn blocks(
        &self,
        given: &[Given<'_>],
        rows: std::ops::Range<usize>,
        slots: &mut Slots,
        parts: &mut [Part<'_>],
    ) -> Result<()> {
        slots.floats.resize_with(self.slots.max(slots.floats.len()), Vec::new);
        slots.truths.resize_with(self.slots.max(slots.truths.len()), Vec::new);
        for start in rows.clone().step_by(self.block_rows()) {
            let count = self.block_rows().min(rows.end - start);
            let mut block = Block { chain: self, given, slots, start, count };
            for (place, &(lane, _)) in self.outputs.iter().enumerate() {
                if matches!(self.lanes[lane].place, Place::Input(_)) {
                    block.keep(lane, &mut parts[place], start - rows.start)?;
                }
            }
            for step in &self.steps {
                block.step(step)?;
                for (place, &(lane, _)) in self.outputs.iter().enumerate() {
                    if lane == step.result {
                        block.keep(lane, &mut parts[place], start - rows.start)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn given(tensor: &Tensor) -> Given<'_> {
    match tensor.words() {
        Words::Four(words) => Given::Floats(bytemuck::cast_slice(words)),
        Words::Two(words) => Given::Codes(words),
        Words::One(words) => Given::Truths(words),
    }
}

/// Truth values of a step.
#[derive(Clone, Copy)]
enum Truths<'a> {
    Each(&'a [u8]),
    All(u8),
}

impl Truths<'_> {
    fn at(&self, place: usize) -> u8 {
        match self {
            Truths::Each(truths) => truths[place],
            Truths::All(truth) => *truth,
        }
    }
}

fn at(values: &StepOperand<'_>, place: usize) -> f32 {
    match values {
        StepOperand::Each(values) => values[place],
        StepOperand::All(value) => *value,
    }
}

/// Some rows of a chain.
struct Block<'a, 't> {
    chain: &'a Chain,
    given: &'a [Given<'t>],
    slots: &'a mut Slots,
    start: usize,
    count: usize,
}

fn defect() -> GraphError {
    GraphError::Argument("a lane has elements of another type".to_owned())
}

impl Block<'_, '_> {
    fn span(&self, lane: usize) -> std::ops::Range<usize> {
        let width = self.chain.width(lane);
        self.start * width..(self.start + self.count) * width
    }

    fn floats(&self, lane: usize) -> Result<StepOperand<'_>> {
        match self.chain.lanes[lane].place {
            Place::Slot(slot) => Ok(StepOperand::Each(&self.slots.floats[slot])),
            Place::Input(input) => match (&self.given[input], &self.chain.inputs[input].reading) {
                (Given::Floats(values), Reading::Scalar) => Ok(StepOperand::All(values[0])),
                (Given::Codes(codes), Reading::Scalar) => {
                    Ok(StepOperand::All(f32::from_bits(u32::from(codes[0]) << 16)))
                }
                (Given::Floats(values), _) => Ok(StepOperand::Each(&values[self.span(lane)])),
                _ => Err(defect()),
            },
        }
    }

    fn truths(&self, lane: usize) -> Result<Truths<'_>> {
        match self.chain.lanes[lane].place {
            Place::Slot(slot) => Ok(Truths::Each(&self.slots.truths[slot])),
            Place::Input(input) => match (&self.given[input], &self.chain.inputs[input].reading) {
                (Given::Truths(truths), Reading::Scalar) => Ok(Truths::All(truths[0])),
                (Given::Truths(truths), _) => Ok(Truths::Each(&truths[self.span(lane)])),
                _ => Err(defect()),
            },
        }
    }

    fn step(&mut self, step: &LaneStep) -> Result<()> {
        let lane = &self.chain.lanes[step.result];
        let (dtype, count) = (lane.dtype, self.span(step.result).len());
        let Place::Slot(slot) = lane.place else { return Err(defect()) };
        if dtype == DType::Bool {
            let mut out = std::mem::take(&mut self.slots.truths[slot]);
            out.resize(count, 0);
            let made = self.truth_step(step, &mut out);
            self.slots.truths[slot] = out;
            return made;
        }
        let mut out = std::mem::take(&mut self.slots.floats[slot]);
        out.resize(count, 0.0);
        let made = self.float_step(step, dtype, &mut out);
        self.slots.floats[slot] = out;
        made
    }

    fn truth_step(&self, step: &LaneStep, out: &mut [u8]) -> Result<()> {
        let operands = &step.operands;
        match step.function {
            LaneFunction::Load(input) => match (&self.given[input], &self.chain.inputs[input].reading) {
                (Given::Truths(truths), Reading::Strided(axes)) => {
                    read_look(axes, truths, self.span(step.result).start, out, |truth| truth);
                }
                _ => return Err(defect()),
            },
            LaneFunction::Spread => {
                let rows = self.truths(operands[0])?;
                (0..).zip(out.chunks_mut(self.chain.columns)).for_each(|(row, out)| out.fill(rows.at(row)));
            }
            LaneFunction::Truths(function) => {
                let (x, y) = (self.truths(operands[0])?, self.truths(operands[1])?);
                each(out, |place| match function {
                    BinaryFunction::Add | BinaryFunction::Maximum | BinaryFunction::Or => x.at(place) | y.at(place),
                    BinaryFunction::Multiply | BinaryFunction::Minimum | BinaryFunction::And => {
                        x.at(place) & y.at(place)
                    }
                    _ => x.at(place) ^ y.at(place),
                });
            }
            LaneFunction::Single(UnaryFunction::IsFinite) => {
                let x = self.floats(operands[0])?;
                each(out, |place| u8::from(at(&x, place).is_finite()));
            }
            LaneFunction::Single(_) => {
                let x = self.truths(operands[0])?;
                each(out, |place| u8::from(x.at(place) != 1));
            }
            LaneFunction::Compare(direction) => {
                let (x, y) = (self.floats(operands[0])?, self.floats(operands[1])?);
                match direction {
                    Direction::Eq => each(out, |place| u8::from(at(&x, place) == at(&y, place))),
                    Direction::Ne => each(out, |place| u8::from(at(&x, place) != at(&y, place))),
                    Direction::Ge => each(out, |place| u8::from(at(&x, place) >= at(&y, place))),
                    Direction::Gt => each(out, |place| u8::from(at(&x, place) > at(&y, place))),
                    Direction::Le => each(out, |place| u8::from(at(&x, place) <= at(&y, place))),
                    Direction::Lt => each(out, |place| u8::from(at(&x, place) < at(&y, place))),
                }
            }
            LaneFunction::Select => {
                let truth = self.truths(operands[0])?;
                let (x, y) = (self.truths(operands[1])?, self.truths(operands[2])?);
                each(out, |place| if truth.at(place) != 0 { x.at(place) } else { y.at(place) });
            }
            LaneFunction::Convert => {
                let x = self.floats(operands[0])?;
                each(out, |place| u8::from(at(&x, place) != 0.0));
            }
            _ => return Err(defect()),
        }
        Ok(())
    }

    fn float_step(&self, step: &LaneStep, dtype: DType, out: &mut [f32]) -> Result<()> {
        let operands = &step.operands;
        match step.function {
            LaneFunction::Load(input) => {
                return self.load(&self.chain.inputs[input], &self.given[input], step.result, out);
            }
            LaneFunction::Spread => {
                let rows = self.floats(operands[0])?;
                (0..).zip(out.chunks_mut(self.chain.columns)).for_each(|(row, out)| out.fill(at(&rows, row)));
                return Ok(());
            }
            LaneFunction::Select => {
                let (x, y) = (self.floats(operands[1])?, self.floats(operands[2])?);
                match self.truths(operands[0])? {
                    Truths::Each(truths) => chosen(out, truths, x, y),
                    Truths::All(truth) => {
                        let picked = if truth != 0 { x } else { y };
                        each(out, |place| at(&picked, place));
                    }
                }
                return Ok(());
            }
            LaneFunction::Pair(pair) => pair_step(pair, self.floats(operands[0])?, self.floats(operands[1])?, out)?,
            LaneFunction::OtherPair(function) => {
                let [x, y] = [self.listed(operands[0], out.len())?, self.listed(operands[1], out.len())?];
                canonical(out, &function.of_floats(&x, &y)?);
            }
            LaneFunction::Single(function) => {
                let x = self.listed(operands[0], out.len())?;
                canonical(out, &function.of_floats(&x)?);
            }
            LaneFunction::Clamp => {
                pair_step(PairStep::Maximum, self.floats(operands[0])?, self.floats(operands[1])?, out)?;
                let lower = out.to_vec();
                pair_step(PairStep::Minimum, StepOperand::Each(&lower), self.floats(operands[2])?, out)?;
            }
            LaneFunction::Convert if self.chain.lanes[operands[0]].dtype == DType::Bool => {
                let x = self.truths(operands[0])?;
                each(out, |place| f32::from(x.at(place)));
            }
            LaneFunction::Convert => {
                let x = self.floats(operands[0])?;
                each(out, |place| canonical_one(at(&x, place)));
            }
            LaneFunction::Join(pair) => {
                let x = self.listed(operands[0], out.len() * self.chain.columns)?;
                let mut joined = vec![0.0; out.len()];
                join_rows(pair, self.chain.columns, &x, &mut joined)?;
                pair_step(pair, self.floats(operands[1])?, StepOperand::Each(&joined), out)?;
            }
            _ => return Err(defect()),
        }
        if dtype == DType::BFloat16 {
            round_to_bf16(out)?;
        }
        Ok(())
    }

    fn load(&self, input: &ChainInput, given: &Given<'_>, lane: usize, out: &mut [f32]) -> Result<()> {
        let span = self.span(lane);
        match (given, &input.reading) {
            (Given::Codes(codes), Reading::Along) => bf16_to_f32(&codes[span], out)?,
            (Given::Codes(codes), Reading::Strided(axes)) => {
                read_look(axes, codes, span.start, out, |code| f32::from_bits(u32::from(code) << 16));
            }
            (Given::Floats(values), Reading::Strided(axes)) => read_look(axes, values, span.start, out, |value| value),
            _ => return Err(defect()),
        }
        Ok(())
    }

    /// A number for each element.
    fn listed(&self, lane: usize, count: usize) -> Result<std::borrow::Cow<'_, [f32]>> {
        Ok(match self.floats(lane)? {
            StepOperand::Each(values) => values.into(),
            StepOperand::All(value) => vec![value; count].into(),
        })
    }

    fn keep(&self, lane: usize, part: &mut Part<'_>, first: usize) -> Result<()> {
        let width = self.chain.width(lane);
        let span = first * width..(first + self.count) * width;
        match part {
            Kept::Floats(out) => match self.floats(lane)? {
                StepOperand::Each(values) => out[span].copy_from_slice(values),
                StepOperand::All(value) => out[span].fill(value),
            },
            Kept::Codes(out) => match self.floats(lane)? {
                StepOperand::Each(values) => f32_to_bf16(values, &mut out[span])?,
                StepOperand::All(value) => out[span].fill((value.to_bits() >> 16) as u16),
            },
            Kept::Truths(out) => match self.truths(lane)? {
                Truths::Each(truths) => out[span].copy_from_slice(truths),
                Truths::All(truth) => out[span].fill(truth),
            },
        }
        Ok(())
    }
}

#[inline(always)]
fn each<T>(out: &mut [T], make: impl Fn(usize) -> T) {
    out.iter_mut().enumerate().for_each(|(place, out)| *out = make(place));
}

#[inline(always)]
fn canonical_one(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

fn canonical(out: &mut [f32], values: &[f32]) {
    out.iter_mut().zip(values).for_each(|(out, &value)| *out = canonical_one(value));
}

fn chosen(out: &mut [f32], truths: &[u8], x: StepOperand<'_>, y: StepOperand<'_>) {
    let lines = out.iter_mut().zip(truths);
    match (x, y) {
        (StepOperand::Each(x), StepOperand::Each(y)) => {
            lines.zip(x.iter().zip(y)).for_each(|((out, &truth), (&x, &y))| *out = if truth != 0 { x } else { y });
        }
        (StepOperand::Each(x), StepOperand::All(y)) => {
            lines.zip(x).for_each(|((out, &truth), &x)| *out = if truth != 0 { x } else { y });
        }
        (StepOperand::All(x), StepOperand::Each(y)) => {
            lines.zip(y).for_each(|((out, &truth), &y)| *out = if truth != 0 { x } else { y });
        }
        (StepOperand::All(x), StepOperand::All(y)) => {
            lines.for_each(|(out, &truth)| *out = if truth != 0 { x } else { y });
        }
    }
}
