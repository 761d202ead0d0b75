//! max8, nc_find_index8 and nc_match_replace8: the eight largest, where they are, and without them.

use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole, steps};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// Values that one instruction looks for.
const WIDTH: usize = 8;
/// What stands for "not there": all bits of the index type.
const ABSENT: u32 = u32::MAX;

/// The rules that the three have for what they search.
fn check_data(check: &Check<'_>, operand: &'static str, view: &View, most_axes: usize) -> Result<()> {
    check.tile(operand, view, ON_CHIP)?;
    check.arithmetic(operand, view)?;
    check.no_columns(operand, view)?;
    let most = check.arch.search_elements as usize;
    let elements = view.free_size();
    if !(WIDTH..=most).contains(&elements) {
        let got = format!("has {elements} elements per partition");
        return Err(check.refuse(operand, got, format!("{WIDTH} to {most}")));
    }
    if view.rank() > most_axes {
        let got = format!("has {} axes", view.rank());
        return Err(check.refuse(operand, got, format!("at most {most_axes}")));
    }
    Ok(())
}

fn check_eight(check: &Check<'_>, operand: &'static str, view: &View, data: &View) -> Result<()> {
    check.tile(operand, view, ON_CHIP)?;
    check.arithmetic(operand, view)?;
    check.no_columns(operand, view)?;
    check.same_partitions(operand, view, "data", data)?;
    check.free_size(operand, view, WIDTH)
}

fn search_work(arch: &ArchSpec, data: &View, dst: &View) -> Work {
    cost::vector(arch, data.free_size(), cost::plain_rate(arch, arch.vector_rate, &[data, dst]), 0)
}

/// For each of the values, taken in the order of `order`, its place in the row; a value that comes again takes the next
/// place. NaN finds NaN **(choice)**.
fn places(row: &[f32], values: &[f32], order: impl Iterator<Item = usize>) -> [Option<usize>; WIDTH] {
    let mut found = [None; WIDTH];
    let mut seen: [(f32, usize); WIDTH] = [(0.0, 0); WIDTH];
    let mut distinct = 0;
    let equal = |x: f32, y: f32| x == y || (x.is_nan() && y.is_nan());
    for slot in order {
        let value = values[slot];
        let known = seen[..distinct].iter().position(|(other, _)| equal(*other, value));
        let entry = known.unwrap_or_else(|| {
            seen[distinct] = (value, 0);
            distinct += 1;
            distinct - 1
        });
        let from = seen[entry].1;
        let place = row[from..].iter().position(|x| equal(*x, value)).map(|at| from + at);
        // A value that has run out stays so.
        seen[entry].1 = place.map_or(row.len(), |place| place + 1);
        found[slot] = place;
    }
    found
}

/// `max8(dst, src)`: the eight largest of each partition, descending, equal ones each for itself; NaN counts as largest
/// **(choice)**.
#[derive(Debug)]
pub struct Max8 {
    /// Result: 8 elements per partition.
    pub dst: View,
    /// Input.
    pub src: View,
}

/// Puts x into its place among the eight, if it has one.
#[inline]
fn insert(best: &mut [f32; WIDTH], x: f32) {
    let exceeds = |x: f32, y: f32| x > y || (x.is_nan() && !y.is_nan());
    if !exceeds(x, best[WIDTH - 1]) {
        return;
    }
    let mut at = WIDTH - 1;
    while at > 0 && exceeds(x, best[at - 1]) {
        best[at] = best[at - 1];
        at -= 1;
    }
    best[at] = x;
}

impl Instruction for Max8 {
    fn name(&self) -> &'static str {
        "max8"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_data(&check, "src", &self.src, 5)?;
        check_eight(&check, "dst", &self.dst, &self.src)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        search_work(arch, &self.src, &self.dst)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let values = state.read(&self.src)?;
        let mut results = Vec::with_capacity(self.dst.len());
        for row in steps::rows(&values, self.src.free_size()) {
            let mut best = [f32::NEG_INFINITY; WIDTH];
            row.iter().for_each(|&x| insert(&mut best, x));
            results.extend(best);
        }
        state.write(&self.dst, &results)?;
        state.keep(values);
        Ok(())
    }
}

