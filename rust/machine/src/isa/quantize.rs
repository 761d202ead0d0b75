//! quantize_mx: 16-bit floats to MXFP8 blocks.

use std::sync::atomic::Ordering;

use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, MxOptions, Rounding, ScaleRule, quantize_mx};

use crate::arch::ArchSpec;
use crate::check::{Check, SBUF};
use crate::cost;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// Partitions of a block: 8 of them, 4 neighbouring elements of each.
const BLOCK_PARTITIONS: usize = 8;
/// Elements that one packed element holds.
const LANES: usize = 4;
const BLOCK: usize = BLOCK_PARTITIONS * LANES;

/// `quantize_mx(dst, src, dst_scale)`, gen4: blocks of 8 partitions x 4 neighbouring elements share a scale.
///
/// The rounding of elements, exponents beyond the scale's range and blocks with NaN or infinity follow
/// [`trn3_numerics::quantize_mx`].
#[derive(Debug)]
pub struct QuantizeMx {
    /// Packed elements, [P, F / 4].
    pub dst: View,
    /// float16 or bfloat16, [P, F].
    pub src: View,
    /// Scales: [P / 8, F / 4] for P <= 32; else the tile has dst's partitions (less its offset in the quadrant), and rows
    /// 0 to 3 of each group of 32 are written.
    pub dst_scale: View,
    /// The scale rule of NKI before 0.5 (that of OCP's sample) instead of the present one.
    pub ocp_rule: bool,
}

impl QuantizeMx {
    /// Row of the scale tile that holds the scales of a block row.
    fn scale_row(block: usize, quadrant: usize) -> usize {
        let blocks = quadrant / BLOCK_PARTITIONS;
        block / blocks * quadrant + block % blocks
    }

    fn check_scale(&self, check: &Check<'_>) -> Result<()> {
        let (scale, quadrant) = (&self.dst_scale, check.arch.quadrant_partitions as usize);
        check.memory("dst_scale", scale, SBUF)?;
        check.no_columns("dst_scale", scale)?;
        check.dtype("dst_scale", scale, &[DType::Float8E8M0Fnu, DType::UInt8])?;
        check.free_size("dst_scale", scale, self.dst.free_size())?;
        let offset = scale.start_partition() % quadrant;
        let blocks = quadrant / BLOCK_PARTITIONS;
        if !offset.is_multiple_of(blocks) || offset / blocks >= LANES {
            let got = format!("starts at partition {}", scale.start_partition());
            let offsets: Vec<String> = (0..LANES).map(|index| (index * blocks).to_string()).collect();
            return Err(check.refuse("dst_scale", got, format!("offset {} in a quadrant", offsets.join(", "))));
        }
        let (rows, partitions) = (scale.partitions(), self.src.partitions());
        let needed = Self::scale_row(partitions / BLOCK_PARTITIONS - 1, quadrant) + 1;
        if !(needed..=partitions).contains(&rows) {
            let allowed = match partitions {
                small if small <= quadrant => format!("{} partitions", small / BLOCK_PARTITIONS),
                _ => format!("{partitions} partitions, less the offset in the quadrant"),
            };
            return Err(check.refuse("dst_scale", format!("has {rows} partitions"), allowed));
        }
        Ok(())
    }
}

impl Instruction for QuantizeMx {
    fn name(&self) -> &'static str {
        "quantize_mx"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.dst);
        visit(OperandRole::Write, &self.dst_scale);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 4)?;
        for (operand, view) in [("dst", &self.dst), ("src", &self.src)] {
            check.tile(operand, view, SBUF)?;
            check.no_columns(operand, view)?;
        }
        check.dtype("src", &self.src, &[DType::Float16, DType::BFloat16])?;
        check.dtype("dst", &self.dst, &[DType::Float8E5M2X4, DType::Float8E4M3FnX4])?;
        let (partitions, elements) = (self.src.partitions(), self.src.free_size());
        if partitions == 0 || !partitions.is_multiple_of(BLOCK) {
            let got = format!("has {partitions} partitions");
            return Err(check.refuse("src", got, format!("a multiple of {BLOCK}, up to {}", arch.partitions)));
        }
        if !elements.is_multiple_of(LANES) {
            let got = format!("has {elements} elements per partition");
            return Err(check.refuse("src", got, format!("a multiple of {LANES}")));
        }
        check.same_partitions("dst", &self.dst, "src", &self.src)?;
        check.free_size("dst", &self.dst, elements / LANES)?;
        self.check_scale(&check)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_quantize_rate, &[&self.src, &self.dst]);
        cost::vector(arch, self.src.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let quadrant = state.arch.quadrant_partitions as usize;
        let (partitions, columns) = (self.dst.partitions(), self.dst.free_size());
        let block_rows = partitions / BLOCK_PARTITIONS;
        let values = state.read(&self.src)?;
        // From [block row, partition, column, lane] to [block row, column, partition, lane]: blocks side by side.
        let mut blocks = state.buffer(values.len());
        blocks.fill(0.0);
        for (index, quad) in values.as_chunks::<LANES>().0.iter().enumerate() {
            let (partition, column) = (index / columns, index % columns);
            let block = partition / BLOCK_PARTITIONS * columns + column;
            blocks[block * BLOCK + partition % BLOCK_PARTITIONS * LANES..][..LANES].copy_from_slice(quad);
        }
        let mut codes = vec![0u8; values.len()];
        let mut scales = vec![0u8; block_rows * columns];
        let scale_rule = if self.ocp_rule { ScaleRule::Ocp } else { ScaleRule::Trn3 };
        let format = self.dst.dtype.format().unwrap_or(Format::F8E4M3Fn);
        let shape = [scales.len(), BLOCK];
        quantize_mx(
            &ArrayView::new(&blocks, &shape)?,
            1,
            ArrayMut::from_codes(format, &mut codes, &shape)?,
            ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &[shape[0], 1])?,
            MxOptions { scale_rule, rounding: Rounding::Nearest },
            Draws::None,
        )?;
        let mut packed = vec![0u32; partitions * columns];
        for (index, quad) in codes.as_chunks::<LANES>().0.iter().enumerate() {
            let (block, lane) = (index / BLOCK_PARTITIONS, index % BLOCK_PARTITIONS);
            let partition = block / columns * BLOCK_PARTITIONS + lane;
            packed[partition * columns + block % columns] = u32::from_le_bytes(*quad);
        }
        state.memory.write_bits(&self.dst, &packed)?;
        self.dst_scale.storage.tenancy.scaled.store(true, Ordering::Relaxed);
        let bytes: Vec<u32> = scales.iter().map(|&byte| u32::from(byte)).collect();
        for (block, bytes) in bytes.chunks_exact(columns.max(1)).enumerate() {
            let mut row = self.dst_scale.clone();
            row.shape[0] = 1;
            row.offset += Self::scale_row(block, quadrant) as i64 * row.strides[0];
            state.memory.write_bits(&row, bytes)?;
        }
        state.keep(values);
        state.keep(blocks);
        Ok(())
    }
}
