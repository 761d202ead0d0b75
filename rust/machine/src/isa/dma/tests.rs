//! What transfers ask of the DMA engines.

use std::sync::Arc;

use super::Options;
use super::compute::DmaCompute;
use super::copy::DmaCopy;
use super::transpose::DmaTranspose;
use crate::arch::ArchSpec;
use crate::core::{CoreOptions, NeuronCore, new_register};
use crate::dtype::DType;
use crate::engine::Engine;
use crate::isa::Instruction;
use crate::isa::alu::AluOp;
use crate::memory::Request;
use crate::site::SiteId;
use crate::storage::Buffer;
use crate::timing::work::{DescriptorMode, Route, Transfer, Work};
use crate::view::{ScalarIndex, View};

const HBM: Buffer = Buffer::PrivateHbm;
const SBUF: Buffer = Buffer::Sbuf;

struct Bench {
    core: NeuronCore,
}

impl Bench {
    fn new(arch: &str) -> Self {
        let arch = Arc::new(ArchSpec::load(arch).expect("a spec"));
        Self { core: NeuronCore::new(arch, CoreOptions::default()).expect("a core") }
    }

    fn tensor(&mut self, shape: &[usize], dtype: DType, buffer: Buffer) -> View {
        let request = Request { name: "tensor", shape, dtype, buffer, address: None, site: SiteId::default() };
        View::whole(self.core.allocate(&request).expect("a place"))
    }

    fn work(&self, instruction: &dyn Instruction) -> Transfer {
        let arch = self.core.arch();
        instruction.check(arch).expect("a legal instruction");
        let Work::Dma(transfer) = instruction.work(arch) else { panic!("no transfer") };
        transfer
    }

    fn copy(&self, dst: &View, src: &View) -> Transfer {
        self.work(&DmaCopy { dst: dst.clone(), src: src.clone(), options: Options::default(), engine: None })
    }
}

/// Rows, bytes and descriptors of each, HBM read and written.
fn numbers(transfer: &Transfer) -> (u64, u64, u64, u64, u64) {
    (transfer.rows, transfer.row_bytes, transfer.row_descriptors, transfer.hbm_read, transfer.hbm_write)
}

#[test]
fn test_rows_are_partitions_and_descriptors_contiguous_pieces() {
    let mut bench = Bench::new("trn2");
    let tile = bench.tensor(&[4, 4096], DType::BFloat16, SBUF);
    let source = bench.tensor(&[4, 4096], DType::BFloat16, HBM);
    let load = bench.copy(&tile, &source);
    assert_eq!((numbers(&load), load.route, load.mode), ((4, 8192, 1, 32768, 0), Route::Load, DescriptorMode::Static));
    let store = bench.copy(&source, &tile);
    assert_eq!((numbers(&store), store.route), ((4, 8192, 1, 0, 32768), Route::Store));
    let other = bench.tensor(&[4, 4096], DType::BFloat16, SBUF);
    let inside = bench.copy(&other, &tile);
    assert_eq!((numbers(&inside), inside.route), ((4, 8192, 1, 0, 0), Route::Sbuf));
    let wide = bench.tensor(&[4, 4096], DType::BFloat16, HBM);
    let outside = bench.copy(&wide, &source);
    assert_eq!((numbers(&outside), outside.route), ((16, 2048, 1, 32768, 32768), Route::Hbm));
}

#[test]
fn test_strided_and_permuted_sources_make_more_descriptors() {
    let mut bench = Bench::new("trn3");
    let source = bench.tensor(&[128, 8, 64], DType::BFloat16, HBM);
    let tile = bench.tensor(&[128, 8, 32], DType::BFloat16, SBUF);
    let columns = source.slice(2, 0, 32, 1).expect("a slice");
    assert_eq!(numbers(&bench.copy(&tile, &columns)), (128, 512, 8, 65536, 0));
    // Whole rows in another order are one piece each; elements in another order are a piece each.
    let turned = source.permute(&[1, 0, 2]).expect("a permutation");
    let rows = bench.tensor(&[8, 128, 64], DType::BFloat16, SBUF);
    assert_eq!(numbers(&bench.copy(&rows, &turned)), (8, 16384, 128, 131072, 0));
    let turned = source.permute(&[2, 1, 0]).expect("a permutation");
    let elements = bench.tensor(&[64, 8, 128], DType::BFloat16, SBUF);
    assert_eq!(numbers(&bench.copy(&elements, &turned)), (64, 2048, 1024, 131072, 0));
}

#[test]
fn test_a_cast_moves_the_larger_side() {
    let mut bench = Bench::new("trn3");
    let source = bench.tensor(&[128, 64], DType::Float32, HBM);
    let tile = bench.tensor(&[128, 64], DType::BFloat16, SBUF);
    assert_eq!(numbers(&bench.copy(&tile, &source)), (128, 256, 1, 32768, 0));
    assert_eq!(numbers(&bench.copy(&source, &tile)), (128, 256, 1, 0, 32768));
}

