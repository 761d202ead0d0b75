//! The generator against its definition: known answers, plain stepping, matrix powers.

use trn3_numerics::{Error, SimdLevel, Xorwow, num_threads, set_num_threads, with_interrupt_check, with_level};

const WEYL_STEP: u32 = 362_437;
/// The seeds of Marsaglia's paper.
const MARSAGLIA: [u32; 6] = [123_456_789, 362_436_069, 521_288_629, 88_675_123, 5_783_321, 6_615_241];

fn step(state: &mut [u32]) -> u32 {
    let t = state[0] ^ (state[0] >> 2);
    state.copy_within(1..5, 0);
    state[4] = (state[4] ^ (state[4] << 4)) ^ (t ^ (t << 1));
    state[5] = state[5].wrapping_add(WEYL_STEP);
    state[4].wrapping_add(state[5])
}

/// Lanes that are stepped one draw at a time.
struct Plain {
    state: Vec<u32>,
    words: usize,
    phase: usize,
}

impl Plain {
    fn of(generator: &Xorwow) -> Self {
        Self { state: generator.state().to_vec(), words: 6 * generator.generators(), phase: generator.phase() }
    }

    fn uint32(&mut self, n: usize) -> Vec<u32> {
        let generators = self.words / 6;
        let mut draws = Vec::new();
        for lane in self.state.chunks_mut(self.words) {
            draws.extend((self.phase..self.phase + n).map(|turn| step(&mut lane[turn % generators * 6..][..6])));
        }
        self.phase = (self.phase + n) % generators;
        draws
    }

    fn check(&self, generator: &Xorwow, what: &str) {
        assert!(self.state == generator.state(), "states after {what}");
        assert_eq!(self.phase, generator.phase(), "phase after {what}");
    }
}

fn levels() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::ALL.into_iter().filter(|level| level.is_available())
}

fn seeded(seed: u64, lanes: usize, generators: usize) -> Xorwow {
    Xorwow::seed(seed, lanes, generators).expect("valid seed")
}

fn uint32(generator: &mut Xorwow, n: usize) -> Vec<u32> {
    let mut draws = vec![0; generator.lanes() * n];
    generator.uint32(n, &mut draws).expect("valid call");
    draws
}

fn message<T>(result: Result<T, Error>) -> String {
    result.err().expect("refused").to_string()
}

#[test]
fn test_first_draw_by_hand() {
    // t = x ^ x >> 2 = 0x075bcd15 ^ 0x01d6f345 = 0x068d3e50, t ^ t << 1 = 0x068d3e50 ^ 0x0d1a7ca0 = 0x0b9742f0,
    // v ^ v << 4 = 0x00583f19 ^ 0x0583f190 = 0x05dbce89, so v becomes 0x0e4c8c79;
    // d becomes 0x0064f0c9 + 0x000587c5 = 0x006a788e, and the draw is 0x0eb70507.
    let mut generator = Xorwow::from_state(&MARSAGLIA, 1, 6).expect("valid state");
    assert_eq!(uint32(&mut generator, 1), [0x0eb7_0507]);
    assert_eq!(generator.state(), [362_436_069, 521_288_629, 88_675_123, 5_783_321, 0x0e4c_8c79, 0x006a_788e]);
    assert_eq!(uint32(&mut generator, 5), [3_690_007_200, 1_264_581_005, 3_906_711_041, 1_866_187_943, 2_481_925_219]);
}

#[test]
fn test_four_generators_take_turns() {
    // The same words in all four generators, but for the counters: every turn of four gives the known draws, shifted.
    let mut words = [MARSAGLIA; 4];
    for (generator, state) in words.iter_mut().enumerate() {
        state[5] += 1000 * generator as u32;
    }
    let mut generator = Xorwow::from_state(words.as_flattened(), 1, 24).expect("valid state");
    let (first, second) = (246_875_399, 3_690_007_200);
    let expected = [first, first + 1000, first + 2000, first + 3000, second, second + 1000, second + 2000];
    assert_eq!(uint32(&mut generator, 7), expected);
    assert_eq!(generator.phase(), 3);
    assert_eq!(uint32(&mut generator, 2), [second + 3000, 1_264_581_005]);
    assert_eq!(generator.phase(), 1);
}

