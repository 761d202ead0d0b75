//! How quantised arrays lie in memory where the hardware reads them: four elements a word, scales in quadrant rows.

use super::{BLOCK, MxView};
use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;

/// Elements in a word.
const LANES: usize = 4;
/// Words that a task packs.
const TASK: usize = 1 << 14;
/// The longest contraction axis of one tile: 128 partitions of four lanes.
const TILE: usize = 512;
/// Elements of the contraction axis in a quadrant of 32 partitions; a tile is made of whole quadrants.
const QUADRANT: usize = 128;
/// Partitions in a quadrant, and the blocks whose scales stand in its first rows.
const QUADRANT_PARTITIONS: usize = QUADRANT / LANES;
const QUADRANT_BLOCKS: usize = QUADRANT / BLOCK;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
}

/// A word of four packed elements, element 0 in the low bits: `u32` holds fp8, `u16` holds fp4.
pub trait X4Word: Copy + Send + Sync + sealed::Sealed {
    /// Name of the type, for messages.
    const NAME: &'static str;

    /// Whether words of this type hold elements of the format.
    fn holds(format: Format) -> bool;

    /// The word of four codes.
    fn pack(codes: [u8; LANES]) -> Self;

    /// The four codes of the word.
    fn unpack(self) -> [u8; LANES];
}

impl X4Word for u32 {
    const NAME: &'static str = "uint32 (four fp8 elements)";

    fn holds(format: Format) -> bool {
        matches!(format, Format::F8E4M3Fn | Format::F8E5M2)
    }

    #[inline]
    fn pack(codes: [u8; LANES]) -> Self {
        u32::from_le_bytes(codes)
    }

    #[inline]
    fn unpack(self) -> [u8; LANES] {
        self.to_le_bytes()
    }
}

impl X4Word for u16 {
    const NAME: &'static str = "uint16 (four fp4 elements)";

    fn holds(format: Format) -> bool {
        format == Format::F4E2M1Fn
    }

    #[inline]
    fn pack(codes: [u8; LANES]) -> Self {
        let [a, b, c, d] = codes.map(|code| u16::from(code & 0xf));
        a | b << 4 | c << 8 | d << 12
    }

    #[inline]
    fn unpack(self) -> [u8; LANES] {
        [self, self >> 4, self >> 8, self >> 12].map(|word| (word & 0xf) as u8)
    }
}

fn check_words<W: X4Word>(argument: &'static str, format: Format, words: usize, elements: usize) -> Result<()> {
    if !W::holds(format) {
        let allowed = if u32::holds(format) {
            u32::NAME
        } else if u16::holds(format) {
            u16::NAME
        } else {
            return Err(Error::dtype("elements", format, "float8_e4m3fn, float8_e5m2, float4_e2m1fn"));
        };
        return Err(Error::dtype(argument, W::NAME, allowed));
    }
    if words * LANES != elements {
        return Err(Error::shape(argument, &[words], format!("{} words hold the elements", elements.div_ceil(LANES))));
    }
    Ok(())
}

fn check_last_axis(shape: &[usize]) -> Result<()> {
    match shape.last() {
        Some(length) if length.is_multiple_of(LANES) => Ok(()),
        _ => Err(Error::shape("elements", shape, format!("its last axis must be a multiple of {LANES} long"))),
    }
}

/// Packs each four consecutive elements along the last axis into a word.
///
/// `packed` holds the words in C order: elements of shape [..., n] make [..., n / 4] words.
///
/// # Errors
/// [`Error::Dtype`] when words of this type do not hold the elements' format; [`Error::Shape`] when the last axis is not a
/// multiple of 4 long or the number of words is another.
///
/// ```
/// use trn3_numerics::{ArrayView, Format, pack_x4};
///
/// let mut words = [0u32; 1];
/// pack_x4(&ArrayView::from_codes(Format::F8E5M2, &[0x01, 0x02, 0x03, 0x04], &[4])?, &mut words)?;
/// assert_eq!(words, [0x0403_0201]);
///
/// let mut words = [0u16; 1];
/// pack_x4(&ArrayView::from_codes(Format::F4E2M1Fn, &[0x1, 0x2, 0x3, 0x4], &[4])?, &mut words)?;
/// assert_eq!(words, [0x4321]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn pack_x4<W: X4Word>(elements: &ArrayView<'_>, packed: &mut [W]) -> Result<()> {
    check_last_axis(elements.shape())?;
    check_words::<W>("packed", elements.format(), packed.len(), elements.len())?;
    par::for_each(packed.chunks_mut(TASK).enumerate(), |(task, words)| {
        let mut scratch = AlignedBytes::default();
        let start = task * TASK * LANES;
        let codes = elements.chunk(start..start + words.len() * LANES, &mut scratch);
        for (word, &quad) in words.iter_mut().zip(codes.as_chunks().0) {
            *word = W::pack(quad);
        }
    })
}

