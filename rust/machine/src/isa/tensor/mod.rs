//! TensorE: the systolic array. Rows are SBUF partitions and the contraction, columns are PSUM partitions.
//!
//! One instruction is one chain per output element, over the partitions in ascending order and within one processing
//! element over what it holds; the chain's result then joins PSUM by one float32 addition **(choice)**.

pub mod matmul;
pub mod matmul_mx;
pub mod matmul_sparse;
pub mod transpose;

#[cfg(test)]
mod tests;

use trn3_numerics::{ArrayView, Format};

use crate::arch::ArchSpec;
use crate::check::Check;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory::{Finding, Operand, Written};
use crate::state::State;
use crate::storage::Buffer;
use crate::time::Picos;
use crate::timing::work::Work;
use crate::view::{Dynamic, View};

/// A part of the array that works by itself beside other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// First row and column: SBUF partition of the operands, PSUM partition of the result.
    pub position: (usize, usize),
    /// Rows and columns.
    pub size: (usize, usize),
}

impl Tile {
    /// Sizes are the array's, its half or its quarter, and positions multiples of them. Quarters of the rows are gen3's.
    fn check(&self, check: &Check<'_>) -> Result<()> {
        let all = check.arch.partitions as usize;
        let quarter = check.arch.quadrant_partitions as usize;
        let sides = [("row", self.position.0, self.size.0), ("column", self.position.1, self.size.1)];
        for (side, start, size) in sides {
            let early = side == "row" && check.arch.generation < 3;
            let least = if early { all / 2 } else { quarter };
            if ![quarter, all / 2, all].contains(&size) || size < least {
                let sizes: Vec<String> =
                    [quarter, all / 2, all].iter().filter(|size| **size >= least).map(ToString::to_string).collect();
                let got = format!("{:?} has {side} size {size}", self.size);
                let on = if early { format!(" on gen{}", check.arch.generation) } else { String::new() };
                return Err(check.refuse("tile_size", got, format!("a {side} size is {}{on}", sizes.join(", "))));
            }
            if start % size != 0 || start + size > all {
                let got = format!("{:?} starts at {side} {start}", self.position);
                let allowed = format!("a multiple of the {side} size {size}, within {all}");
                return Err(check.refuse("tile_position", got, allowed));
            }
        }
        Ok(())
    }

    /// Operands lie where the wires of the tile's rows and columns end.
    fn check_places(&self, check: &Check<'_>, operands: &[(&'static str, &View)], dst: &View) -> Result<()> {
        for (name, view) in operands {
            self.check_start(check, name, view, self.position.0, "rows")?;
        }
        self.check_start(check, "dst", dst, self.position.1, "columns")
    }

    fn check_start(&self, check: &Check<'_>, name: &'static str, view: &View, wanted: usize, side: &str) -> Result<()> {
        if view.start_partition() == wanted {
            return Ok(());
        }
        let got = format!("starts at partition {}", view.start_partition());
        Err(check.refuse(name, got, format!("the tile's {side} start at {wanted} (tile_position {:?})", self.position)))
    }

    /// The 4 x 4 blocks that the tile covers.
    fn blocks(&self, arch: &ArchSpec) -> u16 {
        let side = BLOCKS_A_SIDE;
        let edge = (arch.partitions as usize / side).max(1);
        let range = |start: usize, size: usize| start / edge..(start + size).div_ceil(edge).min(side);
        let mut blocks = 0;
        for row in range(self.position.0, self.size.0) {
            for column in range(self.position.1, self.size.1) {
                blocks |= 1 << (side * row + column);
            }
        }
        blocks
    }
}

/// Blocks along a side of the array, as the timeline counts them.
const BLOCKS_A_SIDE: usize = 4;

/// The blocks of an instruction: those of its tile; all without one.
fn blocks(arch: &ArchSpec, tile: Option<&Tile>) -> u16 {
    tile.map_or(u16::MAX, |tile| tile.blocks(arch))
}

/// What passes through the array.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// Stationary columns, M.
    columns: usize,
    /// Moving columns, N.
    length: usize,
    /// How often the operands pass.
    passes: u64,
    /// Share of its time that it holds the array.
    share: f64,
    blocks: u16,
    accumulates: bool,
}

