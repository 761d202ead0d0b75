use trn3_machine::dtype::DType;

use super::{floats, kind, refusal, run_on};
use crate::{MatmulPath, Tensor};

const STATE: [i64; 4] = [42, 0xffff_ffff, 0xffff_fffe, 7];

fn state(words: &[i64]) -> Tensor {
    Tensor::from_integers(kind(DType::UInt32, &[words.len()]), words.iter().copied()).unwrap()
}

fn bits(words: &[i64], algorithm: &str, dtype: DType, shape: &[usize]) -> [Vec<i64>; 2] {
    let (state, attributes) = (state(words), format!(r#"{{"algorithm": "{algorithm}"}}"#));
    let results = [state.kind().clone(), kind(dtype, shape)];
    let found = run_on(MatmulPath::AsTyped, "rng_bit_generator", &[&state], &results, &attributes).unwrap();
    [0, 1].map(|place| found[place].integers().unwrap())
}

/// What jax.lax.rng_bit_generator of JAX 0.10.2 gives on a CPU.
#[test]
fn test_threefry_has_the_bits_of_xla() {
    let cases: [(&[usize], i64, &[i64]); 5] = [
        (&[5], 1, &[2072651174, 4103946167, 3318490879, 2300118052, 466452856]),
        (&[], -1, &[2072651174]),
        (&[3, 3], 4, &[2072651174, 3318490879, 466452856, 4103946167, 2300118052, 2006872289, 840683288, 2193692627]),
        (&[4, 6], 10, &[2072651174, 3318490879, 466452856, 840683288, 2193692627, 378358079, 4103946167, 2300118052]),
        (
            &[3, 5, 2],
            13,
            &[2072651174, 4103946167, 3318490879, 2300118052, 466452856, 2006872289, 840683288, 4047756780],
        ),
    ];
    for (shape, low, expected) in cases {
        let [next, found] = bits(&STATE, "threefry", DType::UInt32, shape);
        assert_eq!(found[..expected.len()], *expected, "{shape:?}");
        let high = if low < 0 { 7 } else { 8 };
        assert_eq!(next, [42, 0xffff_ffff, low & 0xffff_ffff, high], "{shape:?}");
        let [_, bytes] = bits(&STATE, "threefry", DType::UInt8, shape);
        assert_eq!(bytes, found.iter().map(|word| word & 0xff).collect::<Vec<_>>());
    }
    let [next, found] = bits(&[1, 2, 0xffff_ffff, 0xffff_ffff], "threefry", DType::UInt32, &[9]);
    assert_eq!(next, [1, 2, 4, 0]);
    let expected =
        [3850963268, 2619805951, 629071667, 2343584484, 2271449651, 1211544305, 2527474599, 2772174290, 2392469163];
    assert_eq!(found, expected);
}

/// What jax.lax.rng_bit_generator of JAX 0.10.2 gives on a CPU.
#[test]
fn test_philox_has_the_bits_of_xla() {
    let expected = [2135935112, 2399782293, 3389082348, 2475779467, 2578975882, 1563246583, 576357313, 3253959419];
    let cases: [(&[usize], i64, i64); 4] = [(&[5], 0, 8), (&[], 0xffff_ffff, 7), (&[3, 3], 1, 8), (&[3, 5, 2], 6, 8)];
    for (shape, low, high) in cases {
        for algorithm in ["philox", "default"] {
            let [next, found] = bits(&STATE, algorithm, DType::UInt32, shape);
            let count = found.len().min(expected.len());
            assert_eq!(found[..count], expected[..count], "{shape:?}");
            assert_eq!(next, [42, 0xffff_ffff, low, high]);
        }
    }
    let [next, found] = bits(&[1, 2, 0xffff_ffff, 0xffff_ffff], "philox", DType::UInt32, &[9]);
    assert_eq!(next, [1, 2, 2, 0]);
    let expected =
        [875035680, 2457449792, 952865925, 536199321, 67759320, 265751716, 222428074, 2049345928, 2818318232];
    assert_eq!(found, expected);
    let [_, halves] = bits(&[1, 2, 0xffff_ffff, 0xffff_ffff], "philox", DType::Int16, &[3]);
    assert_eq!(halves, expected[..3].iter().map(|&word| i64::from(word as i16)).collect::<Vec<_>>());
}

/// What XLA gives for a state of three words of 64 bits.
#[test]
fn test_a_long_counter_carries() {
    let [next, found] = bits(&[5, 0, 6, 0, 7, 0], "philox", DType::UInt32, &[6]);
    assert_eq!(next, [5, 0, 8, 0, 7, 0]);
    assert_eq!(found, [1033811427, 2611507766, 2049409451, 998509057, 2441776350, 3561623133]);
    let [next, found] = bits(&[1, 0, 0xffff_ffff, 0xffff_ffff, 3, 0], "philox", DType::UInt32, &[6]);
    assert_eq!(next, [1, 0, 1, 0, 4, 0]);
    assert_eq!(found, [3023135040, 2618764561, 763147620, 1543521082, 3140572256, 1890473413]);
}

#[test]
fn test_states_of_another_kind_are_refused() {
    let results = [kind(DType::UInt32, &[6]), kind(DType::UInt32, &[2])];
    let found = refusal("rng_bit_generator", &[&state(&[0; 6])], &results, r#"{"algorithm": "threefry"}"#);
    assert_eq!(found, "rng_bit_generator: the state is uint32[6]; allowed: uint32 of [4] words");
    let results = [kind(DType::UInt32, &[4]), kind(DType::Float32, &[2])];
    let found = refusal("rng_bit_generator", &[&state(&[0; 4])], &results, r#"{"algorithm": "philox"}"#);
    assert_eq!(found, "rng_bit_generator: the bits are float32[2]; allowed: integers");
    let x = floats(DType::Float32, &[4], &[0.0; 4]);
    let found = refusal("rng_bit_generator", &[&x], &results, r#"{"algorithm": "default"}"#);
    assert_eq!(found, "rng_bit_generator: the state is float32[4]; allowed: uint32 of [4, 6] words");
}