/// Unpacks words into elements along the last axis; the inverse of [`pack_x4`].
///
/// # Errors
/// As [`pack_x4`].
///
/// ```
/// use trn3_numerics::{ArrayMut, Format, unpack_x4};
///
/// let mut codes = [0u8; 4];
/// unpack_x4(&[0x4321u16], ArrayMut::from_codes(Format::F4E2M1Fn, &mut codes, &[4])?)?;
/// assert_eq!(codes, [0x1, 0x2, 0x3, 0x4]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn unpack_x4<W: X4Word>(packed: &[W], elements: ArrayMut<'_>) -> Result<()> {
    check_last_axis(elements.shape())?;
    check_words::<W>("packed", elements.format(), packed.len(), element_count(elements.shape()))?;
    let tasks = elements.into_bytes().chunks_mut(TASK * LANES).zip(packed.chunks(TASK));
    par::for_each(tasks, |(codes, words)| unpack_row(words, codes))
}

fn unpack_row<W: X4Word>(words: &[W], codes: &mut [u8]) {
    for (quad, &word) in codes.as_chunks_mut().0.iter_mut().zip(words) {
        *quad = W::unpack(word);
    }
}

/// Rows of the scales that [`to_trn3_layout`] writes for an array of this contraction length: a tile of one quadrant has
/// its four alone, a larger one as many as its data.
///
/// ```
/// assert_eq!([128, 256, 512].map(trn3_numerics::scale_rows), [4, 64, 128]);
/// ```
pub fn scale_rows(contraction: usize) -> usize {
    if contraction == QUADRANT { QUADRANT_BLOCKS } else { contraction / LANES }
}

fn check_scale_rows(came: usize, contraction: usize, free: usize) -> Result<()> {
    let needed = scale_rows(contraction) * free;
    if came == needed {
        return Ok(());
    }
    let rows = if contraction == QUADRANT { "[4, F]" } else { "[K / 4, F]" };
    Err(Error::shape("scales", &[came], format!("{needed} bytes are needed, {rows}")))
}

/// The row of a tile's scales that holds those of one block: the first four rows of each quadrant of 32 partitions serve
/// the quadrant's four blocks.
fn scale_row(block: usize) -> usize {
    QUADRANT_PARTITIONS * (block / QUADRANT_BLOCKS) + block % QUADRANT_BLOCKS
}

/// The contraction and free lengths of one tile's array.
fn tile_shape(shape: &[usize]) -> Result<(usize, usize)> {
    let refused = |needed: &str| Err(Error::shape("elements", shape, needed));
    match *shape {
        [contraction, _] if contraction > TILE => refused("one tile holds at most 512 along axis 0: split the array"),
        [0, _] => refused("axis 0 must be 128, 256, 384 or 512 long"),
        [contraction, free] if contraction.is_multiple_of(QUADRANT) => Ok((contraction, free)),
        [_, _] => refused("axis 0 must be 128, 256, 384 or 512 long"),
        _ => refused("a tile has two axes, [K, F]"),
    }
}

