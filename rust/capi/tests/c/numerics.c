/* The arithmetic against bit patterns worked out by hand. */
#include "check.h"

#define ONE 0x3f800000u
#define TWO 0x40000000u
#define NAN_BITS 0x7fc00000u
#define INFINITY_BITS 0x7f800000u

static trn3_array vector(const void *data, trn3_dtype dtype, int64_t length) {
    trn3_array array = {sizeof array, data, dtype, 1, {length}, {0}};
    return array;
}

static trn3_array_mut vector_mut(void *data, trn3_dtype dtype, int64_t length) {
    trn3_array_mut array = {sizeof array, data, dtype, 1, {length}, {0}};
    return array;
}

static trn3_array matrix(const void *data, trn3_dtype dtype, int64_t rows, int64_t columns) {
    trn3_array array = {sizeof array, data, dtype, 2, {rows, columns}, {0}};
    return array;
}

static trn3_array_mut matrix_mut(void *data, trn3_dtype dtype, int64_t rows, int64_t columns) {
    trn3_array_mut array = {sizeof array, data, dtype, 2, {rows, columns}, {0}};
    return array;
}

static void identity(void) {
    char text[64];
    CHECK(trn3_abi_version() == TRN3_ABI_VERSION);
    CHECK_OK(trn3_version(text, sizeof text));
    char expected[64];
    snprintf(expected, sizeof expected, "%d.%d.%d", TRN3_VERSION_MAJOR, TRN3_VERSION_MINOR, TRN3_VERSION_PATCH);
    CHECK(strncmp(text, expected, strlen(expected)) == 0);
    CHECK_OK(trn3_simd_level(text, sizeof text));
    CHECK(strlen(text) > 0);
    const char *names[] = {"OK", "TYPE", "SHAPE", "VALUE", "CAPACITY", "UNSUPPORTED", "BUSY", "ABI", "INTERNAL"};
    for (int code = TRN3_OK; code <= TRN3_INTERNAL; ++code) {
        CHECK_OK(trn3_status_name(code, text, sizeof text));
        CHECK(strcmp(text, names[code]) == 0);
    }
    size_t threads = 0;
    CHECK_OK(trn3_num_threads(&threads));
    CHECK(threads == 1);
    size_t size = 0;
    CHECK_OK(trn3_dtype_size(TRN3_DTYPE_BFLOAT16, &size));
    CHECK(size == 2);
    CHECK_OK(trn3_activation_name(TRN3_ACTIVATION_GELU, text, sizeof text));
    CHECK(strcmp(text, "gelu") == 0);
}

static void casts(void) {
    /* 1 + 2^-8 is half-way between two bfloat16 values and goes to the even one; 1 + 3 * 2^-8 too. */
    const uint32_t x[4] = {0x3f808000u, 0x3f818000u, 0xff800000u, 0x7f800001u};
    uint16_t y[4] = {0};
    const trn3_array from = vector(x, TRN3_DTYPE_FLOAT32, 4);
    const trn3_array_mut to = vector_mut(y, TRN3_DTYPE_BFLOAT16, 4);
    size_t size = 99;
    CHECK_OK(trn3_cast_scratch_size(&from, &to, &size));
    CHECK(size == 0);
    CHECK_OK(trn3_cast(&from, &to, NULL, NULL, 0));
    CHECK_BITS(0x3f80, y[0]);
    CHECK_BITS(0x3f82, y[1]);
    CHECK_BITS(0xff80, y[2]);
    CHECK_BITS(0x7fc0, y[3]);

    uint32_t bits = 0;
    const uint32_t nearest = TRN3_ROUNDING_NEAREST;
    CHECK_OK(trn3_cast_one(TRN3_DTYPE_FLOAT32, 0x43e80001u, TRN3_DTYPE_FLOAT8_E4M3FN, nearest, TRN3_OVERFLOW_IEEE, 0, &bits));
    CHECK_BITS(0x7f, bits); /* just above 464: NaN */
    CHECK_OK(trn3_cast_one(TRN3_DTYPE_FLOAT32, 0x43e80001u, TRN3_DTYPE_FLOAT8_E4M3FN, nearest, TRN3_OVERFLOW_SATURATE, 0, &bits));
    CHECK_BITS(0x7e, bits); /* 448 */
    CHECK_OK(trn3_cast_one(TRN3_DTYPE_FLOAT16, 0x0001u, TRN3_DTYPE_FLOAT32, nearest, TRN3_OVERFLOW_IEEE, 0, &bits));
    CHECK_BITS(0x33800000u, bits); /* the smallest float16, 2^-24 */

    /* A quarter of the way up: taken when the draw is in its upper quarter. */
    const uint32_t quarter = 0x3f804000u;
    const uint32_t stochastic = TRN3_ROUNDING_STOCHASTIC;
    CHECK_OK(trn3_cast_one(TRN3_DTYPE_FLOAT32, quarter, TRN3_DTYPE_BFLOAT16, stochastic, 0, 0xbfffffffu, &bits));
    CHECK_BITS(0x3f80, bits);
    CHECK_OK(trn3_cast_one(TRN3_DTYPE_FLOAT32, quarter, TRN3_DTYPE_BFLOAT16, stochastic, 0, 0xc0000000u, &bits));
    CHECK_BITS(0x3f81, bits);
    const uint32_t draws[4] = {0, 0xffffffffu, 0, 0};
    const trn3_rounding rounding = {sizeof rounding, TRN3_ROUNDING_STOCHASTIC, 0, draws, 4, NULL};
    CHECK_OK(trn3_cast(&from, &to, &rounding, NULL, 0));
    CHECK_BITS(0x3f80, y[0]);
    CHECK_BITS(0x3f82, y[1]);
}