#[test]
fn test_dynamic_addresses_choose_who_makes_descriptors() {
    for (arch, expected) in [("trn1", DescriptorMode::Software), ("trn3", DescriptorMode::Hardware)] {
        let mut bench = Bench::new(arch);
        let table = bench.tensor(&[1000, 64], DType::Float32, HBM);
        let index = bench.tensor(&[16, 1], DType::Int32, SBUF);
        let tile = bench.tensor(&[16, 64], DType::Float32, SBUF);
        let gather = bench.copy(&tile, &table.vector_select(0, index).expect("rows"));
        assert_eq!((numbers(&gather), gather.mode), ((16, 256, 1, 4096, 0), DescriptorMode::Software));
        let row = bench.tensor(&[1, 64], DType::Float32, SBUF);
        let at = ScalarIndex::Register(new_register(false, Some(3)));
        let select = bench.copy(&row, &table.select_dynamic(0, at).expect("a row"));
        assert_eq!((numbers(&select), select.mode), ((1, 256, 1, 256, 0), expected));
        let half = bench.tensor(&[1, 64], DType::BFloat16, SBUF);
        let at = ScalarIndex::Register(new_register(false, Some(3)));
        let cast = bench.copy(&half, &table.select_dynamic(0, at).expect("a row"));
        assert_eq!(cast.mode, DescriptorMode::Software);
    }
}

#[test]
fn test_trigger_and_priority_reach_the_transfer() {
    let mut bench = Bench::new("trn3");
    let (src, dst) = (bench.tensor(&[128, 64], DType::Float32, HBM), bench.tensor(&[128, 64], DType::Float32, SBUF));
    let mode = Some(DescriptorMode::Hardware);
    let options = Options { priority: Some(2), mode, ..Options::default() };
    let copy = DmaCopy {
        dst: dst.slice(0, 64, 128, 1).expect("half"),
        src: src.slice(0, 0, 64, 1).expect("half"),
        options,
        engine: Some(Engine::Scalar),
    };
    let transfer = bench.work(&copy);
    assert_eq!((transfer.trigger, transfer.priority), (Some(Engine::Scalar), Some(2)));
    assert_eq!((transfer.first_row, transfer.rows), (64, 64));
}

#[test]
fn test_transposes_run_at_their_share_and_descriptors_follow_the_destination() {
    let mut bench = Bench::new("trn2");
    let dst = bench.tensor(&[128, 512], DType::BFloat16, SBUF);
    for (buffer, share, hbm_read) in [(HBM, 0.9, 131072), (SBUF, 0.5, 0)] {
        // 512 rows do not fit the partitions of SBUF.
        let rows = if buffer == HBM { 512 } else { 128 };
        let dst = dst.slice(1, 0, rows, 1).expect("columns");
        let src = bench.tensor(&[rows as usize, 128], DType::BFloat16, buffer);
        let transfer = bench.work(&DmaTranspose { dst, src, axes: None, options: Options::default() });
        assert_eq!((transfer.rate_share, transfer.hbm_read, transfer.row_descriptors), (share, hbm_read, 1));
        assert_eq!(transfer.row_bytes, 2 * rows as u64);
    }
}

#[test]
fn test_sums_move_every_source_but_the_destination() {
    for (arch, share) in [("trn2", 0.5), ("trn3", 1.0)] {
        let mut bench = Bench::new(arch);
        let tiles: Vec<View> = (0..3).map(|_| bench.tensor(&[128, 64], DType::Float32, SBUF)).collect();
        let compute = |dst: &View, srcs: Vec<View>| DmaCompute {
            dst: dst.clone(),
            srcs,
            reduce_op: AluOp::Add,
            scales: None,
            unique_indices: true,
            options: Options::default(),
        };
        let sum = bench.work(&compute(&tiles[2], tiles[..2].to_vec()));
        assert_eq!((numbers(&sum), sum.rate_share), ((128, 512, 2, 0, 0), share));
        let in_place = bench.work(&compute(&tiles[0], tiles[..2].to_vec()));
        assert_eq!(numbers(&in_place), (128, 256, 1, 0, 0));
        let table = bench.tensor(&[1000, 64], DType::Float32, HBM);
        let index = bench.tensor(&[128, 1], DType::Int32, SBUF);
        let rows = table.vector_select(0, index).expect("rows");
        let scatter = bench.work(&compute(&rows, vec![rows.clone(), tiles[0].clone()]));
        assert_eq!((numbers(&scatter), scatter.mode), ((128, 256, 1, 32768, 32768), DescriptorMode::Software));
    }
}
