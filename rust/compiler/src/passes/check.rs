//! Whether a compiled trace is the one it was made from, told without anything that made it.
//!
//! Both traces are followed symbolically. A byte holds a number: which value it is part of, and where in that; a value is
//! what was computed, of which inputs. A step that is in both must read the same numbers in both, and HBM must hold the same
//! ones in the end. So a step may go, or come, or read from elsewhere: what counts is what it sees. What is made of bytes that
//! nothing wrote is nobody's, as those are: it may be anything.

mod memory;

use std::collections::HashMap;

use smallvec::SmallVec;
use trn3_machine::storage::Buffer;
use trn3_machine::timing::region::{Rect, Space};
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, NONE, Trace, TraceOperand, TraceStep, Use};
use trn3_machine::{Error, Result};

use memory::{Content, Memory, mixed};

/// Checks that a trace does what another one does: each step that both have sees the same values, fences and the author's
/// orders stand, and tensors lie in their memories.
///
/// # Errors
/// [`Error::Value`] names the first step that differs, and how.
pub fn check(before: &Trace, after: &Trace) -> Result<()> {
    check_places(after)?;
    check_order(before, after)?;
    let (ours, theirs) = (Followed::of(before), Followed::of(after));
    for (now, step) in after.steps.iter().enumerate().filter(|(_, step)| step.source != NONE) {
        let Some(copies) = ours.steps.get(&step.source) else {
            return Err(differs(after, now, "there was no such step"));
        };
        let was = &before.steps[copies[0]];
        let may_run = |engine| {
            was.alternatives.iter().any(|other| {
                let forwarded = other.forwarded.iter().flat_map(|forwarded| &forwarded.engines);
                other.engines.iter().chain(forwarded).any(|(other, _)| *other == engine)
            })
        };
        if step.engine != was.engine && !may_run(step.engine) {
            return Err(differs(after, now, "its engine was not open"));
        }
        let sees = &theirs.seen[now];
        let is_same = |seen: &Seen| {
            seen.len() == sees.len() && seen.iter().zip(sees).all(|(one, other)| one.is_none() || one == other)
        };
        // A value that is made again sees the same each time, unless what it is made of is nobody's.
        if !copies.iter().any(|&then| is_same(&ours.seen[then])) {
            return Err(differs(after, now, "it reads something else"));
        }
    }
    for (space, held) in &ours.held {
        if !theirs.held.get(space).is_some_and(|other| held.is_kept_in(other)) {
            return Err(Error::Value(format!("{space:?} does not hold in the end what it held")));
        }
    }
    Ok(())
}

fn differs(trace: &Trace, step: usize, how: &str) -> Error {
    let TraceStep { source, opcode, site, .. } = trace.steps[step];
    let name = trace.names.opcodes().get(usize::from(opcode)).copied().unwrap_or("step");
    Error::Value(format!("{name} {source} of site {}, now number {step}: {how}", site.0))
}

fn check_places(trace: &Trace) -> Result<()> {
    for (tensor, place) in trace.tensors.iter().zip(&trace.places) {
        let (Some(buffer), Some((partition, byte))) = (tensor.open(), *place) else { continue };
        let bytes =
            if buffer == Buffer::Psum { trace.arch.psum_partition_bytes() } else { trace.arch.sbuf_partition_bytes };
        let (last, end) = (u64::from(partition) + u64::from(tensor.partitions), byte + tensor.bytes);
        if last > trace.arch.partitions || end > bytes {
            return Err(Error::Value(format!(
                "tensor `{}` lies at partitions {partition} to {last}, bytes {byte} to {end}; its memory has {} partitions of \
                 {bytes} bytes",
                tensor.name, trace.arch.partitions
            )));
        }
    }
    Ok(())
}

/// What a trace says of the order of its steps, by their sources.
#[derive(Debug, Default)]
struct Orders {
    /// How many fences are before each.
    fences: HashMap<u32, u32>,
    /// Where each is.
    turn: HashMap<u32, u32>,
    fenced: Vec<u32>,
    ordered: Vec<u32>,
    drawn: Vec<u32>,
}

