//! The walk over a trace that gives each value a place when it is first used, and lets those leave that are used last where
//! there is none.

use trn3_machine::storage::Buffer;
use trn3_machine::trace::{NONE, Trace, TraceOperand, Use};

use super::extents;
use super::plan::{Added, Made, Plan};
use super::room::{Choice, Room};
use super::spill::{Makers, round_trip, writes};
use crate::webs::Webs;

/// How a value that is not on chip comes back.
#[derive(Clone, Debug)]
enum Kept {
    /// It has not been made, or needs not come back.
    Nowhere,
    /// A tensor in HBM holds the same.
    InHbm(u32),
    /// A value in SBUF holds the same.
    InSbuf(u32),
    /// These steps make it again.
    Makers(Vec<u32>),
}

/// A value, as it goes through the walk.
#[derive(Debug)]
struct Value {
    /// The tensor of the trace that it is of.
    origin: u32,
    bytes: u64,
    buffer: Buffer,
    /// The tensor that it is in now, and where that begins; None: it has no place.
    place: Option<(u32, u64)>,
    /// The step that uses it next.
    next: u32,
    /// The last one.
    last: u32,
    /// How many of its uses are over.
    used: u32,
    /// Where else it is.
    kept: Kept,
    /// A tensor in HBM that is its own.
    slot: u32,
    /// The step that it has to be in place for.
    pinned: u32,
    /// Whether another value has taken its bytes, in its last step.
    is_yielded: bool,
}

/// How places are given out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Which of the free ones a value takes.
    pub(super) choice: Choice,
    /// Whether an output may take the bytes of an input that is used for the last time.
    pub(super) in_place: bool,
    /// Whether what is used again late leaves PSUM, so that half of that stays free for what comes and goes.
    pub(super) is_roomy: bool,
}

/// No place was found in a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full(pub(super) Buffer);

/// A walk.
pub(super) struct Walk<'a> {
    trace: &'a Trace,
    webs: &'a Webs,
    makers: &'a Makers,
    rooms: [Room; 2],
    values: Vec<Value>,
    plan: Plan,
    now: u32,
    way: Way,
    /// Bytes of PSUM that values took which began before each step.
    begun: Vec<u64>,
}

fn at(buffer: Buffer) -> usize {
    usize::from(buffer == Buffer::Psum)
}

impl<'a> Walk<'a> {
    pub(super) fn new(trace: &'a Trace, webs: &'a Webs, makers: &'a Makers, way: Way) -> Self {
        let values = (0..webs.len() as u32).map(|number| {
            let (web, uses) = (webs.get(number), webs.uses(number));
            let tensor = &trace.tensors[web.tensor as usize];
            Value {
                origin: web.tensor,
                bytes: tensor.bytes,
                buffer: tensor.open().unwrap_or(Buffer::Sbuf),
                place: None,
                next: uses[0],
                last: uses[uses.len() - 1],
                used: 0,
                kept: Kept::Nowhere,
                slot: NONE,
                pinned: NONE,
                is_yielded: false,
            }
        });
        Self {
            trace,
            webs,
            makers,
            rooms: [Buffer::Sbuf, Buffer::Psum].map(|buffer| Room::new(trace, buffer, way.choice)),
            values: values.collect(),
            plan: Plan::new(trace, webs),
            now: 0,
            begun: if way.is_roomy { begun(trace, webs) } else { Vec::new() },
            way,
        }
    }

    /// Walks; at the step whose values find no place it ends.
    pub(super) fn run(mut self) -> Result<Plan, (u32, Full)> {
        for step in 0..self.trace.steps.len() as u32 {
            self.now = step;
            self.step().map_err(|full| (step, full))?;
        }
        Ok(self.plan)
    }

