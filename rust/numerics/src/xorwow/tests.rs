//! The parts that other operations build on: polynomials, spans of blocks, runs of tasks.

use std::sync::Mutex;

use proptest::prelude::*;

use super::polynomial::Polynomial;
use super::*;

fn seeded(lanes: usize, generators: usize, phase: usize) -> Xorwow {
    let mut generator = Xorwow::seed(lanes as u64, lanes, generators).expect("valid seed");
    generator.set_phase(phase % generators).expect("in range");
    generator
}

/// The draws of a block by its rule, and the generators after it.
fn block(generator: &Xorwow, total: usize) -> (Vec<u32>, Xorwow) {
    let mut after = generator.clone();
    let n = generator.draws_per_lane(total);
    let mut draws = vec![0; n * generator.lanes()];
    after.uint32(n, &mut draws).expect("valid call");
    draws.truncate(total);
    (draws, after)
}

#[test]
fn test_powers_of_x_are_repeated_products() {
    let mut product = Polynomial::power_of_x(0);
    for power in 0..1000 {
        assert_eq!(Polynomial::power_of_x(power), product, "x^{power}");
        if power < 160 {
            assert!(product.degree() == power as usize && product.coefficient(power as usize));
        }
        product = product.times_x();
    }
}

#[test]
fn test_the_characteristic_polynomial_has_full_period() {
    // x^(2^160 - 1) = 1, and x^((2^160 - 1) / p) is not for any prime divisor p.
    let primes = [3, 5, 11, 17, 31, 41, 257, 61_681, 65_537, 414_721, 4_278_255_361, 44_479_210_368_001];
    let product = primes.iter().fold(5u128, |product, prime| product.wrapping_mul(*prime));
    assert_eq!(product, u128::MAX, "2^160 - 1 = 5 times all of them, modulo 2^128");
    let minus_one = [u64::MAX, u64::MAX, u64::from(u32::MAX)];
    assert_eq!(wide_power(minus_one), Polynomial::power_of_x(0));
    for prime in primes {
        let (mut quotient, mut remainder) = ([0; 3], 0u128);
        for word in (0..3).rev() {
            let dividend = remainder << 64 | u128::from(minus_one[word]);
            quotient[word] = (dividend / prime) as u64;
            remainder = dividend % prime;
        }
        assert_eq!(remainder, 0, "{prime} divides 2^160 - 1");
        assert_ne!(wide_power(quotient), Polynomial::power_of_x(0), "{prime}");
    }
}

/// x to a power of 192 bits, by squaring through plain products.
fn wide_power(exponent: [u64; 3]) -> Polynomial {
    let mut power = Polynomial::power_of_x(0);
    for bit in (0..192).rev() {
        power = product(power, power);
        if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
            power = power.times_x();
        }
    }
    power
}

fn product(a: Polynomial, b: Polynomial) -> Polynomial {
    let mut sum = None;
    let mut shifted = a;
    for power in 0..160 {
        if b.coefficient(power) {
            sum = Some(sum.map_or(shifted, |sum: Polynomial| sum.plus(shifted)));
        }
        shifted = shifted.times_x();
    }
    sum.expect("not zero")
}

fn check_span(generator: &Xorwow, total: usize, start: usize, count: usize) {
    let (draws, _) = block(generator, total);
    let mut span = vec![0; count];
    generator.span(total, start, &mut span).expect("not interrupted");
    assert!(span == draws[start..start + count], "{start}, {count} of {total}, {} lanes", generator.lanes());
}

#[test]
fn test_long_spans_are_parts_of_the_block() {
    for (lanes, generators, total) in [(1, 1, 100_003), (2, 4, 150_001), (3, 1, 400_000), (40, 4, 700_003)] {
        let generator = seeded(lanes, generators, 3);
        let row = generator.draws_per_lane(total);
        for (start, count) in [
            (0, total),
            (1, total - 1),
            (row - 1, (total - row).min(2) + 1),
            (total / 3 + 1, total / 2),
            (total - 50_000, 50_000),
            (row / 2, row / 3),
            (total, 0),
        ] {
            check_span(&generator, total, start, count);
        }
    }
}

fn check_parts(generator: &Xorwow, total: usize, head: Option<usize>) {
    let (expected, after) = block(generator, total);
    // Two bytes an element, as where an output is split in bytes.
    let mut seen = vec![0u8; 2 * total];
    let drawn = Mutex::new(vec![0; total]);
    let mut consumed = generator.clone();
    consumed
        .consume(total, &mut seen, 2, |task, out| {
            assert_eq!(2 * task.elements().len(), out.len());
            let first = task.elements().start;
            let mut put = |start: usize, draws: &[u32]| {
                out[2 * (start - first)..][..2 * draws.len()].iter_mut().for_each(|times| *times += 1);
                drawn.lock().expect("no panic")[start..start + draws.len()].copy_from_slice(draws);
            };
            task.for_each_part(head, |part| match part {
                Part::Draws(start, draws) => {
                    assert!((1..=plan::RUN).contains(&draws.len()));
                    put(start, draws);
                }
                Part::Streams(Streams { state, start, steps, stride }) => {
                    assert!(head.is_some());
                    scalar::make(state, steps, |stream, place, draws| {
                        put(start + stream * stride + place * draws.len(), draws);
                    });
                }
            });
        })
        .expect("not interrupted");
    assert!(seen.iter().all(|times| *times == 1), "{total} elements, {} lanes", generator.lanes());
    assert!(drawn.into_inner().expect("no panic") == expected, "{total} elements, {} lanes", generator.lanes());
    assert_eq!(consumed, after);
    let mut advanced = generator.clone();
    advanced.advance(total).expect("not interrupted");
    assert_eq!(advanced, after);
}

#[test]
fn test_parts_are_the_block() {
    for (lanes, generators, total) in [
        (1, 1, 1),
        (1, 4, 70_007),
        (7, 1, 300_001),
        (128, 1, 128 * 700 - 5),
        (128, 1, 128 * 512),
        (16, 4, 16 * 4096),
        (16, 1, 16 * 5120),
        (33, 4, 33 * 7),
        (128, 4, 129),
        (128, 1, 600_000),
        (5, 1, 0),
    ] {
        for head in [None, Some(0), Some(5)] {
            check_parts(&seeded(lanes, generators, 2), total, head);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn test_any_block(
        lanes in 1usize..70, is_four: bool, phase in 0usize..4, total in 1usize..30_000, ends in (0.0f64..1.0, 0.0f64..1.0),
    ) {
        let generator = seeded(lanes, if is_four { 4 } else { 1 }, phase);
        check_parts(&generator, total, None);
        let place = |part: f64| (part * total as f64) as usize;
        let (start, end) = (place(ends.0.min(ends.1)), place(ends.0.max(ends.1)));
        check_span(&generator, total, start, end - start);
    }
}
