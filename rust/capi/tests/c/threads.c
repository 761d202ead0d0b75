/* Many threads at once give the bits that one gives. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 8, ROUNDS = 40, SIDE = 48 };

static uint16_t left[SIDE * SIDE], right[SIDE * SIDE];
static uint32_t expected[SIDE * SIDE];

static trn3_status multiply(uint32_t *out) {
    const trn3_array a = {sizeof a, left, TRN3_DTYPE_BFLOAT16, 2, {SIDE, SIDE}, {0}};
    const trn3_array b = {sizeof b, right, TRN3_DTYPE_BFLOAT16, 2, {SIDE, SIDE}, {0}};
    const trn3_array_mut y = {sizeof y, out, TRN3_DTYPE_FLOAT32, 2, {SIDE, SIDE}, {0}};
    return trn3_matmul(&a, &b, NULL, &y, NULL, NULL, 0);
}

static void *work(void *result) {
    uint32_t *wrong = result;
    uint32_t out[SIDE * SIDE];
    for (int round = 0; round < ROUNDS; ++round) {
        memset(out, 0xff, sizeof out);
        if (multiply(out) != TRN3_OK || memcmp(out, expected, sizeof out) != 0) {
            *wrong += 1;
        }
        /* Each thread has a last error of its own. */
        char text[16];
        if (trn3_set_num_threads(0) != TRN3_VALUE || trn3_last_error(text, sizeof text) != TRN3_CAPACITY) {
            *wrong += 1;
        }
    }
    return NULL;
}

int main(void) {
    uint32_t words[6];
    trn3_xorwow generator = {sizeof generator, words, 1, 6, 0};
    CHECK_OK(trn3_xorwow_seed(&generator, 3));
    for (int i = 0; i < SIDE * SIDE; ++i) {
        uint32_t draws[2];
        CHECK_OK(trn3_xorwow_next(&generator, draws, 2));
        left[i] = (uint16_t)(0x3f00u | (draws[0] & 0x80ffu));
        right[i] = (uint16_t)(0x3f00u | (draws[1] & 0x80ffu));
    }
    CHECK_OK(multiply(expected));
    for (size_t pool = 1; pool <= 2; ++pool) {
        CHECK_OK(trn3_set_num_threads(pool));
        pthread_t threads[THREADS];
        uint32_t wrong[THREADS] = {0};
        for (int i = 0; i < THREADS; ++i) {
            CHECK(pthread_create(&threads[i], NULL, work, &wrong[i]) == 0);
        }
        for (int i = 0; i < THREADS; ++i) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            CHECK(wrong[i] == 0);
        }
    }
    return check_result();
}
