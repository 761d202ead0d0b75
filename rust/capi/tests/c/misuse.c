/* Everything a host may get wrong gives a status and leaves the process, and what it owns, as they were. */
#include <fenv.h>
#include <stdlib.h>

#include "check.h"

static uint32_t storage[64];
static uint16_t narrow[64];

static trn3_array good(void) {
    trn3_array array = {sizeof array, storage, TRN3_DTYPE_FLOAT32, 1, {8}, {0}};
    return array;
}

static trn3_array_mut good_out(void) {
    trn3_array_mut array = {sizeof array, narrow, TRN3_DTYPE_BFLOAT16, 1, {8}, {0}};
    return array;
}

static void expect_text(const char *part) {
    char text[512] = "";
    CHECK_OK(trn3_last_error(text, sizeof text));
    if (strstr(text, part) == NULL) {
        printf("'%s' does not say '%s'\n", text, part);
        check_failures += 1;
    }
}

static void texts(void) {
    char text[8];
    CHECK_STATUS(TRN3_VALUE, trn3_status_name(-1, text, sizeof text));
    expect_text("status is -1; allowed: 0 to 8");
    CHECK_STATUS(TRN3_VALUE, trn3_status_name(TRN3_OK, NULL, 8));
    CHECK_STATUS(TRN3_CAPACITY, trn3_status_name(TRN3_CAPACITY, text, 0));
    CHECK_STATUS(TRN3_CAPACITY, trn3_status_name(TRN3_CAPACITY, text, sizeof text));
    CHECK(strcmp(text, "CAPACIT") == 0);
    CHECK_OK(trn3_status_name(TRN3_SHAPE, text, 6));
    CHECK(strcmp(text, "SHAPE") == 0);

    /* Asking for the last error, in whatever way, leaves it as it is. */
    CHECK_STATUS(TRN3_VALUE, trn3_set_num_threads(0));
    CHECK_STATUS(TRN3_CAPACITY, trn3_last_error(text, sizeof text));
    CHECK_STATUS(TRN3_VALUE, trn3_last_error(NULL, 8));
    expect_text("num_threads is 0");
    size_t size = 0;
    CHECK_OK(trn3_last_error_size(&size));
    char *whole = malloc(size);
    CHECK(whole != NULL);
    CHECK_OK(trn3_last_error(whole, size));
    CHECK(strlen(whole) + 1 == size);
    free(whole);
    CHECK_STATUS(TRN3_VALUE, trn3_last_error_size(NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_num_threads(NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_version(NULL, 8));
    CHECK_STATUS(TRN3_CAPACITY, trn3_simd_level(text, 0));
    CHECK_STATUS(TRN3_TYPE, trn3_dtype_size(0, &size));
    CHECK_STATUS(TRN3_TYPE, trn3_dtype_size(11, &size));
    CHECK_STATUS(TRN3_VALUE, trn3_dtype_size(1, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_activation_name(26, text, sizeof text));
}

static trn3_status cast(const trn3_array *x, const trn3_array_mut *out) {
    return trn3_cast(x, out, NULL, NULL, 0);
}

static void arrays(void) {
    trn3_array x = good();
    trn3_array_mut out = good_out();
    CHECK_OK(cast(&x, &out));
    CHECK_STATUS(TRN3_VALUE, cast(NULL, &out));
    expect_text("x is null");
    CHECK_STATUS(TRN3_VALUE, cast(&x, NULL));

    /* Structures themselves misaligned. */
    _Alignas(16) unsigned char raw[sizeof x + 16];
    memcpy(raw + 4, &x, sizeof x);
    CHECK_STATUS(TRN3_VALUE, cast((const trn3_array *)(const void *)(raw + 4), &out));

    const size_t sizes[] = {0, 1, 8, 24, 87, (size_t)1 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        x = good();
        x.size = sizes[i];
        CHECK_STATUS(TRN3_ABI, cast(&x, &out));
    }
    expect_text("sizeof(trn3_array)");

    x = good();
    x.dtype = 77;
    CHECK_STATUS(TRN3_TYPE, cast(&x, &out));
    x = good();
    x.ndim = 9;
    CHECK_STATUS(TRN3_SHAPE, cast(&x, &out));
    x = good();
    x.shape[0] = -1;
    CHECK_STATUS(TRN3_SHAPE, cast(&x, &out));
    x = good();
    x.shape[0] = 7;
    CHECK_STATUS(TRN3_SHAPE, cast(&x, &out));
    x = good();
    x.ndim = 3;
    x.shape[0] = x.shape[1] = x.shape[2] = INT64_MAX;
    CHECK_STATUS(TRN3_SHAPE, cast(&x, &out));
    x.shape[1] = 0; /* no elements at all, and yet no possible shape */
    CHECK_STATUS(TRN3_SHAPE, cast(&x, &out));
    x = good();
    x.data = NULL;
    CHECK_STATUS(TRN3_VALUE, cast(&x, &out));
    expect_text("x.data is null");
    x.data = (const char *)storage + 1;
    CHECK_STATUS(TRN3_VALUE, cast(&x, &out));
    x = good();
    x.strides[0] = 6;
    CHECK_STATUS(TRN3_VALUE, cast(&x, &out));
    x.strides[0] = INT64_MAX - 3;
    CHECK_STATUS(TRN3_VALUE, cast(&x, &out));
    x.strides[0] = INT64_MIN;
    CHECK_STATUS(TRN3_VALUE, cast(&x, &out));
    x = good();
    out.strides[0] = 0;
    out.ndim = 2;
    out.shape[0] = 1;
    out.shape[1] = 8;
    out.strides[0] = 16; /* length 1: any stride */
    out.strides[1] = 2;
    x.ndim = 2;
    x.shape[0] = 1;
    x.shape[1] = 8;
    CHECK_OK(cast(&x, &out));
    out.shape[0] = x.shape[0] = 2;
    x.shape[1] = out.shape[1] = 4;
    out.strides[0] = 2; /* rows lie on one another */
    uint8_t scratch[64];
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, NULL, scratch, sizeof scratch));
    expect_text("may overlap");

    /* None of nothing may be anywhere. */
    x = good();
    out = good_out();
    x.shape[0] = out.shape[0] = 0;
    x.data = NULL;
    out.data = NULL;
    CHECK_OK(cast(&x, &out));
}

/* Older and newer structures. */
static void growth(void) {
    trn3_array_mut out = good_out();
    struct {
        trn3_array array;
        uint64_t later[2];
    } newer = {good(), {0, 0}};
    newer.array.size = sizeof newer;
    CHECK_OK(cast(&newer.array, &out));
    newer.later[1] = 1;
    CHECK_STATUS(TRN3_ABI, cast(&newer.array, &out));

    struct {
        size_t size;
        const void *data;
        uint32_t dtype, ndim;
        int64_t shape[TRN3_MAX_AXES];
    } older = {sizeof older, storage, TRN3_DTYPE_FLOAT32, 1, {8}};
    /* On the heap, with nothing behind it: a sanitizer sees any reading past its end. */
    void *exact = malloc(sizeof older);
    CHECK(exact != NULL);
    memcpy(exact, &older, sizeof older);
    CHECK_OK(cast((const trn3_array *)exact, &out));
    free(exact);

    const struct {
        size_t size;
        uint32_t rounding, overflow;
    } old_rounding = {sizeof old_rounding, TRN3_ROUNDING_ZERO, TRN3_OVERFLOW_SATURATE};
    const trn3_array x = good();
    CHECK_OK(trn3_cast(&x, &out, (const trn3_rounding *)(const void *)&old_rounding, NULL, 0));
}

static void overlaps(void) {
    const trn3_array x = good();
    trn3_array_mut out = {sizeof out, storage + 1, TRN3_DTYPE_FLOAT32, 1, {8}, {0}};
    CHECK_STATUS(TRN3_VALUE, cast(&x, &out));
    expect_text("out overlaps x");
    out.data = storage + 8;
    CHECK_OK(cast(&x, &out));
    out.data = storage;
    CHECK_OK(cast(&x, &out));
    const trn3_array_mut half = {sizeof half, storage, TRN3_DTYPE_BFLOAT16, 1, {8}, {0}};
    CHECK_STATUS(TRN3_VALUE, cast(&x, &half));
    const trn3_array a = {sizeof a, storage, TRN3_DTYPE_FLOAT32, 2, {2, 2}, {0}};
    const trn3_array b = {sizeof b, storage + 4, TRN3_DTYPE_FLOAT32, 2, {2, 2}, {0}};
    trn3_array_mut y = {sizeof y, storage + 7, TRN3_DTYPE_FLOAT32, 2, {2, 2}, {0}};
    CHECK_STATUS(TRN3_VALUE, trn3_matmul(&a, &b, NULL, &y, NULL, NULL, 0));
    expect_text("out overlaps b");
    y.data = storage + 8;
    CHECK_OK(trn3_matmul(&a, &b, NULL, &y, NULL, NULL, 0));
    const trn3_array c = {sizeof c, storage + 8, TRN3_DTYPE_FLOAT32, 2, {2, 2}, {0}};
    CHECK_STATUS(TRN3_VALUE, trn3_matmul(&a, &b, &c, &y, NULL, NULL, 0));
    /* Scratch memory that is somebody's. */
    trn3_array_mut spread = {sizeof spread, storage + 16, TRN3_DTYPE_FLOAT32, 1, {8}, {8}};
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &spread, NULL, storage, 64));
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &spread, NULL, storage + 17, 64));
    uint32_t words[6] = {1, 2, 3, 4, 5, 6};
    trn3_xorwow generator = {sizeof generator, words, 1, 6, 0};
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_next(&generator, words + 5, 1));
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_state(&generator, words, 6));
}