/// `nc_find_index8(dst, data, vals)`: where each of eight values first occurs; equal values take one occurrence each, in
/// ascending order; all ones where there is none.
#[derive(Debug)]
pub struct FindIndex8 {
    /// Result: 8 indices per partition, uint16 or uint32.
    pub dst: View,
    /// What is searched.
    pub data: View,
    /// Eight values per partition.
    pub vals: View,
}

impl Instruction for FindIndex8 {
    fn name(&self) -> &'static str {
        "nc_find_index8"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Read, &self.vals);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_data(&check, "data", &self.data, 5)?;
        check_eight(&check, "vals", &self.vals, &self.data)?;
        check_eight(&check, "dst", &self.dst, &self.data)?;
        check.dtype("dst", &self.dst, &[DType::UInt16, DType::UInt32])
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        search_work(arch, &self.data, &self.dst)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (data, vals) = (state.read(&self.data)?, state.read(&self.vals)?);
        let mut indices = Vec::with_capacity(self.dst.len());
        for (row, vals) in steps::rows(&data, self.data.free_size()).zip(steps::rows(&vals, WIDTH)) {
            let found = places(row, vals, 0..WIDTH);
            indices.extend(found.map(|place| place.map_or(ABSENT, |place| place as u32)));
        }
        state.memory.write_bits(&self.dst, &indices)?;
        state.keep(data);
        state.keep(vals);
        Ok(())
    }
}

/// `nc_match_replace8(dst, data, vals, imm, dst_idx)`: data with one occurrence of each of eight values replaced, and
/// where they were. The last value is looked for first, so that of equal ones it has the earliest place; a value that is
/// not there has index all ones **(choice)**.
#[derive(Debug)]
pub struct MatchReplace8 {
    /// Result, as large as `data`.
    pub dst: View,
    /// What is searched.
    pub data: View,
    /// Eight values per partition.
    pub vals: View,
    /// What stands in their place.
    pub imm: f64,
    /// Where they were: 8 uint32 per partition.
    pub dst_idx: Option<View>,
}

impl Instruction for MatchReplace8 {
    fn name(&self) -> &'static str {
        "nc_match_replace8"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Read, &self.vals);
        visit(OperandRole::Write, &self.dst);
        if let Some(view) = &self.dst_idx {
            visit(OperandRole::Write, view);
        }
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_data(&check, "data", &self.data, 5)?;
        check_data(&check, "dst", &self.dst, usize::MAX)?;
        check.same_tile("data", &self.data, "dst", &self.dst)?;
        check_eight(&check, "vals", &self.vals, &self.data)?;
        let Some(indices) = &self.dst_idx else { return Ok(()) };
        check_eight(&check, "dst_idx", indices, &self.data)?;
        check.dtype("dst_idx", indices, &[DType::UInt32])
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        search_work(arch, &self.data, &self.dst)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (mut data, vals) = (state.read(&self.data)?, state.read(&self.vals)?);
        let mut indices = Vec::new();
        for (row, vals) in steps::rows_mut(&mut data, self.data.free_size()).zip(steps::rows(&vals, WIDTH)) {
            let found = places(row, vals, (0..WIDTH).rev());
            found.iter().flatten().for_each(|&place| row[place] = self.imm as f32);
            indices.extend(found.map(|place| place.map_or(ABSENT, |place| place as u32)));
        }
        state.write(&self.dst, &data)?;
        if let Some(view) = &self.dst_idx {
            state.memory.write_bits(view, &indices)?;
        }
        state.keep(data);
        state.keep(vals);
        Ok(())
    }
}
