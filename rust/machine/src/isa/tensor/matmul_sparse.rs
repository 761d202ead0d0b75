//! nc_matmul_sparse (gen3+): the array's structured sparsity, for which the vendor has no public instruction.

use trn3_numerics::{ArrayMut, ArrayView, Draws, Pattern, Rounding, SparseView, from_tags, matmul_sparse};

use super::Pass;
use crate::arch::ArchSpec;
use crate::check::{Check, PSUM, SBUF};
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// Positions in a tag, of so many bits.
const PER_TAG: usize = 4;
const POSITION_BITS: usize = 4;

/// `nc_matmul_sparse(dst, stationary, moving, tags, pattern, accumulate)`: `dst[m, n] (+)= sum over k of w[k, m] *
/// moving[k, n]`, w being the dense form of the compressed stationary operand. This instruction is this project's own:
/// the hardware has the mode, its public instruction set does not show it.
///
/// A pattern M:N keeps M of N. Its ratio is N / M: partition p of `moving` holds the dense rows `ratio * p` to `ratio * p +
/// ratio - 1`, so that the N dense rows of a group lie on the M partitions whose stationary rows are the group's slots
/// **(choice)**. Tag `[p, m / 4]` holds in bits 4 (m % 4) the position in its group of slot p of column m **(choice)**. A
/// slot whose value is zero stands for nothing. Values are those of [`trn3_numerics::matmul_sparse`]; the cost is that of
/// a dense matmul of the compressed contraction **(choice)**.
#[derive(Debug)]
pub struct NcMatmulSparse {
    /// [M, N] in PSUM.
    pub dst: View,
    /// [P, M]: the kept values; P a multiple of the pattern's kept places.
    pub stationary: View,
    /// [P, ratio, N]: every dense row.
    pub moving: View,
    /// [P, ceil(M / 4)] uint16.
    pub tags: View,
    /// Places kept, and of how many.
    pub pattern: Pattern,
    /// Overwrite, add, or (None) add where an earlier matmul wrote.
    pub accumulate: Option<bool>,
}

impl NcMatmulSparse {
    fn ratio(&self) -> usize {
        self.pattern.group() / self.pattern.keep()
    }

    fn length(&self) -> usize {
        self.moving.free_size() / self.ratio()
    }

    fn check_pattern(&self, check: &Check<'_>) -> Result<()> {
        check.generation("", 3)?;
        // Gen3 has the three patterns that keep four.
        if check.arch.generation < 4 && self.pattern.keep() != 4 {
            let got = format!("is {} on gen{}", self.pattern, check.arch.generation);
            return Err(check.refuse("pattern", got, "4:16, 4:12, 4:8; all seven from gen4 on"));
        }
        let dtypes: &[DType] = &[DType::Float16, DType::BFloat16, DType::TFloat32];
        for (name, view) in [("stationary", &self.stationary), ("moving", &self.moving)] {
            let early = check.arch.generation == 3 && view.dtype.is_float8() && view.dtype != DType::Float8E4M3Fn;
            if !dtypes.contains(&view.dtype) && !early {
                let got = format!("has dtype {} on gen{}", view.dtype, check.arch.generation);
                return Err(check.refuse(name, got, "float16, bfloat16 or tfloat32; on gen3 also fp8"));
            }
        }
        super::matmul::check_mixing(check, &self.stationary, &self.moving)
    }

    /// Positions in their groups, in C order of [P, M].
    fn positions(&self, state: &mut State) -> Result<Vec<u16>> {
        let (rows, columns) = (self.stationary.partitions(), self.stationary.free_size());
        let tags = state.read_bits(&self.tags)?;
        let words = columns.div_ceil(PER_TAG);
        let mut positions = Vec::with_capacity(rows * columns);
        for row in 0..rows {
            positions.extend((0..columns).map(|column| {
                let tag = tags[row * words + column / PER_TAG];
                (tag >> (column % PER_TAG * POSITION_BITS) & 15) as u16
            }));
        }
        Ok(positions)
    }
}