/* Elements in place, transposed in, every second element out. */
static void layouts(void) {
    uint32_t z[2] = {0x3f808000u, 0x3f818000u};
    const trn3_array in = vector(z, TRN3_DTYPE_FLOAT32, 2);
    const trn3_array_mut out = vector_mut(z, TRN3_DTYPE_FLOAT32, 2);
    CHECK_OK(trn3_activation(&in, TRN3_ACTIVATION_SQUARE, 0, &out, NULL, 0));
    CHECK_BITS(0x3f810080u, z[0]); /* (1 + 2^-8)^2 */

    const uint16_t x[6] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0}; /* 1 to 6 */
    trn3_array transposed = matrix(x, TRN3_DTYPE_BFLOAT16, 3, 2);
    transposed.strides[0] = 2;
    transposed.strides[1] = 6;
    uint32_t y[12];
    memset(y, 0xff, sizeof y);
    trn3_array_mut spread = matrix_mut(y, TRN3_DTYPE_FLOAT32, 3, 2);
    spread.strides[0] = 16;
    spread.strides[1] = 8;
    size_t size = 0;
    CHECK_OK(trn3_cast_scratch_size(&transposed, &spread, &size));
    CHECK(size >= 24 && size < 32);
    uint8_t scratch[64];
    CHECK_STATUS(TRN3_CAPACITY, trn3_cast(&transposed, &spread, NULL, scratch, size - 1));
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&transposed, &spread, NULL, NULL, size));
    CHECK_OK(trn3_cast(&transposed, &spread, NULL, scratch + 1, size));
    const uint32_t expected[6] = {ONE, 0x40800000u, TWO, 0x40a00000u, 0x40400000u, 0x40c00000u};
    for (int i = 0; i < 6; ++i) {
        CHECK_BITS(expected[i], y[2 * i]);
        CHECK_BITS(0xffffffffu, y[2 * i + 1]);
    }
}

static void microscaling(void) {
    uint32_t x[32];
    for (int i = 0; i < 32; ++i) {
        x[i] = i == 0 ? 0x41f80000u : 0u; /* 31 */
    }
    uint8_t elements[32], scales[1];
    const trn3_array in = vector(x, TRN3_DTYPE_FLOAT32, 32);
    const trn3_array_mut e = vector_mut(elements, TRN3_DTYPE_FLOAT8_E4M3FN, 32);
    const trn3_array_mut s = vector_mut(scales, TRN3_DTYPE_FLOAT8_E8M0FNU, 1);
    size_t size = 99;
    CHECK_OK(trn3_quantize_mx_scratch_size(&in, &e, &s, &size));
    CHECK(size == 0);
    CHECK_OK(trn3_quantize_mx(&in, -1, TRN3_SCALE_RULE_DEFAULT, &e, &s, NULL, NULL, 0));
    CHECK_BITS(127 + 4 - 7, scales[0]); /* floor(log2 31) - (8 - 1) */
    CHECK_BITS(0x78, elements[0]);      /* 31 * 8 = 248 lies half-way and goes to 256 = 2^8, the even code */
    CHECK_BITS(0, elements[1]);
    CHECK_OK(trn3_quantize_mx(&in, 0, TRN3_SCALE_RULE_OCP, &e, &s, NULL, NULL, 0));
    CHECK_BITS(127 + 4 - 8, scales[0]);

    const trn3_array e_in = vector(elements, TRN3_DTYPE_FLOAT8_E4M3FN, 32);
    const trn3_array s_in = vector(scales, TRN3_DTYPE_FLOAT8_E8M0FNU, 1);
    const trn3_mx_array mx = {sizeof mx, &e_in, &s_in, 0};
    uint32_t back[32];
    const trn3_array_mut out = vector_mut(back, TRN3_DTYPE_FLOAT32, 32);
    CHECK_OK(trn3_dequantize_mx_scratch_size(&mx, &out, &size));
    CHECK(size == 0);
    elements[0] = 0x7e; /* 448 */
    scales[0] = 126;
    CHECK_OK(trn3_dequantize_mx(&mx, &out, NULL, 0));
    CHECK_BITS(0x43600000u, back[0]); /* 224 */
    scales[0] = 255;
    CHECK_OK(trn3_dequantize_mx(&mx, &out, NULL, 0));
    CHECK_BITS(NAN_BITS, back[0]);
}

