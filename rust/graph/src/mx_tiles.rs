//! Operands of the 512-row array: tiles of a matrix in HBM, quantised on chip to blocks that share a scale.
//!
//! Four neighbouring k lie on one partition, so that a block of 32 is 8 partitions: k = 4 p + q on partition p, lane q.

use std::sync::Arc;

use smallvec::smallvec;
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::custom::{GpSimdCall, TileBytes, instruction_name};
use trn3_machine::isa::quantize::QuantizeMx;
use trn3_machine::isa::tensor::matmul_mx::NcMatmulMx;
use trn3_machine::isa::tensor::transpose::NcTranspose;
use trn3_machine::view::View;
use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, MxOptions, Rounding, ScaleRule, quantize_mx};

use crate::emitter::Emitter;
use crate::error::Result;
use crate::product::half_type;
use crate::product_tiles::{ArrayOperand, ArrayPath, MatrixView, in_dtype};

/// Neighbouring k of a partition.
const LANES: usize = 4;
/// Partitions of a block.
const BLOCK_PARTITIONS: usize = 8;
const BLOCK: usize = BLOCK_PARTITIONS * LANES;
/// Passes over its operands that the function takes which no instruction is: the largest of a block, its scale, the
/// rounding **(choice)**.
const FUNCTION_PASSES: u64 = 3;

/// How one side of a product is quantised along the contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScaledSide {
    /// Elements.
    pub(crate) format: Format,
    /// How scales are chosen.
    pub(crate) rule: ScaleRule,
    /// Whether the operand is rounded to 16 bits first, whatever its type is.
    pub(crate) is_narrowed: bool,
}

impl ScaledSide {
    /// The type that an operand is quantised from.
    fn source(&self, dtype: DType) -> DType {
        if self.is_narrowed || dtype.size() < size_of::<f32>() { half_type(dtype) } else { dtype }
    }

    /// The packed type of the elements.
    fn packed(&self) -> DType {
        match self.format {
            Format::F8E4M3Fn => DType::Float8E4M3FnX4,
            Format::F8E5M2 => DType::Float8E5M2X4,
            _ => DType::Float4E2M1FnX4,
        }
    }

    /// Quantises a tile: by quantize_mx, or by a function of GpSimdE where that makes no such elements or scales.
    fn quantize(&self, emitter: &mut Emitter, src: View, dst: View, dst_scale: View) -> Result<()> {
        let is_rule = matches!(self.rule, ScaleRule::Trn3 | ScaleRule::Ocp);
        if src.dtype.size() == size_of::<u16>() && self.packed() != DType::Float4E2M1FnX4 && is_rule {
            return emitter.issue(QuantizeMx { dst, src, dst_scale, ocp_rule: self.rule == ScaleRule::Ocp });
        }
        quantize_by_function(emitter, *self, src, dst, dst_scale)
    }
}

/// Operands quantised along the contraction, by nc_matmul_mx: how the stationary side is, and the moving one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scaled {
    pub(crate) sides: [ScaledSide; 2],
}

impl Scaled {
    /// Both sides alike, of numbers of 16 bits, with scales as the format has them.
    pub(crate) fn alike(format: Format) -> Self {
        let side = ScaledSide { format, rule: ScaleRule::default_for(format), is_narrowed: true };
        Self { sides: [side; 2] }
    }
}

/// Packed elements with their scales.
pub(crate) struct ScaledTile {
    data: View,
    scale: View,
}

impl ArrayPath for Scaled {
    type Tile = ScaledTile;

    fn depth(&self, arch: &ArchSpec) -> usize {
        arch.partitions as usize * LANES
    }

    /// The instruction takes an even number of them.
    fn stationary_columns(&self, rows: usize) -> usize {
        rows.next_multiple_of(2)
    }