#[test]
fn test_seed_is_one_splitmix64_stream() {
    // Published outputs of splitmix64 for the seed 1234567.
    let stream: [u64; 3] = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    let words: Vec<u32> = stream.iter().flat_map(|bits| [*bits as u32, (*bits >> 32) as u32]).collect();
    assert_eq!(seeded(1_234_567, 1, 1).state(), words);
    // Lane after lane, generator after generator.
    let four = seeded(1_234_567, 2, 4);
    assert_eq!(four.state()[..6], words);
    assert_eq!(four.state(), seeded(1_234_567, 8, 1).state());
    assert_eq!((four.lanes(), four.generators(), four.phase()), (2, 4, 0));
}

#[test]
fn test_every_level_draws_as_plain_steps_do() {
    for level in levels() {
        for (lanes, generators) in [(1, 1), (2, 4), (3, 1), (16, 1), (16, 4), (17, 1), (20, 4), (128, 1), (129, 4)] {
            let mut generator = seeded(lanes as u64, lanes, generators);
            let mut plain = Plain::of(&generator);
            for n in [0, 1, 2, 3, 5, 16, 21, 64, 100, 129, 1024, 1040, 1500] {
                let what = format!("{n} draws of {lanes} lanes of {generators} generators at {level}");
                let got = with_level(level, || uint32(&mut generator, n)).expect("available");
                assert!(got == plain.uint32(n), "{what}");
                plain.check(&generator, &what);
            }
        }
    }
}

#[test]
fn test_rows_that_are_cut_draw_as_plain_steps_do() {
    for level in levels() {
        let odd = [(1, 1, 40_000), (1, 4, 70_001), (3, 1, 33_333), (5, 4, 20_010), (19, 1, 9_001)];
        // Rows that one place of the first cache is for, of which streams are set apart.
        let even = [(16, 1, 5 << 10), (33, 4, 8 << 10), (2, 4, 1 << 16)];
        for (lanes, generators, n) in odd.into_iter().chain(even) {
            let mut generator = seeded(9, lanes, generators);
            let mut plain = Plain::of(&generator);
            for n in [3, n, 1] {
                let what = format!("{n} draws of {lanes} lanes of {generators} generators at {level}");
                let got = with_level(level, || uint32(&mut generator, n)).expect("available");
                assert!(got == plain.uint32(n), "{what}");
                plain.check(&generator, &what);
            }
        }
    }
}

#[test]
fn test_output_alignment_does_not_matter() {
    let (lanes, n) = (16, 1 << 10);
    let expected = uint32(&mut seeded(4, lanes, 4), n);
    let mut memory = vec![0; lanes * n + 16];
    for offset in 0..16 {
        let out = &mut memory[offset..][..lanes * n];
        seeded(4, lanes, 4).uint32(n, out).expect("valid call");
        assert!(out == expected, "offset {offset}");
    }
}

#[test]
fn test_calls_go_on_where_the_last_one_stopped() {
    for generators in [1, 4] {
        let whole = uint32(&mut seeded(3, 5, generators), 60);
        let mut parts = seeded(3, 5, generators);
        let mut start = 0;
        for n in [1, 2, 3, 5, 7, 11, 13, 18] {
            let part = uint32(&mut parts, n);
            for lane in 0..5 {
                assert_eq!(part[lane * n..][..n], whole[lane * 60 + start..][..n], "{n} draws after {start}");
            }
            start += n;
        }
        assert_eq!(start, 60);
    }
}

#[test]
fn test_thread_count_changes_nothing() {
    let before = num_threads().expect("valid environment");
    for (lanes, generators, n) in [(1, 1, 600_000), (128, 4, 5_000), (40, 1, 20_000)] {
        let mut first = None;
        for threads in [1, 2, 5] {
            set_num_threads(threads).expect("some threads");
            let mut generator = seeded(11, lanes, generators);
            let draws = uint32(&mut generator, n);
            let (expected, state) = first.get_or_insert_with(|| (draws.clone(), generator.clone()));
            assert!(*expected == draws && *state == generator, "{threads} threads, {lanes} lanes");
        }
    }
    set_num_threads(before).expect("as before");
}

