//! What a run did that is no error on the hardware and yet no kernel means.

use std::fmt;

use crate::machine::site::SiteId;

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
}

impl Finding {
    /// Line that the finding is about.
    pub fn reader(&self) -> SiteId {
        match self {
            Finding::UninitialisedRead { reader, .. }
            | Finding::OutOfBoundsSkipped { reader, .. }
            | Finding::Race { reader, .. }
            | Finding::UnwrittenAccumulation { reader, .. } => *reader,
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
        }
    }
}