    fn tile(
        &self,
        emitter: &mut Emitter,
        operand: ArrayOperand,
        matrix: &MatrixView,
        rows: (usize, usize),
        columns: (usize, usize),
        width: usize,
    ) -> Result<ScaledTile> {
        let side = self.sides[operand as usize];
        let quadrant = emitter.arch().quadrant_partitions as usize;
        let partitions = rows.1.div_ceil(LANES).next_multiple_of(quadrant);
        let source = emitter.sbuf(&[partitions, width, LANES], side.source(matrix.view.dtype))?;
        if partitions * LANES != rows.1 || width != columns.1 {
            emitter.fill(&source, 0.0)?;
        }
        if matrix.view.strides[0] == 1 && matrix.view.strides[1] != 1 {
            lay_turned(emitter, matrix, rows, columns, &source)?;
        } else {
            lay_straight(emitter, matrix, rows, columns, &source)?;
        }
        let data = emitter.sbuf(&[partitions, width], side.packed())?;
        let scale = emitter.sbuf(&[partitions, width], DType::UInt8)?;
        side.quantize(emitter, source, data.clone(), scale.clone())?;
        Ok(ScaledTile { data, scale })
    }

    fn multiply(
        &self,
        emitter: &mut Emitter,
        sum: &View,
        stationary: &ScaledTile,
        moving: &ScaledTile,
        accumulate: bool,
    ) -> Result<()> {
        emitter.issue(NcMatmulMx {
            dst: sum.clone(),
            stationary: stationary.data.clone(),
            moving: moving.data.clone(),
            stationary_scale: stationary.scale.clone(),
            moving_scale: moving.scale.clone(),
            tile: None,
            accumulate: Some(accumulate),
        })
    }
}

/// The part [partitions, columns, lanes] of a tile, its columns and lanes exchanged: as rows of a matrix lie in HBM.
fn exchanged(tile: &View, partitions: usize, columns: (usize, usize)) -> View {
    View {
        shape: smallvec![partitions, LANES, columns.1],
        strides: smallvec![tile.strides[0], tile.strides[2], tile.strides[1]],
        offset: tile.offset + columns.0 as i64 * tile.strides[1],
        ..tile.clone()
    }
}

/// Rows whose elements follow one another: a partition gets its four rows at once, and they are interleaved on chip.
fn lay_straight(
    emitter: &mut Emitter,
    matrix: &MatrixView,
    rows: (usize, usize),
    columns: (usize, usize),
    tile: &View,
) -> Result<()> {
    let part = matrix.part(rows, columns);
    let [row, column] = [part.strides[0], part.strides[1]];
    let (whole, rest) = (rows.1 / LANES, rows.1 % LANES);
    let partitions = rows.1.div_ceil(LANES);
    let natural = emitter.sbuf(&[partitions, LANES, columns.1], part.dtype)?;
    if rest > 0 {
        emitter.fill(&natural, 0.0)?;
    }
    let step = row * LANES as i64;
    if whole > 0 {
        let source =
            View { shape: smallvec![whole, LANES, columns.1], strides: smallvec![step, row, column], ..part.clone() };
        emitter.copy(&natural.slice(0, 0, whole as i64, 1)?, &source)?;
    }
    if rest > 0 {
        let source = View {
            shape: smallvec![1, rest, columns.1],
            strides: smallvec![step, row, column],
            offset: part.offset + whole as i64 * step,
            ..part
        };
        let last = natural.slice(0, whole as i64, partitions as i64, 1)?.slice(1, 0, rest as i64, 1)?;
        emitter.copy(&last, &source)?;
    }
    emitter.cast(&exchanged(tile, partitions, (0, columns.1)), &natural)
}

/// Columns whose elements follow one another: they are loaded as partitions, and every fourth element is turned on
/// TensorE.
fn lay_turned(
    emitter: &mut Emitter,
    matrix: &MatrixView,
    rows: (usize, usize),
    columns: (usize, usize),
    tile: &View,
) -> Result<()> {
    let most = emitter.arch().partitions as usize;
    for start in (0..columns.1).step_by(most) {
        let width = most.min(columns.1 - start);
        let mut source = matrix.part(rows, (columns.0 + start, width));
        source.shape.reverse();
        source.strides.reverse();
        let loaded = emitter.load(&source)?;
        let data = in_dtype(emitter, loaded, tile.dtype)?;
        let quads = emitter.psum(&[rows.1.div_ceil(LANES), LANES, width], tile.dtype)?;
        for lane in 0..LANES.min(rows.1) {
            let data = data.slice(1, lane as i64, rows.1 as i64, LANES as i64)?;
            let dst = quads.slice(0, 0, data.shape[1] as i64, 1)?.select(1, lane as i64)?;
            emitter.issue(NcTranspose { dst, data, engine: None })?;
        }
        let (whole, rest) = (rows.1 / LANES, rows.1 % LANES);
        if rest == 0 {
            emitter.cast(&exchanged(tile, whole, (start, width)), &quads)?;
            continue;
        }
        // The last partition has fewer lanes, and engines begin at no single one.
        for lane in 0..LANES.min(rows.1) {
            let partitions = (whole + usize::from(lane < rest)) as i64;
            let from = quads.slice(0, 0, partitions, 1)?.select(1, lane as i64)?;
            let into = exchanged(tile, partitions as usize, (start, width)).select(1, lane as i64)?;
            emitter.cast(&into, &from)?;
        }
    }
    Ok(())
}