#[test]
fn test_uniform_is_the_formula_at_every_level() {
    for (low, high) in [(0.0f32, 1.0f32), (-1.5, 2.5), (3.0, -7.0), (1e-40, 3e-40), (0.1, 0.1)] {
        for (lanes, generators, n) in [(17, 1, 70), (16, 4, 1056), (1, 1, 30_000)] {
            let draws = uint32(&mut seeded(5, lanes, generators), n);
            let expected: Vec<u32> = draws
                .iter()
                .map(|draw| (low + (high - low) * ((draw >> 8) as f32 * 2f32.powi(-24))).to_bits())
                .collect();
            for level in levels() {
                let mut generator = seeded(5, lanes, generators);
                let mut values = vec![0.0f32; lanes * n];
                with_level(level, || generator.uniform(n, low, high, &mut values).expect("valid call"))
                    .expect("available");
                assert!(bytemuck::cast_slice::<f32, u32>(&values) == expected, "{level}, {low} to {high}, {lanes}");
                let mut plain = seeded(5, lanes, generators);
                plain.jump(n as u64).expect("not interrupted");
                assert_eq!(generator, plain);
            }
        }
    }
}

#[test]
fn test_jump_is_so_many_steps_at_every_level() {
    for level in levels() {
        for (lanes, generators) in [(1, 1), (18, 1), (3, 4), (16, 4)] {
            for n in (0..12).chain([158, 159, 160, 161, 319, 640, 641, 1000, 4099]) {
                let mut generator = seeded(n as u64, lanes, generators);
                generator.set_phase(n % generators).expect("in range");
                let mut plain = Plain::of(&generator);
                with_level(level, || generator.jump(n as u64).expect("not interrupted")).expect("available");
                plain.uint32(n);
                plain.check(&generator, &format!("a jump by {n} at {level}"));
            }
        }
    }
}

/// A linear map of the 160 bits of the xorshift words: the images of the unit vectors.
type Matrix = Vec<[u32; 5]>;

fn apply(matrix: &Matrix, vector: [u32; 5]) -> [u32; 5] {
    let mut image = [0; 5];
    for (bit, column) in matrix.iter().enumerate() {
        if vector[bit / 32] >> (bit % 32) & 1 == 1 {
            (0..5).for_each(|word| image[word] ^= column[word]);
        }
    }
    image
}

#[test]
fn test_jump_is_a_matrix_power() {
    let unit =
        |bit: usize| -> [u32; 5] { std::array::from_fn(|word| if word == bit / 32 { 1 << (bit % 32) } else { 0 }) };
    let one_step = |bit| {
        let mut state = [0; 6];
        state[..5].copy_from_slice(&unit(bit));
        step(&mut state);
        std::array::from_fn(|word| state[word])
    };
    let mut squares: Vec<Matrix> = vec![(0..160).map(one_step).collect()];
    for exponent in 1..64 {
        let last = &squares[exponent - 1];
        squares.push(last.iter().map(|column| apply(last, *column)).collect());
    }
    let after = |state: &[u32], steps: u64| -> Vec<u32> {
        let mut words: [u32; 5] = std::array::from_fn(|word| state[word]);
        for (exponent, square) in squares.iter().enumerate() {
            if steps >> exponent & 1 == 1 {
                words = apply(square, words);
            }
        }
        let counter = state[5].wrapping_add(WEYL_STEP.wrapping_mul(steps as u32));
        words.into_iter().chain([counter]).collect()
    };
    for n in [1, 159, 160, 1 << 20, 1 << 32, 0x0123_4567_89ab_cdef, u64::MAX - 1, u64::MAX] {
        let mut one = seeded(n, 3, 1);
        let expected: Vec<u32> = one.state().chunks(6).flat_map(|state| after(state, n)).collect();
        one.jump(n).expect("not interrupted");
        assert_eq!(one.state(), expected, "{n}");

        let mut four = seeded(n, 1, 4);
        four.set_phase(2).expect("in range");
        // Generator g has the draws 2 + i = g modulo 4 for i < n.
        let turns = |generator: u64| (n / 4) + u64::from((generator + 2) % 4 < n % 4);
        let expected: Vec<u32> = (0..4).flat_map(|g| after(&four.state()[6 * g..], turns(g as u64))).collect();
        four.jump(n).expect("not interrupted");
        assert_eq!(four.state(), expected, "{n}");
        assert_eq!(four.phase() as u64, (2 + n % 4) % 4);
    }
}