impl Orders {
    fn of(trace: &Trace) -> Self {
        let mut orders = Orders::default();
        for (number, step) in trace.steps.iter().enumerate().filter(|(_, step)| step.source != NONE) {
            // Of a value that is made again the first time counts.
            orders.turn.entry(step.source).or_insert(number as u32);
            orders.fences.entry(step.source).or_insert(orders.fenced.len() as u32);
            let marks = step.marks;
            let draws = marks.draws || trace.draws;
            for (marked, list) in [
                (marks.is_fence, &mut orders.fenced),
                (marks.is_ordered, &mut orders.ordered),
                (draws, &mut orders.drawn),
            ] {
                list.extend(marked.then_some(step.source));
            }
        }
        orders
    }
}

fn check_order(before: &Trace, after: &Trace) -> Result<()> {
    let (was, is) = (Orders::of(before), Orders::of(after));
    if was.fenced != is.fenced {
        return Err(Error::Value("fences have changed their order".to_owned()));
    }
    let stay = |steps: &[u32]| steps.iter().copied().filter(|step| is.turn.contains_key(step)).collect::<Vec<_>>();
    if stay(&was.ordered) != is.ordered {
        return Err(Error::Value("steps that the author orders have changed their order".to_owned()));
    }
    if before.draws && was.drawn != is.drawn || stay(&was.drawn) != is.drawn {
        return Err(Error::Value("steps that draw random numbers have changed their order".to_owned()));
    }
    for (now, step) in after.steps.iter().enumerate().filter(|(_, step)| step.source != NONE) {
        let Some(&then) = was.turn.get(&step.source).filter(|_| is.turn.get(&step.source) == Some(&(now as u32)))
        else {
            continue;
        };
        if was.fences.get(&step.source) != is.fences.get(&step.source) {
            return Err(differs(after, now, "it has crossed a fence"));
        }
        for &producer in &before.steps[then as usize].after {
            let producer = before.steps[producer as usize].source;
            let Some(&turn) = is.turn.get(&producer) else { continue };
            if turn as usize >= now || !step.after.contains(&turn) {
                return Err(differs(after, now, "it does not wait for what the author says"));
            }
        }
    }
    Ok(())
}

/// What a trace does, followed.
struct Followed {
    /// Where each source is; a value that is made again is at several places.
    steps: HashMap<u32, SmallVec<[usize; 1]>>,
    /// Of every step what it sees.
    seen: Vec<Seen>,
    /// What HBM tensors that were written hold in the end.
    held: HashMap<Space, Memory>,
}

/// The memory whose bytes a tensor's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Room {
    Shared(Space),
    Alone(u32),
}

impl Followed {
    fn of(trace: &Trace) -> Self {
        let mut memories: HashMap<Room, Memory> = HashMap::new();
        let mut followed = Followed { steps: HashMap::new(), seen: Vec::new(), held: HashMap::new() };
        for (number, step) in trace.steps.iter().enumerate() {
            if step.source != NONE {
                followed.steps.entry(step.source).or_default().push(number);
            }
            let (mut seen, kept) = seen(trace, step, &mut memories);
            let copied = copied(trace, step, &memories);
            let is_product = matches!(step.work, Work::Matmul { .. });
            let is_known = seen.iter().all(Option::is_some);
            // A product that no longer adds, since there is nothing to add to, has the fingerprint's complement.
            let own = step.fingerprint.map(|own| if is_product { own.min(!own) } else { own });
            let own = own.unwrap_or(mixed(u64::from(step.source)) ^ 1);
            let value = seen.iter().fold(mixed(own), |value, input| mixed(value ^ input.unwrap_or(0)).wrapping_mul(3));
            for (turn, operand) in (0u64..).zip(step.operands.iter().filter(|operand| operand.usage == Use::Write)) {
                let (room, rects) = located(trace, operand);
                let memory = memories.entry(room).or_insert_with(|| empty(room));
                match &copied {
                    Some(pieces) => pieces.iter().for_each(|(rect, content)| memory.write(rect, *content)),
                    None => {
                        let content = Content::new(mixed(value ^ turn), if is_product { operand.tensor } else { NONE });
                        let (row, byte) = corner(&rects);
                        let content = if is_known { content.seen_from(row, byte) } else { content.of_nothing() };
                        rects.iter().for_each(|rect| memory.write(rect, content));
                    }
                }
                if let Room::Shared(space @ Space::Hbm(_)) = room {
                    followed.held.insert(space, Memory::new(None));
                }
            }
            seen.extend(kept);
            followed.seen.push(seen);
        }
        for (space, held) in &mut followed.held {
            memories.remove(&Room::Shared(*space)).into_iter().for_each(|memory| *held = memory);
        }
        followed
    }
}

