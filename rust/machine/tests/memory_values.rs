//! Every code of the narrow types read, and every rounding of theirs written, by definitions written out here.

use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::memory::{Memory, MemoryOptions, Request, Scalar};
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;
use trn3_numerics::{CastOptions, Overflow, Rounding, Xorwow};

const SITE: SiteId = SiteId(1);

fn memory() -> Memory {
    let arch = Arc::new(ArchSpec::load("trn3").expect("built in"));
    Memory::new(&arch, MemoryOptions { strict: true, ..Default::default() })
}

fn tensor(memory: &mut Memory, shape: &[usize], dtype: DType) -> View {
    let request = Request { name: "t", shape, dtype, buffer: Buffer::Sbuf, address: None, site: SITE };
    View::whole(memory.allocate(&request).expect("fits"))
}

/// A signed floating-point type by its definition.
struct Float {
    dtype: DType,
    exponent_bits: u32,
    mantissa_bits: u32,
    /// Whether the all-ones exponent holds infinity and NaN alone; if not, only the last code is NaN.
    is_ieee: bool,
}

const FLOATS: [Float; 5] = [
    Float { dtype: DType::BFloat16, exponent_bits: 8, mantissa_bits: 7, is_ieee: true },
    Float { dtype: DType::Float16, exponent_bits: 5, mantissa_bits: 10, is_ieee: true },
    Float { dtype: DType::Float8E4M3, exponent_bits: 4, mantissa_bits: 3, is_ieee: true },
    Float { dtype: DType::Float8E4M3Fn, exponent_bits: 4, mantissa_bits: 3, is_ieee: false },
    Float { dtype: DType::Float8E5M2, exponent_bits: 5, mantissa_bits: 2, is_ieee: true },
];

impl Float {
    fn sign_bit(&self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// Code of the first magnitude beyond the finite ones.
    fn end(&self) -> u32 {
        if self.is_ieee { ((1 << self.exponent_bits) - 1) << self.mantissa_bits } else { self.sign_bit() - 1 }
    }

    /// The value that a magnitude has or, beyond the finite ones, would have.
    fn magnitude(&self, code: u32) -> f64 {
        let (field, fraction) = (code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1));
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        let ulp = |exponent: i32| 2f64.powi(exponent - self.mantissa_bits as i32);
        match field {
            0 => f64::from(fraction) * ulp(1 - bias),
            _ => f64::from(fraction + (1 << self.mantissa_bits)) * ulp(field as i32 - bias),
        }
    }

    fn decode(&self, code: u32) -> f64 {
        let magnitude = code & (self.sign_bit() - 1);
        let value = match magnitude {
            _ if magnitude < self.end() => self.magnitude(magnitude),
            _ if magnitude == self.end() && self.is_ieee => f64::INFINITY,
            _ => f64::NAN,
        };
        if code & self.sign_bit() == 0 { value } else { -value }
    }

    fn nan(&self) -> u32 {
        if self.is_ieee { self.end() | 1 << (self.mantissa_bits - 1) } else { self.end() }
    }

    /// To the nearest code, ties to the even one; the first code beyond the finite ones is the overflow.
    fn encode(&self, value: f32) -> u32 {
        if value.is_nan() {
            return self.nan();
        }
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        let wanted = f64::from(value.abs());
        let (mut low, mut high) = (0, self.end());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.magnitude(middle) <= wanted { low = middle } else { high = middle }
        }
        let (below, above) = (wanted - self.magnitude(low), self.magnitude(high) - wanted);
        let code = if above < below || (above == below && high % 2 == 0) { high } else { low };
        // The one NaN of a type without infinity has no sign.
        if code == self.end() && !self.is_ieee { self.nan() } else { sign | code }
    }
}