static void products(void) {
    /* 2^24 + 1 is no float32: the chain loses each 1 that comes after 2^24, and keeps those before. */
    uint32_t a[4] = {0x4b800000u, ONE, ONE, ONE};
    const uint32_t ones[4] = {ONE, ONE, ONE, ONE};
    uint32_t out_bits = 0;
    const trn3_array left = matrix(a, TRN3_DTYPE_FLOAT32, 1, 4);
    const trn3_array right = matrix(ones, TRN3_DTYPE_FLOAT32, 4, 1);
    const trn3_array_mut out = matrix_mut(&out_bits, TRN3_DTYPE_FLOAT32, 1, 1);
    size_t size = 99;
    CHECK_OK(trn3_matmul_scratch_size(&left, &right, &out, &size));
    CHECK(size == 0);
    CHECK_OK(trn3_matmul(&left, &right, NULL, &out, NULL, NULL, 0));
    CHECK_BITS(0x4b800000u, out_bits);
    a[0] = ONE;
    a[3] = 0x4b800000u;
    CHECK_OK(trn3_matmul(&left, &right, NULL, &out, NULL, NULL, 0));
    CHECK_BITS(0x4b800002u, out_bits); /* 3 + 2^24 = 2^24 + 4 by ties to even */
    const uint32_t c = TWO;
    const trn3_array start = matrix(&c, TRN3_DTYPE_FLOAT32, 1, 1);
    a[3] = ONE;
    CHECK_OK(trn3_matmul(&left, &right, &start, &out, NULL, NULL, 0));
    CHECK_BITS(0x40c00000u, out_bits);

    /* One inf among what is pruned does not make NaN. */
    const uint8_t indices[2] = {1, 3};
    const trn3_array values = matrix(ones, TRN3_DTYPE_FLOAT32, 2, 1);
    const trn3_sparse_array w = {sizeof w, &values, indices, 2, 2, 4};
    a[0] = INFINITY_BITS;
    CHECK_OK(trn3_matmul_sparse_scratch_size(&left, &w, &out, &size));
    CHECK(size == 0);
    CHECK_OK(trn3_matmul_sparse(&left, &w, NULL, &out, NULL, NULL, 0));
    CHECK_BITS(TWO, out_bits);

    const uint32_t dense[4] = {0, ONE, 0, TWO};
    uint32_t kept[2] = {0};
    uint8_t places[2] = {9, 9};
    const trn3_array dense_w = vector(dense, TRN3_DTYPE_FLOAT32, 4);
    const trn3_array_mut kept_w = vector_mut(kept, TRN3_DTYPE_FLOAT32, 2);
    CHECK_OK(trn3_compress(&dense_w, 2, 4, 0, &kept_w, places, 2));
    CHECK_BITS(ONE, kept[0]);
    CHECK_BITS(TWO, kept[1]);
    CHECK(places[0] == 1 && places[1] == 3);

    uint8_t mx_ones[32];
    memset(mx_ones, 0x38, sizeof mx_ones);
    const uint8_t twice = 128;
    const trn3_array ea = matrix(mx_ones, TRN3_DTYPE_FLOAT8_E4M3FN, 1, 32), sa = matrix(&twice, TRN3_DTYPE_FLOAT8_E8M0FNU, 1, 1);
    const trn3_array eb = matrix(mx_ones, TRN3_DTYPE_FLOAT8_E4M3FN, 32, 1), sb = matrix(&twice, TRN3_DTYPE_FLOAT8_E8M0FNU, 1, 1);
    const trn3_mx_array ma = {sizeof ma, &ea, &sa, -1}, mb = {sizeof mb, &eb, &sb, -2};
    CHECK_OK(trn3_matmul_mx_scratch_size(&ma, &mb, &out, &size));
    CHECK(size == 0);
    CHECK_OK(trn3_matmul_mx(&ma, &mb, NULL, &out, NULL, NULL, 0));
    CHECK_BITS(0x43000000u, out_bits); /* 32 * 2 * 2 = 128 */
}