impl Pass {
    /// The load is hidden behind the pass before where it is the shorter; a pass takes N cycles, at least as many as
    /// columns are loaded, up to the array's least.
    fn work(self, arch: &ArchSpec) -> Work {
        let clock = arch.tensor_clock();
        let load = (self.columns as u64).div_ceil(arch.stationary_columns_per_cycle) * self.passes;
        let least = arch.matmul_minimum_cycles.min(self.columns as u64);
        let multiply = least.max(self.length as u64) * self.passes;
        let (load, whole) = (clock.cycles(load), clock.cycles(multiply));
        Work::Matmul {
            load,
            load_latency: load + Picos::from_nanoseconds(arch.stationary_fixed_ns),
            multiply: Picos((whole.0 as f64 * self.share).round() as u64),
            multiply_latency: whole + Picos::from_nanoseconds(arch.matmul_fixed_ns),
            blocks: self.blocks,
            accumulates: self.accumulates,
        }
    }
}

/// Multiplications a cycle of the whole array where each element holds so many rows.
fn peak(arch: &ArchSpec, elements: u64) -> u64 {
    arch.partitions * arch.partitions * elements
}

/// The rules of a contraction's sizes: K of both operands, M and N, and the result's shape.
struct Sizes {
    /// Partitions of stationary and moving.
    rows: (usize, usize),
    /// M.
    columns: usize,
    /// N.
    length: usize,
}

impl Sizes {
    fn check(&self, check: &Check<'_>, dst: &View, tile: Option<&Tile>) -> Result<()> {
        let arch = check.arch;
        let (rows, columns) =
            tile.map_or((arch.partitions as usize, arch.stationary_columns as usize), |tile| tile.size);
        for k in [self.rows.0, self.rows.1] {
            if k > arch.partitions as usize {
                let got = format!("Matmul contraction dimension {k} exceeds pmax={}", arch.partitions);
                return Err(check.refuse("", got, "split the contraction and accumulate"));
            }
        }
        if self.rows.0 != self.rows.1 {
            let (one, other) = self.rows;
            let got = format!("Matmul contraction dimension mismatch: stationary[0]={one} != moving[0]={other}");
            return Err(check.refuse("", got, "both need the same partitions"));
        }
        if self.rows.0 > rows {
            let got = format!("has {} partitions", self.rows.0);
            return Err(check.refuse("stationary", got, format!("at most the tile's {rows} rows")));
        }
        if self.columns > columns {
            let got = format!("free dimension {} exceeds maximum {columns}", self.columns);
            return Err(check.refuse("stationary", got, "split the stationary operand along its free axis"));
        }
        let most = match dst.dtype {
            DType::Float32 => arch.moving_columns,
            _ => arch.moving_columns_bf16.max(arch.moving_columns),
        } as usize;
        if self.length > most {
            let got = format!("free dimension {} exceeds maximum {most}", self.length);
            return Err(check.refuse("moving", got, format!("for a result of {}", dst.dtype)));
        }
        if (dst.partitions(), dst.free_size()) != (self.columns, self.length) {
            let got = format!("has shape {:?}", &dst.shape[..]);
            return Err(check.refuse("dst", got, format!("[{}, {}]", self.columns, self.length)));
        }
        Ok(())
    }
}

/// Up to gen3 the result of one instruction stays in one bank.
fn check_bank(check: &Check<'_>, dst: &View) -> Result<()> {
    let range = dst.free_byte_range();
    let bank = check.arch.psum_bank_bytes as usize;
    if check.arch.generation < 4 && !range.is_empty() && range.start / bank != (range.end - 1) / bank {
        let got = format!("spans bytes {} to {} of a partition", range.start, range.end);
        return Err(check.refuse("dst", got, format!("within one PSUM bank of {bank} bytes before gen4")));
    }
    Ok(())
}

/// PSUM holds float32, since gen4 also bfloat16.
fn check_result_dtype(check: &Check<'_>, dst: &View) -> Result<()> {
    let allowed: &[DType] =
        if check.arch.moving_columns_bf16 > 0 { &[DType::Float32, DType::BFloat16] } else { &[DType::Float32] };
    if allowed.contains(&dst.dtype) {
        return Ok(());
    }
    let names: Vec<&str> = allowed.iter().map(|dtype| dtype.name()).collect();
    let allowed = format!("{} on gen{}", names.join(" or "), check.arch.generation);
    Err(check.refuse("dst", format!("has dtype {}", dst.dtype), allowed))
}