/// Values around every code, every tie between two and both neighbours of those, and some that overflow.
fn probes(float: &Float) -> Vec<f32> {
    let mut values = vec![f32::NAN, -f32::NAN, f32::INFINITY, -f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45];
    for code in 0..float.end() {
        let (value, next) = (float.magnitude(code), float.magnitude(code + 1));
        for probe in [value as f32, value.midpoint(next) as f32] {
            values.extend([probe, probe.next_down(), probe.next_up()]);
        }
    }
    let negative: Vec<f32> = values.iter().map(|value| -value).collect();
    values.extend(negative);
    values
}

/// Written in large tiles and in small ones, which go different ways.
fn written(dtype: DType, values: &[f32], options: CastOptions) -> Vec<u32> {
    let mut memory = memory();
    let mut large = Vec::new();
    let mut padded = values.to_vec();
    padded.resize(values.len().next_multiple_of(128), 0.0);
    for values in padded.chunks(128 * 1024) {
        let view = tensor(&mut memory, &[128, values.len() / 128], dtype);
        memory.write_f32(&view, values, options).expect("fits");
        let mut bits = Vec::new();
        memory.read_bits(&view, &mut bits, SITE).expect("written");
        large.extend(bits);
    }
    let small = tensor(&mut memory, &[3, 7], dtype);
    for (values, expected) in padded.chunks_exact(21).zip(large.chunks_exact(21)) {
        memory.write_f32(&small, values, options).expect("fits");
        let mut bits = Vec::new();
        memory.read_bits(&small, &mut bits, SITE).expect("written");
        assert_eq!(bits, expected, "{dtype}: {values:?}");
    }
    large.truncate(values.len());
    large
}

fn is_same(value: f32, expected: f64) -> bool {
    value.is_nan() && expected.is_nan() || f64::from(value).to_bits() == expected.to_bits()
}

#[test]
fn test_every_code_of_the_narrow_floats_reads_as_its_value() {
    let mut memory = memory();
    for float in &FLOATS {
        let codes: Vec<u32> = (0..2 * float.sign_bit()).collect();
        let view = tensor(&mut memory, &[128, codes.len() / 128], float.dtype);
        memory.write_bits(&view, &codes).expect("fits");
        let mut out = Vec::new();
        memory.read_f32(&view, &mut out, SITE).expect("written");
        for (code, value) in codes.iter().zip(&out) {
            assert!(is_same(*value, float.decode(*code)), "{} {code:#x}: {value}", float.dtype);
        }
        let small = tensor(&mut memory, &[2, 4], float.dtype);
        let one = tensor(&mut memory, &[1, 1], float.dtype);
        for codes in codes.chunks(8) {
            memory.write_bits(&small, codes).expect("fits");
            memory.read_f32(&small, &mut out, SITE).expect("written");
            assert!(codes.iter().zip(&out).all(|(code, value)| is_same(*value, float.decode(*code))));
            memory.write_bits(&one, &codes[..1]).expect("fits");
            let Ok(Scalar::Float(value)) = memory.scalar(&one, SITE) else { panic!("a float") };
            assert!(is_same(value, float.decode(codes[0])));
        }
    }
}

#[test]
fn test_every_rounding_to_the_narrow_floats_is_to_nearest_even() {
    for float in &FLOATS {
        let values = probes(float);
        for (value, code) in values.iter().zip(written(float.dtype, &values, CastOptions::default())) {
            let expected = float.encode(*value);
            assert_eq!(code, expected, "{} {value:e}: {code:#x}, not {expected:#x}", float.dtype);
        }
    }
}

#[test]
fn test_overflow_saturates_where_asked() {
    let options = CastOptions { rounding: Rounding::Nearest, overflow: Overflow::Saturate };
    for float in &FLOATS {
        let values: Vec<f32> = [f32::INFINITY, -f32::MAX].repeat(100);
        let expected = [float.end() - 1, float.sign_bit() | (float.end() - 1)].repeat(100);
        assert_eq!(written(float.dtype, &values, options), expected, "{}", float.dtype);
    }
}

