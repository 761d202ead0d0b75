//! Products of two matrices on one of the array's paths: what `dot_general` and `convolution` are made of.

use std::borrow::Cow;

use trn3_machine::dtype::DType;
use trn3_numerics::{
    ArrayMut, ArrayView, BLOCK, Draws, Format, MxOptions, MxView, Rounding, ScaleRule, matmul, matmul_chained,
    matmul_mx, quantize_mx,
};

use crate::error::{GraphError, Result};
use crate::options::MatmulPath;
use crate::strided::{merged, permuted, pick, row_major};
use crate::tensor::Tensor;

/// Elements of a tensor as matrices [batch..., rows, columns].
#[derive(Clone, Debug)]
pub(crate) struct Matrices<'t> {
    tensor: Cow<'t, Tensor>,
    shape: Vec<usize>,
    /// In elements.
    strides: Vec<isize>,
    /// The first element.
    offset: isize,
}

impl<'t> Matrices<'t> {
    /// The axes `batch` one by one, `rows` as one and `columns` as one; nothing is copied where strides can say so.
    ///
    /// # Errors
    /// As [`Tensor::new`].
    pub(crate) fn new(tensor: &'t Tensor, batch: &[usize], rows: &[usize], columns: &[usize]) -> Result<Self> {
        let own = row_major(tensor.shape());
        let of = |tensor: Cow<'t, Tensor>, batch: Vec<(usize, isize)>, matrix: [(usize, isize); 2]| {
            let (shape, strides) = batch.into_iter().chain(matrix).unzip();
            Self { tensor, shape, strides, offset: 0 }
        };
        let axis = |axis: usize| (tensor.shape()[axis], own[axis]);
        let group = |axes: &[usize]| merged(axes.iter().map(|&number| axis(number)));
        if let (Some(rows), Some(columns)) = (group(rows), group(columns)) {
            return Ok(of(Cow::Borrowed(tensor), batch.iter().map(|&number| axis(number)).collect(), [rows, columns]));
        }
        let moved = permuted(tensor, &[batch, rows, columns].concat())?;
        let length = |axes: &[usize]| -> usize { axes.iter().map(|&axis| tensor.shape()[axis]).product() };
        let mut shape: Vec<usize> = batch.iter().map(|&axis| tensor.shape()[axis]).collect();
        shape.extend([length(rows), length(columns)]);
        Ok(Self { strides: row_major(&shape), tensor: Cow::Owned(moved), shape, offset: 0 })
    }

    fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// Lengths.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// As [`Tensor::new`].
    pub(crate) fn dense(&self) -> Result<Tensor> {
        pick(&self.tensor, &self.shape, &self.strides, self.offset)
    }

    fn in_dtype(&self, dtype: DType) -> Result<Cow<'_, Self>> {
        if self.dtype() == dtype {
            return Ok(Cow::Borrowed(self));
        }
        Ok(Cow::Owned(Self { tensor: Cow::Owned(self.tensor.in_dtype(dtype)?), ..self.clone() }))
    }

    pub(crate) fn view(&self) -> Result<ArrayView<'_>> {
        let format = self.tensor.kind().is_float().then(|| self.dtype().format()).flatten();
        let refusal = || GraphError::Argument(format!("{} has no floating-point elements", self.tensor.kind()));
        let strides: Vec<isize> = self.strides.iter().map(|step| step * self.dtype().size() as isize).collect();
        let bytes = self.tensor.bytes();
        let offset = self.offset * self.dtype().size() as isize;
        Ok(ArrayView::strided(format.ok_or_else(refusal)?, bytes, offset as usize, &self.shape, &strides, false)?)
    }

    /// The numbers, in row-major order.
    fn integers(&self) -> Result<Vec<i64>> {
        self.dense()?.integers()
    }

    /// Blocks of 32 along `axis`, filled up with zeros; draws are one for each element of these.
    pub(crate) fn quantized(
        &self,
        axis: usize,
        format: Format,
        options: MxOptions,
        draws: Draws<'_>,
    ) -> Result<Quantized> {
        let wide;
        let source = if self.dtype().is_float8() {
            wide = self.in_dtype(DType::BFloat16)?;
            &wide
        } else {
            self
        };
        let mut shape = source.shape.clone();
        shape[axis] = shape[axis].next_multiple_of(BLOCK);
        let filled;
        let view = if shape == source.shape {
            source.view()?
        } else {
            filled = source.filled(axis, &shape)?;
            filled.view()?
        };
        let mut elements = vec![0u8; view.len()];
        let mut scale_shape = shape.clone();
        scale_shape[axis] /= BLOCK;
        let mut scales = vec![0u8; scale_shape.iter().product()];
        quantize_mx(
            &view,
            axis,
            ArrayMut::from_codes(format, &mut elements, &shape)?,
            ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &scale_shape)?,
            options,
            draws,
        )?;
        Ok(Quantized { format, axis, elements, shape, scales, scale_shape })
    }

    /// Elements `start..start + length` along an axis.
    fn part(&self, axis: usize, start: usize, length: usize) -> Matrices<'_> {
        let mut shape = self.shape.clone();
        shape[axis] = length;
        Matrices {
            tensor: Cow::Borrowed(&*self.tensor),
            shape,
            strides: self.strides.clone(),
            offset: self.offset + start as isize * self.strides[axis],
        }
    }

    /// The same with zeros at the end of an axis.
    pub(crate) fn filled(&self, axis: usize, shape: &[usize]) -> Result<Matrices<'static>> {
        let size = self.dtype().size();
        let dense = self.dense()?;
        let inner: usize = self.shape[axis + 1..].iter().product::<usize>() * size;
        let (from, to) = (self.shape[axis] * inner, shape[axis] * inner);
        let mut bytes = vec![0u8; shape.iter().product::<usize>() * size];
        if from > 0 {
            bytes
                .chunks_mut(to)
                .zip(dense.bytes().chunks(from))
                .for_each(|(to, from)| to[..from.len()].copy_from_slice(from));
        }
        let tensor = Tensor::from_bytes(dense.kind().with_shape(shape), &bytes)?;
        Ok(Matrices { tensor: Cow::Owned(tensor), strides: row_major(shape), shape: shape.to_vec(), offset: 0 })
    }
}

