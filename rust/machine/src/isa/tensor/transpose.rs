//! nc_transpose: partitions and free axis exchanged, by TensorE or VectorE.

use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, Rounding, matmul_chained};

use super::Pass;
use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP, PSUM, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::turn::turn;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `nc_transpose(dst, data, engine)`: `dst[f, p] = data[p, f]`, free axes flattened.
///
/// TensorE: up to 128 x 128, SBUF to PSUM; bits are moved, but before gen3 data passes as a product with an identity, so
/// that NaN and infinities spread over their result row. VectorE: up to 32 x 32, between SBUF and PSUM.
#[derive(Debug)]
pub struct NcTranspose {
    /// [F, P].
    pub dst: View,
    /// [P, F].
    pub data: View,
    /// TensorE or VectorE; None: TensorE where `dst` lies in PSUM, else VectorE **(choice)**.
    pub engine: Option<Engine>,
}

/// Moves [rows, columns] bits through the array into a [columns, rows] tile of PSUM.
pub(super) fn write_transposed(
    state: &mut State,
    target: &View,
    moved: DType,
    bits: &[u32],
    rows: usize,
    columns: usize,
) -> Result<()> {
    let arch = state.arch.clone();
    let target = super::operand(&arch, target);
    let mut turned = state.words_for(bits.len());
    turn(bits, [rows, 1, columns], &mut turned)?;
    let written = state.memory.write_words(target, &turned, moved, None);
    state.keep_words(turned);
    written?;
    state.memory.mark_psum_matmul(target)
}

impl NcTranspose {
    fn uses_array(&self) -> bool {
        match self.engine {
            Some(engine) => engine == Engine::Tensor,
            None => super::in_psum(&self.dst),
        }
    }

    /// Where the array's bits go. Elements of one byte stay such from gen4 on, where `dst` has them side by side: the
    /// documentation names 16-bit containers for gen3 alone.
    fn target(&self, check: &Check<'_>) -> Result<View> {
        match super::container(check, &self.dst, self.data.dtype) {
            Err(_) if check.arch.generation >= 4 && self.dst.dtype == self.data.dtype => Ok(self.dst.clone()),
            target => target,
        }
    }

    fn by_product(&self, state: &mut State) -> Result<()> {
        let (rows, columns) = (self.data.partitions(), self.data.free_size());
        let (format, codes) = super::codes(state, &self.data)?;
        let a = super::transposed(format, &codes, rows, columns)?;
        // An identity of a type that may meet the data's; ones and zeros are exact in all.
        let mut identity = vec![0.0f32; rows * rows];
        identity.iter_mut().step_by(rows + 1).for_each(|one| *one = 1.0);
        let halves: Vec<u8> = identity.iter().flat_map(|one| [0, if *one == 1.0 { 0x3c } else { 0 }]).collect();
        let wide = format.item_size() == size_of::<f32>();
        let b = if wide {
            ArrayView::new(&identity, &[rows, rows])?
        } else {
            ArrayView::from_codes(Format::F16, &halves, &[rows, rows])?
        };
        let mut out = state.buffer(rows * columns);
        let into = ArrayMut::new(&mut out, &[columns, rows])?;
        matmul_chained(&a, &b, None, into, Rounding::Nearest, Draws::None, rows.max(1))?;
        super::store(state, &self.dst, Some(false), &mut out)?;
        state.keep(out);
        Ok(())
    }
}

impl Instruction for NcTranspose {
    fn name(&self) -> &'static str {
        "nc_transpose"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        match self.engine {
            Some(engine) => engine,
            None if self.uses_array() => Engine::Tensor,
            None => Engine::Vector,
        }
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(if self.uses_array() { OperandRole::Stationary } else { OperandRole::Read }, &self.data);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        let engine = self.engine(arch);
        let (most, from, to) = match engine {
            Engine::Tensor => (arch.partitions as usize, SBUF, PSUM),
            Engine::Vector => (arch.quadrant_partitions as usize, ON_CHIP, ON_CHIP),
            other => return Err(check.refuse("engine", format!("is {other}"), "tensor or vector")),
        };
        check.tile("data", &self.data, from)?;
        check.tile("dst", &self.dst, to)?;
        let (rows, columns) = (self.data.partitions(), self.data.free_size());
        if rows > most || columns > most {
            let got = format!("has {rows} partitions of {columns} elements");
            return Err(check.refuse("data", got, format!("at most {most} x {most} on the {engine} engine")));
        }
        if (self.dst.partitions(), self.dst.free_size()) != (columns, rows) {
            let got = format!("has shape {:?}", &self.dst.shape[..]);
            return Err(check.refuse("dst", got, format!("[{columns}, {rows}]")));
        }
        check.no_columns("data", &self.data)?;
        check.no_columns("dst", &self.dst)?;
        if engine == Engine::Vector {
            if self.dst.dtype != self.data.dtype {
                let got = format!("has dtype {}", self.dst.dtype);
                return Err(check.refuse("dst", got, format!("that of the data, {}", self.data.dtype)));
            }
            return Ok(());
        }
        super::check_bank(&check, &self.dst)?;
        if arch.generation >= 3 {
            return self.target(&check).map(drop);
        }
        super::matmul::check_operand_dtype(&check, "data", &self.data)?;
        if ![DType::Float32, self.data.dtype].contains(&self.dst.dtype) {
            let got = format!("has dtype {}", self.dst.dtype);
            return Err(check.refuse("dst", got, format!("float32, or that of the data, {}", self.data.dtype)));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let (rows, columns) = (self.data.partitions(), self.data.free_size());
        if !self.uses_array() {
            return cost::vector(arch, columns, arch.vector_rate, 0);
        }
        let wide = self.data.dtype.size() == size_of::<f32>() && self.data.dtype != DType::TFloat32;
        let pass = Pass {
            columns,
            length: rows,
            passes: if wide { arch.float32_transpose_passes } else { 1 },
            share: arch.background_transpose_share,
            blocks: super::blocks(arch, None),
            accumulates: false,
        };
        pass.work(arch)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let arch = state.arch.clone();
        let check = Check { arch: &arch, instruction: self.name() };
        if self.uses_array() && arch.generation < 3 {
            return self.by_product(state);
        }
        let bits = state.read_words(&self.data)?;
        let (rows, columns) = (self.data.partitions(), self.data.free_size());
        let written = if self.uses_array() {
            write_transposed(state, &self.target(&check)?, self.data.dtype, &bits, rows, columns)
        } else {
            let mut turned = state.words_for(bits.len());
            turn(&bits, [rows, 1, columns], &mut turned)?;
            let written = state.memory.write_words(&self.dst, &turned, self.data.dtype, None);
            state.keep_words(turned);
            written
        };
        state.keep_words(bits);
        written
    }
}
