/* A product as the systolic array computes it, and a program on a device. */
#include <stdio.h>
#include <string.h>

#include "trn3.h"

static int failed(const char *what) {
    char text[512];
    (void)trn3_last_error(text, sizeof text);
    fprintf(stderr, "%s: %s\n", what, text);
    return 1;
}

static const char program_text[] =
    "{\"format\": \"trn3-program\", \"version\": 1, \"name\": \"double\", \"tensors\": ["
    " {\"name\": \"x\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\", \"role\": \"input\"},"
    " {\"name\": \"tile\", \"space\": \"sbuf\", \"shape\": [128, 2], \"dtype\": \"float32\", \"address\": [0, 0]}],"
    " \"steps\": [{\"op\": \"dma_copy\", \"dst\": \"tile\", \"src\": \"x\"},"
    " {\"op\": \"tensor_scalar\", \"dst\": \"tile\", \"data\": \"tile\", \"op0\": \"multiply\", \"operand0\": 2.0},"
    " {\"op\": \"dma_copy\", \"dst\": \"x\", \"src\": \"tile\"}]}";

int main(void) {
    /* [1, 2] @ [[3], [4]] in bfloat16: codes in, the bits of a float32 out. */
    const uint16_t left[2] = {0x3f80, 0x4000}, right[2] = {0x4040, 0x4080};
    uint32_t sum = 0;
    const trn3_array a = {sizeof a, left, TRN3_DTYPE_BFLOAT16, 2, {1, 2}, {0}};
    const trn3_array b = {sizeof b, right, TRN3_DTYPE_BFLOAT16, 2, {2, 1}, {0}};
    const trn3_array_mut out = {sizeof out, &sum, TRN3_DTYPE_FLOAT32, 2, {1, 1}, {0}};
    if (trn3_matmul(&a, &b, NULL, &out, NULL, NULL, 0) != TRN3_OK || sum != 0x41300000u) {
        return failed("matmul");
    }

    trn3_device *device = NULL;
    uint64_t program = 0, next = 0;
    trn3_tensor x = {.size = sizeof x};
    const char config[] = "{\"arch\": \"trn3\", \"cores\": 1}";
    uint32_t value = 0x3fc00000u; /* 1.5 */
    if (trn3_device_create(config, strlen(config), &device) != TRN3_OK ||
        trn3_device_load(device, program_text, strlen(program_text), &program) != TRN3_OK ||
        trn3_device_tensor(device, program, "x", 1, &x) != TRN3_OK ||
        trn3_memory_write(device, x.space, 0, x.address, &value, sizeof value, NULL) != TRN3_OK) {
        return failed("device");
    }
    const trn3_command run = {.size = sizeof run, .kind = TRN3_COMMAND_RUN, .core = 0, .program = program};
    if (trn3_submit(device, &run, 42) != TRN3_OK || trn3_next_event(device, &next) != TRN3_OK ||
        trn3_advance(device, next) != TRN3_OK) {
        return failed("run");
    }
    trn3_completion done = {.size = sizeof done};
    size_t count = 0;
    if (trn3_poll(device, &done, 1, &count) != TRN3_OK || count != 1 || done.tag != 42 || done.status != TRN3_OK ||
        done.end_ps != next || trn3_memory_read(device, x.space, 0, x.address, &value, sizeof value, NULL) != TRN3_OK ||
        value != 0x40400000u) {
        return failed("result");
    }
    if (trn3_device_destroy(device) != TRN3_OK) {
        return failed("destroy");
    }
    puts("ok");
    return 0;
}