static void options(void) {
    const trn3_array x = good();
    const trn3_array_mut out = good_out();
    const uint32_t draws[8] = {0};
    trn3_rounding rounding = {sizeof rounding, 3, 0, NULL, 0, NULL};
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    rounding.rounding = TRN3_ROUNDING_STOCHASTIC;
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    rounding.draws = draws;
    rounding.draw_count = 7;
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    rounding.draw_count = SIZE_MAX;
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    rounding.draw_count = 8;
    CHECK_OK(trn3_cast(&x, &out, &rounding, NULL, 0));
    rounding.draws = (const uint32_t *)(const void *)((const char *)draws + 2);
    rounding.draw_count = 4;
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    rounding.draws = draws;
    rounding.draw_count = 8;
    rounding.rounding = TRN3_ROUNDING_NEAREST;
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    uint32_t words[6] = {0, 0, 0, 0, 0, 6};
    trn3_xorwow generator = {sizeof generator, words, 1, 6, 0};
    rounding.rounding = TRN3_ROUNDING_STOCHASTIC;
    rounding.generator = &generator;
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    rounding.draws = NULL;
    CHECK_STATUS(TRN3_VALUE, trn3_cast(&x, &out, &rounding, NULL, 0));
    expect_text("all zero in the xorshift words");
    words[0] = 1;
    CHECK_OK(trn3_cast(&x, &out, &rounding, NULL, 0));

    uint32_t one = 0;
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_next(&generator, NULL, 1));
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_next(&generator, &one, SIZE_MAX));
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_next(NULL, &one, 1));
    generator.phase = 1;
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_next(&generator, &one, 1));
    generator.phase = 0;
    generator.words_per_lane = 12;
    generator.lanes = 0;
    CHECK_STATUS(TRN3_SHAPE, trn3_xorwow_next(&generator, &one, 0));
    generator.lanes = SIZE_MAX;
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_next(&generator, &one, 1));
    generator.words = NULL;
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_seed(&generator, 1));
    CHECK_STATUS(TRN3_VALUE, trn3_xorwow_seed(NULL, 1));

    CHECK_STATUS(TRN3_VALUE, trn3_activation(&x, 1000, 0, &out, NULL, 0));
    CHECK_STATUS(TRN3_VALUE, trn3_activation_one(1, 0, 1000, 0, 1, &one));
    CHECK_STATUS(TRN3_TYPE, trn3_activation_one(1, 0, 0, 0, TRN3_DTYPE_FLOAT8_E8M0FNU, &one));
    CHECK_STATUS(TRN3_TYPE, trn3_exp_one(TRN3_DTYPE_FLOAT8_E5M2, 0, 0, 1, &one));
    CHECK_STATUS(TRN3_VALUE, trn3_exp_one(1, 0, 0, 1, NULL));
    CHECK_STATUS(TRN3_TYPE, trn3_cast_one(1, 0, TRN3_DTYPE_FLOAT8_E8M0FNU, 0, 0, 0, &one));
    CHECK_STATUS(TRN3_VALUE, trn3_cast_one(1, 0, 1, 9, 0, 0, &one));
    CHECK_STATUS(TRN3_VALUE, trn3_cast_one(1, 0, 1, 0, 9, 0, &one));
    CHECK_STATUS(TRN3_TYPE, trn3_accumulate_step(1, 0, TRN3_DTYPE_BFLOAT16, 0, 0, &one));
    CHECK_STATUS(TRN3_TYPE, trn3_accumulate_step(TRN3_DTYPE_FLOAT4_E2M1FN, 0, TRN3_DTYPE_BFLOAT16, 0, 0, &one));
    CHECK_STATUS(TRN3_TYPE, trn3_accumulate_step_mx(TRN3_DTYPE_FLOAT8_E4M3, 0, 0, TRN3_DTYPE_FLOAT8_E5M2, 0, 0, 0, &one));
    CHECK_STATUS(TRN3_VALUE, trn3_accumulate_step_mx(6, 0, 256, 6, 0, 0, 0, &one));
    CHECK_STATUS(TRN3_VALUE, trn3_accumulate_step(1, 0, 1, 0, 0, NULL));
    CHECK_STATUS(TRN3_TYPE, trn3_accumulate_tile(TRN3_DTYPE_FLOAT16, 0, 0, 0, 0, &one));
    CHECK_STATUS(TRN3_VALUE, trn3_accumulate_tile(TRN3_DTYPE_FLOAT32, 0, 0, TRN3_ROUNDING_ZERO, 0, &one));

    uint8_t elements[32], scale[1];
    const trn3_array_mut e = {sizeof e, elements, TRN3_DTYPE_FLOAT8_E4M3FN, 1, {32}, {0}};
    const trn3_array_mut s = {sizeof s, scale, TRN3_DTYPE_FLOAT8_E8M0FNU, 1, {1}, {0}};
    trn3_array block = {sizeof block, storage, TRN3_DTYPE_FLOAT32, 1, {32}, {0}};
    CHECK_OK(trn3_quantize_mx(&block, 0, 0, &e, &s, NULL, NULL, 0));
    CHECK_STATUS(TRN3_VALUE, trn3_quantize_mx(&block, 1, 0, &e, &s, NULL, NULL, 0));
    CHECK_STATUS(TRN3_VALUE, trn3_quantize_mx(&block, INT64_MIN, 0, &e, &s, NULL, NULL, 0));
    CHECK_STATUS(TRN3_VALUE, trn3_quantize_mx(&block, 0, 4, &e, &s, NULL, NULL, 0));
    block.shape[0] = 31;
    CHECK_STATUS(TRN3_SHAPE, trn3_quantize_mx(&block, 0, 0, &e, &s, NULL, NULL, 0));
    CHECK_STATUS(TRN3_VALUE, trn3_dequantize_mx(NULL, &out, NULL, 0));
    const trn3_mx_array nothing = {sizeof nothing, NULL, NULL, 0};
    CHECK_STATUS(TRN3_VALUE, trn3_dequantize_mx(&nothing, &out, NULL, 0));
    expect_text("x.elements is null");
    const uint8_t indices[2] = {3, 1};
    const trn3_array values = {sizeof values, storage, TRN3_DTYPE_FLOAT32, 2, {2, 1}, {0}};
    trn3_sparse_array w = {sizeof w, &values, indices, 2, 3, 4};
    const trn3_array a = {sizeof a, storage, TRN3_DTYPE_FLOAT32, 2, {1, 4}, {0}};
    uint32_t result = 0;
    const trn3_array_mut y = {sizeof y, &result, TRN3_DTYPE_FLOAT32, 2, {1, 1}, {0}};
    CHECK_STATUS(TRN3_VALUE, trn3_matmul_sparse(&a, &w, NULL, &y, NULL, NULL, 0));
    expect_text("3:4");
    w.keep = 2;
    CHECK_STATUS(TRN3_VALUE, trn3_matmul_sparse(&a, &w, NULL, &y, NULL, NULL, 0));
    expect_text("ascend");
}

/* The caller's rounding mode stands when a call returns, and had no say in it. */
static void environment(void) {
    const uint32_t tie = 0x3f808000u;
    uint32_t bits = 0;
    CHECK(fesetround(FE_UPWARD) == 0);
    CHECK_OK(trn3_cast_one(TRN3_DTYPE_FLOAT32, tie, TRN3_DTYPE_BFLOAT16, TRN3_ROUNDING_NEAREST, 0, 0, &bits));
    CHECK_BITS(0x3f80, bits);
    CHECK_OK(trn3_accumulate_step(1, 0x3f800000u, 1, 0x3f800000u, 0x33000000u, &bits));
    CHECK_BITS(0x3f800000u, bits); /* 1 + 2^-25 */
    CHECK(fegetround() == FE_UPWARD);
    CHECK_STATUS(TRN3_VALUE, trn3_set_num_threads(0));
    CHECK(fegetround() == FE_UPWARD);
    CHECK(fesetround(FE_TONEAREST) == 0);
}

int main(void) {
    texts();
    arrays();
    growth();
    overlaps();
    options();
    environment();
    return check_result();
}