static void steps(void) {
    uint32_t sum = 0;
    size_t size = 99;
    CHECK_OK(trn3_accumulate_step_scratch_size(&size));
    CHECK(size == 0);
    CHECK_OK(trn3_accumulate_step(TRN3_DTYPE_BFLOAT16, 0x4000, TRN3_DTYPE_FLOAT8_E4M3FN, 0x38, ONE, &sum));
    CHECK_BITS(0x40400000u, sum); /* 2 * 1 + 1 */
    /* Fused: (1 + 2^-12)^2 - 1 keeps 2^-24. */
    CHECK_OK(trn3_accumulate_step(TRN3_DTYPE_FLOAT32, 0x3f800800u, TRN3_DTYPE_FLOAT32, 0x3f800800u, 0xbf800000u, &sum));
    CHECK_BITS(0x3a000400u, sum);
    /* Subnormals are kept. */
    CHECK_OK(trn3_accumulate_step(TRN3_DTYPE_FLOAT32, 1, TRN3_DTYPE_FLOAT32, ONE, 0, &sum));
    CHECK_BITS(1, sum);
    CHECK_OK(trn3_accumulate_step(TRN3_DTYPE_BFLOAT16, 0x7f80, TRN3_DTYPE_BFLOAT16, 0, ONE, &sum));
    CHECK_BITS(NAN_BITS, sum);
    CHECK_OK(trn3_accumulate_step(TRN3_DTYPE_BFLOAT16, 0xffff, TRN3_DTYPE_BFLOAT16, 0x3f80, ONE, &sum));
    CHECK_BITS(NAN_BITS, sum);

    /* 1 2 4 8 times 1 in fp8, scales 2 and 1/2. */
    CHECK_OK(trn3_accumulate_step_mx(TRN3_DTYPE_FLOAT8_E4M3FN, 0x50484038u, 128, TRN3_DTYPE_FLOAT8_E4M3FN, 0x38383838u, 126,
                                     ONE, &sum));
    CHECK_BITS(0x41800000u, sum); /* 16 */
    /* 0.5 1 1.5 2 in fp4 times 1. */
    CHECK_OK(trn3_accumulate_step_mx(TRN3_DTYPE_FLOAT4_E2M1FN, 0x4321u, 127, TRN3_DTYPE_FLOAT4_E2M1FN, 0x2222u, 127, 0,
                                     &sum));
    CHECK_BITS(0x40a00000u, sum); /* 5 */
    CHECK_OK(trn3_accumulate_step_mx(TRN3_DTYPE_FLOAT8_E5M2, 0, 255, TRN3_DTYPE_FLOAT8_E5M2, 0, 127, 0, &sum));
    CHECK_BITS(NAN_BITS, sum);

    CHECK_OK(trn3_accumulate_tile(TRN3_DTYPE_FLOAT32, ONE, TWO, TRN3_ROUNDING_NEAREST, 0, &sum));
    CHECK_BITS(0x40400000u, sum);
    CHECK_OK(trn3_accumulate_tile(TRN3_DTYPE_BFLOAT16, 0x3f80, 0x3b800000u, TRN3_ROUNDING_NEAREST, 0, &sum));
    CHECK_BITS(0x3f80, sum); /* 1 + 2^-8: to even */
    CHECK_OK(trn3_accumulate_tile(TRN3_DTYPE_BFLOAT16, 0x3f80, 0x3b800000u, TRN3_ROUNDING_STOCHASTIC, 0x80000000u, &sum));
    CHECK_BITS(0x3f81, sum);
}