impl Instruction for NcMatmulSparse {
    fn name(&self) -> &'static str {
        "nc_matmul_sparse"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Tensor
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Stationary, &self.stationary);
        visit(OperandRole::Stationary, &self.tags);
        visit(OperandRole::Read, &self.moving);
        visit(if self.accumulate == Some(false) { OperandRole::Write } else { OperandRole::Update }, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (name, view) in [("stationary", &self.stationary), ("moving", &self.moving), ("tags", &self.tags)] {
            check.memory(name, view, SBUF)?;
            check.no_columns(name, view)?;
        }
        check.memory("dst", &self.dst, PSUM)?;
        check.no_columns("dst", &self.dst)?;
        self.check_pattern(&check)?;
        let (ratio, rows) = (self.ratio(), self.stationary.partitions());
        if self.moving.rank() < 3 || self.moving.shape[1] != ratio {
            let got = format!("has shape {:?}", &self.moving.shape[..]);
            return Err(check.refuse("moving", got, format!("[P, {ratio}, N] with pattern {}", self.pattern)));
        }
        if rows % self.pattern.keep() != 0 {
            let allowed = format!("a multiple of {} with pattern {}", self.pattern.keep(), self.pattern);
            return Err(check.refuse("stationary", format!("has {rows} partitions"), allowed));
        }
        let sizes = super::Sizes {
            rows: (rows, self.moving.partitions()),
            columns: self.stationary.free_size(),
            length: self.length(),
        };
        sizes.check(&check, &self.dst, None)?;
        let words = self.stationary.free_size().div_ceil(PER_TAG);
        if self.tags.dtype != DType::UInt16 || (self.tags.partitions(), self.tags.free_size()) != (rows, words) {
            let got = format!("has shape {:?} of {}", &self.tags.shape[..], self.tags.dtype);
            return Err(check.refuse("tags", got, format!("[{rows}, {words}] of uint16")));
        }
        check.tile("stationary", &self.stationary, SBUF)?;
        check.tile("moving", &self.moving, SBUF)?;
        check.tile("tags", &self.tags, SBUF)?;
        check.tile("dst", &self.dst, PSUM)?;
        super::check_bank(&check, &self.dst)?;
        super::check_result_dtype(&check, &self.dst)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let pass = Pass {
            columns: self.stationary.free_size(),
            length: self.length(),
            passes: 1,
            share: 1.0,
            blocks: super::blocks(arch, None),
            accumulates: self.accumulate != Some(false),
        };
        pass.work(arch)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let (rows, columns, length) = (self.stationary.partitions(), self.stationary.free_size(), self.length());
        let dense = rows * self.ratio();
        let positions = self.positions(state)?;
        // The arithmetic core's tags run along the contraction.
        let mut tags = vec![0u16; rows.div_ceil(PER_TAG) * columns];
        for (slot, line) in positions.chunks_exact(columns.max(1)).enumerate() {
            for (column, position) in line.iter().enumerate() {
                tags[slot / PER_TAG * columns + column] |= position << (slot % PER_TAG * POSITION_BITS);
            }
        }
        let (format, stored) = super::codes(state, &self.stationary)?;
        let (mut values, mut indices) = (vec![0u32; stored.len().div_ceil(size_of::<u32>())], vec![0; rows * columns]);
        let shape = [rows, columns];
        let stored = ArrayView::from_codes(format, &stored, &shape)?;
        let sorted = &mut bytemuck::cast_slice_mut(&mut values)[..rows * columns * format.item_size()];
        let into = ArrayMut::from_codes(format, sorted, &shape)?;
        from_tags(&stored, &tags, self.pattern, 0, into, &mut indices)?;
        let w = SparseView::new(ArrayView::from_codes(format, sorted, &shape)?, &indices, self.pattern, 0)?;
        let (format, moving) = super::codes(state, &self.moving)?;
        let a = super::transposed(format, &moving, dense, length)?;
        let mut turned = state.buffer(length * columns);
        let into = ArrayMut::new(&mut turned, &[length, columns])?;
        matmul_sparse(&a, &w, None, into, Rounding::Nearest, Draws::None)?;
        let mut out = state.buffer(length * columns);
        for (row, line) in turned.chunks_exact(columns.max(1)).enumerate() {
            line.iter().enumerate().for_each(|(column, value)| out[column * length + row] = *value);
        }
        state.keep(turned);
        super::store(state, &self.dst, self.accumulate, &mut out)?;
        state.keep(out);
        Ok(())
    }

    fn macs(&self, arch: &ArchSpec) -> (u64, u64) {
        let dense = self.stationary.partitions() * self.ratio();
        let macs = dense * self.stationary.free_size() * self.length();
        (macs as u64, super::peak(arch, arch.sparse_elements))
    }
}
