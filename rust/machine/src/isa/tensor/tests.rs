//! What TensorE's instructions cost, and where in the array they work.

use std::sync::Arc;

use super::Tile;
use super::matmul::NcMatmul;
use super::matmul_mx::NcMatmulMx;
use super::matmul_sparse::NcMatmulSparse;
use super::transpose::NcTranspose;
use crate::arch::ArchSpec;
use crate::core::{CoreOptions, NeuronCore};
use crate::dtype::DType;
use crate::isa::Instruction;
use crate::memory::Request;
use crate::site::SiteId;
use crate::storage::Buffer;
use crate::timing::work::Work;
use crate::view::View;

struct Bench {
    core: NeuronCore,
}

impl Bench {
    fn new(arch: &str) -> Self {
        let arch = Arc::new(ArchSpec::load(arch).expect("a spec"));
        Self { core: NeuronCore::new(arch, CoreOptions::default()).expect("a core") }
    }

    fn tensor(&mut self, shape: &[usize], dtype: DType, buffer: Buffer) -> View {
        let request = Request { name: "tile", shape, dtype, buffer, address: None, site: SiteId::default() };
        View::whole(self.core.allocate(&request).expect("a place"))
    }

    fn matmul(&mut self, k: usize, m: usize, n: usize, dtype: DType) -> NcMatmul {
        NcMatmul {
            dst: self.tensor(&[m, n], DType::Float32, Buffer::Psum),
            stationary: self.tensor(&[k, m], dtype, Buffer::Sbuf),
            moving: self.tensor(&[k, n], dtype, Buffer::Sbuf),
            is_stationary_onezero: false,
            is_moving_onezero: false,
            is_transpose: false,
            accumulate: None,
            tile: None,
            double_row: false,
        }
    }

    /// Cycles of load and pass, whole picoseconds of the rest, blocks.
    fn cost(&self, instruction: &dyn Instruction) -> (u64, u64, u64, u64, u16) {
        let arch = self.core.arch();
        instruction.check(arch).expect("a legal instruction");
        let Work::Matmul { load, load_latency, multiply, multiply_latency, blocks, .. } = instruction.work(arch) else {
            panic!("no work of TensorE");
        };
        let cycles = |time: crate::time::Picos| (time.0 * arch.tensor_clock_mhz + 500_000) / 1_000_000;
        let (load_cycles, multiply_cycles) = (cycles(load), cycles(multiply));
        assert_eq!(arch.tensor_clock().cycles(load_cycles), load);
        (load_cycles, multiply_cycles, load_latency.since(load).0, multiply_latency.since(multiply).0, blocks)
    }
}

#[test]
fn test_matmul_cycles_follow_the_moving_operand() {
    let mut bench = Bench::new("trn1");
    for (m, n, load, multiply) in [(128, 512, 32, 512), (128, 1, 32, 64), (1, 128, 1, 128), (16, 8, 4, 16)] {
        let matmul = bench.matmul(128, m, n, DType::BFloat16);
        assert_eq!(bench.cost(&matmul), (load, multiply, 67_000, 142_000, u16::MAX), "M = {m}, N = {n}");
    }
}

#[test]
fn test_float32_passes_four_times_or_twice_with_a_hint() {
    let mut bench = Bench::new("trn2");
    let mut matmul = bench.matmul(128, 128, 512, DType::Float32);
    assert_eq!(bench.cost(&matmul), (128, 2048, 67_000, 180_000, u16::MAX));
    // A published profile shows 859 ns for each such matmul of a long chain.
    let Work::Matmul { multiply, .. } = matmul.work(bench.core.arch()) else { panic!("no work of TensorE") };
    assert_eq!(multiply.0, 853_333);
    matmul.is_moving_onezero = true;
    assert_eq!(bench.cost(&matmul).1, 1024);
    let tfloat = bench.matmul(128, 128, 512, DType::TFloat32);
    assert_eq!(bench.cost(&tfloat).1, 512);
}

#[test]
fn test_double_row_takes_the_time_of_half_its_rows() {
    let mut bench = Bench::new("trn3");
    let mut matmul = bench.matmul(128, 128, 512, DType::Float8E5M2);
    let single = bench.cost(&matmul);
    matmul.stationary = bench.tensor(&[128, 2, 128], DType::Float8E5M2, Buffer::Sbuf);
    matmul.moving = bench.tensor(&[128, 2, 512], DType::Float8E5M2, Buffer::Sbuf);
    matmul.double_row = true;
    assert_eq!(bench.cost(&matmul), single);
    assert_eq!(matmul.macs(bench.core.arch()), (2 * 128 * 128 * 512, 2 * 128 * 128));
}