/// What quantize_mx does, of other elements.
fn quantize_by_function(emitter: &mut Emitter, side: ScaledSide, source: View, data: View, scale: View) -> Result<()> {
    let format = source.dtype.format().unwrap_or(Format::F32);
    let quadrant = emitter.arch().quadrant_partitions as usize;
    let function = move |inputs: &[TileBytes], outputs: &mut [TileBytes]| {
        let quantized = quantized(&inputs[0], format, side, quadrant).map_err(|error| error.to_string())?;
        outputs.iter_mut().zip(quantized).for_each(|(tile, bytes)| tile.bytes = bytes);
        Ok(())
    };
    let (inputs, outputs) = (vec![source], vec![data, scale]);
    let cycles = FUNCTION_PASSES * GpSimdCall::cycles_of_one_pass(emitter.arch(), &outputs, &inputs);
    let name = instruction_name("quantize_mx_function");
    emitter.issue(GpSimdCall { name, outputs, inputs, cycles, function: Arc::new(function) })
}

/// Packed elements and scales of a tile [partitions, columns, lanes].
fn quantized(tile: &TileBytes, source: Format, side: ScaledSide, quadrant: usize) -> Result<[Vec<u8>; 2]> {
    let columns = tile.elements / LANES;
    let (quad, rows) = (source.item_size() * LANES, tile.partitions / BLOCK_PARTITIONS);
    let word =
        |block: usize, partition: usize| (block / columns * BLOCK_PARTITIONS + partition) * columns + block % columns;
    let mut values = vec![0u8; tile.bytes.len()];
    for (block, values) in values.chunks_mut(quad * BLOCK_PARTITIONS).enumerate() {
        for (partition, values) in values.chunks_mut(quad).enumerate() {
            values.copy_from_slice(&tile.bytes[quad * word(block, partition)..][..quad]);
        }
    }
    let shape = [rows * columns, BLOCK];
    let (mut codes, mut scales) = (vec![0u8; shape[0] * BLOCK], vec![0u8; shape[0]]);
    quantize_mx(
        &ArrayView::from_codes(source, &values, &shape)?,
        1,
        ArrayMut::from_codes(side.format, &mut codes, &shape)?,
        ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &[shape[0], 1])?,
        MxOptions { scale_rule: side.rule, rounding: Rounding::Nearest },
        Draws::None,
    )?;
    let width = side.packed().size();
    let mut packed = vec![0u8; width * tile.partitions * columns];
    for (index, quad) in codes.as_chunks::<LANES>().0.iter().enumerate() {
        let packed = &mut packed[width * word(index / BLOCK_PARTITIONS, index % BLOCK_PARTITIONS)..][..width];
        if width == LANES {
            packed.copy_from_slice(quad);
        } else {
            packed.copy_from_slice(&[quad[0] | quad[1] << 4, quad[2] | quad[3] << 4]);
        }
    }
    // Of each quadrant the first rows hold the scales of its blocks.
    let mut placed = vec![0u8; tile.partitions * columns];
    let blocks = quadrant / BLOCK_PARTITIONS;
    for (row, scales) in scales.chunks(columns).enumerate() {
        placed[(row / blocks * quadrant + row % blocks) * columns..][..columns].copy_from_slice(scales);
    }
    Ok([packed, placed])
}
