//! The number formats, as data: every encoder, decoder, printer and test reads this table.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// A number format. Names follow `ml_dtypes` and NumPy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// IEEE binary32.
    F32,
    /// Float32 storage with the low 13 mantissa bits zero (10 explicit mantissa bits).
    Tf32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a float32.
    Bf16,
    /// 8 bits, 4 exponent and 3 mantissa bits, no infinity, one NaN magnitude; largest value 448.
    F8E4M3Fn,
    /// 8 bits, 5 exponent and 2 mantissa bits, with infinities; largest value 57344.
    F8E5M2,
    /// 8 bits, IEEE-like, 4 exponent and 3 mantissa bits, with infinities; largest value 240.
    F8E4M3,
    /// 8 bits, IEEE-like, 3 exponent and 4 mantissa bits, with infinities; largest value 15.5.
    F8E3M4,
    /// 4 bits (one per byte in memory), no infinity and no NaN; largest value 6.
    F4E2M1Fn,
    /// The MX block scale: a biased power of two, no sign, no zero, code 255 is NaN.
    F8E8M0Fnu,
}

/// What there is to know of a signed format of at most 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatSpec {
    /// The `ml_dtypes` or NumPy name.
    pub name: &'static str,
    /// Width of a code in bits (tfloat32 is kept in 32).
    pub bits: u32,
    /// Explicit mantissa bits.
    pub mantissa_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Code of the largest finite value.
    pub max_code: u32,
    /// Code of positive infinity, where the format has one.
    pub infinity: Option<u32>,
    /// Code of the canonical NaN, positive; where there is none, NaN becomes +0 (a model choice).
    pub nan: Option<u32>,
}

impl FormatSpec {
    /// Exponent of the smallest normal number.
    pub const fn min_exponent(&self) -> i32 {
        1 - self.bias
    }

    /// Exponent of the largest finite number (the MX `Emax`).
    pub const fn max_exponent(&self) -> i32 {
        (self.max_code >> self.mantissa_bits) as i32 - self.bias
    }
}

const F32: FormatSpec = FormatSpec {
    name: "float32",
    bits: 32,
    mantissa_bits: 23,
    bias: 127,
    max_code: 0x7f7f_ffff,
    infinity: Some(0x7f80_0000),
    nan: Some(0x7fc0_0000),
};
/// As a 19-bit code (sign, 8 exponent, 10 mantissa bits); storage shifts it up by 13.
const TF32: FormatSpec = FormatSpec {
    name: "tfloat32",
    bits: 19,
    mantissa_bits: 10,
    bias: 127,
    max_code: 0x3_fbff,
    infinity: Some(0x3_fc00),
    nan: Some(0x3_fe00),
};
const F16: FormatSpec = FormatSpec {
    name: "float16",
    bits: 16,
    mantissa_bits: 10,
    bias: 15,
    max_code: 0x7bff,
    infinity: Some(0x7c00),
    nan: Some(0x7e00),
};
const BF16: FormatSpec = FormatSpec {
    name: "bfloat16",
    bits: 16,
    mantissa_bits: 7,
    bias: 127,
    max_code: 0x7f7f,
    infinity: Some(0x7f80),
    nan: Some(0x7fc0),
};
const F8E4M3FN: FormatSpec = FormatSpec {
    name: "float8_e4m3fn",
    bits: 8,
    mantissa_bits: 3,
    bias: 7,
    max_code: 0x7e,
    infinity: None,
    nan: Some(0x7f),
};
const F8E5M2: FormatSpec = FormatSpec {
    name: "float8_e5m2",
    bits: 8,
    mantissa_bits: 2,
    bias: 15,
    max_code: 0x7b,
    infinity: Some(0x7c),
    nan: Some(0x7e),
};
const F8E4M3: FormatSpec = FormatSpec {
    name: "float8_e4m3",
    bits: 8,
    mantissa_bits: 3,
    bias: 7,
    max_code: 0x77,
    infinity: Some(0x78),
    nan: Some(0x7c),
};
const F8E3M4: FormatSpec = FormatSpec {
    name: "float8_e3m4",
    bits: 8,
    mantissa_bits: 4,
    bias: 3,
    max_code: 0x6f,
    infinity: Some(0x70),
    nan: Some(0x78),
};
const F4E2M1FN: FormatSpec =
    FormatSpec { name: "float4_e2m1fn", bits: 4, mantissa_bits: 1, bias: 1, max_code: 0x7, infinity: None, nan: None };
/// Unsigned and without a mantissa: only `name` and `bits` mean the usual thing.
const F8E8M0FNU: FormatSpec = FormatSpec {
    name: "float8_e8m0fnu",
    bits: 8,
    mantissa_bits: 0,
    bias: 127,
    max_code: 0xfe,
    infinity: None,
    nan: Some(0xff),
};