#[test]
fn test_float32_is_kept_and_nan_is_canonical() {
    let values = [0.0f32, -0.0, 1e-45, -1.5, f32::INFINITY, f32::from_bits(0x7f80_0001), f32::from_bits(0xffc0_0000)];
    let expected = [0, 0x8000_0000, 1, 0xbfc0_0000, 0x7f80_0000, 0x7fc0_0000, 0x7fc0_0000];
    assert_eq!(written(DType::Float32, &values.repeat(30), CastOptions::default()), expected.repeat(30));
}

#[test]
fn test_tfloat32_keeps_its_bits_alone() {
    let one = 0x3f80_0000u32;
    let bits = [one, one | 0x1000, one | 0x1001, one | 0x2000, one | 0x3000, one | 0xfff];
    let values: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
    let expected = [one, one, one | 0x2000, one | 0x2000, one | 0x4000, one];
    assert_eq!(written(DType::TFloat32, &values.repeat(30), CastOptions::default()), expected.repeat(30));
    let mut memory = memory();
    let view = tensor(&mut memory, &[1, 2], DType::TFloat32);
    memory.write_bits(&view, &[one | 0x1fff, 0xff80_1fff]).expect("fits");
    let mut out = Vec::new();
    memory.read_f32(&view, &mut out, SITE).expect("written");
    assert_eq!(out, [1.0, -f32::INFINITY]);
}

/// To nearest even by the fraction, then into the range.
fn rounded(value: f32, low: i64, high: i64) -> i64 {
    let value = f64::from(value);
    if value.is_nan() {
        return 0;
    }
    let floor = value.floor();
    let rounded = match value - floor {
        fraction if fraction < 0.5 => floor,
        fraction if fraction > 0.5 => floor + 1.0,
        _ if floor.rem_euclid(2.0) == 0.0 => floor,
        _ => floor + 1.0,
    };
    if rounded < low as f64 {
        low
    } else if rounded > high as f64 {
        high
    } else {
        rounded as i64
    }
}

const INTEGERS: [(DType, i64, i64); 6] = [
    (DType::Int8, -128, 127),
    (DType::UInt8, 0, 255),
    (DType::Int16, -32768, 32767),
    (DType::UInt16, 0, 65535),
    (DType::Int32, -2_147_483_648, 2_147_483_647),
    (DType::UInt32, 0, 4_294_967_295),
];

#[test]
fn test_integers_round_to_nearest_even_and_saturate() {
    let mut values =
        vec![f32::NAN, -f32::NAN, f32::INFINITY, -f32::INFINITY, f32::MAX, -f32::MAX, 1e-45, -1e-45, 0.0, -0.0];
    for quarter in -4 * 66_000..4 * 66_000 {
        values.push(quarter as f32 / 4.0);
    }
    for power in 0..40 {
        let power = 2f32.powi(power);
        for probe in [power, power - 0.5, power + 0.5, power + 1.0, power - 1.0, power * 1.5] {
            values.extend([probe, probe.next_up(), probe.next_down(), -probe, -probe.next_up(), -probe.next_down()]);
        }
    }
    for (dtype, low, high) in INTEGERS {
        let mask = if dtype.size() == 4 { u32::MAX } else { (1 << (8 * dtype.size())) - 1 };
        for (value, bits) in values.iter().zip(written(dtype, &values, CastOptions::default())) {
            assert_eq!(bits, rounded(*value, low, high) as u32 & mask, "{dtype} {value}");
        }
    }
    let bools = written(DType::Bool, &[0.0, -0.0, 1.0, 0.25, f32::NAN, -3.0].repeat(20), CastOptions::default());
    assert_eq!(bools, [0, 0, 1, 1, 1, 1].repeat(20));
}