#[test]
fn test_an_interrupted_call_leaves_the_state() {
    let mut generator = seeded(1, 128, 4);
    generator.set_phase(3).expect("in range");
    let before = generator.clone();
    let mut draws = vec![0; 128 << 18];
    let result =
        with_level(SimdLevel::Scalar, || with_interrupt_check(|| true, || generator.uint32(1 << 18, &mut draws)));
    assert_eq!(result, Ok(Err(Error::Interrupted)));
    assert_eq!(generator, before);
}

#[test]
fn test_state_can_be_read_and_set() {
    let mut generator = seeded(1, 3, 4);
    uint32(&mut generator, 6);
    let copy = Xorwow::from_state(generator.state(), 3, 24).expect("valid state");
    assert_eq!((copy.phase(), generator.phase()), (0, 2));
    assert_ne!(copy, generator);
    let mut copy = copy;
    copy.set_phase(2).expect("in range");
    assert_eq!(copy, generator);
    let state = generator.state().to_vec();
    copy.set_state(&state).expect("valid state");
    assert_eq!((copy.phase(), copy.state()), (0, generator.state()));
}

#[test]
fn test_wrong_calls_say_what_is_wrong() {
    let ones = [1; 48];
    let shape = "it must be (lanes, 6) or (lanes, 24) with at least one lane";
    assert_eq!(message(Xorwow::from_state(&[], 0, 6)), format!("state has shape [0, 6]; {shape}"));
    assert_eq!(message(Xorwow::from_state(&ones[..12], 1, 12)), format!("state has shape [1, 12]; {shape}"));
    let counted = format!("state has shape [3, 24]; 48 words came; {shape}");
    assert_eq!(message(Xorwow::from_state(&ones, 3, 24)), counted);
    assert_eq!(
        message(Xorwow::from_state(&ones, usize::MAX, 6)),
        format!("state has shape [{}, 6]; 48 words came; {shape}", usize::MAX)
    );
    let mut zero = ones;
    zero[30..35].fill(0);
    let all_zero = "state is all zero in the xorshift words of lane 1, generator 1; one of the five must not be: such a \
                    generator would only count";
    assert_eq!(message(Xorwow::from_state(&zero, 2, 24)), all_zero);
    let mut generator = Xorwow::from_state(&ones, 2, 24).expect("valid state");
    let before = generator.clone();
    assert_eq!(message(generator.set_state(&zero)), all_zero);
    assert_eq!(
        message(generator.set_state(&ones[1..])),
        "state has shape [47]; 48 words are needed, as the generators have"
    );
    assert_eq!(message(generator.set_phase(4)), "phase is 4; it must be from 0 to 3");
    let mut single = seeded(0, 2, 1);
    assert_eq!(message(single.set_phase(1)), "phase is 1; with one generator a lane it is always 0");
    assert_eq!(message(Xorwow::seed(0, 2, 2)), "generators is 2; 1 or 4 generators a lane are allowed");
    assert_eq!(message(Xorwow::seed(0, 0, 1)), "lanes is 0; at least one lane is needed");
    let too_many = format!("lanes is {}; the states of so many do not fit in memory", usize::MAX / 8);
    assert_eq!(message(Xorwow::seed(0, usize::MAX / 8, 1)), too_many);
    assert_eq!(message(generator.uint32(3, &mut [0; 5])), "out has shape [5]; it must have shape [2, 3]");
    assert_eq!(message(generator.uniform(1, f32::NAN, 1.0, &mut [0.0; 2])), "low is NaN; a finite number is needed");
    let infinite = generator.uniform(1, 0.0, f32::NEG_INFINITY, &mut [0.0; 2]);
    assert_eq!(message(infinite), "high is -inf; a finite number is needed");
    assert_eq!(
        message(generator.uniform(1, -3e38, 3e38, &mut [0.0; 2])),
        "high is 3e38; it must differ from low = -3e38 by a finite float32"
    );
    assert_eq!(generator, before);
}
