//! Entry points that take arrays: any structures over buffers of known size. Those that describe memory beyond them, which
//! the library cannot know, are left out; everything else must give a status.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use trn3_capi::*;

const BYTES: usize = 1 << 14;
const LENGTHS: [i64; 10] = [32, 4, 1, 2, 16, 3, 64, 0, 33, -1];

#[derive(Arbitrary, Debug)]
struct Description {
    dtype: u8,
    axes: u8,
    offset: u16,
    /// Of LENGTHS, so that shapes of several arrays fit one another now and then.
    shape: [u8; 3],
    strides: Option<[i16; 3]>,
    odd: Option<(u8, i64)>,
}

#[derive(Arbitrary, Debug)]
struct Input {
    operation: u8,
    arrays: [Description; 4],
    number: i64,
    options: (u32, u32),
    scratch: u16,
    contents: Vec<u8>,
}

impl Description {
    fn array(&self, memory: &mut [u64]) -> Option<trn3_array_mut> {
        let mut shape = [0; TRN3_MAX_AXES];
        let mut strides = [0; TRN3_MAX_AXES];
        for axis in 0..3 {
            shape[axis] = LENGTHS[usize::from(self.shape[axis]) % LENGTHS.len()];
            strides[axis] = self.strides.map_or(0, |strides| i64::from(strides[axis]));
        }
        let (dtype, mut ndim) = (u32::from(self.dtype % 12), u32::from(self.axes % 4));
        match self.odd {
            Some((0, value)) => shape[0] = value,
            Some((1, value)) => strides[0] = value,
            Some((2, value)) => ndim = value as u32,
            _ => {}
        }
        let item: i128 = match dtype {
            1 | 2 => 4,
            3 | 4 => 2,
            _ => 1,
        };
        let offset = usize::from(self.offset) % BYTES;
        let lengths = shape.get(..ndim as usize).unwrap_or_default();
        let is_default = strides[..lengths.len()].iter().all(|&stride| stride == 0);
        let (mut low, mut high, mut step) = (0i128, item, item);
        for (axis, &length) in lengths.iter().enumerate().rev() {
            let stride = if is_default { step } else { i128::from(strides[axis]) };
            let reach = (i128::from(length) - 1).saturating_mul(stride);
            (low, high) = (low.saturating_add(reach.min(0)), high.saturating_add(reach.max(0)));
            step = step.saturating_mul(i128::from(length.max(1)));
        }
        let is_beyond = low < -(offset as i128) || high > (BYTES - offset) as i128;
        if is_beyond && lengths.iter().all(|&length| length > 0) {
            return None;
        }
        let data = memory.as_mut_ptr().cast::<u8>().wrapping_add(offset).cast();
        Some(trn3_array_mut { size: size_of::<trn3_array_mut>(), data, dtype, ndim, shape, strides })
    }
}

fuzz_target!(|input: Input| {
    let mut memories = vec![vec![0u64; BYTES / 8]; 4];
    for (index, &byte) in input.contents.iter().enumerate() {
        memories[index % 4][index / 4 % (BYTES / 8)] ^= u64::from(byte).wrapping_mul(0x0101_0040_8001_0203);
    }
    let mut arrays = Vec::new();
    for (index, description) in input.arrays.iter().enumerate() {
        // One in four shares the memory of the one before.
        let memory = index - usize::from(index > 0 && description.offset >> 14 == 3);
        let Some(array) = description.array(&mut memories[memory]) else { return };
        arrays.push(array);
    }
    let read = |index: usize| (&raw const arrays[index]).cast::<trn3_array>();
    let (x, y, z, out) = (read(0), read(1), read(2), &raw const arrays[3]);
    let second: *const trn3_array_mut = &raw const arrays[2];
    let mut room = vec![0u64; BYTES];
    let size = usize::from(input.scratch) % (8 * BYTES);
    let scratch = room.as_mut_ptr().cast();
    let (rule, mode) = input.options;
    let rounding = trn3_rounding {
        size: size_of::<trn3_rounding>(),
        rounding: mode % 3,
        overflow: mode >> 8 & 1,
        draws: std::ptr::null(),
        draw_count: 0,
        generator: std::ptr::null_mut(),
    };
    let rounding = if mode & 4 == 0 { std::ptr::null() } else { &raw const rounding };
    let mx =
        |elements, scales| trn3_mx_array { size: size_of::<trn3_mx_array>(), elements, scales, axis: input.number };
    let mut indices: Vec<u8> = input.contents.iter().map(|byte| byte % 18).collect();
    let index_count = indices.len();
    let (keep, group) = [(4, 16), (4, 12), (4, 8), (2, 8), (2, 4), (1, 4), (1, 2), (rule, mode)][rule as usize % 8];
    let sparse = trn3_sparse_array {
        size: size_of::<trn3_sparse_array>(),
        values: y,
        indices: indices.as_ptr(),
        index_count,
        keep,
        group,
    };
    // SAFETY: every array lies in memory that exists, or describes none that can.
    let status = unsafe {
        match input.operation % 9 {
            0 => trn3_cast(x, out, rounding, scratch, size),
            1 => trn3_activation(x, rule % 30, mode, out, scratch, size),
            2 => trn3_exp(x, out, std::ptr::null(), scratch, size),
            3 => trn3_matmul(x, y, if mode & 8 == 0 { std::ptr::null() } else { z }, out, rounding, scratch, size),
            4 => trn3_matmul_mx(&mx(x, y), &mx(y, z), std::ptr::null(), out, rounding, scratch, size),
            5 => trn3_quantize_mx(x, input.number, rule % 5, second, out, rounding, scratch, size),
            6 => trn3_dequantize_mx(&mx(x, y), out, scratch, size),
            7 => trn3_matmul_sparse(x, &sparse, std::ptr::null(), out, rounding, scratch, size),
            _ => trn3_compress(x, keep, group, input.number, out, indices.as_mut_ptr(), index_count),
        }
    };
    assert_ne!(status, TRN3_INTERNAL, "{:?}", std::hint::black_box(&input));
});
