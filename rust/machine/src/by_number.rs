//! Maps by numbers that nobody outside chooses: a lookup costs every operand.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes numbers of storages, registers and the like.
pub(crate) type ByNumber = BuildHasherDefault<NumberHasher>;

/// See [`ByNumber`].
#[derive(Clone, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}
