//! Dtypes by number.

use trn3_numerics::Format;

use crate::guard::guard;
use crate::pointers::Place;
use crate::status::{Fault, Result, Status, trn3_status};

/// A number format: one of the TRN3_DTYPE constants. Names and codes are those of NumPy and ml_dtypes.
pub type trn3_dtype = u32;

/// IEEE binary32.
pub const TRN3_DTYPE_FLOAT32: trn3_dtype = 1;
/// Float32 storage whose low 13 mantissa bits are zero.
pub const TRN3_DTYPE_TFLOAT32: trn3_dtype = 2;
/// IEEE binary16.
pub const TRN3_DTYPE_FLOAT16: trn3_dtype = 3;
/// The upper half of a float32.
pub const TRN3_DTYPE_BFLOAT16: trn3_dtype = 4;
/// 8 bits, 4 exponent and 3 mantissa bits, no infinity; largest value 448.
pub const TRN3_DTYPE_FLOAT8_E4M3FN: trn3_dtype = 5;
/// 8 bits, 5 exponent and 2 mantissa bits; largest value 57344.
pub const TRN3_DTYPE_FLOAT8_E5M2: trn3_dtype = 6;
/// 8 bits, IEEE-like, 4 exponent and 3 mantissa bits; largest value 240.
pub const TRN3_DTYPE_FLOAT8_E4M3: trn3_dtype = 7;
/// 8 bits, IEEE-like, 3 exponent and 4 mantissa bits; largest value 15.5.
pub const TRN3_DTYPE_FLOAT8_E3M4: trn3_dtype = 8;
/// 4 bits, one element a byte in its low half; largest value 6.
pub const TRN3_DTYPE_FLOAT4_E2M1FN: trn3_dtype = 9;
/// The scale of an MX block: a power of two, 255 is NaN.
pub const TRN3_DTYPE_FLOAT8_E8M0FNU: trn3_dtype = 10;

const FORMATS: [(trn3_dtype, Format); 10] = [
    (TRN3_DTYPE_FLOAT32, Format::F32),
    (TRN3_DTYPE_TFLOAT32, Format::Tf32),
    (TRN3_DTYPE_FLOAT16, Format::F16),
    (TRN3_DTYPE_BFLOAT16, Format::Bf16),
    (TRN3_DTYPE_FLOAT8_E4M3FN, Format::F8E4M3Fn),
    (TRN3_DTYPE_FLOAT8_E5M2, Format::F8E5M2),
    (TRN3_DTYPE_FLOAT8_E4M3, Format::F8E4M3),
    (TRN3_DTYPE_FLOAT8_E3M4, Format::F8E3M4),
    (TRN3_DTYPE_FLOAT4_E2M1FN, Format::F4E2M1Fn),
    (TRN3_DTYPE_FLOAT8_E8M0FNU, Format::F8E8M0Fnu),
];

/// The format of a dtype.
#[inline]
pub(crate) fn format(argument: &str, dtype: trn3_dtype) -> Result<Format> {
    let known = (dtype as usize).checked_sub(1).and_then(|index| FORMATS.get(index));
    known.map(|(_, format)| *format).ok_or_else(|| unknown(argument, dtype))
}

#[cold]
fn unknown(argument: &str, dtype: trn3_dtype) -> Fault {
    let names = FORMATS.map(|(number, format)| format!("{number} {format}")).join(", ");
    Fault::new(Status::Type, format!("{argument} has dtype {dtype}; allowed: {names}"))
}

/// Bytes that an element of a dtype takes in an array.
///
/// TYPE: there is no such dtype.
///
/// # Safety
/// `size` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_dtype_size(dtype: trn3_dtype, size: *mut usize) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let size = unsafe { Place::new(size, "size") }?;
        size.put(format("dtype", dtype)?.item_size());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_format_finds_each_dtype_by_its_number() {
        for (number, expected) in FORMATS {
            assert_eq!(format("x", number).expect("known"), expected);
        }
        assert_eq!(FORMATS.len(), Format::ALL.len());
        for number in [0, 11, u32::MAX] {
            assert_eq!(format("x", number).expect_err("unknown").status, Status::Type);
        }
    }
}
