//! nc_matmul_mx (gen4): the product of two block-scaled SBUF tiles into PSUM.

use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, MxView, Rounding, matmul_mx};

use super::{Pass, Sizes, Tile};
use crate::arch::ArchSpec;
use crate::check::{Check, PSUM, SBUF};
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// Partitions that share a scale, of four elements each.
const SCALED_PARTITIONS: usize = 8;
/// Elements packed in one.
const LANES: usize = 4;

/// `nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, ...)`: `dst[m, n] (+)=` sum over partitions p and
/// lanes q of the scaled elements.
///
/// Each output is one chain over the exact products of element and scale, partitions ascending and in each the lanes 0
/// to 3 **(choice)**. Scale byte 255 is NaN.
#[derive(Debug)]
pub struct NcMatmulMx {
    /// [M, N] in PSUM, float32 or bfloat16.
    pub dst: View,
    /// [P, M] of a packed type in SBUF; P a multiple of 32.
    pub stationary: View,
    /// [P, N] of a packed type in SBUF.
    pub moving: View,
    /// Scales of `stationary`: [P / 8, M] or more partitions for P = 32, else as many as the data, less the first row's
    /// place in its quadrant; of each quadrant its first four rows count.
    pub stationary_scale: View,
    /// Scales of `moving`, alike.
    pub moving_scale: View,
    /// Rows of the array; None: all of it.
    pub tile: Option<Tile>,
    /// Overwrite, add, or (None) add where an earlier matmul wrote.
    pub accumulate: Option<bool>,
}

impl NcMatmulMx {
    fn sides(&self) -> [(&'static str, &View, &'static str, &View); 2] {
        [
            ("stationary", &self.stationary, "stationary_scale", &self.stationary_scale),
            ("moving", &self.moving, "moving_scale", &self.moving_scale),
        ]
    }

    fn check_scale(&self, check: &Check<'_>, data: &View, name: &'static str, scale: &View) -> Result<()> {
        check.memory(name, scale, SBUF)?;
        if !matches!(scale.dtype, DType::Float8E8M0Fnu | DType::UInt8) {
            return Err(check.refuse(name, format!("has dtype {}", scale.dtype), "float8_e8m0fnu or uint8"));
        }
        let quadrant = check.arch.quadrant_partitions as usize;
        let rows = quadrant / SCALED_PARTITIONS;
        let (partitions, start) = (data.partitions(), scale.start_partition() % quadrant);
        let shape = format!("has shape {:?}", &scale.shape[..]);
        if scale.free_size() != data.free_size() {
            return Err(check.refuse(name, shape, format!("{} scales per partition, as the data", data.free_size())));
        }
        if start % rows != 0 || start + rows > quadrant / 2 {
            let starts: Vec<String> = (0..quadrant / 2).step_by(rows).map(|start| start.to_string()).collect();
            let got = format!("starts at partition {start} of a quadrant");
            return Err(check.refuse(name, got, format!("at {}", starts.join(", "))));
        }
        let came = scale.partitions();
        let allowed = if partitions <= quadrant {
            // Of a tile that was made for more, the first rows count.
            if came >= partitions / SCALED_PARTITIONS {
                return Ok(());
            }
            format!("at least {} partitions, one for 8 of the data", partitions / SCALED_PARTITIONS)
        } else {
            if came == partitions || came == partitions - start {
                return Ok(());
            }
            format!("{} partitions, those of the data less the first row's place in its quadrant", partitions - start)
        };
        Err(check.refuse(name, shape, allowed))
    }

    fn check_pair(&self, check: &Check<'_>, data: &View, name: &'static str, scale: &View) -> Result<()> {
        let alike = match (super::picks_columns(data), super::picks_columns(scale)) {
            (false, false) => true,
            (true, true) => data.index_view().zip(scale.index_view()).is_some_and(|(one, other)| {
                one.storage.id == other.storage.id
                    && (one.offset, &one.strides, one.free_size()) == (other.offset, &other.strides, other.free_size())
            }),
            _ => false,
        };
        if alike {
            return Ok(());
        }
        Err(check.refuse(name, "is not indexed as its data", "both members of a pair with the same index"))
    }
}

/// The elements of a packed tile as [F, 4 P] codes: k = 4 p + q.
fn elements(state: &mut State, view: &View) -> Result<Vec<u8>> {
    let mut words = Vec::new();
    let operand = super::operand(&state.arch, view);
    state.memory.read_bits(operand, &mut words, state.site)?;
    if view.dtype == DType::Float4E2M1FnX4 {
        words.iter_mut().for_each(|word| *word = [0, 1, 2, 3].map(|q| (*word >> (4 * q) & 15) << (8 * q)).iter().sum());
    }
    let (rows, columns) = (view.partitions(), view.free_size());
    let mut codes = vec![0; words.len() * LANES];
    for (row, line) in words.chunks_exact(columns.max(1)).enumerate() {
        for (column, word) in line.iter().enumerate() {
            codes[(column * rows + row) * LANES..][..LANES].copy_from_slice(&word.to_le_bytes());
        }
    }
    Ok(codes)
}