    fn step(&mut self) -> Result<(), Full> {
        let (trace, webs, now) = (self.trace, self.webs, self.now);
        for memory in 0..self.rooms.len() {
            for leaving in self.rooms[memory].advance(now) {
                self.leave(leaving)?;
            }
        }
        let used = webs.at(now as usize);
        if used.is_empty() {
            return Ok(());
        }
        used.iter().for_each(|&value| self.values[value as usize].pinned = now);
        let mut cleared = [false; 2];
        while let Err(full) = self.bring_all(used) {
            let memory = at(full.0);
            if std::mem::replace(&mut cleared[memory], true) {
                return Err(full);
            }
            // What is left lies in pieces: all begins anew.
            for value in self.rooms[memory].values() {
                self.leave(value)?;
            }
        }
        if self.way.is_roomy {
            self.clear()?;
        }
        self.plan.is_tight |= self.rooms.iter().any(|room| 2 * room.held() > room.usable());
        let first = webs.first(now as usize);
        let step = &trace.steps[now as usize];
        for (place, &number) in used.iter().enumerate() {
            let value = &mut self.values[number as usize];
            self.plan.tensors[first + place] = value.place.map_or(NONE, |place| place.0);
            if writes(step, value.origin) {
                let kept = std::mem::replace(&mut value.kept, Kept::Nowhere);
                self.forget(kept);
            }
            let value = &mut self.values[number as usize];
            value.used += 1;
            match webs.uses(number).get(value.used as usize) {
                Some(&next) => {
                    value.next = next;
                    if std::mem::take(&mut value.is_yielded) {
                        value.place = None;
                    }
                }
                None => self.end(number),
            }
        }
        Ok(())
    }

    /// Lets those values leave PSUM before whose next use it could be filled anew, until half of it is free.
    fn clear(&mut self) -> Result<(), Full> {
        let usable = self.rooms[at(Buffer::Psum)].usable();
        while 2 * self.rooms[at(Buffer::Psum)].held() > usable {
            let far = |number: &u32| {
                let value = &self.values[*number as usize];
                value.pinned != self.now && self.begun[value.next as usize] - self.begun[self.now as usize] >= usable
            };
            let values = self.rooms[at(Buffer::Psum)].values().into_iter().filter(far);
            let Some(last) = values.max_by_key(|&number| self.values[number as usize].next) else { break };
            self.leave(last)?;
        }
        Ok(())
    }

    /// A copy in SBUF is not needed any more.
    fn forget(&mut self, kept: Kept) {
        if let Kept::InSbuf(copy) = kept {
            self.end(copy);
        }
    }

    /// A value is over.
    fn end(&mut self, number: u32) {
        let value = &mut self.values[number as usize];
        let kept = std::mem::replace(&mut value.kept, Kept::Nowhere);
        if let Some((_, start)) = value.place.take()
            && !value.is_yielded
        {
            self.rooms[at(value.buffer)].give_back(number, start);
        }
        self.forget(kept);
    }

    /// Gives all values of a step a place, the largest first.
    fn bring_all(&mut self, used: &[u32]) -> Result<(), Full> {
        let missing = |walk: &Self, value: u32| walk.values[value as usize].place.is_none();
        if let [only] = used {
            return if missing(self, *only) { self.bring(*only) } else { Ok(()) };
        }
        let mut coming: Vec<u32> = used.iter().copied().filter(|&value| missing(self, value)).collect();
        coming.sort_by_key(|&value| std::cmp::Reverse(self.values[value as usize].bytes));
        if !self.way.in_place {
            return coming.into_iter().try_for_each(|value| self.bring(value));
        }
        // Inputs first: the output may take the bytes of one.
        coming.sort_by_key(|&value| self.values[value as usize].used == 0);
        for value in coming {
            let is_over = |walk: &Self, input: u32| walk.values[input as usize].last == walk.now;
            let comes_back = |walk: &Self, input: u32| {
                let other = &walk.values[input as usize];
                !matches!(other.kept, Kept::Nowhere) || walk.makers_of(input).is_some()
            };
            match self.yielding(value, used, is_over) {
                Some(input) => self.take_over(value, input),
                None if self.has_room(value) => self.bring(value)?,
                None => match self.yielding(value, used, comes_back) {
                    Some(input) => {
                        self.leave_to(input)?;
                        self.take_over(value, input);
                    }
                    None => self.bring(value)?,
                },
            }
        }
        Ok(())
    }

    /// Whether there is a free place for a value.
    fn has_room(&mut self, number: u32) -> bool {
        let Value { bytes, buffer, last, .. } = self.values[number as usize];
        self.rooms[at(buffer)].find(bytes, last).is_some()
    }