impl Matrices<'static> {
    /// A tensor of two axes or more as it is.
    pub(crate) fn of(tensor: Tensor) -> Self {
        let shape = tensor.shape().to_vec();
        Self { tensor: Cow::Owned(tensor), strides: row_major(&shape), shape, offset: 0 }
    }

    /// What comes first along an axis.
    pub(crate) fn first(mut self, axis: usize, length: usize) -> Self {
        self.shape[axis] = self.shape[axis].min(length);
        self
    }
}

/// Matrices in MX format.
pub(crate) struct Quantized {
    format: Format,
    axis: usize,
    elements: Vec<u8>,
    shape: Vec<usize>,
    pub(crate) scales: Vec<u8>,
    scale_shape: Vec<usize>,
}

impl Quantized {
    pub(crate) fn view(&self) -> Result<MxView<'_>> {
        Ok(MxView {
            elements: ArrayView::from_codes(self.format, &self.elements, &self.shape)?,
            scales: ArrayView::from_codes(Format::F8E8M0Fnu, &self.scales, &self.scale_shape)?,
            axis: self.axis,
        })
    }
}

/// left [batch..., m, k] by right [batch..., k, n], in float32 before any rounding to the result's type: chains of 128 k
/// in ascending order, of 512 where the path is a quantised one.
///
/// # Errors
/// [`GraphError::Argument`] for matrices of no floats; [`GraphError::Numerics`].
pub(crate) fn product(path: MatmulPath, left: &Matrices<'_>, right: &Matrices<'_>) -> Result<Vec<f32>> {
    let shape = product_shape(left, right);
    let mut values = vec![0.0f32; shape.iter().product()];
    let out = ArrayMut::new(&mut values, &shape)?;
    let axis = shape.len() - 2;
    match path {
        MatmulPath::AsTyped => {
            matmul(&left.view()?, &right.view()?, None, out, Rounding::Nearest, Draws::None)?;
        }
        MatmulPath::Bf16 => {
            let (left, right) = (left.in_dtype(DType::BFloat16)?, right.in_dtype(DType::BFloat16)?);
            matmul(&left.view()?, &right.view()?, None, out, Rounding::Nearest, Draws::None)?;
        }
        MatmulPath::Mxfp8 | MatmulPath::Mxfp4 => {
            let format = if path == MatmulPath::Mxfp8 { Format::F8E4M3Fn } else { Format::F4E2M1Fn };
            let options = MxOptions { scale_rule: ScaleRule::default_for(format), rounding: Rounding::Nearest };
            // Of numbers of 16 bits: quantize_mx takes no others.
            let (left, right) = (left.in_dtype(half_type(left.dtype()))?, right.in_dtype(half_type(right.dtype()))?);
            let left = left.quantized(axis + 1, format, options, Draws::None)?;
            let right = right.quantized(axis, format, options, Draws::None)?;
            matmul_mx(&left.view()?, &right.view()?, None, out, Rounding::Nearest, Draws::None)?;
            settle(&mut values, left.shape[axis + 1]);
        }
    }
    Ok(values)
}