#[test]
fn test_transposes_cost_their_rows_and_hold_the_array_half_as_long_on_gen4() {
    for (arch, dtype, cycles) in [
        ("trn1", DType::BFloat16, 128),
        ("trn1", DType::Float32, 512),
        ("trn2", DType::BFloat16, 128),
        ("trn2", DType::Float32, 256),
        ("trn3", DType::BFloat16, 64),
    ] {
        let mut bench = Bench::new(arch);
        let data = bench.tensor(&[128, 64], dtype, Buffer::Sbuf);
        let dst = bench.tensor(&[64, 128], dtype, Buffer::Psum);
        let transpose = NcTranspose { dst, data, engine: None };
        assert_eq!(bench.cost(&transpose).1, cycles, "{arch} {dtype}");
    }
}

#[test]
fn test_mx_and_sparse_cost_a_dense_pass_of_their_partitions() {
    let mut bench = Bench::new("trn3");
    let dtype = DType::Float8E4M3FnX4;
    let mx = NcMatmulMx {
        dst: bench.tensor(&[128, 512], DType::Float32, Buffer::Psum),
        stationary: bench.tensor(&[128, 128], dtype, Buffer::Sbuf),
        moving: bench.tensor(&[128, 512], dtype, Buffer::Sbuf),
        stationary_scale: bench.tensor(&[128, 128], DType::UInt8, Buffer::Sbuf),
        moving_scale: bench.tensor(&[128, 512], DType::UInt8, Buffer::Sbuf),
        tile: None,
        accumulate: Some(false),
    };
    assert_eq!(bench.cost(&mx), (32, 512, 67_000, 180_000, u16::MAX));
    assert_eq!(mx.macs(bench.core.arch()), (512 * 128 * 512, 4 * 128 * 128));
    let sparse = NcMatmulSparse {
        dst: bench.tensor(&[128, 512], DType::Float32, Buffer::Psum),
        stationary: bench.tensor(&[128, 128], DType::BFloat16, Buffer::Sbuf),
        moving: bench.tensor(&[128, 4, 512], DType::BFloat16, Buffer::Sbuf),
        tags: bench.tensor(&[128, 32], DType::UInt16, Buffer::Sbuf),
        pattern: "4:16".parse().expect("a pattern"),
        accumulate: None,
    };
    assert_eq!(bench.cost(&sparse), (32, 512, 67_000, 180_000, u16::MAX));
    assert_eq!(sparse.macs(bench.core.arch()), (512 * 128 * 512, 4 * 128 * 128));
}

#[test]
fn test_tiles_hold_their_own_blocks() {
    let mut bench = Bench::new("trn3");
    let mut matmul = bench.matmul(32, 32, 64, DType::BFloat16);
    for (position, size, blocks) in [
        ((0, 0), (32, 32), 1),
        ((0, 0), (128, 128), u16::MAX),
        ((0, 0), (64, 128), 0x00ff),
        ((0, 0), (128, 32), 0x1111),
        ((0, 0), (64, 64), 0x0033),
    ] {
        matmul.tile = Some(Tile { position, size });
        assert_eq!(bench.cost(&matmul).4, blocks, "{position:?} {size:?}");
    }
    let tile = Tile { position: (96, 64), size: (32, 64) };
    assert_eq!(tile.blocks(bench.core.arch()), 0xc000);
}

#[test]
fn test_only_sums_join_what_earlier_matmuls_wrote() {
    let mut bench = Bench::new("trn3");
    let mut matmul = bench.matmul(128, 128, 512, DType::BFloat16);
    for (accumulate, expected) in [(None, true), (Some(true), true), (Some(false), false)] {
        matmul.accumulate = accumulate;
        let Work::Matmul { accumulates, .. } = matmul.work(bench.core.arch()) else { panic!("no work of TensorE") };
        assert_eq!(accumulates, expected);
    }
}

#[test]
fn test_refusals_name_operand_and_rule() {
    let mut bench = Bench::new("trn2");
    let mut matmul = bench.matmul(128, 128, 512, DType::BFloat16);
    matmul.dst = bench.tensor(&[128, 512], DType::Float32, Buffer::Sbuf);
    let text = matmul.check(bench.core.arch()).expect_err("a result in SBUF").to_string();
    assert!(text.starts_with("nc_matmul dst must be in ['psum'], got sbuf"), "{text}");
    let mut long = bench.matmul(128, 128, 512, DType::BFloat16);
    long.moving.shape[0] = 256;
    long.stationary.shape[0] = 256;
    let text = long.check(bench.core.arch()).expect_err("256 rows").to_string();
    assert!(text.contains("Matmul contraction dimension 256 exceeds pmax=128"), "{text}");
}
