//! Sixteen lanes of 32 bits: the few operations the kernels are written in.
//!
//! Every level has sixteen lanes (AVX2 as two registers, portable as an array), so that a kernel is one text with one
//! blocking. A value of the implementing type proves that its instructions may be used; it can only be made where the
//! features have been detected. Methods are `inline(always)` and carry no target feature of their own: only the
//! outermost kernel does, and the intrinsics are inlined into it.

/// Number of lanes of every level.
pub(crate) const LANES: usize = 16;

/// The operations; each gives the same bits on every level, in the default floating-point environment.
pub(crate) trait Lanes: Copy {
    /// Sixteen float32.
    type F: Copy;
    /// Sixteen 32-bit integers, signedness by operation.
    type I: Copy;
    /// Sixteen booleans.
    type M: Copy;
    /// Sixteen float64.
    type D: Copy;

    /// Whether a fused step is one instruction, so that what it is off by is worth computing.
    const FUSED: bool;

    fn load_f(self, from: &[f32; LANES]) -> Self::F;
    fn store_f(self, value: Self::F, to: &mut [f32; LANES]);
    fn splat_f(self, value: f32) -> Self::F;
    fn load_i(self, from: &[u32; LANES]) -> Self::I;
    fn store_i(self, value: Self::I, to: &mut [u32; LANES]);
    fn splat_i(self, value: u32) -> Self::I;
    /// From memory of any alignment, native byte order.
    fn load_words(self, from: &[u8; 4 * LANES]) -> Self::I;
    /// To memory of any alignment, native byte order; past the caches where it is a cache line, see [`super::settle`].
    fn stream_words(self, value: Self::I, to: &mut [u8; 4 * LANES]);
    /// Zero-extended.
    fn load_u8(self, from: &[u8; LANES]) -> Self::I;
    /// The low 8 bits of each lane.
    fn store_u8(self, value: Self::I, to: &mut [u8; LANES]);
    /// Zero-extended.
    fn load_u16(self, from: &[u16; LANES]) -> Self::I;
    /// The low 16 bits of each lane.
    fn store_u16(self, value: Self::I, to: &mut [u16; LANES]);
    /// The values of sixteen float16 codes, exact; NaN with any payload.
    fn load_f16(self, from: &[u16; LANES]) -> Self::F;

    fn bits(self, value: Self::F) -> Self::I;
    fn float(self, bits: Self::I) -> Self::F;

    fn add_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn sqrt_f(self, a: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// To the nearest integer, ties to even; unspecified outside the range of i32.
    fn nearest_int(self, value: Self::F) -> Self::I;
    /// Toward zero; unspecified outside the range of i32.
    fn trunc_int(self, value: Self::F) -> Self::I;
    /// From signed integers, to nearest.
    fn int_to_float(self, value: Self::I) -> Self::F;

    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a ^ b ^ c`.
    #[inline(always)]
    fn xor_three(self, a: Self::I, b: Self::I, c: Self::I) -> Self::I {
        self.xor(self.xor(a, b), c)
    }
    /// One count for all lanes, below 32.
    fn shl(self, a: Self::I, count: u32) -> Self::I;
    /// Logical, one count for all lanes, below 32.
    fn shr(self, a: Self::I, count: u32) -> Self::I;
    /// A count for each lane; counts of 32 and more (as unsigned) give 0.
    fn shl_each(self, a: Self::I, count: Self::I) -> Self::I;
    /// Logical, a count for each lane; counts of 32 and more (as unsigned) give 0.
    fn shr_each(self, a: Self::I, count: Self::I) -> Self::I;
    fn min_u(self, a: Self::I, b: Self::I) -> Self::I;
    fn max_u(self, a: Self::I, b: Self::I) -> Self::I;
    fn max_s(self, a: Self::I, b: Self::I) -> Self::I;

    /// Unsigned `a < b`.
    fn lt_u(self, a: Self::I, b: Self::I) -> Self::M;
    fn eq(self, a: Self::I, b: Self::I) -> Self::M;
    /// `mask ? a : b`.
    fn select(self, mask: Self::M, a: Self::I, b: Self::I) -> Self::I;
    fn either(self, a: Self::M, b: Self::M) -> Self::M;
    /// Whether any lane is set.
    fn any(self, mask: Self::M) -> bool;

    /// To float64, exact.
    fn widen(self, value: Self::F) -> Self::D;
    /// To float32, nearest even.
    fn narrow(self, value: Self::D) -> Self::F;
    fn splat_d(self, value: f64) -> Self::D;
    fn add_d(self, a: Self::D, b: Self::D) -> Self::D;
    fn sub_d(self, a: Self::D, b: Self::D) -> Self::D;
    fn mul_d(self, a: Self::D, b: Self::D) -> Self::D;
    fn div_d(self, a: Self::D, b: Self::D) -> Self::D;
    fn sqrt_d(self, a: Self::D) -> Self::D;
    /// `a * b + c`, rounded once.
    fn fma_d(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// `a * 2^n`, n the low 12 bits of `n` as two's complement; both `a` and the result must be normal.
    fn scale_d(self, a: Self::D, n: Self::D) -> Self::D;

    /// Transposes a 16 x 16 block in place: lane j of row i becomes lane i of row j.
    fn transpose(self, rows: &mut [Self::I; LANES]);
    /// Lane j becomes the largest lane of row j, as unsigned integers.
    #[inline(always)]
    fn max_across(self, mut rows: [Self::I; LANES]) -> Self::I {
        self.transpose(&mut rows);
        let mut largest = rows[0];
        for lane in 1..LANES {
            largest = self.max_u(largest, rows[lane]);
        }
        largest
    }
    /// Lanes below 2^16, one vector after the other.
    #[inline(always)]
    fn store_u16_pair(self, values: [Self::I; 2], to: &mut [u16; 2 * LANES]) {
        let (vectors, _) = to.as_chunks_mut();
        for place in 0..2 {
            self.store_u16(values[place], &mut vectors[place]);
        }
    }
    /// Lanes below 2^8, one vector after the other.
    #[inline(always)]
    fn store_u8_quad(self, values: [Self::I; 4], to: &mut [u8; 4 * LANES]) {
        let (vectors, _) = to.as_chunks_mut();
        for place in 0..4 {
            self.store_u8(values[place], &mut vectors[place]);
        }
    }
    /// Where either is NaN.
    fn unordered(self, a: Self::F, b: Self::F) -> Self::M;
    #[inline(always)]
    fn is_nan(self, value: Self::F) -> Self::M {
        self.unordered(value, value)
    }
    /// Exchanges the 16-bit halves of each lane.
    #[inline(always)]
    fn swap_halves(self, a: Self::I) -> Self::I {
        self.or(self.shl(a, 16), self.shr(a, 16))
    }
}

/// What functions by tables need besides; a level has it where each is an instruction or two.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Tables: Lanes {
    /// The numbers of the bits `table[index]`, the index taken modulo 32.
    fn lookup_32(self, table: &[u32; 32], index: Self::I) -> Self::F;
    /// The smaller magnitude, with the sign of a; unspecified where either is NaN.
    fn smaller_with_sign(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller; b where they are equal or either is NaN.
    fn min_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Where the numbers are unequal or either is NaN.
    fn differ(self, a: Self::F, b: Self::F) -> Self::M;
    /// The lanes that are set, one after the other, and 0 behind them; how many that are.
    fn pack(self, mask: Self::M, values: Self::I, to: &mut [u32; LANES]) -> usize;
}
