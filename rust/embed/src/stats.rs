//! Counters of a device, by name.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident)*) => {
        /// What a device has counted since it was made, or since its counters were reset.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl Stats {
            /// Names of all counters, in order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            /// All values, in the order of the names.
            pub fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$field),*]
            }
        }
    };
}

counters! {
    /// Commands submitted.
    commands_submitted
    /// Commands done, those that failed included.
    commands_completed
    /// Commands that failed.
    commands_failed
    /// Instructions that cores took.
    instructions
    /// Multiply-adds of the systolic arrays.
    macs
    /// Bytes that DMA engines moved.
    dma_bytes
    /// Bytes that cores read from HBM.
    hbm_read_bytes
    /// Bytes that cores wrote to HBM.
    hbm_write_bytes
    /// Picoseconds that TensorE's issue slots were held.
    tensor_busy_ps
    /// Picoseconds that VectorE's issue slots were held.
    vector_busy_ps
    /// Picoseconds that ScalarE's issue slots were held.
    scalar_busy_ps
    /// Picoseconds that GpSimdE's issue slots were held.
    gpsimd_busy_ps
    /// Picoseconds that the Sync engine's issue slots were held.
    sync_busy_ps
    /// Picoseconds that transfers took, each for itself.
    dma_busy_ps
    /// Picoseconds that commands took, of all cores.
    command_ps
    /// Findings of runs: uninitialised reads and the like.
    findings
    /// Bytes that the host read.
    host_read_bytes
    /// Bytes that the host wrote.
    host_write_bytes
    /// Messages sent by collectives.
    messages_sent
    /// Bytes of those.
    message_bytes_sent
}
