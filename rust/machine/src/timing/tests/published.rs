//! Published readings that the timeline itself decides: transfers and pairs of matmuls.
//!
//! Two readings are out of its reach, for want of an entry in the specs: a store of 32 KiB by one engine of trn2 was seen
//! at 27 bytes a nanosecond where the documented rate is 23 (18 % slower here), and trn1's transfers of 4 bytes at 7 ns
//! each where a descriptor and its bytes make 1.2 ns.

use super::{arch, compute, dma, matmul, region, timeline, transfer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::region::Space;
use crate::timing::timeline::Timeline;
use crate::timing::work::{DescriptorMode, Route, Transfer};

fn nanoseconds(span: Picos) -> f64 {
    span.0 as f64 / 1000.0
}

fn assert_near(what: &str, published: f64, predicted: f64, tolerance: f64) {
    let ratio = predicted / published;
    assert!((ratio - 1.0).abs() <= tolerance, "{what}: published {published}, predicted {predicted}, ratio {ratio:.3}");
}

/// The longest share of a transfer alone.
fn share(timeline: &Timeline) -> Picos {
    let spans = timeline.transfers().iter().map(|share| share.end - share.start);
    spans.max().expect("a share")
}

fn alone(name: &str, transfer: Transfer) -> Timeline {
    let mut timeline = timeline(name);
    dma(transfer).issue(&mut timeline);
    timeline
}

#[test]
fn test_dma_of_4_rows_of_8_kib_by_one_engine() {
    let timeline = alone("trn2", transfer(Route::Load, 4, 8192));
    assert_eq!(timeline.transfers().len(), 1);
    assert_near("trn2 4 x 8 KiB", 1416.0, nanoseconds(share(&timeline)), 0.03);
    assert_near("trn2 trigger to first byte", 1000.0, nanoseconds(timeline.records().at(0).start), 0.03);
}

#[test]
fn test_dma_of_a_small_tile_by_all_engines() {
    let mut timeline = timeline("trn2");
    let tile = region(Space::Sbuf, 0..128, 0..256);
    let small = Transfer { mode: DescriptorMode::Hardware, ..transfer(Route::Load, 128, 256) };
    dma(small).writes(tile.clone()).issue(&mut timeline);
    compute(Engine::Scalar, 100_000, 300_000).reads(tile).issue(&mut timeline);
    assert_eq!(timeline.transfers().len(), 16);
    let (moved, next) = (timeline.records().at(0), timeline.records().at(1));
    assert_near("trn2 8 x 256 B", 97.0, nanoseconds(share(&timeline)), 0.03);
    assert_near("trn2 trigger to start", 739.0, nanoseconds(moved.start), 0.03);
    // Read off a picture to 15 ns or so; the engines' stagger of 20 ns is read off the same one.
    assert_near("trn2 [128, 256 B] as a whole", 468.0, nanoseconds(moved.end - moved.start), 0.05);
    assert_near("trn2 done to the next engine", 303.0, nanoseconds(next.start - moved.end), 0.03);
}

#[test]
fn test_dma_of_4_kib_rows_on_trn1() {
    let timeline = alone("trn1", transfer(Route::Load, 128, 4096));
    // The reading is of engines at 68 % of their use: 6.5 % over the documented rate.
    assert_near("trn1 8 x 4 KiB", 1810.0, nanoseconds(share(&timeline)), 0.10);
}

#[test]
fn test_dma_efficiency_follows_the_published_curve() {
    let curve = [
        (32, 0.017),
        (64, 0.026),
        (128, 0.053),
        (256, 0.103),
        (512, 0.209),
        (1024, 0.425),
        (2048, 0.815),
        (4096, 0.966),
        (8192, 0.983),
        (16384, 0.992),
        (32768, 1.0),
    ];
    // Loads one after another on one queue, from and to places of their own.
    let rate = |row_bytes: u64| {
        let mut timeline = timeline("trn2");
        let count = 200;
        for _ in 0..count {
            dma(transfer(Route::Load, 128, row_bytes)).issue(&mut timeline);
        }
        let first = timeline.records().at(0).start;
        (count * row_bytes) as f64 / nanoseconds(timeline.makespan() - first)
    };
    let best = rate(32768);
    for (row_bytes, published) in curve {
        let predicted = rate(row_bytes) / best;
        // The point of 32 bytes is 0.017 of an axis that is read to about 0.005.
        let close = (predicted / published - 1.0).abs() <= 0.10 || (predicted - published).abs() <= 0.005;
        assert!(close, "{row_bytes} bytes: published {published}, predicted {predicted:.4}");
    }
}

#[test]
fn test_dma_reaches_the_documented_aggregate_on_one_queue_and_on_two() {
    for (name, published) in [("trn1", 272.0), ("trn2", 368.0), ("trn3", 528.0)] {
        for routes in [vec![Route::Load], vec![Route::Load, Route::Store], vec![Route::Load, Route::Store, Route::Hbm]]
        {
            let mut timeline = timeline(name);
            for index in 0..300 {
                let route = routes[index % routes.len()];
                let rows = if route == Route::Hbm { 16 } else { 128 };
                dma(transfer(route, rows, 16384 * 128 / rows)).issue(&mut timeline);
            }
            let bytes = 300.0 * 16384.0 * 128.0;
            assert_near(name, published, bytes / nanoseconds(timeline.makespan()), 0.02);
        }
    }
}

#[test]
fn test_a_hardware_generator_serves_one_transfer_after_another() {
    // Priorities make queues of their own, so that nothing but the generator holds the transfers.
    let mut timeline = timeline("trn2");
    for index in 0..100 {
        let mode = DescriptorMode::Hardware;
        dma(Transfer { mode, priority: Some(index % 10), ..transfer(Route::Load, 128, 4) }).issue(&mut timeline);
    }
    let (first, last) = (timeline.records().at(0).start, timeline.records().at(99).start);
    assert_near("trn2 hardware generator", 600.0, nanoseconds(last - first) / 99.0, 0.03);
}

#[test]
fn test_hardware_descriptors_take_the_documented_time_on_one_queue() {
    let mut timeline = timeline("trn2");
    for _ in 0..100 {
        let mode = DescriptorMode::Hardware;
        dma(Transfer { mode, trigger: Some(Engine::Sync), ..transfer(Route::Load, 128, 64) }).issue(&mut timeline);
    }
    let (first, last) = (timeline.records().at(0).start, timeline.records().at(99).start);
    assert_near("trn2 hardware descriptors", 600.0, nanoseconds(last - first) / 99.0, 0.03);
}

#[test]
fn test_dma_descriptors_of_4_bytes() {
    let timeline = alone("trn1", Transfer { row_descriptors: 64, ..transfer(Route::Load, 128, 256) });
    assert_near("trn1 4 B", 7.0, nanoseconds(share(&timeline)) / (8.0 * 64.0), 0.03);
}

#[test]
fn test_matmul_pairs_take_the_documented_cycles() {
    // Stationary and moving columns, passes, published cycles a pair.
    let pairs = [
        ("trn1", 128, 1, 1, 64.0),
        ("trn1", 1, 128, 1, 128.0),
        ("trn2", 128, 512, 1, 512.0),
        ("trn2", 128, 512, 4, 2048.0),
    ];
    for (name, stationary, moving, passes, published) in pairs {
        let arch = arch(name);
        let mut timeline = timeline(name);
        for _ in 0..1000 {
            matmul(&arch, stationary, moving, passes).issue(&mut timeline);
        }
        let (first, last) = (timeline.records().at(0).start, timeline.records().at(999).start);
        let cycles = nanoseconds(last - first) / 999.0 * arch.tensor_clock_mhz as f64 / 1000.0;
        assert_near("cycles a pair", published, cycles, 0.02);
    }
}

#[test]
fn test_float32_matmul_bound_by_tensor_engine() {
    // 4096 x 8192 @ 8192 x 8192 in float32: 32 768 pairs, of which a part stands for the whole.
    let arch = arch("trn2");
    let mut timeline = timeline("trn2");
    let count = 2048;
    for _ in 0..count {
        matmul(&arch, 128, 512, 4).issue(&mut timeline);
    }
    let whole = nanoseconds(timeline.makespan()) * 32768.0 / f64::from(count) / 1e6;
    assert_near("trn2 float32 4096 x 8192 x 8192, ms", 28.16, whole, 0.03);
}