/// The scales of a tile as [P / 8, F] codes: the first four rows of each quadrant.
fn scales(state: &mut State, view: &View, partitions: usize) -> Result<Vec<u8>> {
    let quadrant = state.arch.quadrant_partitions as usize;
    let rows = quadrant / SCALED_PARTITIONS;
    let mut codes = Vec::new();
    let mut bits = Vec::new();
    let arch = state.arch.clone();
    if super::picks_columns(view) {
        state.memory.read_bits(super::operand(&arch, view), &mut bits, state.site)?;
        let columns = view.free_size();
        for (row, line) in bits.chunks_exact(columns.max(1)).enumerate() {
            if row % quadrant < rows {
                codes.extend(line.iter().map(|bits| *bits as u8));
            }
        }
        return Ok(codes);
    }
    // The other rows need not hold anything.
    for first in (0..partitions).step_by(quadrant) {
        let slice = view.slice(0, first as i64, (first + rows) as i64, 1)?;
        state.memory.read_bits(super::operand(&arch, &slice), &mut bits, state.site)?;
        codes.extend(bits.iter().map(|bits| *bits as u8));
    }
    Ok(codes)
}

impl Instruction for NcMatmulMx {
    fn name(&self) -> &'static str {
        "nc_matmul_mx"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Tensor
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Stationary, &self.stationary);
        visit(OperandRole::Stationary, &self.stationary_scale);
        visit(OperandRole::Read, &self.moving);
        visit(OperandRole::Read, &self.moving_scale);
        visit(if self.accumulate == Some(false) { OperandRole::Write } else { OperandRole::Update }, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        if arch.mx_elements == 0 {
            check.generation("", 4)?;
        }
        for (name, view, _, _) in self.sides() {
            check.memory(name, view, SBUF)?;
            if !view.dtype.is_packed() {
                let allowed = "float8_e4m3fn_x4, float8_e5m2_x4 or float4_e2m1fn_x4";
                return Err(check.refuse(name, format!("has dtype {}", view.dtype), allowed));
            }
        }
        check.memory("dst", &self.dst, PSUM)?;
        super::check_result_dtype(&check, &self.dst)?;
        let quadrant = arch.quadrant_partitions as usize;
        for (name, view, _, _) in self.sides() {
            if view.partitions() % quadrant != 0 {
                let got = format!("has {} partitions", view.partitions());
                return Err(check.refuse(name, got, format!("a multiple of {quadrant}")));
            }
        }
        if !self.stationary.free_size().is_multiple_of(2) {
            let got = format!("has {} columns", self.stationary.free_size());
            return Err(check.refuse("stationary", got, "an even number"));
        }
        if let Some(tile) = &self.tile {
            tile.check(&check)?;
            if tile.size.1 != arch.stationary_columns as usize {
                let got = format!("is {:?}", tile.size);
                return Err(check.refuse("tile_size", got, format!("all {} columns", arch.stationary_columns)));
            }
        }
        let rows = (self.stationary.partitions(), self.moving.partitions());
        let sizes = Sizes { rows, columns: self.stationary.free_size(), length: self.moving.free_size() };
        sizes.check(&check, &self.dst, self.tile.as_ref())?;
        check.tile("stationary", &self.stationary, SBUF)?;
        check.tile("moving", &self.moving, SBUF)?;
        check.tile("dst", &self.dst, PSUM)?;
        super::check_bank(&check, &self.dst)?;
        if let Some(tile) = &self.tile {
            tile.check_places(&check, &[("stationary", &self.stationary), ("moving", &self.moving)], &self.dst)?;
        }
        for (name, view, scale_name, scale) in self.sides() {
            self.check_scale(&check, view, scale_name, scale)?;
            self.check_pair(&check, view, scale_name, scale)?;
            super::check_columns(&check, &[(name, view)], self.tile.as_ref())?;
        }
        super::check_columns(&check, &[("dst", &self.dst)], self.tile.as_ref())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let pass = Pass {
            columns: self.stationary.free_size(),
            length: self.moving.free_size(),
            passes: 1,
            share: 1.0,
            blocks: super::blocks(arch, self.tile.as_ref()),
            accumulates: self.accumulate != Some(false),
        };
        pass.work(arch)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let partitions = self.stationary.partitions();
        let (contraction, groups) = (partitions * LANES, partitions / SCALED_PARTITIONS);
        let (columns, length) = (self.stationary.free_size(), self.moving.free_size());
        let stationary = elements(state, &self.stationary)?;
        let moving = elements(state, &self.moving)?;
        let stationary_scales = scales(state, &self.stationary_scale, partitions)?;
        let moving_scales = scales(state, &self.moving_scale, partitions)?;
        let e8m0 = Format::F8E8M0Fnu;
        let a = MxView {
            elements: ArrayView::from_codes(super::format_of(&self.stationary)?, &stationary, &[columns, contraction])?,
            scales: super::transposed(e8m0, &stationary_scales, groups, columns)?,
            axis: 1,
        };
        let b = MxView {
            elements: super::transposed(super::format_of(&self.moving)?, &moving, length, contraction)?,
            scales: ArrayView::from_codes(e8m0, &moving_scales, &[groups, length])?,
            axis: 0,
        };
        let mut out = state.buffer(columns * length);
        let into = ArrayMut::new(&mut out, &[columns, length])?;
        matmul_mx(&a, &b, None, into, Rounding::Nearest, Draws::None)?;
        super::store(state, &self.dst, self.accumulate, &mut out)?;
        state.keep(out);
        Ok(())
    }

    fn macs(&self, arch: &ArchSpec) -> (u64, u64) {
        let macs = self.stationary.partitions() * LANES * self.stationary.free_size() * self.moving.free_size();
        (macs as u64, super::peak(arch, arch.mx_elements))
    }
}