static void functions(void) {
    const uint32_t x[4] = {0, INFINITY_BITS, 0xff800000u, 0x7f812345u};
    const uint32_t biases[2] = {0, 0};
    uint32_t y[4] = {0}, sums[2] = {0};
    const trn3_array in = matrix(x, TRN3_DTYPE_FLOAT32, 2, 2);
    const trn3_array_mut out = matrix_mut(y, TRN3_DTYPE_FLOAT32, 2, 2);
    const trn3_exp_options options = {sizeof options, 0, 0, biases, 2, sums, 2};
    size_t size = 99;
    CHECK_OK(trn3_exp_scratch_size(&in, &out, &size));
    CHECK(size == 0);
    CHECK_OK(trn3_exp(&in, &out, &options, NULL, 0));
    CHECK_BITS(ONE, y[0]);
    CHECK_BITS(INFINITY_BITS, y[1]);
    CHECK_BITS(0, y[2]);
    CHECK_BITS(NAN_BITS, y[3]);
    CHECK_BITS(INFINITY_BITS, sums[0]);
    CHECK_BITS(NAN_BITS, sums[1]);
    uint32_t bits = 0;
    CHECK_OK(trn3_exp_one(TRN3_DTYPE_BFLOAT16, 0x3f80, 0, TRN3_DTYPE_BFLOAT16, &bits));
    CHECK_BITS(0x402e, bits); /* e = 2.71828 lies between 2.703125 and 2.71875, nearer the upper */
    CHECK_OK(trn3_exp_one(TRN3_DTYPE_FLOAT32, TWO, TWO, TRN3_DTYPE_FLOAT32, &bits));
    CHECK_BITS(ONE, bits);
    CHECK_OK(trn3_activation_scratch_size(&in, &out, &size));
    CHECK(size == 0);
    CHECK_OK(trn3_activation_one(TRN3_DTYPE_FLOAT32, 0x40800000u, TRN3_ACTIVATION_RSQRT, 0, TRN3_DTYPE_FLOAT32, &bits));
    CHECK_BITS(0x3f000000u, bits);
    CHECK_OK(trn3_activation_one(TRN3_DTYPE_FLOAT32, 0xc0000000u, TRN3_ACTIVATION_PRELU, 0x3e800000u, TRN3_DTYPE_FLOAT32,
                                 &bits));
    CHECK_BITS(0xbf000000u, bits);
}

/* Marsaglia's own example state and the first numbers it gives. */
static void generator(void) {
    uint32_t words[6] = {123456789u, 362436069u, 521288629u, 88675123u, 5783321u, 6615241u};
    trn3_xorwow one = {sizeof one, words, 1, 6, 0};
    uint32_t draws[3];
    CHECK_OK(trn3_xorwow_next(&one, draws, 3));
    CHECK_BITS(246875399u, draws[0]);
    CHECK_BITS(3690007200u, draws[1]);
    CHECK_BITS(1264581005u, draws[2]);
    uint32_t near_words[48], far_words[48], one_draw[2];
    trn3_xorwow near = {sizeof near, near_words, 2, 24, 0}, far = {sizeof far, far_words, 2, 24, 0};
    CHECK_OK(trn3_xorwow_seed(&near, 7));
    CHECK_OK(trn3_xorwow_seed(&far, 7));
    for (int i = 0; i < 1001; ++i) {
        CHECK_OK(trn3_xorwow_next(&near, one_draw, 1));
    }
    CHECK_OK(trn3_xorwow_jump(&far, 1001));
    CHECK(memcmp(near_words, far_words, sizeof near_words) == 0);
    CHECK(near.phase == 1 && far.phase == 1);
    uint32_t state[48];
    memcpy(state, far_words, sizeof state);
    CHECK_OK(trn3_xorwow_state(&near, state, 48));
    CHECK(near.phase == 0);
    /* Rounding takes its draws from it and leaves it ahead. */
    const uint32_t x[4] = {0x3f804000u, 0x3f804000u, 0x3f804000u, 0x3f804000u};
    uint16_t y[4], z[4];
    const trn3_array from = vector(x, TRN3_DTYPE_FLOAT32, 4);
    const trn3_array_mut to_y = vector_mut(y, TRN3_DTYPE_BFLOAT16, 4), to_z = vector_mut(z, TRN3_DTYPE_BFLOAT16, 4);
    const trn3_rounding drawn = {sizeof drawn, TRN3_ROUNDING_STOCHASTIC, 0, NULL, 0, &near};
    CHECK_OK(trn3_cast(&from, &to_y, &drawn, NULL, 0));
    CHECK(near.phase == 2);
    far.phase = 0;
    uint32_t four[4];
    CHECK_OK(trn3_xorwow_next(&far, four, 2));
    const trn3_rounding given = {sizeof given, TRN3_ROUNDING_STOCHASTIC, 0, four, 4, NULL};
    CHECK_OK(trn3_cast(&from, &to_z, &given, NULL, 0));
    CHECK(memcmp(y, z, sizeof y) == 0);
}

int main(void) {
    identity();
    casts();
    layouts();
    microscaling();
    products();
    steps();
    functions();
    generator();
    return check_result();
}