/// What the array makes of sums over `k` quantised: its rows come by 32 of four k, zeros fill them up, and a sum of zeros
/// after -0 is 0.
pub(crate) fn settle(values: &mut [f32], k: usize) {
    if !k.is_multiple_of(QUADRANT) {
        values.iter_mut().for_each(|value| *value += 0.0);
    }
}

/// k of the least rows of the 512-row array that an instruction takes.
const QUADRANT: usize = 128;

/// The type that values are quantised from **(choice)**: float16 as it is, all others rounded to bfloat16.
pub(crate) fn half_type(dtype: DType) -> DType {
    if dtype == DType::Float16 { dtype } else { DType::BFloat16 }
}

/// The same where a chain ends with its run of the contraction, too.
///
/// # Errors
/// As [`product`].
pub(crate) fn product_in_runs(
    path: MatmulPath,
    run: Option<usize>,
    left: &Matrices<'_>,
    right: &Matrices<'_>,
) -> Result<Vec<f32>> {
    let axis = left.shape.len() - 2;
    let depth = left.shape[axis + 1];
    let Some(run) = run.filter(|&run| run < depth && !run.is_multiple_of(CHAIN)) else {
        return product(path, left, right);
    };
    let dtype = |side: &Matrices<'_>| if path == MatmulPath::Bf16 { DType::BFloat16 } else { side.dtype() };
    let (left, right) = (left.in_dtype(dtype(left))?, right.in_dtype(dtype(right))?);
    let shape = product_shape(&left, &right);
    let mut values = vec![0.0f32; shape.iter().product()];
    if run <= CHAIN {
        let out = ArrayMut::new(&mut values, &shape)?;
        matmul_chained(&left.view()?, &right.view()?, None, out, Rounding::Nearest, Draws::None, run)?;
        return Ok(values);
    }
    for start in (0..depth).step_by(run) {
        let length = run.min(depth - start);
        let (left, right) = (left.part(axis + 1, start, length), right.part(axis, start, length));
        let before = std::mem::replace(&mut values, vec![0.0; shape.iter().product()]);
        let before = ArrayView::new(&before, &shape)?;
        let out = ArrayMut::new(&mut values, &shape)?;
        let sums = (start > 0).then_some(&before);
        matmul(&left.view()?, &right.view()?, sums, out, Rounding::Nearest, Draws::None)?;
    }
    Ok(values)
}

/// Steps of a chain of the plain paths.
const CHAIN: usize = 128;

/// The same of whole numbers: exact in the low 64 bits.
///
/// # Errors
/// [`GraphError::Argument`] for matrices of no integers.
pub(crate) fn integer_product(left: &Matrices<'_>, right: &Matrices<'_>) -> Result<Vec<i64>> {
    let shape = product_shape(left, right);
    let [m, n] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    let k = left.shape[shape.len() - 1];
    let (a, b) = (left.integers()?, right.integers()?);
    let mut values = vec![0i64; shape.iter().product()];
    for (row, sums) in values.chunks_mut(n.max(1)).enumerate() {
        let rows = &b[row / m * k * n..][..k * n];
        for (&factor, line) in a[row * k..][..k].iter().zip(rows.chunks(n)) {
            sums.iter_mut().zip(line).for_each(|(sum, &value)| *sum = sum.wrapping_add(factor.wrapping_mul(value)));
        }
    }
    Ok(values)
}