/// Lays a [K, F] array, blocked along axis 0, out as `nc_matmul_mx` reads it from SBUF.
///
/// K is 128, 256, 384 or 512. `data` is [K / 4, F] words: k = 32 b + 4 i + j lies on partition 8 b + i, lane j.
/// `scale_rows` is [K / 4, F] bytes, [4, F] for K = 128: the scales of block b stand in row 32 (b / 4) + b % 4, all other
/// rows are 0.
///
/// # Errors
/// [`Error::Dtype`] when words of this type do not hold the elements' format; [`Error::Shape`] and [`Error::Value`] for other
/// shapes and axes.
///
/// ```
/// use trn3_numerics::{ArrayView, Format, MxView, to_trn3_layout};
///
/// let elements: Vec<u8> = (0..128).collect(); // F = 1
/// let x = MxView {
///     elements: ArrayView::from_codes(Format::F8E5M2, &elements, &[128, 1])?,
///     scales: ArrayView::from_codes(Format::F8E8M0Fnu, &[10, 11, 12, 13], &[4, 1])?,
///     axis: 0,
/// };
/// let (mut data, mut scale_rows) = ([0u32; 32], [0u8; 4]);
/// to_trn3_layout(&x, &mut data, &mut scale_rows)?;
/// assert_eq!(data[1], 0x0706_0504);
/// assert_eq!(scale_rows, [10, 11, 12, 13]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn to_trn3_layout<W: X4Word>(x: &MxView<'_>, data: &mut [W], scale_rows: &mut [u8]) -> Result<()> {
    x.check("elements")?;
    let (contraction, free) = tile_shape(x.elements.shape())?;
    if x.axis != 0 {
        return Err(Error::value("axis", x.axis, "a tile is blocked along axis 0"));
    }
    check_words::<W>("data", x.elements.format(), data.len(), contraction * free)?;
    check_scale_rows(scale_rows.len(), contraction, free)?;
    if free == 0 {
        return Ok(());
    }
    scale_rows.fill(0);
    let mut scratch = AlignedBytes::default();
    for block in 0..contraction / BLOCK {
        let start = scale_row(block) * free;
        let scales = x.scales.chunk(block * free..(block + 1) * free, &mut scratch);
        scale_rows[start..start + free].copy_from_slice(scales);
    }
    par::for_each(data.chunks_mut(free).enumerate(), |(partition, words)| {
        // 32 b + 4 i = 4 (8 b + i): a partition's four lanes are four consecutive k.
        let mut scratch = AlignedBytes::default();
        let start = partition * LANES * free;
        let codes = x.elements.chunk(start..start + LANES * free, &mut scratch);
        let (first, second) = codes.split_at(2 * free);
        let lanes = [&first[..free], &first[free..], &second[..free], &second[free..]];
        for (column, word) in words.iter_mut().enumerate() {
            *word = W::pack(lanes.map(|lane| lane[column]));
        }
    })
}

/// Reads a tile back; the inverse of [`to_trn3_layout`]. Scale rows that hold no block's scales are not read.
///
/// `elements` is [K, F] and `scales` [K / 32, F], for `data` and `scale_rows` of [K / 4, F]; for K = 128 `scale_rows` is
/// [4, F], or [32, F] as version 0.1.0 laid it out.
///
/// # Errors
/// As [`to_trn3_layout`].
///
/// ```
/// use trn3_numerics::{ArrayMut, Format, from_trn3_layout};
///
/// let (mut elements, mut scales) = ([0u8; 128], [0u8; 4]);
/// let mut data = [0u32; 32];
/// data[1] = 0x0706_0504;
/// from_trn3_layout(
///     &data,
///     &[127; 4],
///     ArrayMut::from_codes(Format::F8E5M2, &mut elements, &[128, 1])?,
///     ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &[4, 1])?,
/// )?;
/// assert_eq!(elements[4..8], [4, 5, 6, 7]);
/// assert_eq!(scales, [127; 4]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn from_trn3_layout<W: X4Word>(
    data: &[W],
    scale_rows: &[u8],
    elements: ArrayMut<'_>,
    scales: ArrayMut<'_>,
) -> Result<()> {
    let (contraction, free) = tile_shape(elements.shape())?;
    check_words::<W>("data", elements.format(), data.len(), contraction * free)?;
    if scale_rows.len() != data.len() {
        check_scale_rows(scale_rows.len(), contraction, free)?;
    }
    scales.expect("scales", Format::F8E8M0Fnu, &[contraction / BLOCK, free])?;
    if free == 0 {
        return Ok(());
    }
    for (block, scales) in scales.into_bytes().chunks_mut(free).enumerate() {
        let start = scale_row(block) * free;
        scales.copy_from_slice(&scale_rows[start..start + free]);
    }
    let partitions = elements.into_bytes().chunks_mut(LANES * free).zip(data.chunks(free));
    par::for_each(partitions, |(codes, words)| {
        for (column, word) in words.iter().enumerate() {
            for (lane, code) in word.unpack().into_iter().enumerate() {
                codes[lane * free + column] = code;
            }
        }
    })
}
