/* Many devices on many threads give the bits and times of one; one device on two threads is BUSY for the second. */
#include <pthread.h>
#include <stdatomic.h>

#include "device.h"

enum { THREADS = 8, ROUNDS = 3 };

struct outcome {
    uint32_t bits[256];
    uint64_t end;
};

static void run(struct outcome *outcome) {
    trn3_device *device = created("");
    uint64_t program = 0;
    CHECK_OK(trn3_device_load(device, DOUBLE, strlen(DOUBLE), &program));
    uint32_t values[256];
    for (uint32_t i = 0; i < 256; ++i) {
        values[i] = 0x3f800000u + 977u * i;
    }
    const uint64_t x = address_of(device, program, "x"), out = address_of(device, program, "out");
    CHECK_OK(trn3_memory_write(device, TRN3_SPACE_HBM, 0, x, values, sizeof values, NULL));
    const trn3_command command = run_command(program);
    CHECK_OK(trn3_submit(device, &command, 1));
    finish(device);
    CHECK_OK(trn3_now(device, &outcome->end));
    CHECK_OK(trn3_memory_read(device, TRN3_SPACE_HBM, 0, out, outcome->bits, sizeof outcome->bits, NULL));
    CHECK_OK(trn3_device_destroy(device));
}

static void *work(void *outcomes) {
    for (int round = 0; round < ROUNDS; ++round) {
        run(&((struct outcome *)outcomes)[round]);
    }
    return NULL;
}

static atomic_int inside, leave;

static void linger(void *user, const trn3_completion *completion) {
    (void)user, (void)completion;
    atomic_store(&inside, 1);
    while (!atomic_load(&leave)) {
    }
}

static void *advance(void *device) {
    CHECK_OK(trn3_advance(device, 1000));
    return NULL;
}

int main(void) {
    static struct outcome expected, outcomes[THREADS][ROUNDS];
    run(&expected);
    CHECK(expected.end > 0);
    CHECK_BITS(0x40000000u, expected.bits[0]);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        CHECK(pthread_create(&threads[i], NULL, work, outcomes[i]) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        for (int round = 0; round < ROUNDS; ++round) {
            CHECK(memcmp(&outcomes[i][round], &expected, sizeof expected) == 0);
        }
    }

    trn3_device *device = created("");
    CHECK_OK(trn3_on_complete(device, linger, NULL));
    const trn3_command nop = {.size = sizeof nop};
    CHECK_OK(trn3_submit(device, &nop, 1));
    pthread_t other;
    CHECK(pthread_create(&other, NULL, advance, device) == 0);
    while (!atomic_load(&inside)) {
    }
    uint64_t now = 0;
    CHECK_STATUS(TRN3_BUSY, trn3_now(device, &now));
    CHECK_STATUS(TRN3_BUSY, trn3_submit(device, &nop, 2));
    CHECK_STATUS(TRN3_BUSY, trn3_device_destroy(device));
    atomic_store(&leave, 1);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK_OK(trn3_now(device, &now));
    CHECK(now == 1000);
    CHECK_OK(trn3_device_destroy(device));
    return check_result();
}