#[test]
fn test_every_narrow_integer_reads_as_its_value() {
    let mut memory = memory();
    let mut out = Vec::new();
    for (dtype, low, high) in INTEGERS.into_iter().filter(|(dtype, ..)| dtype.size() < 4) {
        let values: Vec<i64> = (low..=high).collect();
        let view = tensor(&mut memory, &[128, values.len() / 128], dtype);
        memory.write_bits(&view, &values.iter().map(|value| *value as u32).collect::<Vec<u32>>()).expect("fits");
        memory.read_f32(&view, &mut out, SITE).expect("written");
        assert!(values.iter().zip(&out).all(|(value, read)| *value as f32 == *read), "{dtype}");
    }
    for (dtype, value) in [(DType::Int32, -16_777_217i64), (DType::UInt32, 4_294_967_295), (DType::Int32, 16_777_219)] {
        let view = tensor(&mut memory, &[1, 1], dtype);
        memory.write_bits(&view, &[value as u32]).expect("fits");
        memory.read_f32(&view, &mut out, SITE).expect("written");
        assert_eq!(f64::from(out[0]), f64::from(value as f32));
        assert_eq!(memory.scalar(&view, SITE), Ok(Scalar::Int(value)));
    }
    let bools = tensor(&mut memory, &[1, 3], DType::Bool);
    memory.write_bits(&bools, &[0, 1, 7]).expect("fits");
    memory.read_f32(&bools, &mut out, SITE).expect("written");
    assert_eq!(out, [0.0, 1.0, 1.0]);
}

#[test]
fn test_block_scales_read_as_powers_of_two_and_are_not_rounded_to() {
    let mut memory = memory();
    let view = tensor(&mut memory, &[128, 2], DType::Float8E8M0Fnu);
    memory.write_bits(&view, &(0..256).collect::<Vec<u32>>()).expect("fits");
    let mut out = Vec::new();
    memory.read_f32(&view, &mut out, SITE).expect("written");
    for (code, value) in out.iter().enumerate().take(255) {
        assert_eq!(f64::from(*value), 2f64.powi(code as i32 - 127));
    }
    assert!(out[255].is_nan());
    let error = memory.write_f32(&view, &[1.0; 256], CastOptions::default()).expect_err("no rounding").to_string();
    assert!(error.contains("float8_e8m0fnu"), "{error}");
    let packed = tensor(&mut memory, &[2, 2], DType::Float8E4M3FnX4);
    assert!(memory.write_f32(&packed, &[1.0; 4], CastOptions::default()).is_err());
    assert!(memory.read_f32(&packed, &mut out, SITE).is_err());
}