/// Columns picked by an index tile: gen4, and not in a tile of the array.
fn check_columns(check: &Check<'_>, operands: &[(&'static str, &View)], tile: Option<&Tile>) -> Result<()> {
    for (name, view) in operands {
        if !picks_columns(view) {
            continue;
        }
        check.generation(name, 4)?;
        if tile.is_some_and(|tile| tile.position != (0, 0)) {
            return Err(check.refuse(name, "is an indirect view", "tile_position (0, 0)"));
        }
    }
    Ok(())
}

/// The operand as TensorE addresses it: lists of columns are one a quadrant.
fn operand<'v>(arch: &ArchSpec, view: &'v View) -> Operand<'v> {
    Operand::from(view).in_groups(arch.quadrant_partitions as usize)
}

/// Codes of an operand in C order, and their format: float32 where the memory keeps more than types hold.
fn codes(state: &mut State, view: &View) -> Result<(Format, Vec<u8>)> {
    let mut bits = Vec::new();
    let operand = operand(&state.arch, view);
    if state.memory.keeps_exact(view.dtype) {
        let mut values = Vec::new();
        state.memory.read_f32(operand, &mut values, state.site)?;
        return Ok((Format::F32, values.iter().flat_map(|value| value.to_ne_bytes()).collect()));
    }
    state.memory.read_bits(operand, &mut bits, state.site)?;
    let mut codes = Vec::with_capacity(bits.len() * view.dtype.size());
    match view.dtype.size() {
        1 => codes.extend(bits.iter().map(|bits| *bits as u8)),
        2 => bits.iter().for_each(|bits| codes.extend_from_slice(&(*bits as u16).to_ne_bytes())),
        _ => {
            // The low bits of a tfloat32 may hold anything.
            let mask = if view.dtype == DType::TFloat32 { !0x1fff } else { u32::MAX };
            bits.iter().for_each(|bits| codes.extend_from_slice(&(*bits & mask).to_ne_bytes()));
        }
    }
    Ok((format_of(view)?, codes))
}

/// The arithmetic core's format of an operand that checks let pass.
fn format_of(view: &View) -> Result<Format> {
    view.dtype.format().ok_or_else(|| Error::Type(format!("dtype is {}; a floating-point type is needed", view.dtype)))
}

/// [rows, columns] codes as the array [columns, rows].
fn transposed<'a>(format: Format, codes: &'a [u8], rows: usize, columns: usize) -> Result<ArrayView<'a>> {
    let item = format.item_size() as isize;
    Ok(ArrayView::strided(format, codes, 0, &[columns, rows], &[item, columns as isize * item], false)?)
}

/// The view as a matrix of partitions and one free axis, if its free axes are evenly spaced.
pub(in crate::isa) fn matrix(view: &View) -> Option<View> {
    if view.rank() == 2 { Some(view.clone()) } else { view.flatten_dims(1, view.rank() - 1).ok() }
}

/// Puts an instruction's results, in C order of `dst`, into PSUM: `accumulate` false overwrites, true adds, None adds
/// where an earlier matmul wrote.
fn store(state: &mut State, dst: &View, accumulate: Option<bool>, values: &mut [f32]) -> Result<()> {
    let arch = state.arch.clone();
    let dst = operand(&arch, dst);
    let written = match accumulate {
        Some(false) => Written::None,
        _ => state.memory.psum_matmul_written(dst)?,
    };
    match (accumulate, written) {
        (Some(false), _) | (None, Written::None) => {}
        (Some(true), written) => {
            if written != Written::All {
                note_unwritten(state, dst.view)?;
            } else if state.memory.add_f32(dst, values)? {
                return Ok(());
            }
            add(state, dst, None, values)?;
        }
        (None, Written::All) => {
            // What matmuls wrote they marked: the sum is all there is to do.
            if state.memory.add_f32(dst, values)? {
                return Ok(());
            }
            add(state, dst, None, values)?;
        }
        (None, Written::Some(mask)) => {
            // What no matmul wrote need not hold anything: it must not be read as such.
            let absent: Vec<bool> = mask.iter().map(|written| !written).collect();
            let zeros = vec![0; values.len()];
            state.memory.write_bits_where(dst, &zeros, &absent)?;
            add(state, dst, Some(&mask), values)?;
        }
    }
    // One rounding an instruction where PSUM holds bfloat16.
    state.write(dst, values)?;
    state.memory.mark_psum_matmul(dst)
}

