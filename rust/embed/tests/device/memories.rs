//! Memories by address.

use proptest::prelude::*;
use trn3_embed::AddressedMemory;
use trn3_embed::{Address, Command, ErrorKind, MemorySpace};
use trn3_machine::time::Picos;

use crate::support::{device, settle};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn test_memories_hold_what_was_written(
        writes in prop::collection::vec((0..3usize, 0..4_000_000u64, 1..70_000usize, any::<u8>()), 1..8),
    ) {
        let mut device = device();
        let spaces = [MemorySpace::Hbm, MemorySpace::Sbuf, MemorySpace::Psum];
        let mut model = vec![vec![0u8; 4_100_000]; 3];
        for (which, address, length, value) in writes {
            let size = device.size_of(spaces[which]);
            let address = address % (size - 70_000);
            device.write(spaces[which], 0, address, &vec![value; length]).expect("room");
            model[which][address as usize..address as usize + length].fill(value);
        }
        for (space, expected) in spaces.into_iter().zip(&model) {
            let mut bytes = vec![0; (device.size_of(space) as usize).min(expected.len())];
            device.read(space, 0, 0, &mut bytes).expect("bytes");
            prop_assert!(bytes == expected[..bytes.len()]);
        }
    }
}

#[test]
fn test_delays_grow_with_bytes_and_are_those_of_the_spec() {
    let mut device = device();
    let (one, more) = (device.delay(MemorySpace::Hbm, 1), device.delay(MemorySpace::Hbm, 1 << 20));
    assert!(one < more);
    let arch = device.arch();
    let expected = arch.register_load_hbm_ns + (1 << 20) as f64 / arch.hbm_gbps;
    assert_eq!(more, Picos::from_nanoseconds(expected));
    assert_eq!(device.write(MemorySpace::Hbm, 0, 0, &vec![1; 1 << 20]).expect("room"), more);
    assert_eq!(device.now(), Picos(0));
}

#[test]
fn test_beyond_the_end_is_refused() {
    let mut device = device();
    for space in [MemorySpace::Hbm, MemorySpace::Sbuf, MemorySpace::Psum] {
        let size = device.size_of(space);
        for address in [size, size - 1, u64::MAX - 1] {
            assert_eq!(device.write(space, 0, address, &[0; 4]).expect_err("outside").kind, ErrorKind::Value);
            assert_eq!(device.read(space, 0, address, &mut [0; 4]).expect_err("outside").kind, ErrorKind::Value);
        }
        assert_eq!(device.memory(space, 0).expect("a core").len(), size);
        assert!(device.read(space, 7, 0, &mut [0]).is_err());
    }
}

#[test]
fn test_huge_hbm_takes_what_is_used_alone() {
    let mut device = device();
    for i in 0..64 {
        device.write(MemorySpace::Hbm, 0, i << 31, &[7]).expect("room");
    }
    let mut byte = [0];
    device.read(MemorySpace::Hbm, 0, 63 << 31, &mut byte).expect("a byte");
    assert_eq!(byte, [7]);
}

#[test]
fn test_copies_move_rows_between_memories() {
    let mut device = device();
    let data: Vec<u8> = (0..=255).cycle().take(64 * 96).collect();
    device.write(MemorySpace::Hbm, 0, 1000, &data).expect("room");
    let hbm = |address| Address { space: MemorySpace::Hbm, address };
    let sbuf = Address { space: MemorySpace::Sbuf, address: 32 * device.arch().sbuf_partition_bytes + 512 };
    device.submit(Command::Copy { core: 0, dst: sbuf, src: hbm(1000), rows: 64, row_bytes: 96 }, 1).expect("room");
    device.submit(Command::Copy { core: 0, dst: hbm(50_001), src: sbuf, rows: 64, row_bytes: 96 }, 2).expect("room");
    let psum = Address { space: MemorySpace::Psum, address: 0 };
    device.submit(Command::Copy { core: 0, dst: psum, src: sbuf, rows: 64, row_bytes: 96 }, 3).expect("room");
    let done = settle(&mut device);
    assert_eq!((&done[0].status, &done[1].status), (&Ok(()), &Ok(())));
    assert!(done[2].status.as_ref().expect_err("no DMA reaches PSUM").message.contains("PSUM"));
    let mut back = vec![0; data.len()];
    device.read(MemorySpace::Hbm, 0, 50_001, &mut back).expect("bytes");
    assert_eq!(back, data);
}

#[test]
fn test_a_direct_place_stays_and_is_the_memory() {
    let mut device = device();
    let direct = device.memory_direct(0, 1 << 16).expect("room");
    let place = direct.with(|bytes| bytes.as_ptr() as usize);
    for i in 0..200 {
        device.write(MemorySpace::Hbm, 0, i * 100_000, &[1]).expect("room");
    }
    direct.with(|bytes| bytes[5] = 77);
    let mut byte = [0];
    device.read(MemorySpace::Hbm, 0, 5, &mut byte).expect("a byte");
    assert_eq!((byte, direct.with(|bytes| bytes.as_ptr() as usize)), ([77], place));
}

#[test]
fn test_copies_of_overlapping_and_neighbouring_ranges_move_what_was_there() {
    let mut device = device();
    let data: Vec<u8> = (0..200_000u32).map(|i| (i * 7 % 251) as u8).collect();
    device.write(MemorySpace::Hbm, 0, 0, &data).expect("room");
    let mut model = data;
    let hbm = |address| Address { space: MemorySpace::Hbm, address };
    for (dst, src, bytes) in [(100u64, 50u64, 400u64), (70_000, 100, 65_000), (0, 69_990, 100_000), (5, 5, 10)] {
        let command = Command::Copy { core: 0, dst: hbm(dst), src: hbm(src), rows: 1, row_bytes: bytes };
        device.submit(command, 1).expect("room");
        assert_eq!(settle(&mut device)[0].status, Ok(()));
        model.copy_within(src as usize..(src + bytes) as usize, dst as usize);
    }
    let mut back = vec![0; model.len()];
    device.read(MemorySpace::Hbm, 0, 0, &mut back).expect("bytes");
    assert!(back == model);
}