/// Numbers of what a step sees, None where nothing wrote some of it.
type Seen = SmallVec<[Option<u64>; 3]>;

/// What a step sees: its inputs, products that it adds to among them, and what it writes only parts of.
fn seen(trace: &Trace, step: &TraceStep, memories: &mut HashMap<Room, Memory>) -> (Seen, Seen) {
    let joins = step.marks.joins_products;
    let output = step.writes().next().filter(|_| joins).map(|operand| operand.tensor);
    let (mut seen, mut kept) = (Seen::new(), Seen::new());
    let mut see = |operand: &TraceOperand, products: bool| {
        let (room, rects) = located(trace, operand);
        let memory = memories.entry(room).or_insert_with(|| empty(room));
        if products { memory.products(&rects, operand.tensor) } else { memory.signature(&rects) }
    };
    for operand in step.reads().filter(|operand| Some(operand.tensor) != output) {
        seen.push(see(operand, false));
    }
    let is_product = matches!(step.work, Work::Matmul { .. });
    for operand in step.writes() {
        if is_product && (joins || step.marks.overwrites) {
            seen.push(if joins { see(operand, true) } else { Some(0) });
        } else if !step.marks.overwrites {
            kept.push(see(operand, false));
        }
    }
    (seen, kept)
}

fn empty(room: Room) -> Memory {
    // What an input holds before the run; on chip there is nothing.
    let initial = if let Room::Shared(Space::Hbm(number)) = room { Some(mixed(number ^ 0x5eed)) } else { None };
    Memory::new(initial)
}

/// Where an operand's bytes are.
fn located(trace: &Trace, operand: &TraceOperand) -> (Room, SmallVec<[Rect; 2]>) {
    let at = operand.tensor as usize;
    if matches!(trace.tensors[at].home, Home::Open(_)) && trace.places[at].is_none() {
        return (Room::Alone(operand.tensor), operand.rects.iter().cloned().collect());
    }
    let region = trace.region(operand);
    (Room::Shared(region.space), region.rects)
}

/// The first row and byte of some rectangles.
fn corner(rects: &[Rect]) -> (u64, u64) {
    let first = |bound: fn(&Rect) -> u64| rects.iter().map(bound).min().unwrap_or(0);
    (first(|rect| rect.rows.start), first(|rect| rect.columns.start))
}

/// What a step that copies one rectangle onto another one writes: what it reads, moved.
fn copied(trace: &Trace, step: &TraceStep, memories: &HashMap<Room, Memory>) -> Option<Vec<(Rect, Content)>> {
    if !step.marks.copies {
        return None;
    }
    let (mut reads, mut writes) = (step.reads(), step.writes());
    let (read, written) = (reads.next()?, writes.next()?);
    if reads.next().is_some() || writes.next().is_some() {
        return None;
    }
    let ((room, from), (_, to)) = (located(trace, read), located(trace, written));
    let ([from], [to]) = (&from[..], &to[..]) else { return None };
    let size = |rect: &Rect| (rect.rows.end - rect.rows.start, rect.columns.end - rect.columns.start);
    if size(from) != size(to) {
        return None;
    }
    let down = |row: u64| row - from.rows.start + to.rows.start;
    let right = |byte: u64| byte - from.columns.start + to.columns.start;
    let pieces = memories.get(&room)?.pieces(from).into_iter().map(|(rect, content)| {
        let moved = Rect {
            rows: down(rect.rows.start)..down(rect.rows.end),
            columns: right(rect.columns.start)..right(rect.columns.end),
        };
        if content.is_nothing() {
            return (moved, Content::NOTHING);
        }
        let content = Content {
            row: content.row + from.rows.start as i64 - to.rows.start as i64,
            byte: content.byte + from.columns.start as i64 - to.columns.start as i64,
            product: NONE,
            ..content
        };
        (moved, content)
    });
    Some(pieces.collect())
}