/// As [`store`] in float64.
fn store_wide(state: &mut State, dst: &View, accumulate: Option<bool>, mut values: Vec<f64>) -> Result<()> {
    let (arch, site) = (state.arch.clone(), state.site);
    let dst = operand(&arch, dst);
    let written = match accumulate {
        Some(false) => Written::None,
        _ => state.memory.psum_matmul_written(dst)?,
    };
    let adds = |element: usize| match &written {
        _ if accumulate == Some(true) => true,
        Written::All => true,
        Written::None => false,
        Written::Some(mask) => mask[element],
    };
    if accumulate != Some(false) && written != Written::None || accumulate == Some(true) {
        let mut held = Vec::new();
        state.memory.read_f64(dst, &mut held, site)?;
        for (element, (value, held)) in values.iter_mut().zip(&held).enumerate() {
            if adds(element) {
                *value += held;
            }
        }
    }
    state.memory.write_f64(dst, &values)?;
    state.memory.mark_psum_matmul(dst)
}

fn add(state: &mut State, dst: Operand<'_>, mask: Option<&[bool]>, values: &mut [f32]) -> Result<()> {
    let mut held = state.buffer(values.len());
    state.memory.read_f32(dst, &mut held, state.site)?;
    match mask {
        None => values.iter_mut().zip(&held).for_each(|(value, held)| *value += held),
        Some(mask) => {
            for ((value, held), written) in values.iter_mut().zip(&held).zip(mask) {
                if *written {
                    *value += held;
                }
            }
        }
    }
    state.keep(held);
    Ok(())
}

fn note_unwritten(state: &mut State, dst: &View) -> Result<()> {
    let (storage, reader) = (&dst.storage, state.site);
    if state.memory.options().strict {
        let message = format!(
            "nc_matmul dst `{}`: accumulate=True where no matmul had written; the first matmul of a sum overwrites",
            storage.name
        );
        return Err(Error::Uninitialised { message, allocated: storage.site });
    }
    let finding = Finding::UnwrittenAccumulation { tensor: storage.name.clone(), reader, allocated: storage.site };
    let findings = state.memory.findings();
    if !findings.contains(&finding) {
        findings.push(finding);
    }
    Ok(())
}

/// Where bits are moved through the array, elements of one byte arrive in 16 bits whose upper ones are zero: a 16-bit
/// type, or elements of the same type two apart.
fn container(check: &Check<'_>, dst: &View, moved: DType) -> Result<View> {
    if moved.size() > 1 {
        if dst.dtype == moved {
            return Ok(dst.clone());
        }
        return Err(check.refuse("dst", format!("has dtype {}", dst.dtype), format!("that of the data, {moved}")));
    }
    let even = |stride: &i64| stride % 2 == 0;
    if dst.dtype.size() == 2 {
        return Ok(dst.clone());
    }
    let strides = dst.shape.iter().zip(&dst.strides).all(|(length, stride)| *length == 1 || even(stride));
    if dst.dtype == moved
        && strides
        && even(&dst.offset)
        && dst.storage.free_elements().is_multiple_of(2)
        && !dst.is_indirect()
    {
        let mut view = dst.clone();
        view.dtype = DType::UInt16;
        view.offset /= 2;
        view.strides.iter_mut().for_each(|stride| *stride /= 2);
        return Ok(view);
    }
    let got = format!("has dtype {} with an innermost stride of {} bytes", dst.dtype, dst.innermost_stride_bytes());
    Err(check.refuse("dst", got, format!("a 16-bit dtype, or {moved} two bytes apart: {moved} is moved in 16 bits")))
}

/// Whether a view lies in PSUM.
fn in_psum(view: &View) -> bool {
    view.storage.buffer == Buffer::Psum
}

/// Whether columns of the view are picked by an index tile.
fn picks_columns(view: &View) -> bool {
    matches!(view.dynamic.as_deref(), Some(Dynamic::Columns { .. }))
}
