/* Two cores of one device share the bandwidth of HBM: an end that was said moves when the other core begins. */
#include "device.h"

static const char SLOW[] = "{\"cores\": 2, \"values\": false, \"overrides\": {\"hbm_gbps\": 300}}";

#define TILE(name, byte) \
    "{\"name\": \"" name "\", \"space\": \"sbuf\", \"shape\": [128, 4096], \"dtype\": \"float32\", \"address\": [0, " byte "]}"
#define LOADS \
    "{\"op\": \"dma_copy\", \"dst\": \"one\", \"src\": \"x\"}, {\"op\": \"dma_copy\", \"dst\": \"two\", \"src\": \"x\"}"

/* Eight loads of 2 MiB, two of which can be under way at once. */
static const char STREAM[] =
    "{\"format\": \"trn3-program\", \"version\": 1, \"name\": \"stream\", \"tensors\": ["
    " {\"name\": \"x\", \"space\": \"hbm\", \"shape\": [128, 4096], \"dtype\": \"float32\", \"role\": \"input\"},"
    TILE("one", "0") ", " TILE("two", "16384") "],"
    " \"steps\": [" LOADS ", " LOADS ", " LOADS ", " LOADS "]}";

static void run(trn3_device *device, uint64_t program, uint32_t core) {
    trn3_command command = run_command(program);
    command.core = core;
    CHECK_OK(trn3_submit(device, &command, core));
}

static uint64_t next_event(const trn3_device *device) {
    uint64_t next = 0;
    CHECK_OK(trn3_next_event(device, &next));
    return next;
}

static size_t poll_all(trn3_device *device, trn3_completion *done) {
    size_t count = 0;
    done->size = sizeof *done;
    CHECK_OK(trn3_poll(device, done, 2, &count));
    return count;
}

int main(void) {
    trn3_completion done[2];
    memset(done, 0, sizeof done);
    trn3_device *device = created(SLOW);
    uint64_t program = 0;
    CHECK_OK(trn3_device_load(device, STREAM, strlen(STREAM), &program));
    run(device, program, 0);
    const uint64_t said = next_event(device);
    CHECK_OK(trn3_advance(device, said / 2));
    CHECK(next_event(device) == said);
    run(device, program, 1);
    const uint64_t moved = next_event(device);
    CHECK(moved > said && moved < 2 * said);

    /* Another device goes on from here: it comes to the same ends. */
    size_t size = 0;
    CHECK_OK(trn3_snapshot_size(device, &size));
    uint8_t *bytes = malloc(size);
    CHECK(bytes != NULL);
    CHECK_OK(trn3_snapshot_save(device, bytes, size, &size));
    trn3_device *other = created(SLOW);
    CHECK_OK(trn3_snapshot_load(other, bytes, size));
    free(bytes);

    CHECK_OK(trn3_advance(device, said));
    CHECK(poll_all(device, done) == 0);
    finish(device);
    CHECK(poll_all(device, done) == 2);
    CHECK(done[0].tag == 0 && done[0].start_ps == 0 && done[0].end_ps == moved);
    CHECK(done[1].tag == 1 && done[1].start_ps == said / 2);
    CHECK(done[1].end_ps - done[1].start_ps > said);
    const uint64_t last = done[1].end_ps;
    finish(other);
    CHECK(poll_all(other, done) == 2 && done[0].end_ps == moved && done[1].end_ps == last);
    CHECK_OK(trn3_device_destroy(other));

    /* What overlaps nothing takes what it takes alone. */
    run(device, program, 1);
    CHECK(next_event(device) == last + said);
    CHECK_OK(trn3_device_destroy(device));
    return check_result();
}
