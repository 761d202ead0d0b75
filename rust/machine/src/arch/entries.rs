//! The entries of a machine: name, unit and range of each, in the order in which they are listed.

use std::sync::Arc;

use toml::Table;

use super::Entry;
use super::read::{take, whole};
use crate::error::{Error, Result};

macro_rules! arch_spec {
    (counts { $($(#[doc = $count_doc:literal])+ $count:ident: $count_unit:literal, $count_low:literal ..= $count_high:literal;)* }
     figures { $($(#[doc = $figure_doc:literal])+ $figure:ident: $figure_unit:literal, $figure_low:literal ..= $figure_high:literal;)* }) => {
        /// One NeuronCore's hardware, as its spec file says.
        #[derive(Clone, Debug, PartialEq)]
        pub struct ArchSpec {
            /// Short name: `trn3`.
            pub name: String,
            /// Generation of the core: 2, 3 or 4.
            pub generation: u64,
            $($(#[doc = $count_doc])+ pub $count: u64,)*
            $($(#[doc = $figure_doc])+ pub $figure: f64,)*
            pub(super) entries: Arc<[Entry]>,
        }

        impl ArchSpec {
            pub(super) fn read(name: &str, mut table: Table) -> Result<Self> {
                let mut entries = Vec::new();
                let generation = take(&mut table, &mut entries, name, "generation", "generation", 2.0..=4.0)?;
                let spec = Self {
                    name: name.to_owned(),
                    generation: whole(name, "generation", generation)?,
                    $($count: whole(name, stringify!($count), take(&mut table, &mut entries, name, stringify!($count),
                        $count_unit, ($count_low as f64)..=($count_high as f64))?)?,)*
                    $($figure: take(&mut table, &mut entries, name, stringify!($figure), $figure_unit,
                        ($figure_low as f64)..=($figure_high as f64))?,)*
                    entries: entries.into(),
                };
                if let Some(key) = table.keys().next() {
                    return Err(Error::Arch(format!("arch {name}: entry {key} is none that a machine has")));
                }
                Ok(spec)
            }

            /// Sets an entry of a copy that only asks what it would change; the entries' list stays the original's.
            pub(super) fn set(&mut self, key: &str, value: f64) {
                match key {
                    $(stringify!($count) => self.$count = value as u64,)*
                    $(stringify!($figure) => self.$figure = value,)*
                    _ => {}
                }
            }
        }
    };
}

arch_spec! {
    counts {
        /// Partitions of SBUF and PSUM, and rows and columns of the TensorE array.
        partitions: "partitions", 32 ..= 1024;
        /// SBUF bytes of one partition.
        sbuf_partition_bytes: "bytes", 1024 ..= 16777216;
        /// SBUF bytes of one partition that the compiler keeps for itself.
        sbuf_reserved_bytes: "bytes", 0 ..= 1048576;
        /// PSUM banks of a partition.
        psum_banks: "banks", 1 ..= 64;
        /// Bytes of one PSUM bank in one partition.
        psum_bank_bytes: "bytes", 256 ..= 1048576;
        /// HBM bytes of the whole chip.
        hbm_bytes: "bytes", 1048576 ..= 17592186044416u64;
        /// NeuronCores of a chip.
        cores: "cores", 1 ..= 1024;
        /// Most NeuronCores of a logical core.
        max_lnc: "cores", 1 ..= 2;
        /// Most elements per partition that a sendrecv by GpSimdE's own DMA moves.
        gpsimd_dma_elements: "elements", 1 ..= 65536;
        /// Partitions of a quadrant, the unit in which engines address partitions.
        quadrant_partitions: "partitions", 8 ..= 128;
        /// Most elements per partition of an SBUF operand.
        sbuf_operand_elements: "elements", 512 ..= 1048576;
        /// Most float32 elements per partition of a PSUM operand.
        psum_operand_elements: "elements", 512 ..= 65536;
        /// Most columns of a stationary operand.
        stationary_columns: "columns", 32 ..= 1024;
        /// Most columns of a moving operand with a float32 result.
        moving_columns: "columns", 32 ..= 65536;
        /// Most columns of a moving operand with a bfloat16 result; 0 where PSUM holds float32 only.
        moving_columns_bf16: "columns", 0 ..= 65536;
        /// Most elements per partition of bn_stats.
        bn_stats_elements: "elements", 32 ..= 65536;
        /// Most elements per partition that max8 and its likes search.
        search_elements: "elements", 8 ..= 65536;
        /// TensorE clock.
        tensor_clock_mhz: "MHz", 1 ..= 100000;
        /// VectorE clock.
        vector_clock_mhz: "MHz", 1 ..= 100000;
        /// ScalarE clock.
        scalar_clock_mhz: "MHz", 1 ..= 100000;
        /// GpSimdE clock.
        gpsimd_clock_mhz: "MHz", 1 ..= 100000;
        /// Sequencer clock.
        sync_clock_mhz: "MHz", 1 ..= 100000;
        /// Least initiation interval of a VectorE or ScalarE instruction.
        minimum_interval_cycles: "cycles", 0 ..= 100000;
        /// Least initiation interval of an instruction with a dynamic address.
        dynamic_interval_cycles: "cycles", 0 ..= 100000;
        /// Reading an accumulator register.
        accumulator_read_cycles: "cycles", 0 ..= 100000;
        /// Start of a GpSimdE instruction.
        gpsimd_start_cycles: "cycles", 0 ..= 100000;
        /// Least cycles of a matmul's moving pass.
        matmul_minimum_cycles: "cycles", 0 ..= 100000;
        /// Stationary columns loaded in a cycle.
        stationary_columns_per_cycle: "columns/cycle", 1 ..= 128;
        /// Passes of a float32 matmul.
        float32_passes: "passes", 1 ..= 16;
        /// Passes of a float32 matmul one of whose operands holds zeros and ones alone.
        float32_onezero_passes: "passes", 1 ..= 16;
        /// Passes of a float32 transpose.
        float32_transpose_passes: "passes", 1 ..= 16;
        /// Contraction rows that a processing element takes of fp8 operands at once (double_row); 1 where there is no such
        /// mode.
        double_row_elements: "elements", 1 ..= 16;
        /// Contraction rows that a processing element takes of MX operands at once; 0 where there are none.
        mx_elements: "elements", 0 ..= 16;
        /// Dense contraction rows that a processing element covers at once with a compressed stationary operand; 0 where
        /// it takes none.
        sparse_elements: "elements", 0 ..= 16;
        /// Gap between issues of matmuls on different tiles of the array.
        tile_issue_cycles: "cycles", 0 ..= 10000;
        /// Innermost stride from which a port delivers half.
        slow_stride_bytes: "bytes", 1 ..= 1024;
        /// Partitions of one of GpSimdE's processors.
        gpsimd_partitions: "partitions", 1 ..= 128;
        /// GpSimdE: cycles that a local gather adds to each index's elements.
        gather_overhead_cycles: "cycles", 0 ..= 10000;
        /// GpSimdE: cycles of one gathered element.
        gather_element_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: most elements of one instruction that a free-axis gather is cut into.
        free_gather_elements: "elements", 1 ..= 65536;
        /// GpSimdE: cycles of one element of a free-axis gather.
        free_gather_element_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: cycles of one element of a reduction over partitions.
        partition_reduce_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: cycles of one element of sequence_bounds.
        sequence_bounds_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: cycles of one candidate of topk.
        topk_candidate_cycles: "cycles", 1 ..= 10000;
        /// GpSimdE: bytes of a lane's port in a cycle.
        gpsimd_lane_bytes: "bytes", 1 ..= 64;
        /// GpSimdE: most indices of a processor in one local gather.
        gather_indices: "indices", 1 ..= 65536;
        /// GpSimdE: fewest elements that topk chooses from.
        topk_least_elements: "elements", 1 ..= 65536;
        /// GpSimdE: most elements that topk chooses from.
        topk_elements: "elements", 1 ..= 16777216;
        /// GpSimdE: most elements that topk gives.
        topk_results: "elements", 1 ..= 16777216;
        /// Moving the state of a random generator.
        random_state_cycles: "cycles", 0 ..= 10000;
        /// DMA engines of the core.
        dma_engines: "engines", 1 ..= 1024;
        /// Queues of a DMA engine.
        dma_queues: "queues", 1 ..= 1024;
        /// DMA descriptor generators in hardware; 0 where there are none.
        hardware_dge: "generators", 0 ..= 64;
    }
    figures {
        /// Share of its time that a transpose holds the array when another pass runs beside it.
        background_transpose_share: "ratio", 0.01 ..= 1;
        /// HBM bandwidth of the chip.
        hbm_gbps: "GB/s", 1 ..= 1000000;
        /// VectorE elements a cycle a lane: copies and tensor_scalar, 16-bit, contiguous, SBUF to SBUF.
        vector_copy_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// The same with one side in PSUM, or strided.
        vector_copy_rate_16bit_psum: "elements/cycle", 0.01 ..= 64;
        /// The same for 8-bit floats, SBUF to SBUF.
        vector_copy_rate_8bit: "elements/cycle", 0.01 ..= 64;
        /// The same for 32-bit types and integers, SBUF to SBUF.
        vector_copy_rate_32bit: "elements/cycle", 0.01 ..= 64;
        /// The same for 32-bit types with one side in PSUM.
        vector_copy_rate_32bit_psum: "elements/cycle", 0.01 ..= 64;
        /// Writing zeros to a 16-bit tile.
        vector_zero_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// tensor_tensor, both operands in SBUF, 16-bit.
        vector_pair_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// tensor_tensor, both operands in SBUF, otherwise.
        vector_pair_rate: "elements/cycle", 0.01 ..= 64;
        /// tensor_tensor with one operand in PSUM.
        vector_pair_rate_psum: "elements/cycle", 0.01 ..= 64;
        /// Scans over two operands.
        vector_scan_rate: "elements/cycle", 0.01 ..= 64;
        /// tensor_reduce, bfloat16 in and out, add or maximum.
        vector_reduce_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// Everything else with one operand.
        vector_rate: "elements/cycle", 0.01 ..= 64;
        /// reciprocal.
        vector_reciprocal_rate: "elements/cycle", 0.001 ..= 64;
        /// bn_aggr, elements of its triples.
        vector_bn_aggr_rate: "elements/cycle", 0.001 ..= 64;
        /// exponential, at most 16 bits.
        vector_exponential_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// exponential, 32 bits.
        vector_exponential_rate_32bit: "elements/cycle", 0.01 ..= 64;
        /// quantize_mx, source elements.
        vector_quantize_rate: "elements/cycle", 0.01 ..= 64;
        /// rand2.
        vector_rand2_rate: "elements/cycle", 0.01 ..= 64;
        /// rng on VectorE.
        vector_rng_rate: "elements/cycle", 0.01 ..= 64;
        /// ScalarE elements a cycle a lane: activations.
        scalar_rate: "elements/cycle", 0.01 ..= 64;
        /// ScalarE copies and tensor_scalar of at most 16 bits.
        scalar_copy_rate_16bit: "elements/cycle", 0.01 ..= 64;
        /// GpSimdE elements a cycle a lane.
        gpsimd_rate: "elements/cycle", 0.001 ..= 64;
        /// The same where every operand has at most 16 bits.
        gpsimd_rate_16bit: "elements/cycle", 0.001 ..= 64;
        /// GpSimdE reciprocal square roots a cycle a lane.
        gpsimd_rsqrt_rate: "elements/cycle", 0.001 ..= 64;
        /// Latency beyond the stream of a VectorE instruction.
        vector_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency beyond the stream of a ScalarE instruction.
        scalar_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency beyond the stream of a GpSimdE instruction.
        gpsimd_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency beyond the stream of a matmul.
        matmul_fixed_ns: "ns", 0 ..= 1000000;
        /// Latency of loading a stationary operand beyond its stream.
        stationary_fixed_ns: "ns", 0 ..= 1000000;
        /// Loading a function table into ScalarE.
        activation_table_load_ns: "ns", 0 ..= 1000000;
        /// From a result to the next engine's start.
        semaphore_ns: "ns", 0 ..= 1000000;
        /// From a result to a dependent instruction's start on the same engine.
        same_engine_ns: "ns", 0 ..= 1000000;
        /// From a finished DMA to a dependent instruction's start.
        dma_semaphore_ns: "ns", 0 ..= 1000000;
        /// Issue slot of an instruction that triggers a DMA.
        dma_trigger_ns: "ns", 0 ..= 1000000;
        /// The same for GpSimdE.
        dma_trigger_gpsimd_ns: "ns", 0 ..= 1000000;
        /// From the trigger to the first byte: descriptors in memory.
        dma_start_static_ns: "ns", 0 ..= 1000000;
        /// From the trigger to the first byte: descriptors generated.
        dma_start_generated_ns: "ns", 0 ..= 1000000;
        /// Service of one DMA instruction by a hardware descriptor generator.
        dma_hardware_dge_ns: "ns", 0 ..= 1000000;
        /// Bytes that each row of a DMA costs at least.
        dma_row_floor_bytes: "bytes", 0 ..= 1000000;
        /// Time on top of the bytes of one engine's share.
        dma_share_fixed_ns: "ns", 0 ..= 1000000;
        /// From one DMA engine's start to the next one's.
        dma_engine_stagger_ns: "ns", 0 ..= 1000000;
        /// Each descriptor.
        dma_descriptor_ns: "ns", 0 ..= 1000000;
        /// Least time of a DMA descriptor, however few its bytes.
        dma_descriptor_floor_ns: "ns", 0 ..= 1000000;
        /// Bytes a nanosecond of one DMA engine.
        dma_engine_bytes_per_ns: "bytes/ns", 0.001 ..= 100000;
        /// Share of the rate that dma_transpose reaches, HBM to SBUF.
        dma_transpose_share: "ratio", 0.0001 ..= 1;
        /// The same, SBUF to SBUF.
        dma_transpose_share_sbuf: "ratio", 0.0001 ..= 1;
        /// Share of the rate that dma_compute reaches.
        dma_compute_share: "ratio", 0.0001 ..= 1;
        /// A register operation on a sequencer.
        register_ns: "ns", 0 ..= 1000000;
        /// Loading a register from SBUF.
        register_load_sbuf_ns: "ns", 0 ..= 1000000;
        /// Loading a register from HBM.
        register_load_hbm_ns: "ns", 0 ..= 1000000;
        /// A barrier of two cores, from when the later one is there.
        core_barrier_ns: "ns", 0 ..= 1000000000;
        /// Bytes a nanosecond of GpSimdE's own DMA, each way.
        gpsimd_dma_bytes_per_ns: "bytes/ns", 0.001 ..= 100000;
        /// Start and end of a kernel, together.
        kernel_overhead_ns: "ns", 0 ..= 1000000000;
        /// Utilisation that TensorE may start with under the current-step limit.
        throttle_start: "ratio", 0.01 ..= 1;
        /// Span over which the current-step limit ramps to full rate.
        throttle_ramp_ns: "ns", 0 ..= 1000000000;
    }
}
