//! What a run did that is no error on the hardware and yet no kernel means.

use std::fmt;

use crate::dtype::DType;
use crate::site::SiteId;

/// Something a kernel's author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Memory was read that nothing had written. Once for each tensor and reading line.
    UninitialisedRead {
        /// Name of the tensor.
        tensor: String,
        /// Line that read.
        reader: SiteId,
        /// Line that made the tensor.
        allocated: SiteId,
        /// Partition of the first such element, from the tensor's first one on; 0 in HBM.
        partition: usize,
        /// Byte of the first such element: from the tensor's first one on in its partition, or in the HBM tensor.
        byte: usize,
        /// Elements read so, by the first such read.
        count: usize,
    },
    /// Rows of an indirect transfer were left out because their index lies outside the tensor.
    OutOfBoundsSkipped {
        /// Name of the tensor that was indexed.
        tensor: String,
        /// Line of the transfer.
        reader: SiteId,
        /// First index outside.
        index: i64,
        /// Rows left out, by the first such transfer.
        count: usize,
    },
    /// Two cores used the same bytes of shared HBM, at least one writing, and did not meet in between. Once for each
    /// tensor and line of the later use.
    Race {
        /// Name of the tensor.
        tensor: String,
        /// Line of the later use.
        reader: SiteId,
        /// Core of the later use.
        core: usize,
        /// Whether the later use is a write.
        writes: bool,
        /// Core of the earlier use.
        other: usize,
        /// Line of the earlier use.
        other_line: SiteId,
        /// Whether the earlier use is a write.
        other_writes: bool,
        /// First byte that both used.
        byte: usize,
    },
    /// A matmul accumulated onto PSUM that no matmul had written.
    UnwrittenAccumulation {
        /// Name of the tensor.
        tensor: String,
        /// Line of the matmul.
        reader: SiteId,
        /// Line that made the tensor.
        allocated: SiteId,
    },
    /// An instruction wrote the first NaN, or the first infinity, where nothing that it read held one. Once for each
    /// line, instruction and origin; what later instructions make of it is not reported.
    NonFinite {
        /// Line of the instruction.
        reader: SiteId,
        /// The instruction.
        instruction: &'static str,
        /// Name of the tensor that was written.
        tensor: String,
        /// Its type.
        dtype: DType,
        /// Whether it is a NaN; else an infinity.
        is_nan: bool,
        /// First such element, along each axis of the operand.
        element: Vec<usize>,
        /// Such elements, of the first such write.
        count: usize,
        /// Where it came from.
        origin: Origin,
    },
    /// Elements that a function of ScalarE took lie outside the range for which its result is documented to be valid.
    /// Once for each line and function, with all its elements.
    OutsideRange {
        /// Line of the instruction.
        reader: SiteId,
        /// Name of the tensor read.
        tensor: String,
        /// The function.
        function: &'static str,
        /// Smallest and largest magnitude of the range, as text.
        range: (String, String),
        /// Elements outside.
        count: u64,
        /// All elements that the function took on this line.
        elements: u64,
        /// First element outside, as text.
        first: String,
    },
    /// A tensor was read whose bytes another tensor at the same address had overwritten.
    UseAfterReuse {
        /// Name of the tensor read.
        tensor: String,
        /// Line that read.
        reader: SiteId,
        /// Line that made the tensor read.
        allocated: SiteId,
        /// Name of the tensor that has the bytes now.
        other: String,
        /// Line that wrote it.
        other_line: SiteId,
    },
}

/// Where a NaN or an infinity came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The instruction computed it from numbers; for a NaN: whether infinities were among them.
    Computed {
        /// Whether what was read held infinities.
        from_infinity: bool,
    },
    /// The result was a number, this one, beyond what the written type holds.
    Overflow {
        /// The number.
        value: String,
    },
    /// The instruction read memory that nothing had written.
    Uninitialised {
        /// Name of the tensor read.
        tensor: String,
    },
    /// A tensor that no instruction made held it, an argument of the kernel.
    Argument {
        /// Name of the tensor.
        tensor: String,
    },
}

impl Origin {
    /// A word for it, as findings in Python have it.
    pub fn name(&self) -> &'static str {
        match self {
            Origin::Computed { .. } => "computed",
            Origin::Overflow { .. } => "overflow",
            Origin::Uninitialised { .. } => "uninitialized_memory",
            Origin::Argument { .. } => "argument",
        }
    }
}

impl Finding {
    /// Line that the finding is about.
    pub fn reader(&self) -> SiteId {
        match self {
            Finding::UninitialisedRead { reader, .. }
            | Finding::OutOfBoundsSkipped { reader, .. }
            | Finding::Race { reader, .. }
            | Finding::UnwrittenAccumulation { reader, .. }
            | Finding::NonFinite { reader, .. }
            | Finding::OutsideRange { reader, .. }
            | Finding::UseAfterReuse { reader, .. } => *reader,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::UninitialisedRead { tensor, partition, byte, count, .. } => write!(
                formatter,
                "tensor `{tensor}`: {count} uninitialised elements read, the first at partition {partition}, \
                 byte {byte}"
            ),
            Finding::OutOfBoundsSkipped { tensor, index, count, .. } => {
                write!(formatter, "tensor `{tensor}`: {count} rows skipped, the first has index {index}")
            }
            Finding::Race { tensor, core, writes, other, other_writes, byte, .. } => {
                let verb = |writes: &bool| if *writes { "writes" } else { "reads" };
                write!(
                    formatter,
                    "race: core {core} {} byte {byte} of tensor `{tensor}`, which core {other} {} with no core_barrier \
                     or sendrecv in between",
                    verb(writes),
                    verb(other_writes)
                )
            }
            Finding::UnwrittenAccumulation { tensor, .. } => {
                write!(formatter, "tensor `{tensor}`: a matmul accumulated where no matmul had written")
            }
            Finding::NonFinite { instruction, tensor, dtype, is_nan, element, count, origin, .. } => {
                let what = if *is_nan { "NaN" } else { "infinity" };
                let elements = if *count == 1 { "1 element".to_owned() } else { format!("{count} elements") };
                write!(
                    formatter,
                    "{what} first written here: {instruction} into tensor `{tensor}` ({dtype}), {elements}, the first at \
                     {element:?}; "
                )?;
                match origin {
                    Origin::Computed { from_infinity: false } => write!(formatter, "what it read held numbers alone"),
                    Origin::Computed { from_infinity: true } => write!(formatter, "what it read held infinities"),
                    Origin::Overflow { value } => {
                        write!(formatter, "the result, {value}, is beyond what {dtype} holds")
                    }
                    Origin::Uninitialised { tensor } => {
                        write!(formatter, "it read uninitialised memory of tensor `{tensor}`")
                    }
                    Origin::Argument { tensor } => write!(formatter, "argument `{tensor}` holds it already"),
                }
            }
            Finding::OutsideRange { tensor, function, range, count, elements, first, .. } => write!(
                formatter,
                "{function} of tensor `{tensor}`: {count} of {elements} elements lie outside the range for which results \
                 are documented, magnitudes from {} to {}; the first is {first}",
                range.0, range.1
            ),
            Finding::UseAfterReuse { tensor, other, .. } => {
                write!(formatter, "tensor `{tensor}` is read after tensor `{other}`, at the same address, was written")
            }
        }
    }
}