impl Format {
    /// Every format, widest first.
    pub const ALL: [Format; 10] = [
        Format::F32,
        Format::Tf32,
        Format::F16,
        Format::Bf16,
        Format::F8E4M3Fn,
        Format::F8E5M2,
        Format::F8E4M3,
        Format::F8E3M4,
        Format::F4E2M1Fn,
        Format::F8E8M0Fnu,
    ];

    /// The format's figures.
    ///
    /// ```
    /// use trn3_numerics::Format;
    /// assert_eq!(Format::F8E4M3Fn.spec().max_exponent(), 8);
    /// ```
    pub const fn spec(self) -> &'static FormatSpec {
        match self {
            Format::F32 => &F32,
            Format::Tf32 => &TF32,
            Format::F16 => &F16,
            Format::Bf16 => &BF16,
            Format::F8E4M3Fn => &F8E4M3FN,
            Format::F8E5M2 => &F8E5M2,
            Format::F8E4M3 => &F8E4M3,
            Format::F8E3M4 => &F8E3M4,
            Format::F4E2M1Fn => &F4E2M1FN,
            Format::F8E8M0Fnu => &F8E8M0FNU,
        }
    }

    /// Bytes one element takes in an unpacked array (fp4 takes one).
    pub const fn item_size(self) -> usize {
        match self {
            Format::F32 | Format::Tf32 => 4,
            Format::F16 | Format::Bf16 => 2,
            _ => 1,
        }
    }

    /// The exact value of one code as float32 (every format here is a subset of float32); NaN is canonical.
    ///
    /// ```
    /// use trn3_numerics::Format;
    /// assert_eq!(Format::F8E5M2.decode_code(0x7b), 57344.0);
    /// assert_eq!(Format::F8E8M0Fnu.decode_code(126), 0.5);
    /// ```
    pub fn decode_code(self, code: u32) -> f32 {
        let nan = f32::from_bits(0x7fc0_0000);
        if self == Format::F8E8M0Fnu {
            let exponent = code & 0xff;
            return match exponent {
                255 => nan,
                0 => f32::from_bits(0x0040_0000),
                _ => f32::from_bits(exponent << 23),
            };
        }
        let spec = self.spec();
        let sign = (code >> (spec.bits - 1)) & 1;
        let magnitude = code & ((1 << (spec.bits - 1)) - 1);
        let value = if spec.infinity == Some(magnitude) {
            f32::INFINITY
        } else if magnitude > spec.max_code {
            return nan;
        } else {
            let field = (magnitude >> spec.mantissa_bits) as i32;
            let fraction = magnitude & ((1 << spec.mantissa_bits) - 1);
            let (significand, exponent) = if field == 0 {
                (fraction, 1 - spec.bias)
            } else {
                (fraction | 1 << spec.mantissa_bits, field - spec.bias)
            };
            // Exact in float64, whose range holds every product here; and the value is a float32.
            (f64::from(significand) * 2f64.powi(exponent - spec.mantissa_bits as i32)) as f32
        };
        if sign == 1 { -value } else { value }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().name)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Format::ALL
            .into_iter()
            .find(|format| format.spec().name == name)
            .ok_or_else(|| Error::dtype("dtype", name, Format::ALL.map(|format| format.to_string()).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_decode_code_agrees_with_float32_and_half() {
        for code in 0..=0xffffu32 {
            let ours = Format::Bf16.decode_code(code);
            let theirs = f32::from_bits(code << 16);
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
            let ours = Format::F16.decode_code(code);
            let theirs = half::f16::from_bits(code as u16).to_f32();
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        }
    }

    #[test]
    fn test_largest_values_are_the_published_ones() {
        let largest = |format: Format| format.decode_code(format.spec().max_code);
        assert_eq!(largest(Format::F8E4M3Fn), 448.0);
        assert_eq!(largest(Format::F8E5M2), 57344.0);
        assert_eq!(largest(Format::F8E4M3), 240.0);
        assert_eq!(largest(Format::F8E3M4), 15.5);
        assert_eq!(largest(Format::F4E2M1Fn), 6.0);
        assert_eq!(largest(Format::F16), 65504.0);
    }

    #[test]
    fn test_overflow_code_follows_the_largest_finite_one() {
        for format in Format::ALL {
            let spec = format.spec();
            if format != Format::F4E2M1Fn && format != Format::F8E8M0Fnu {
                assert_eq!(spec.infinity.or(spec.nan), Some(spec.max_code + 1), "{format}");
            }
        }
    }

    #[test]
    fn test_names_round_trip() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>(), Ok(format));
        }
        assert!("float9".parse::<Format>().is_err());
    }
}
