//! nc_matmul: the product of two SBUF tiles into PSUM.

use trn3_numerics::{ArrayMut, ArrayView, Draws, Rounding, SimdLevel, matmul_chained, on_this_thread, simd_level};

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

/// `nc_matmul(dst, stationary, moving, ...)`: `dst[m, n] (+)= sum over k of stationary[k, m] * moving[k, n]`.
///
/// Each output is one chain of fused float32 steps over the partitions in ascending order; with `double_row` the two
/// halves of a partition follow one another, half 0 first **(choice)**. Float32 operands take the same chain **(choice)**.
#[derive(Debug)]
pub struct NcMatmul {
    /// [M, N] in PSUM.
    pub dst: View,
    /// [K, M] in SBUF; [K / 2, 2, M] with `double_row`.
    pub stationary: View,
    /// [K, N] in SBUF; [K / 2, 2, N] with `double_row`.
    pub moving: View,
    /// A hint: `stationary` holds zeros and ones alone.
    pub is_stationary_onezero: bool,
    /// A hint: `moving` holds zeros and ones alone.
    pub is_moving_onezero: bool,
    /// Moves the bits of `stationary` through the array; `moving` is an identity.
    pub is_transpose: bool,
    /// Overwrite, add, or (None) add where an earlier matmul wrote.
    pub accumulate: Option<bool>,
    /// The part of the array it uses; None: all of it.
    pub tile: Option<Tile>,
    /// Two fp8 rows of the contraction in each processing element.
    pub double_row: bool,
}

fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::TFloat32)
}

/// TensorE's operand types on a generation.
pub(super) fn check_operand_dtype(check: &Check<'_>, name: &'static str, view: &View) -> Result<()> {
    if view.dtype == DType::Float8E4M3Fn {
        return check.generation(name, 4).map_err(|_| {
            let got = format!("has dtype {} on gen{}", view.dtype, check.arch.generation);
            check.refuse(name, got, "float8_e4m3fn operands from gen4 on")
        });
    }
    if view.dtype.is_float() {
        return Ok(());
    }
    let allowed = "float8_e4m3, float8_e5m2, bfloat16, float16, tfloat32, float32; float8_e4m3fn from gen4 on";
    Err(check.refuse(name, format!("has dtype {}", view.dtype), allowed))
}

/// Which operand types may meet.
pub(super) fn check_mixing(check: &Check<'_>, stationary: &View, moving: &View) -> Result<()> {
    let (one, other) = (stationary.dtype, moving.dtype);
    let got = format!("has dtype {other} where stationary has {one}");
    if is_wide(one) != is_wide(other) {
        return Err(check.refuse("moving", got, "float32 and tfloat32 only with each other"));
    }
    let legacy = |dtype: DType| dtype == DType::Float8E4M3;
    let ocp = |dtype: DType| dtype == DType::Float8E4M3Fn;
    if (legacy(one) && ocp(other)) || (ocp(one) && legacy(other)) {
        return Err(check.refuse("moving", got, "float8_e4m3 and float8_e4m3fn do not mix"));
    }
    Ok(())
}

impl NcMatmul {
    /// Whether bits are moved instead of multiplied: before gen3 `is_transpose` is a label for profiles.
    fn moves_bits(&self, arch: &ArchSpec) -> bool {
        self.is_transpose && arch.generation >= 3
    }

    /// Rows of the contraction in one processing element.
    fn halves(&self) -> usize {
        if self.double_row { 2 } else { 1 }
    }

    fn columns(&self) -> usize {
        self.stationary.free_size() / self.halves()
    }

    fn length(&self) -> usize {
        self.moving.free_size() / self.halves()
    }