pub(crate) fn product_shape(left: &Matrices<'_>, right: &Matrices<'_>) -> Vec<usize> {
    let mut shape = left.shape.clone();
    let last = shape.len() - 1;
    shape[last] = right.shape[last];
    shape
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_type::TensorType;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn tensor(dtype: DType, shape: &[usize], seed: u32) -> Tensor {
        let values = numbers(shape.iter().product(), seed);
        Tensor::from_floats(TensorType::new(dtype, shape), values).unwrap()
    }

    #[test]
    fn test_axes_in_any_order_make_the_same_bits() {
        // [k0, batch, m0, k1, m1] against its own copy as [batch, m, k].
        let x = tensor(DType::Float32, &[3, 2, 4, 50, 5], 1);
        let y = tensor(DType::Float32, &[2, 150, 7], 2);
        let right = Matrices::new(&y, &[0], &[1], &[2]).unwrap();
        let found = product(MatmulPath::AsTyped, &Matrices::new(&x, &[1], &[2, 4], &[0, 3]).unwrap(), &right).unwrap();
        let moved = permuted(&x, &[1, 2, 4, 0, 3]).unwrap();
        let dense = moved.reinterpreted(x.kind().with_shape(&[2, 20, 150])).unwrap();
        let left = Matrices::new(&dense, &[0], &[1], &[2]).unwrap();
        assert_eq!(found, product(MatmulPath::AsTyped, &left, &right).unwrap());
        let (a, b) = (dense.floats().unwrap(), y.floats().unwrap());
        for (place, &value) in found.iter().enumerate() {
            let (batch, row, column) = (place / 140, place / 7 % 20, place % 7);
            let mut truth = 0.0f64;
            for k in 0..150 {
                truth += f64::from(a[(batch * 20 + row) * 150 + k]) * f64::from(b[(batch * 150 + k) * 7 + column]);
            }
            assert!((f64::from(value) - truth).abs() < 1e-4, "{place}: {value} is not {truth}");
        }
    }

    #[test]
    fn test_strides_serve_for_a_transposed_operand() {
        let x = tensor(DType::BFloat16, &[6, 4], 3);
        let matrices = Matrices::new(&x, &[], &[1], &[0]).unwrap();
        assert!(matches!(matrices.tensor, Cow::Borrowed(_)));
        assert_eq!((matrices.shape, matrices.strides), (vec![4, 6], vec![1, 4]));
    }

    #[test]
    fn test_paths_round_their_operands() {
        let (x, y) = (tensor(DType::Float32, &[3, 40], 4), tensor(DType::Float32, &[40, 5], 5));
        let (left, right) = (Matrices::new(&x, &[], &[0], &[1]).unwrap(), Matrices::new(&y, &[], &[0], &[1]).unwrap());
        let exact = product(MatmulPath::AsTyped, &left, &right).unwrap();
        let mut last = 0.0;
        for (path, bound) in [(MatmulPath::Bf16, 0.03), (MatmulPath::Mxfp8, 0.4), (MatmulPath::Mxfp4, 3.0)] {
            let found = product(path, &left, &right).unwrap();
            let error = found.iter().zip(&exact).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
            assert!(last < error && error < bound, "{path}: {error}");
            last = error;
        }
    }

    #[test]
    fn test_zeros_fill_the_last_block() {
        // 33 k are 64 with zeros: the same bits as with zeros written out.
        let (x, y) = (tensor(DType::Float32, &[2, 2, 33], 6), tensor(DType::Float32, &[2, 33, 3], 7));
        let zeros = |tensor: &Tensor, axis: usize| {
            let mut shape = tensor.shape().to_vec();
            shape[axis] = 64;
            let mut values = vec![0.0; shape.iter().product()];
            let inner: usize = shape[axis + 1..].iter().product();
            for (to, from) in values.chunks_mut(64 * inner).zip(tensor.floats().unwrap().chunks(33 * inner)) {
                to[..from.len()].copy_from_slice(from);
            }
            Tensor::from_floats(tensor.kind().with_shape(&shape), values).unwrap()
        };
        let (wide_x, wide_y) = (zeros(&x, 2), zeros(&y, 1));
        let run = |x: &Tensor, y: &Tensor| {
            let left = Matrices::new(x, &[0], &[1], &[2]).unwrap();
            product(MatmulPath::Mxfp8, &left, &Matrices::new(y, &[0], &[1], &[2]).unwrap()).unwrap()
        };
        assert_eq!(run(&x, &y), run(&wide_x, &wide_y));
        let float8 = tensor(DType::Float8E4M3, &[2, 2, 33], 6);
        let bfloat16 = Tensor::from_floats(x.kind().with_dtype(DType::BFloat16), float8.floats().unwrap().into_owned());
        assert_eq!(run(&float8, &y), run(&bfloat16.unwrap(), &y));
    }

    #[test]
    fn test_whole_numbers_are_exact() {
        let kind = TensorType::new(DType::Int32, &[2, 2]);
        let x = Tensor::from_integers(kind.clone(), [i64::from(i32::MAX), 2, -3, 4]).unwrap();
        let y = Tensor::from_integers(kind.clone(), [2, 0, 1, -1]).unwrap();
        let right = Matrices::new(&y, &[], &[0], &[1]).unwrap();
        let found = integer_product(&Matrices::new(&x, &[], &[0], &[1]).unwrap(), &right).unwrap();
        assert_eq!(found, [2 * i64::from(i32::MAX) + 2, -2, -2, -4]);
        let turned = integer_product(&Matrices::new(&x, &[], &[1], &[0]).unwrap(), &right).unwrap();
        assert_eq!(turned, [2 * i64::from(i32::MAX) - 3, 3, 8, -4]);
    }

    #[test]
    fn test_nothing_to_sum_is_zero() {
        let (x, y) = (tensor(DType::Float32, &[2, 0], 1), tensor(DType::Float32, &[0, 3], 1));
        for path in MatmulPath::ALL {
            let left = Matrices::new(&x, &[], &[0], &[1]).unwrap();
            let found = product(path, &left, &Matrices::new(&y, &[], &[0], &[1]).unwrap()).unwrap();
            assert_eq!(found, [0.0; 6], "{path}");
        }
    }
}
