//! Constants of the activation functions' definitions.
//!
//! Each polynomial was found by Remez exchange in 60-digit arithmetic on the error of the whole function it is a part of,
//! relative to that function, and its coefficients were then rounded to float64. They stand from the highest power down.

/// log2(e).
pub(crate) const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// 1.5 * 2^52: what is added to it is rounded to an integer, which the low bits then hold.
pub(crate) const SHIFT: f64 = 6_755_399_441_055_744.0;
/// ln(2).
pub(crate) const LN2: f64 = std::f64::consts::LN_2;
/// What is missing of it.
pub(crate) const LN2_LOW: f64 = 2.319_046_813_846_299_6e-17;
/// (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2, for e^r to 2^-56.
pub(crate) const EXP: [f64; 10] = [
    2.499_953_673_932_753_3e-8,
    2.763_023_208_176_336e-7,
    2.755_758_822_972_343_3e-6,
    2.480_149_314_996_559e-5,
    1.984_126_950_424_987e-4,
    1.388_888_894_357_295e-3,
    8.333_333_333_495_64e-3,
    0.041_666_666_666_530_42,
    0.166_666_666_666_664_1,
    0.500_000_000_000_001_1,
];
/// What e^x is computed of lies within this magnitude, or so the results that lie further out round to the same float32.
pub(crate) const EXP_LIMIT: f32 = 150.0;

/// e^-r on |r| <= ln(2) / 32, to 2^-38.5, the last held at 1: for powers of two in steps of 1/16.
pub(crate) const EXP_MINUS_16: [f64; 5] =
    [0.041_669_128_178_678_18, -0.166_671_589_699_633_17, 0.499_999_999_515_291_9, -0.999_999_999_418_327, 1.0];
/// The same on |r| <= ln(2) / 2, to 2^-39.7.
pub(crate) const EXP_MINUS: [f64; 9] = [
    2.504_311_368_268_930_4e-5,
    -1.992_123_929_543_541_3e-4,
    1.388_849_926_992_797_6e-3,
    -8.333_255_841_290_335e-3,
    0.041_666_668_621_365_706,
    -0.166_666_669_451_661_8,
    0.499_999_999_975_700_2,
    -0.999_999_999_973_003_2,
    1.0,
];
/// Arguments of quick exponentials: with larger ones of either sign, results need not be normal float32.
pub(crate) const QUICK_LIMIT: f32 = 87.0;
/// The same where the argument is 1.702 x, that of gelu's other approximation, and x^2.
pub(crate) const GELU_SIGMOID_QUICK_LIMIT: f32 = 51.0;
pub(crate) const GELU_TANH_QUICK_LIMIT: f32 = 9.9;
pub(crate) const SQUARE_QUICK_LIMIT: f32 = 9.3;

/// (atanh(s) / s - 1) / s^2 as a polynomial in s^2, s of magnitude up to (sqrt(2) - 1) / (sqrt(2) + 1), to 2^-59.
pub(crate) const ATANH_NEAR: [f64; 7] = [
    0.073_977_697_475_538_76,
    0.076_570_485_344_962_52,
    0.090_917_811_482_890_33,
    0.111_110_993_079_166_48,
    0.142_857_143_709_735,
    0.199_999_999_997_083_5,
    0.333_333_333_333_336_7,
];
/// The same for s up to 1/3, to 2^-54.
pub(crate) const ATANH_FAR: [f64; 9] = [
    0.088_731_197_400_290_85,
    0.049_498_434_263_092_96,
    0.067_934_723_155_028_34,
    0.076_821_136_287_518_22,
    0.090_914_091_876_623_37,
    0.111_110_963_728_428_07,
    0.142_857_145_306_373_75,
    0.199_999_999_980_083_28,
    0.333_333_333_333_389_05,
];
/// Bits of sqrt(1/2) as float32: log splits its operand into 2^k * m with m from there up to twice that.
pub(crate) const SQRT_HALF: u32 = 0x3f35_04f3;

/// (atan(z) / z - 1) / z^2 as a polynomial in z^2, z of magnitude up to 1, to 2^-47.
pub(crate) const ATAN: [f64; 16] = [
    7.552_727_959_077_098e-5,
    -7.168_646_441_277_213e-4,
    3.210_183_161_583_376_6e-3,
    -9.108_530_332_431_534e-3,
    0.018_661_916_261_006_835,
    -0.030_068_215_150_817_555,
    0.040_877_382_214_280_01,
    -0.049_978_255_159_473_7,
    0.058_022_407_638_255_26,
    -0.066_485_315_073_370_26,
    0.076_893_189_388_151_89,
    -0.090_905_647_290_992_92,
    0.111_110_849_648_758_38,
    -0.142_857_130_934_732_4,
    0.199_999_999_722_838_77,
    -0.333_333_333_331_064_96,
];

