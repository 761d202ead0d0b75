//! Tensors of a program: what is declared of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dtype::DType;
use crate::storage::Buffer;

/// What a tensor is to whoever runs the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The host fills it before a run.
    Input,
    /// A run fills it; at its start it is uninitialised.
    Output,
    /// Both.
    Inout,
    /// Filled once, with the data that the program has.
    Constant,
    /// The program's own; at the start of a run it is uninitialised if it lies in HBM, and as it was on chip.
    #[default]
    Internal,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Name, one of its own.
    pub name: String,
    /// `sbuf`, `psum`, `hbm` or `shared_hbm`.
    pub space: String,
    /// Lengths, on chip partitions first.
    pub shape: Vec<usize>,
    /// Element type, as `nki.language` spells it.
    pub dtype: String,
    /// On chip: first partition and first byte in each. In HBM: first byte; None: a place is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Place>,
    /// What it is to whoever runs the program.
    #[serde(default, skip_serializing_if = "is_internal")]
    pub role: Role,
    /// Contents in hexadecimal digits, two a byte; of constants, and of inputs that were recorded with theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// Partition and byte.
    OnChip([usize; 2]),
    /// Byte of HBM.
    Hbm(u64),
}

/// One of a kernel's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Name: of the tensor, or of the place in what the kernel returned.
    pub name: String,
    /// The view of a tensor.
    pub view: Value,
}

fn is_internal(role: &Role) -> bool {
    *role == Role::Internal
}

impl Declaration {
    /// The memory it lies in.
    pub(super) fn buffer(&self) -> Result<Buffer, String> {
        match self.space.as_str() {
            "sbuf" => Ok(Buffer::Sbuf),
            "psum" => Ok(Buffer::Psum),
            "hbm" | "private_hbm" => Ok(Buffer::PrivateHbm),
            "shared_hbm" => Ok(Buffer::SharedHbm),
            other => Err(format!("space is {other:?}; allowed: sbuf, psum, hbm, shared_hbm")),
        }
    }

    /// Its element type.
    pub(super) fn element(&self) -> Result<DType, String> {
        self.dtype.parse().map_err(|error: crate::Error| error.to_string())
    }

    /// Its contents, where it has some.
    pub(super) fn contents(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(digits) = &self.data else { return Ok(None) };
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        let byte = |[high, low]: &[u8; 2]| Some((nibble(*high)? << 4 | nibble(*low)?) as u8);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes.filter(|_| rest.is_empty()).map(Some).ok_or_else(|| "data is no even number of hexadecimal digits".into())
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
