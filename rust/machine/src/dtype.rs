//! The element types of `nki.language`, as data.

use std::fmt;
use std::str::FromStr;

use trn3_numerics::Format;

use crate::error::Error;

/// An element type. Names follow `nki.language`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DType {
    /// 0 or 1 in a byte.
    Bool,
    /// Signed 8 bits.
    Int8,
    /// Signed 16 bits.
    Int16,
    /// Signed 32 bits.
    Int32,
    /// Unsigned 8 bits.
    UInt8,
    /// Unsigned 16 bits.
    UInt16,
    /// Unsigned 32 bits.
    UInt32,
    /// IEEE binary16.
    Float16,
    /// IEEE binary32: what VectorE, ScalarE and PSUM compute in.
    Float32,
    /// The upper half of a float32.
    BFloat16,
    /// Float32 whose low 13 mantissa bits are ignored.
    TFloat32,
    /// 8 bits, largest value 240, with infinities.
    Float8E4M3,
    /// 8 bits, largest value 448, no infinity (OCP).
    Float8E4M3Fn,
    /// 8 bits, largest value 57344, with infinities.
    Float8E5M2,
    /// MX block scale: a biased power of two; 255 is NaN.
    Float8E8M0Fnu,
    /// Four `float8_e4m3fn` in 32 bits, element 0 in the low byte.
    Float8E4M3FnX4,
    /// Four `float8_e5m2` in 32 bits, element 0 in the low byte.
    Float8E5M2X4,
    /// Four `float4_e2m1fn` in 16 bits, element 0 in the low nibble.
    Float4E2M1FnX4,
}

use DType::*;

impl DType {
    /// Every element type.
    pub const ALL: [DType; 18] = [
        Bool,
        Int8,
        Int16,
        Int32,
        UInt8,
        UInt16,
        UInt32,
        Float16,
        Float32,
        BFloat16,
        TFloat32,
        Float8E4M3,
        Float8E4M3Fn,
        Float8E5M2,
        Float8E8M0Fnu,
        Float8E4M3FnX4,
        Float8E5M2X4,
        Float4E2M1FnX4,
    ];

    /// The `nki.language` name.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            Int8 => "int8",
            Int16 => "int16",
            Int32 => "int32",
            UInt8 => "uint8",
            UInt16 => "uint16",
            UInt32 => "uint32",
            Float16 => "float16",
            Float32 => "float32",
            BFloat16 => "bfloat16",
            TFloat32 => "tfloat32",
            Float8E4M3 => "float8_e4m3",
            Float8E4M3Fn => "float8_e4m3fn",
            Float8E5M2 => "float8_e5m2",
            Float8E8M0Fnu => "float8_e8m0fnu",
            Float8E4M3FnX4 => "float8_e4m3fn_x4",
            Float8E5M2X4 => "float8_e5m2_x4",
            Float4E2M1FnX4 => "float4_e2m1fn_x4",
        }
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Bool | Int8 | UInt8 | Float8E4M3 | Float8E4M3Fn | Float8E5M2 | Float8E8M0Fnu => 1,
            Int16 | UInt16 | Float16 | BFloat16 | Float4E2M1FnX4 => 2,
            Int32 | UInt32 | Float32 | TFloat32 | Float8E4M3FnX4 | Float8E5M2X4 => 4,
        }
    }

    /// Whether the type is an integer, `bool` included.
    pub const fn is_integer(self) -> bool {
        matches!(self, Bool | Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32)
    }

    /// Whether the type is signed, of the integers.
    pub const fn is_signed_integer(self) -> bool {
        matches!(self, Int8 | Int16 | Int32)
    }

    /// Whether four elements are packed in one.
    pub const fn is_packed(self) -> bool {
        matches!(self, Float8E4M3FnX4 | Float8E5M2X4 | Float4E2M1FnX4)
    }

    /// Whether the type is an unpacked floating-point type that engines compute with (the block scale is none).
    pub const fn is_float(self) -> bool {
        matches!(self, Float16 | Float32 | BFloat16 | TFloat32 | Float8E4M3 | Float8E4M3Fn | Float8E5M2)
    }

    /// Whether the type is one of the 8-bit floats.
    pub const fn is_float8(self) -> bool {
        matches!(self, Float8E4M3 | Float8E4M3Fn | Float8E5M2)
    }

    /// The arithmetic core's format: of an unpacked float, or of the elements of a packed type.
    pub const fn format(self) -> Option<Format> {
        Some(match self {
            Float16 => Format::F16,
            Float32 => Format::F32,
            BFloat16 => Format::Bf16,
            TFloat32 => Format::Tf32,
            Float8E4M3 => Format::F8E4M3,
            Float8E4M3Fn | Float8E4M3FnX4 => Format::F8E4M3Fn,
            Float8E5M2 | Float8E5M2X4 => Format::F8E5M2,
            Float8E8M0Fnu => Format::F8E8M0Fnu,
            Float4E2M1FnX4 => Format::F4E2M1Fn,
            _ => return None,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| {
            let allowed = DType::ALL.map(DType::name).join(", ");
            Error::Type(format!("dtype is {name}; allowed: {allowed}"))
        })
    }
}