#[test]
fn test_packed_types_are_lent_element_by_element() {
    let mut memory = memory();
    let bytes = tensor(&mut memory, &[2, 2], DType::Float8E4M3FnX4);
    memory.write_bits(&bytes, &[0x4038_3000, 0x0102_0304, 0xb8b0_a098, 0x3f3e_3d3c]).expect("fits");
    let nibbles = tensor(&mut memory, &[2, 3], DType::Float4E2M1FnX4);
    memory.write_bits(&nibbles, &[0x3210, 0x7654, 0xba98, 0xfedc, 0x0001, 0x1000]).expect("fits");
    let values = |memory: &mut Memory, view: &View| {
        memory
            .with_array(view, SITE, |array| {
                let shape = array.shape().to_vec();
                let mut out = vec![0.0f32; array.len()];
                let target = trn3_numerics::ArrayMut::new(&mut out, &shape).expect("as many");
                trn3_numerics::cast(&array.into(), target, CastOptions::default(), Default::default()).expect("plain");
                (shape, out)
            })
            .expect("a float")
    };
    let (shape, read) = values(&mut memory, &bytes);
    assert_eq!(shape, [2, 2, 4]);
    assert_eq!(read[..4], [0.0, 0.5, 1.0, 2.0]);
    assert_eq!(read[12..], [1.5, 1.625, 1.75, 1.875]);
    let (shape, read) = values(&mut memory, &nibbles);
    assert_eq!(shape, [2, 3, 4]);
    assert_eq!(read[..8], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
    assert_eq!(read[12..16], [-2.0, -3.0, -4.0, -6.0]);
    assert_eq!(read[16..], [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5]);
}

#[test]
fn test_two_arrays_are_lent_at_once() {
    let mut memory = memory();
    let one = tensor(&mut memory, &[4, 2], DType::Float32);
    memory.write_f32(&one, &[1., 2., 3., 4., 5., 6., 7., 8.], CastOptions::default()).expect("fits");
    let bytes: Vec<u8> = [1f32, 0., 0., 1., 1., 1., 2., 0.].iter().flat_map(|value| value.to_le_bytes()).collect();
    let other = memory.hbm_from_bytes("w", &[4, 2], DType::Float32, Buffer::PrivateHbm, Some(bytes), SITE);
    let other = View::whole(other.expect("fits"));
    let mut out = [0.0f32; 4];
    let transposed = trn3_machine::memory::Operand::from(&one).transposed();
    memory
        .with_arrays(transposed, &other, SITE, |a, b| {
            let out = trn3_numerics::ArrayMut::new(&mut out, &[2, 2]).expect("as many");
            trn3_numerics::matmul(&a, &b, None, out, Rounding::Nearest, Default::default()).expect("alike");
        })
        .expect("floats");
    assert_eq!(out, [1. + 5. + 14., 3. + 5., 2. + 6. + 16., 4. + 6.]);
}

#[test]
fn test_stochastic_rounding_takes_its_draws_from_the_generator() {
    let mut memory = memory();
    let values: Vec<f32> = (0..128 * 40).map(|index| 1.0 + index as f32 * 1e-5).collect();
    for dtype in [DType::BFloat16, DType::Float8E4M3] {
        let view = tensor(&mut memory, &[128, 40], dtype);
        let mut generator = Xorwow::seed(5, 128, 1).expect("lanes");
        let mut draws = vec![0; values.len()];
        generator.clone().uint32(40, &mut draws).expect("as many");
        memory.write_f32_stochastic(&view, &values, &mut generator).expect("fits");
        let mut out = Vec::new();
        memory.read_f32(&view, &mut out, SITE).expect("written");
        let step = if dtype == DType::BFloat16 { 1.0 / 128.0 } else { 1.0 / 8.0 };
        for ((value, draw), rounded) in values.iter().zip(&draws).zip(&out) {
            let low = (f64::from(*value) / step).floor() * step;
            let distance = ((f64::from(*value) - low) / step * 4_294_967_296.0).floor() as u64;
            let is_up = distance + u64::from(*draw) >= 1 << 32;
            assert_eq!(f64::from(*rounded), if is_up { low + step } else { low });
        }
        let after = generator.clone();
        let integers = tensor(&mut memory, &[1, 3], DType::Int32);
        memory.write_f32_stochastic(&integers, &[0.5, 1.5, 2.4], &mut generator).expect("fits");
        memory.read_f32(&integers, &mut out, SITE).expect("written");
        assert_eq!(out, [0.0, 2.0, 2.0]);
        assert_eq!(generator, after);
    }
}

#[test]
fn test_masked_writes_leave_the_rest_alone() {
    let mut memory = Memory::new(&Arc::new(ArchSpec::load("trn3").expect("built in")), MemoryOptions::default());
    for buffer in [Buffer::Sbuf, Buffer::SharedHbm] {
        let request = Request { name: "t", shape: &[2, 3], dtype: DType::Int8, buffer, address: None, site: SITE };
        let view = View::whole(memory.allocate(&request).expect("fits"));
        let mask = [true, false, true, false, false, true];
        memory.write_f32_where(&view, &[1., 2., 3., 4., 5., 6.], &mask, CastOptions::default()).expect("fits");
        assert_eq!(memory.is_initialised(&view), Ok(false));
        let mut out = Vec::new();
        memory.read_f32(&view, &mut out, SITE).expect("readable");
        assert_eq!(out, [1., 4., 3., 4., 4., 6.]);
        assert_eq!(
            memory.findings().pop().map(|finding| finding.to_string()).as_deref(),
            Some("tensor `t`: 3 uninitialised elements read, the first at partition 0, byte 1")
        );
        assert!(memory.write_f32_where(&view, &[0.0; 6], &[true; 5], CastOptions::default()).is_err());
        assert!(memory.write_f32(&view, &[0.0; 5], CastOptions::default()).is_err());
    }
}
