/* A kernel of two ranks, on two cores of one device: their programs meet in a collective. */
#include <stdio.h>

#include "device.h"

/* Doubles x, adds what both ranks have, and gives that out: one rank's program. */
static const char RANK[] =
    "{\"format\": \"trn3-program\", \"version\": 2, \"name\": \"rank\","
    " \"tensors\": ["
    "  {\"name\": \"x\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\", \"role\": \"input\"},"
    "  {\"name\": \"mine\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\"},"
    "  {\"name\": \"out\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\", \"role\": \"output\"},"
    "  {\"name\": \"tile\", \"space\": \"sbuf\", \"shape\": [128, 2], \"dtype\": \"float32\", \"address\": [0, 0]}],"
    " \"steps\": ["
    "  {\"op\": \"dma_copy\", \"dst\": \"tile\", \"src\": \"x\"},"
    "  {\"op\": \"tensor_scalar\", \"dst\": \"tile\", \"data\": \"tile\", \"op0\": \"multiply\", \"operand0\": 2.0},"
    "  {\"op\": \"dma_copy\", \"dst\": \"mine\", \"src\": \"tile\"},"
    "  {\"op\": \"all_reduce\", \"ranks\": 2, \"srcs\": [\"mine\"], \"dsts\": [\"out\"],"
    "   \"replica_group\": [[0, 1]], \"reduction\": \"%s\"}]}";

static trn3_status load(trn3_device *device, const char *reduction, uint64_t *program) {
    char text[sizeof RANK + 16];
    const int length = snprintf(text, sizeof text, RANK, reduction);
    CHECK(length > 0 && (size_t)length < sizeof text);
    return trn3_device_load(device, text, (size_t)length, program);
}

/* Runs one program a core; the second core begins so much later. Returns the statuses and ends. */
static void run(const char *const reductions[2], uint64_t late, trn3_completion done[2], float sums[2]) {
    trn3_device *device = created("{\"cores\": 2}");
    uint64_t programs[2];
    for (uint32_t core = 0; core < 2; ++core) {
        CHECK_OK(load(device, reductions[core], &programs[core]));
        float values[256];
        for (int i = 0; i < 256; ++i) {
            values[i] = (float)(core + 1);
        }
        const uint64_t x = address_of(device, programs[core], "x");
        CHECK_OK(trn3_memory_write(device, TRN3_SPACE_HBM, core, x, values, sizeof values, NULL));
    }
    for (uint32_t core = 0; core < 2; ++core) {
        trn3_command command = run_command(programs[core]);
        command.core = core;
        CHECK_OK(trn3_submit(device, &command, core));
        if (core == 0) {
            uint64_t next = 0;
            CHECK_OK(trn3_next_event(device, &next));
            CHECK(next == TRN3_NEVER);
            CHECK_OK(trn3_advance(device, late));
        }
    }
    finish(device);
    trn3_completion polled[2] = {{0}, {0}};
    polled[0].size = sizeof polled[0];
    size_t count = 0;
    CHECK_OK(trn3_poll(device, polled, 2, &count));
    CHECK(count == 2);
    for (size_t i = 0; i < count; ++i) {
        done[polled[i].core] = polled[i];
    }
    for (uint32_t core = 0; core < 2; ++core) {
        const uint64_t out = address_of(device, programs[core], "out");
        CHECK_OK(trn3_memory_read(device, TRN3_SPACE_HBM, core, out, &sums[core], sizeof sums[core], NULL));
    }
    CHECK_OK(trn3_device_destroy(device));
}

int main(void) {
    trn3_completion done[2], later[2];
    float sums[2];
    const char *const add[] = {"add", "add"};
    run(add, 0, done, sums);
    CHECK(done[0].status == TRN3_OK && done[1].status == TRN3_OK);
    CHECK(sums[0] == 6.0f && sums[1] == 6.0f);
    CHECK(done[0].end_ps == done[1].end_ps && done[0].end_ps > 0);

    run(add, 7000000, later, sums);
    CHECK(later[0].end_ps == done[0].end_ps + 7000000 && later[1].end_ps == later[0].end_ps);
    CHECK(later[0].start_ps == 0 && later[1].start_ps == 7000000);

    const char *const differ[] = {"add", "maximum"};
    run(differ, 0, done, sums);
    CHECK(done[0].status == TRN3_VALUE && done[1].status == TRN3_VALUE);

    trn3_device *device = created("");
    uint64_t program = 0;
    CHECK_OK(load(device, "add", &program));
    trn3_command command = run_command(program);
    CHECK_OK(trn3_submit(device, &command, 1));
    finish(device);
    trn3_completion alone = {0};
    alone.size = sizeof alone;
    size_t count = 0;
    CHECK_OK(trn3_poll(device, &alone, 1, &count));
    CHECK(count == 1 && strstr(alone.message, "all of the group are needed on it") != NULL);
    CHECK(alone.status == TRN3_UNSUPPORTED);
    CHECK_OK(trn3_device_destroy(device));
    return check_result();
}