    /// Sees to it that an input can come back whose bytes the output takes.
    fn leave_to(&mut self, input: u32) -> Result<(), Full> {
        let is_kept = !matches!(self.values[input as usize].kept, Kept::Nowhere);
        match self.values[input as usize].place {
            Some((tensor, _)) if !is_kept => self.keep(input, tensor),
            _ => Ok(()),
        }
    }

    /// The input of the present step whose bytes a new value may take: one of those that `may`.
    fn yielding(&self, number: u32, used: &[u32], may: impl Fn(&Self, u32) -> bool) -> Option<u32> {
        let value = &self.values[number as usize];
        let step = &self.trace.steps[self.now as usize];
        let is_new = value.used == 0 && (number as usize) < self.webs.len() && matches!(value.kept, Kept::Nowhere);
        let of = |tensor: u32| step.operands.iter().enumerate().filter(move |(_, operand)| operand.tensor == tensor);
        let is_output = of(value.origin).all(|(_, operand)| operand.usage == Use::Write);
        if !is_new || !is_output || !step.marks.overwrites || step.writes().count() != 1 {
            return None;
        }
        used.iter().copied().find(|&input| {
            let other = &self.values[input as usize];
            let over = other.place.is_some() && !other.is_yielded && may(self, input);
            let alike = other.bytes == value.bytes && other.buffer == value.buffer && input != number;
            let yields = |(at, operand): (usize, &TraceOperand)| {
                operand.usage == Use::Read && at < 8 && step.marks.yields & 1 << at != 0
            };
            over && alike && of(other.origin).all(yields)
        })
    }

    /// A new value takes the bytes of an input of the present step.
    fn take_over(&mut self, number: u32, input: u32) {
        let Value { origin, bytes, buffer, .. } = self.values[number as usize];
        let Some((_, start)) = self.values[input as usize].place else { return };
        self.values[input as usize].is_yielded = true;
        let room = &mut self.rooms[at(buffer)];
        room.give_back(input, start);
        room.hold(number, start, bytes);
        let is_first = self.webs.get(number).is_first && self.plan.places[origin as usize].is_none();
        let tensor = if is_first { origin } else { self.plan.add(Added::Again(origin)) };
        self.plan.places[tensor as usize] = Some(start);
        self.values[number as usize].place = Some((tensor, start));
    }

    /// Gives a value a place, and what it held.
    fn bring(&mut self, number: u32) -> Result<(), Full> {
        let Value { origin, bytes, buffer, last, .. } = self.values[number as usize];
        if let Kept::InSbuf(copy) = self.values[number as usize].kept {
            self.values[copy as usize].pinned = self.now;
            if self.values[copy as usize].place.is_none() {
                self.bring(copy)?;
            }
        }
        let start = match self.rooms[at(buffer)].find(bytes, last) {
            Some(start) => start,
            None => self.make_room(buffer, bytes)?,
        };
        self.rooms[at(buffer)].hold(number, start, bytes);
        let is_new = self.values[number as usize].used == 0;
        let is_first = is_new
            && (number as usize) < self.webs.len()
            && self.webs.get(number).is_first
            && self.plan.places[origin as usize].is_none();
        let tensor = match is_first {
            true => origin,
            false if number as usize >= self.webs.len() => self.plan.add(Added::InSbuf(origin)),
            false => self.plan.add(Added::Again(origin)),
        };
        self.plan.places[tensor as usize] = Some(start);
        self.values[number as usize].place = Some((tensor, start));
        match self.values[number as usize].kept.clone() {
            Kept::Nowhere => {}
            Kept::InHbm(slot) => {
                self.plan.reloaded_bytes += self.hbm_bytes(origin);
                self.make(Made::Move { dst: tensor, src: slot });
            }
            Kept::InSbuf(copy) => {
                if let Some((src, _)) = self.values[copy as usize].place {
                    self.make(Made::Move { dst: tensor, src });
                }
                self.values[number as usize].kept = Kept::Nowhere;
                self.end(copy);
            }
            Kept::Makers(makers) => {
                self.plan.remade += 1;
                for step in makers {
                    if self.trace.steps[step as usize].is_transfer() {
                        self.plan.reloaded_bytes += self.hbm_bytes(origin);
                    }
                    self.make(Made::Again { step, dst: tensor });
                }
            }
        }
        Ok(())
    }

    fn make(&mut self, made: Made) {
        self.plan.made.push((self.now, made));
    }

