//! What can be wrong with a file.

use std::fmt::Write;

use crate::limits::{DTYPES, MAX_AXES, MAX_HEADER_BYTES};

/// Longest piece of a file that a message repeats, in characters.
const SHOWN: usize = 80;

/// Why a file was not opened or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses it.
    /// A directory.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not the safetensors file it claims to be.
    #[error(transparent)]
    Refused(#[from] Problem),
}

/// What about a file, or its header, is not as it must be. Names and values stand as [`quoted`] and shortened texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "fields are the words of the messages above them")]
pub enum Problem {
    #[error("is a directory; a safetensors file is needed")]
    Directory,
    /// A pipe, a device, a socket.
    #[error("is not a regular file; a safetensors file is needed")]
    NotRegular,
    /// Too short to begin.
    #[error("not a safetensors file: it holds {bytes} bytes, and the header's length alone takes 8")]
    TooShort { bytes: u64 },
    /// A header longer than the file.
    #[error("not a safetensors file, or a truncated one: it announces a header of {length} bytes, and {follow} follow")]
    HeaderBeyondEnd { length: u64, follow: u64 },
    /// A header longer than any real one.
    #[error("header of {length} bytes; at most {MAX_HEADER_BYTES} are accepted")]
    HeaderTooLong { length: u64 },
    /// Something else than an object.
    #[error("not a safetensors file: its header does not start with '{{'")]
    NoBrace,
    /// Bytes that are no text.
    #[error("header is not UTF-8 (byte {byte})")]
    NotUtf8 { byte: usize },
    /// A text that is no JSON.
    #[error("header is not JSON: {reason}")]
    NotJson { reason: String },
    /// NaN or an infinity, which some programs write.
    #[error("header holds {text}, which is not JSON")]
    Constant { text: &'static str },
    /// More objects and lists in one another than anything needs.
    #[error("header is nested too deeply")]
    TooDeep,
    /// A number beyond all floats.
    #[error("header holds an absurdly long number")]
    LongNumber,
    /// JSON can spell it, no UTF-8 file can hold it.
    #[error("header holds a text that is not valid Unicode: half a surrogate pair")]
    NotUnicode,
    /// One key twice in an object, of which readers choose differently.
    #[error("header has {name} twice")]
    Twice { name: String },
    /// Metadata of another form.
    #[error("__metadata__ must map strings to strings")]
    Metadata,
    /// A tensor that is not described.
    #[error("tensor {name} must have a dtype, a shape and data_offsets")]
    NotDescribed { name: String },
    /// A dtype that the format does not have.
    #[error("tensor {name} has unknown dtype {dtype}; known are {}", DTYPES.join(", "))]
    UnknownDtype { name: String, dtype: String },
    /// A shape that no array can have.
    #[error("tensor {name} has shape {shape}; at most {MAX_AXES} whole numbers from 0 to 2^63 - 1 are allowed")]
    Shape { name: String, shape: String },
    /// Offsets that are no range.
    #[error("tensor {name} has data_offsets {offsets}; [begin, end] is needed")]
    Offsets { name: String, offsets: String },
    /// Values of less than a byte, an odd number of them.
    #[error("tensor {name}: {dtype} values of shape {shape} do not fill whole bytes")]
    HalfByte { name: String, dtype: String, shape: String },
    /// A shape and offsets that do not agree.
    #[error("tensor {name}: {dtype} of shape {shape} takes {needed} bytes, its offsets give {given}")]
    Size { name: String, dtype: String, shape: String, needed: String, given: u64 },
    /// Bytes of two tensors.
    #[error("tensor {name} overlaps another at byte {byte}")]
    Overlap { name: String, byte: u64 },
    /// Bytes of none.
    #[error("bytes {begin} to {end} of the data belong to no tensor (before {name})")]
    Hole { begin: u64, end: u64, name: String },
    /// Less data than described.
    #[error("truncated: its tensors take {needed} bytes, {held} follow the header")]
    Truncated { needed: u64, held: u64 },
    /// More data than described.
    #[error("{bytes} bytes after the last tensor belong to none")]
    Beyond { bytes: u64 },
    /// What the library finds wrong beyond that.
    #[error("header is refused by the safetensors library: {reason}")]
    Library { reason: String },
    /// Less to read than when the header was checked.
    #[error("ended inside {place}: the file has changed")]
    Ended { place: String },
}

/// A text as messages repeat it: in quotes, control characters escaped, shortened.
///
/// ```
/// assert_eq!(trn3_checkpoint::quoted("w\x1b[31m"), r"'w\u{1b}[31m'");
/// ```
pub fn quoted(text: &str) -> String {
    let mut shown = String::from("'");
    for letter in text.chars() {
        if shown.len() > SHOWN {
            return shown + "...";
        }
        match letter {
            '\'' => shown.push_str("\\'"),
            '"' => shown.push('"'),
            // A write to a String cannot fail.
            _ => drop(write!(shown, "{}", letter.escape_debug())),
        }
    }
    shown + "'"
}

/// A list as messages repeat it.
pub(crate) fn listed(items: &[String]) -> String {
    let mut shown = String::from("[");
    for (at, item) in items.iter().enumerate() {
        if shown.len() > SHOWN {
            return shown + "...";
        }
        shown.push_str(if at > 0 { ", " } else { "" });
        shown.push_str(item);
    }
    shown + "]"
}