    fn check_double_row(&self, check: &Check<'_>) -> Result<()> {
        if check.arch.double_row_elements < 2 {
            check.generation("perf_mode double_row", 3)?;
        }
        for (name, view) in [("stationary", &self.stationary), ("moving", &self.moving)] {
            if !view.dtype.is_float8() {
                let allowed = "with perf_mode double_row both operands are fp8";
                return Err(check.refuse(name, format!("has dtype {}", view.dtype), allowed));
            }
            if view.rank() < 3 || view.shape[1] != 2 {
                let allowed = "with perf_mode double_row [K / 2, 2, F]";
                return Err(check.refuse(name, format!("has shape {:?}", &view.shape[..]), allowed));
            }
        }
        if self.is_transpose {
            return Err(check.refuse("perf_mode", "double_row comes with is_transpose", "one of them"));
        }
        if self.tile.is_some_and(|tile| tile.size.1 < check.arch.stationary_columns as usize) {
            return Err(check.refuse("perf_mode", "double_row comes with column tiling", "one of them"));
        }
        Ok(())
    }

    fn product(&self, state: &mut State, out: &mut [f32]) -> Result<()> {
        let (columns, length) = (self.columns(), self.length());
        let chain = self.stationary.partitions() * self.halves();
        let arch = state.arch.clone();
        let is_quick = simd_level()? >= SimdLevel::Avx512;
        let run = |a: &ArrayView<'_>, b: &ArrayView<'_>, out: &mut [f32]| {
            let out = ArrayMut::new(out, &[columns, length])?;
            let product = || matmul_chained(a, b, None, out, Rounding::Nearest, Draws::None, chain);
            // The next instruction reads the product, and half of it would lie in another core's caches: where the product
            // is quick, that takes longer than a second thread gains.
            if is_quick { on_this_thread(product) } else { product() }
        };
        if !self.double_row
            && let (Some(stationary), Some(moving)) = (super::matrix(&self.stationary), super::matrix(&self.moving))
        {
            let stationary = super::operand(&arch, &stationary).transposed();
            let moving = super::operand(&arch, &moving);
            let (memory, site) = (&mut state.memory, state.site);
            return Ok(memory.with_arrays(stationary, moving, site, |a, b| run(&a, &b, out))??);
        }
        let (format, stationary) = super::codes(state, &self.stationary)?;
        let a = super::transposed(format, &stationary, chain, columns)?;
        let (format, moving) = super::codes(state, &self.moving)?;
        let b = ArrayView::from_codes(format, &moving, &[chain, length])?;
        Ok(run(&a, &b, out)?)
    }

    fn move_bits(&self, state: &mut State) -> Result<()> {
        let arch = state.arch.clone();
        let check = Check { arch: &arch, instruction: self.name() };
        let (rows, columns) = (self.stationary.partitions(), self.columns());
        let mut identity = state.buffer(self.moving.len());
        state.memory.read_f32(super::operand(&arch, &self.moving), &mut identity, state.site)?;
        let wrong = identity
            .iter()
            .enumerate()
            .position(|(index, value)| *value != if index / rows == index % rows { 1.0 } else { 0.0 });
        if let Some(index) = wrong {
            let (row, column) = (index / rows, index % rows);
            let got = format!("holds {} in row {row}, column {column}", identity[index]);
            return Err(check.refuse("moving", got, "with is_transpose an identity matrix"));
        }
        state.keep(identity);
        let mut bits = Vec::new();
        state.memory.read_words(super::operand(&arch, &self.stationary), &mut bits, state.site)?;
        let target = super::container(&check, &self.dst, self.stationary.dtype)?;
        super::transpose::write_transposed(state, &target, self.stationary.dtype, &bits, rows, columns)
    }
}