    fn hbm_bytes(&self, tensor: u32) -> u64 {
        let known = &self.trace.tensors[tensor as usize];
        known.bytes * u64::from(known.partitions)
    }

    /// Lets values leave until so many bytes are free; where those are.
    fn make_room(&mut self, buffer: Buffer, bytes: u64) -> Result<u64, Full> {
        let (values, now) = (&self.values, self.now);
        let makers = |number: u32| self.makers_of(number);
        let leaves = |number: u32| {
            let value = &values[number as usize];
            if value.pinned == now {
                return None;
            }
            // What has to be stored as well counts as used twice as soon.
            let is_kept = !matches!(value.kept, Kept::Nowhere) || makers(number).is_some();
            let next = if is_kept { value.next } else { now + (value.next - now) / 2 };
            Some((next, if is_kept { 0 } else { value.bytes }))
        };
        let (start, leaving) = self.rooms[at(buffer)].give_way(bytes, leaves).ok_or(Full(buffer))?;
        leaving.into_iter().try_for_each(|value| self.leave(value))?;
        Ok(start)
    }

    /// A value gives its place to others.
    fn leave(&mut self, number: u32) -> Result<(), Full> {
        let Value { buffer, used, place, .. } = self.values[number as usize];
        let Some((tensor, start)) = place else { return Ok(()) };
        let is_copy = number as usize >= self.webs.len();
        let is_kept = !matches!(self.values[number as usize].kept, Kept::Nowhere);
        if !is_kept && (used > 0 || is_copy) {
            self.keep(number, tensor)?;
        }
        self.values[number as usize].place = None;
        self.rooms[at(buffer)].give_back(number, start);
        Ok(())
    }

    /// The steps that make a value again, where that takes no longer than to store and to load it.
    fn makers_of(&self, number: u32) -> Option<Vec<u32>> {
        let Value { origin, used, .. } = self.values[number as usize];
        if number as usize >= self.webs.len() {
            return None;
        }
        let uses = &self.webs.uses(number)[..used as usize];
        self.makers.of_value(self.trace, origin, uses, round_trip(self.trace, origin))
    }

    /// Sees to it that a value can come back.
    fn keep(&mut self, number: u32, tensor: u32) -> Result<(), Full> {
        let Value { origin, bytes, buffer, next, .. } = self.values[number as usize];
        if let Some(makers) = self.makers_of(number) {
            self.plan.left.push((origin, true));
            self.values[number as usize].kept = Kept::Makers(makers);
            return Ok(());
        }
        let kept = if buffer == Buffer::Psum {
            let copy = self.values.len() as u32;
            self.values.push(Value {
                origin,
                bytes,
                buffer: Buffer::Sbuf,
                place: None,
                next,
                last: next,
                used: 0,
                kept: Kept::Nowhere,
                slot: NONE,
                pinned: self.now,
                is_yielded: false,
            });
            self.bring(copy)?;
            if let Some((dst, _)) = self.values[copy as usize].place {
                self.make(Made::Move { dst, src: tensor });
            }
            self.values[copy as usize].pinned = NONE;
            Kept::InSbuf(copy)
        } else {
            if self.values[number as usize].slot == NONE {
                self.values[number as usize].slot = self.plan.add(Added::InHbm(origin));
            }
            let slot = self.values[number as usize].slot;
            self.plan.spilled_bytes += self.hbm_bytes(origin);
            self.make(Made::Move { dst: slot, src: tensor });
            Kept::InHbm(slot)
        };
        self.plan.left.push((origin, false));
        self.plan.spills += 1;
        self.values[number as usize].kept = kept;
        Ok(())
    }
}

/// Of every step how many bytes of PSUM values took that began before it.
fn begun(trace: &Trace, webs: &Webs) -> Vec<u64> {
    let extents = extents(trace);
    let mut begun = vec![0u64; trace.steps.len() + 1];
    for web in 0..webs.len() as u32 {
        let tensor = webs.get(web).tensor as usize;
        if trace.tensors[tensor].open() == Some(Buffer::Psum) {
            begun[webs.uses(web)[0] as usize + 1] += extents[tensor];
        }
    }
    let mut sum = 0;
    for bytes in &mut begun {
        sum += *bytes;
        *bytes = sum;
    }
    begun
}
