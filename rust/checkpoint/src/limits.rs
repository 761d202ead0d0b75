//! What a header may have.

/// The longest header that is read, in bytes; the reference implementation refuses longer ones too, and real ones take
/// a few megabytes.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The most axes of a shape, as NumPy has it.
pub const MAX_AXES: usize = 64;

/// The dtypes of the format.
pub(crate) const DTYPES: [&str; 22] = [
    "BOOL",
    "U8",
    "I8",
    "U16",
    "I16",
    "U32",
    "I32",
    "U64",
    "I64",
    "F16",
    "BF16",
    "F32",
    "F64",
    "C64",
    "F8_E4M3",
    "F8_E5M2",
    "F8_E8M0",
    "F8_E4M3FNUZ",
    "F8_E5M2FNUZ",
    "F6_E2M3",
    "F6_E3M2",
    "F4",
];
