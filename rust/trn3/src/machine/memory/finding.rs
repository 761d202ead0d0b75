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
            Finding::UnwrittenAccumulation { tensor, .. } => {
                write!(formatter, "tensor `{tensor}`: a matmul accumulated where no matmul had written")
            }
        }
    }
}
