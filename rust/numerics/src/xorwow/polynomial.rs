//! Powers of the xorshift step: how a generator is taken many steps ahead at once.
//!
//! The step M of the five xorshift words is linear over GF(2), so M^n = r(M) for r = x^n modulo M's characteristic
//! polynomial. r has 160 coefficients whatever n is: a jump costs the logarithm of n to find r, and 160 steps to apply.

use super::generator::step;

/// Degree of the characteristic polynomial: the bits of the five words.
const DEGREE: usize = 160;
const WORDS: usize = 3;
/// Bits of the last word that coefficients below the degree use.
const TOP_MASK: u64 = (1 << (DEGREE % 64)) - 1;

/// A polynomial over GF(2) modulo the characteristic one; bit i % 64 of word i / 64 is the coefficient of x^i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polynomial([u64; WORDS]);

/// x^160 modulo the characteristic polynomial: all of that but its leading term.
const CHARACTERISTIC: Polynomial = characteristic();

/// x^(160 + 2 i) modulo the characteristic polynomial: what squaring makes of the coefficient of x^(80 + i).
const HIGH_SQUARES: [Polynomial; DEGREE / 2] = high_squares();

/// The shortest linear recurrence of one bit of the sequence (Berlekamp and Massey's algorithm). It is the
/// characteristic polynomial's, since that is irreducible: any nonzero bit sequence has it.
const fn characteristic() -> Polynomial {
    const SPAN: usize = (2 * DEGREE).div_ceil(64);
    let mut generator = [1, 0, 0, 0, 0, 0];
    // Bit i of the window is the sequence's bit i places back.
    let mut window = [0u64; SPAN];
    let mut connection = [0u64; SPAN];
    let mut before = [0u64; SPAN];
    connection[0] = 1;
    before[0] = 1;
    let mut length = 0;
    let mut position = 0;
    while position < 2 * DEGREE {
        step(&mut generator);
        window = shifted(window);
        window[0] |= (generator[4] & 1) as u64;
        before = shifted(before);
        let mut discrepancy = 0;
        let mut corrected = connection;
        let mut word = 0;
        while word < SPAN {
            discrepancy ^= (connection[word] & window[word]).count_ones() & 1;
            corrected[word] ^= before[word];
            word += 1;
        }
        if discrepancy == 1 {
            if 2 * length <= position {
                length = position + 1 - length;
                before = connection;
            }
            connection = corrected;
        }
        position += 1;
    }
    assert!(length == DEGREE, "the xorshift step has a recurrence as long as its state");
    // The recurrence lists coefficients from the leading one down.
    let mut low = [0; WORDS];
    let mut power = 0;
    while power < DEGREE {
        let place = DEGREE - power;
        low[power / 64] |= (connection[place / 64] >> (place % 64) & 1) << (power % 64);
        power += 1;
    }
    Polynomial(low)
}

const fn shifted<const N: usize>(mut words: [u64; N]) -> [u64; N] {
    let mut word = N - 1;
    while word > 0 {
        words[word] = words[word] << 1 | words[word - 1] >> 63;
        word -= 1;
    }
    words[0] <<= 1;
    words
}

const fn high_squares() -> [Polynomial; DEGREE / 2] {
    let mut table = [CHARACTERISTIC; DEGREE / 2];
    let mut index = 1;
    while index < table.len() {
        table[index] = table[index - 1].times_x().times_x();
        index += 1;
    }
    table
}

/// The low 32 bits, each followed by a zero.
fn spread(bits: u64) -> u64 {
    let bits = bits & 0xffff_ffff;
    let bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    let bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    let bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

impl Polynomial {
    /// x^n.
    pub(crate) fn power_of_x(n: u64) -> Self {
        let mut power = Polynomial([1, 0, 0]);
        for bit in (0..u64::BITS - n.leading_zeros()).rev() {
            power = power.square();
            if n >> bit & 1 == 1 {
                power = power.times_x();
            }
        }
        power
    }

    /// This times x.
    pub(crate) const fn times_x(self) -> Self {
        let overflows = self.coefficient(DEGREE - 1);
        let mut words = shifted(self.0);
        words[WORDS - 1] &= TOP_MASK;
        let mut word = 0;
        while word < WORDS {
            words[word] ^= CHARACTERISTIC.0[word] & (overflows as u64).wrapping_neg();
            word += 1;
        }
        Polynomial(words)
    }

    /// The sum of two polynomials.
    #[cfg(test)]
    pub(crate) fn plus(self, other: Self) -> Self {
        Polynomial([self.0[0] ^ other.0[0], self.0[1] ^ other.0[1], self.0[2] ^ other.0[2]])
    }

    fn square(self) -> Self {
        let [a, b, c] = self.0;
        // Squaring doubles the exponents; those from 160 up are looked up.
        let mut words = [spread(a), spread(a >> 32), spread(b & 0xffff)];
        let high = u128::from(b >> 16) | u128::from(c) << 48;
        for (place, square) in HIGH_SQUARES.iter().enumerate() {
            let mask = ((high >> place) as u64 & 1).wrapping_neg();
            for (word, reduced) in words.iter_mut().zip(square.0) {
                *word ^= reduced & mask;
            }
        }
        Polynomial(words)
    }

    /// The coefficient of x^power.
    pub(crate) const fn coefficient(&self, power: usize) -> bool {
        self.0[power / 64] >> (power % 64) & 1 == 1
    }

    /// The highest power with a coefficient; 0 for a constant.
    pub(crate) fn degree(&self) -> usize {
        let top = self.0.iter().rposition(|word| *word != 0).unwrap_or(0);
        64 * top + self.0[top].checked_ilog2().unwrap_or(0) as usize
    }
}