impl Instruction for NcMatmul {
    fn name(&self) -> &'static str {
        "nc_matmul"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Tensor
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Stationary, &self.stationary);
        visit(OperandRole::Read, &self.moving);
        let overwrites = self.accumulate == Some(false) || self.is_transpose;
        visit(if overwrites { OperandRole::Write } else { OperandRole::Update }, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.memory("stationary", &self.stationary, SBUF)?;
        check.memory("moving", &self.moving, SBUF)?;
        check.memory("dst", &self.dst, PSUM)?;
        for (name, view) in [("stationary", &self.stationary), ("moving", &self.moving)] {
            check_operand_dtype(&check, name, view)?;
        }
        check_mixing(&check, &self.stationary, &self.moving)?;
        if self.double_row {
            self.check_double_row(&check)?;
        }
        if let Some(tile) = &self.tile {
            tile.check(&check)?;
        }
        let rows = (self.stationary.partitions(), self.moving.partitions());
        let sizes = Sizes { rows, columns: self.columns(), length: self.length() };
        sizes.check(&check, &self.dst, self.tile.as_ref())?;
        check.tile("stationary", &self.stationary, SBUF)?;
        check.tile("moving", &self.moving, SBUF)?;
        check.tile("dst", &self.dst, PSUM)?;
        super::check_bank(&check, &self.dst)?;
        let operands = [("stationary", &self.stationary), ("moving", &self.moving)];
        if let Some(tile) = &self.tile {
            tile.check_places(&check, &operands, &self.dst)?;
        }
        super::check_columns(&check, &operands, self.tile.as_ref())?;
        super::check_columns(&check, &[("dst", &self.dst)], self.tile.as_ref())?;
        if [&self.stationary, &self.moving, &self.dst].iter().any(|view| super::picks_columns(view)) {
            for (name, view) in operands {
                if is_wide(view.dtype) {
                    let got = format!("has dtype {}", view.dtype);
                    return Err(check.refuse(name, got, "with indirect views float16, bfloat16 or fp8"));
                }
            }
        }
        if !self.moves_bits(arch) {
            return super::check_result_dtype(&check, &self.dst);
        }
        check.no_columns("moving", &self.moving)?;
        if self.accumulate == Some(true) {
            return Err(check.refuse("accumulate", "is True with is_transpose", "None or False: moved bits overwrite"));
        }
        if self.length() != self.moving.partitions() {
            let got = format!("has shape {:?}", &self.moving.shape[..]);
            return Err(check.refuse("moving", got, "with is_transpose a square identity matrix"));
        }
        super::container(&check, &self.dst, self.stationary.dtype).map(drop)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let wide = self.stationary.dtype == DType::Float32 || self.moving.dtype == DType::Float32;
        let passes = match wide {
            false => 1,
            true if self.is_transpose => arch.float32_transpose_passes,
            true if self.is_stationary_onezero || self.is_moving_onezero => arch.float32_onezero_passes,
            true => arch.float32_passes,
        };
        let pass = Pass {
            columns: self.columns(),
            length: self.length(),
            passes,
            share: if self.moves_bits(arch) { arch.background_transpose_share } else { 1.0 },
            blocks: super::blocks(arch, self.tile.as_ref()),
            accumulates: self.accumulate != Some(false) && !self.moves_bits(arch),
        };
        pass.work(arch)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        if self.moves_bits(&state.arch) {
            return self.move_bits(state);
        }
        let mut out = state.buffer(self.columns() * self.length());
        self.product(state, &mut out)?;
        super::store(state, &self.dst, self.accumulate, &mut out)?;
        state.keep(out);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        if self.moves_bits(&state.arch) || self.double_row {
            return self.execute(state);
        }
        let (arch, site) = (state.arch.clone(), state.site);
        let (rows, columns, length) = (self.stationary.partitions(), self.columns(), self.length());
        let (mut stationary, mut moving) = (Vec::new(), Vec::new());
        state.memory.read_f64(super::operand(&arch, &self.stationary), &mut stationary, site)?;
        state.memory.read_f64(super::operand(&arch, &self.moving), &mut moving, site)?;
        let mut out = vec![0.0; columns * length];
        for row in 0..rows {
            let moving = &moving[row * length..][..length];
            for (column, out) in out.chunks_exact_mut(length.max(1)).enumerate() {
                let factor = stationary[row * columns + column];
                out.iter_mut().zip(moving).for_each(|(out, moving)| *out += factor * moving);
            }
        }
        super::store_wide(state, &self.dst, self.accumulate, out)
    }

    fn macs(&self, arch: &ArchSpec) -> (u64, u64) {
        let float8 = self.stationary.dtype.is_float8() && self.moving.dtype.is_float8();
        let peak = super::peak(arch, if float8 { arch.double_row_elements } else { 1 });
        let wide = self.stationary.dtype == DType::Float32 || self.moving.dtype == DType::Float32;
        let peak = if wide { peak / arch.float32_passes } else { peak };
        let rows = self.stationary.partitions() * self.halves();
        let macs = if self.moves_bits(arch) { 0 } else { rows * self.columns() * self.length() };
        (macs as u64, peak)
    }
}