/// (sin(r) / r - 1) / r^2 as a polynomial in r^2, r of magnitude up to pi/2, to 2^-57.
pub(crate) const SIN: [f64; 8] = [
    2.722_286_204_411_457e-15,
    -7.643_100_899_504_356e-13,
    1.605_894_407_210_996_6e-10,
    -2.505_210_696_317_804_4e-8,
    2.755_731_921_216_629_7e-6,
    -1.984_126_984_121_549_3e-4,
    8.333_333_333_333_212e-3,
    -0.166_666_666_666_666_66,
];
/// pi.
pub(crate) const PI: f64 = std::f64::consts::PI;
/// What is missing of it.
pub(crate) const PI_LOW: f64 = 1.224_646_799_147_353_2e-16;

/// Where the tail of the normal distribution is expanded: t below is (a - 5) / (a + 5).
pub(crate) const TAIL_CENTRE: f64 = 5.0;
/// (a + 5) * e^(a^2 / 2) * Phi(-a) as a polynomial in t, a from 0 to 15, to 2^-54.
pub(crate) const TAIL: [f64; 20] = [
    -1.384_478_459_673_523_7e-8,
    -4.880_854_834_125_298e-8,
    6.866_009_875_961_23e-8,
    4.338_439_910_087_022_6e-7,
    -3.575_292_275_528_703_7e-7,
    -2.778_621_766_959_426_5e-6,
    3.987_496_211_092_653e-6,
    1.668_626_791_313_726_5e-5,
    -4.976_366_780_046_365e-5,
    -5.937_697_864_827_216_4e-5,
    5.448_990_641_678_344e-4,
    -7.978_692_305_826_156e-4,
    -2.993_376_759_233_819_3e-3,
    0.020_795_066_787_514_794,
    -0.069_118_638_707_353_38,
    0.165_020_366_170_843_45,
    -0.313_533_156_671_272,
    0.495_305_615_969_969_75,
    -0.665_382_502_890_057,
    0.769_193_049_750_063,
];
/// Beyond this magnitude x * Phi(x) and its derivative are 0 or x or 1 in float32.
pub(crate) const TAIL_LIMIT: f32 = 15.0;
/// 1 / sqrt(2 pi).
pub(crate) const FRAC_1_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
/// sqrt(2).
pub(crate) const SQRT_2: f64 = std::f64::consts::SQRT_2;
/// 2 / sqrt(pi).
pub(crate) const FRAC_2_SQRT_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI;
/// Beyond this magnitude erf is 1 in float32, and erf' is not yet 0.
pub(crate) const ERF_LIMIT: f32 = 4.0;
/// Below this magnitude erf is its first two terms to 2^-43, and 1 - erfc would have lost as many bits.
pub(crate) const ERF_SMALL: f32 = 9.765_625e-4;

/// Beyond this magnitude tanh is 1 in float32.
pub(crate) const TANH_LIMIT: f32 = 20.0;
/// Beyond, tanh(softplus(x)) is 1 in float32.
pub(crate) const MISH_LIMIT: f32 = 40.0;
/// The logistic approximation of gelu: x * sigmoid(1.702 x).
pub(crate) const GELU_SIGMOID: f64 = 1.702;
/// Beyond this magnitude its e^(1.702 x) is outside what matters to float32.
pub(crate) const GELU_SIGMOID_LIMIT: f32 = 100.0;
/// -2 sqrt(2 / pi): gelu's other approximation, x * (1 + tanh(u)) / 2, is x / (1 + e^(-2 u)).
pub(crate) const GELU_TANH: f64 = -1.595_769_121_605_730_7;
/// -2 sqrt(2 / pi) * 0.044715.
pub(crate) const GELU_TANH_CUBIC: f64 = -0.071_354_816_272_600_25;
/// Beyond this magnitude the approximation is 0 or x in float32.
pub(crate) const GELU_TANH_LIMIT: f32 = 14.0;

/// Where half the exponent is taken from, for a first guess of 1 / sqrt(x).
pub(crate) const RSQRT_GUESS: u32 = 0x5f1f_fff9;
/// Its first step: y * (b - a x y^2).
pub(crate) const RSQRT_STEP: [f32; 2] = [0.703_952_25, 1.681_913_9];
/// Where no step overflows or is subnormal: 2^-100 and 2^100.
pub(crate) const RSQRT_RANGE: [f32; 2] = [f32::from_bits(27 << 23), f32::from_bits(227 << 23)];
