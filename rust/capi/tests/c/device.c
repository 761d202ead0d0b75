/* A device from its creation to its end: programs, memories, time, completions, networks, traces, snapshots. */
#include "device.h"

static trn3_completion take_one(trn3_device *device) {
    trn3_completion done = {0};
    done.size = sizeof done;
    size_t count = 0;
    CHECK_OK(trn3_poll(device, &done, 1, &count));
    CHECK(count == 1);
    return done;
}

static uint64_t load(trn3_device *device) {
    uint64_t program = 0;
    CHECK_OK(trn3_device_load(device, DOUBLE, strlen(DOUBLE), &program));
    return program;
}

static void fill(trn3_device *device, uint64_t address, uint32_t bits) {
    uint32_t values[256];
    for (int i = 0; i < 256; ++i) {
        values[i] = bits;
    }
    CHECK_OK(trn3_memory_write(device, TRN3_SPACE_HBM, 0, address, values, sizeof values, NULL));
}

static uint32_t first(trn3_device *device, uint64_t address) {
    uint32_t value = 0;
    CHECK_OK(trn3_memory_read(device, TRN3_SPACE_HBM, 0, address, &value, sizeof value, NULL));
    return value;
}

static void programs(void) {
    trn3_device *device = created("");
    const uint64_t program = load(device);
    const uint64_t x = address_of(device, program, "x"), out = address_of(device, program, "out");
    fill(device, x, 0x3fc00000u);
    uint64_t delay = 0, next = 0, now = 99;
    uint32_t can = 0;
    uint32_t value = 0;
    CHECK_OK(trn3_memory_read(device, TRN3_SPACE_HBM, 0, x, &value, sizeof value, &delay));
    CHECK(delay > 0);
    CHECK_OK(trn3_next_event(device, &next));
    CHECK(next == TRN3_NEVER);
    const trn3_command command = run_command(program);
    CHECK_OK(trn3_can_submit(device, 0, &can));
    CHECK(can == 1);
    CHECK_OK(trn3_submit(device, &command, 77));
    CHECK_OK(trn3_submit(device, &command, 78));
    CHECK_OK(trn3_next_event(device, &next));
    CHECK(next != TRN3_NEVER && next > 0);
    CHECK_OK(trn3_advance(device, next - 1));
    size_t count = 9;
    trn3_completion two[3];
    memset(two, 0, sizeof two);
    two[0].size = sizeof *two;
    CHECK_OK(trn3_poll(device, two, 3, &count));
    CHECK(count == 0);
    finish(device);
    CHECK_OK(trn3_poll(device, two, 3, &count));
    CHECK(count == 2);
    CHECK(two[0].tag == 77 && two[1].tag == 78);
    CHECK(two[0].status == TRN3_OK && two[0].start_ps == 0 && two[0].end_ps == next);
    CHECK(two[1].start_ps == next && two[1].end_ps == 2 * next);
    CHECK(two[1].size == sizeof *two && two[1].message[0] == '\0');
    CHECK_OK(trn3_now(device, &now));
    CHECK(now == 2 * next);
    CHECK_BITS(0x40400000u, first(device, out));

    /* Step by step; the tile is where the program says. */
    trn3_tensor tile = {0};
    tile.size = sizeof tile;
    CHECK_OK(trn3_device_tensor(device, program, "tile", 4, &tile));
    CHECK(tile.space == TRN3_SPACE_SBUF && tile.bytes == 8);
    trn3_command step = command;
    step.kind = TRN3_COMMAND_STEP;
    step.step = 1;
    CHECK_OK(trn3_submit(device, &step, 1));
    finish(device);
    CHECK(take_one(device).status == TRN3_OK);
    CHECK_OK(trn3_memory_read(device, TRN3_SPACE_SBUF, 0, tile.address, &value, sizeof value, NULL));
    CHECK_BITS(0x40c00000u, value);

    /* A copy between memories, and bytes of the host's own. */
    trn3_command copy = {0};
    copy.size = sizeof copy;
    copy.kind = TRN3_COMMAND_COPY;
    copy.dst_space = TRN3_SPACE_HBM;
    copy.dst_address = 1 << 20;
    copy.src_space = TRN3_SPACE_SBUF;
    copy.src_address = tile.address;
    copy.rows = 128;
    copy.row_bytes = 8;
    CHECK_OK(trn3_submit(device, &copy, 2));
    finish(device);
    CHECK(take_one(device).status == TRN3_OK);
    void *direct = NULL;
    CHECK_OK(trn3_memory_direct(device, TRN3_SPACE_HBM, 0, 1 << 20, 1024, &direct));
    CHECK_BITS(0x40c00000u, ((const uint32_t *)direct)[255]);
    ((uint32_t *)direct)[0] = 0xabcdef01u;
    CHECK_BITS(0xabcdef01u, first(device, 1 << 20));
    CHECK_OK(trn3_memory_release(device, 1 << 20, 1024));
    uint64_t size = 0;
    CHECK_OK(trn3_memory_size(device, TRN3_SPACE_SBUF, &size));
    CHECK(size == 128 * 256 * 1024);

    CHECK_OK(trn3_device_unload(device, program));
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, &command, 3));
    CHECK_OK(trn3_device_reset(device));
    CHECK_OK(trn3_now(device, &now));
    CHECK(now == 0);
    CHECK_BITS(0, first(device, out));
    CHECK_OK(trn3_device_destroy(device));
}

struct heard {
    trn3_device *device;
    uint64_t tags[8];
    size_t count;
};

/* Every call on the device from within is BUSY; others are as ever. */
static void hear(void *user, const trn3_completion *completion) {
    struct heard *heard = user;
    heard->tags[heard->count % 8] = completion->tag;
    heard->count += 1;
    const trn3_command nop = {.size = sizeof nop};
    uint64_t number = 0;
    uint32_t bits = 0;
    size_t size = 0;
    CHECK_STATUS(TRN3_BUSY, trn3_submit(heard->device, &nop, 1));
    CHECK_STATUS(TRN3_BUSY, trn3_advance(heard->device, 1));
    CHECK_STATUS(TRN3_BUSY, trn3_now(heard->device, &number));
    CHECK_STATUS(TRN3_BUSY, trn3_memory_read(heard->device, 0, 0, 0, &bits, 4, NULL));
    CHECK_STATUS(TRN3_BUSY, trn3_snapshot_size(heard->device, &size));
    CHECK_STATUS(TRN3_BUSY, trn3_device_reset(heard->device));
    CHECK_STATUS(TRN3_BUSY, trn3_device_destroy(heard->device));
    CHECK_OK(trn3_accumulate_step(1, 0x3f800000u, 1, 0x3f800000u, 0, &bits));
    trn3_device *other = created("");
    CHECK_OK(trn3_submit(other, &nop, 1));
    CHECK_OK(trn3_device_destroy(other));
}

static void callbacks(void) {
    trn3_device *device = created("{\"cores\": 2}");
    struct heard heard = {device, {0}, 0};
    CHECK_OK(trn3_on_complete(device, hear, &heard));
    trn3_command nop = {.size = sizeof nop};
    CHECK_OK(trn3_submit(device, &nop, 5));
    nop.core = 1;
    CHECK_OK(trn3_submit(device, &nop, 6));
    CHECK_OK(trn3_advance(device, 1000));
    CHECK(heard.count == 2 && heard.tags[0] == 5 && heard.tags[1] == 6);
    size_t count = 9;
    trn3_completion done = {.size = sizeof done};
    CHECK_OK(trn3_poll(device, &done, 1, &count));
    CHECK(count == 0);
    CHECK_OK(trn3_on_complete(device, NULL, NULL));
    CHECK_OK(trn3_submit(device, &nop, 7));
    CHECK_OK(trn3_advance(device, 2000));
    CHECK(heard.count == 2);
    CHECK(take_one(device).tag == 7);
    CHECK_OK(trn3_device_destroy(device));
}

/* What a program does wrong is its completion's status. */
static void failures(void) {
    trn3_device *device = created("{\"queue_depth\": 2}");
    trn3_command copy = {.size = sizeof copy, .kind = TRN3_COMMAND_COPY, .dst_space = TRN3_SPACE_SBUF};
    copy.dst_address = (uint64_t)1 << 40;
    copy.rows = 1;
    copy.row_bytes = 4;
    const trn3_status status = trn3_submit(device, &copy, 1);
    if (status == TRN3_OK) {
        finish(device);
        const trn3_completion done = take_one(device);
        CHECK(done.status != TRN3_OK && done.message[0] != '\0');
    } else {
        CHECK(status == TRN3_VALUE);
    }
    const uint64_t program = load(device);
    const trn3_command run = run_command(program);
    CHECK_OK(trn3_submit(device, &run, 1));
    CHECK_OK(trn3_submit(device, &run, 2));
    uint32_t can = 9;
    CHECK_OK(trn3_can_submit(device, 0, &can));
    CHECK(can == 0);
    CHECK_STATUS(TRN3_BUSY, trn3_submit(device, &run, 3));
    CHECK_STATUS(TRN3_BUSY, trn3_device_unload(device, program));
    finish(device);
    CHECK_OK(trn3_device_destroy(device));
}

struct seen {
    int spans, instants, counters, commits;
    char line[128];
};

static void see(void *user, const trn3_trace_event *event) {
    struct seen *seen = user;
    CHECK(event->size >= sizeof *event && event->start_ps <= event->end_ps && event->track_length > 0);
    switch (event->kind) {
    case TRN3_TRACE_SPAN:
        seen->spans += 1;
        break;
    case TRN3_TRACE_INSTANT:
        seen->instants += 1;
        break;
    case TRN3_TRACE_COUNTER:
        seen->counters += 1;
        break;
    case TRN3_TRACE_COMMIT:
        seen->commits += 1;
        if (event->number == 1) {
            snprintf(seen->line, sizeof seen->line, "%.*s", (int)event->name_length, event->name);
        }
        break;
    default:
        CHECK(!"an event of a known kind");
    }
}

static void observation(void) {
    trn3_device *device = created("");
    const uint64_t program = load(device);
    struct seen seen = {0};
    CHECK_OK(trn3_set_trace(device, see, &seen));
    const trn3_command run = run_command(program);
    CHECK_OK(trn3_submit(device, &run, 1));
    finish(device);
    CHECK(seen.commits == 3 && seen.spans >= 4 && seen.instants > 0 && seen.counters > 0);
    CHECK(strncmp(seen.line, "core 0 ", 7) == 0 && strstr(seen.line, "tensor_scalar") != NULL);
    CHECK_OK(trn3_set_trace(device, NULL, NULL));

    size_t count = 0;
    CHECK_OK(trn3_stats_count(device, &count));
    CHECK(count > 10);
    uint64_t instructions = 0;
    for (size_t i = 0; i < count; ++i) {
        char name[64];
        uint64_t value = 0;
        CHECK_OK(trn3_stats_name(device, i, name, sizeof name));
        CHECK_OK(trn3_stats_value(device, i, &value));
        if (strcmp(name, "instructions") == 0) {
            instructions = value;
        }
    }
    CHECK(instructions == 3);
    CHECK_OK(trn3_stats_reset(device));
    for (size_t i = 0; i < count; ++i) {
        uint64_t value = 9;
        CHECK_OK(trn3_stats_value(device, i, &value));
        CHECK(value == 0);
    }
    char name[64];
    uint64_t value = 0;
    CHECK_STATUS(TRN3_VALUE, trn3_stats_name(device, count, name, sizeof name));
    CHECK_STATUS(TRN3_VALUE, trn3_stats_value(device, count, &value));

    trn3_kernel kernel = {.size = sizeof kernel, .kind = TRN3_KERNEL_MATMUL, .m = 1024, .k = 4096, .n = 4096};
    kernel.dtype = "bf16";
    kernel.dtype_length = 4;
    uint64_t small = 0, large = 0, energy = 0, bound = 0;
    CHECK_OK(trn3_estimate(device, &kernel, &small, &energy));
    kernel.m = 4096;
    CHECK_OK(trn3_estimate(device, &kernel, &large, NULL));
    CHECK(small > 0 && small < large && energy > 0);
    CHECK_OK(trn3_roofline(device, (uint64_t)2 * 4096 * 4096 * 4096, 0, "bf16", 4, &bound));
    CHECK(bound > 0 && bound <= large);
    CHECK_STATUS(TRN3_TYPE, trn3_roofline(device, 1, 1, "bf17", 4, &bound));
    kernel.kind = 9;
    CHECK_STATUS(TRN3_VALUE, trn3_estimate(device, &kernel, &large, NULL));
    CHECK_OK(trn3_device_destroy(device));
}

static void snapshots(void) {
    trn3_device *device = created("");
    const uint64_t program = load(device);
    const uint64_t x = address_of(device, program, "x"), out = address_of(device, program, "out");
    fill(device, x, 0x3f800000u);
    const trn3_command run = run_command(program);
    CHECK_OK(trn3_submit(device, &run, 1));
    uint64_t end = 0, again = 0;
    CHECK_OK(trn3_next_event(device, &end));
    CHECK_OK(trn3_advance(device, end / 2));
    size_t size = 0, written = 0;
    CHECK_OK(trn3_snapshot_size(device, &size));
    uint8_t *bytes = malloc(size);
    CHECK(bytes != NULL);
    CHECK_STATUS(TRN3_CAPACITY, trn3_snapshot_save(device, bytes, size - 1, &written));
    CHECK(written == size);
    CHECK_OK(trn3_snapshot_save(device, bytes, size, &written));
    CHECK(written == size);

    trn3_device *other = created("");
    CHECK_OK(trn3_snapshot_load(other, bytes, size));
    CHECK_OK(trn3_next_event(other, &again));
    CHECK(again == end);
    finish(other);
    CHECK(take_one(other).end_ps == end);
    CHECK_BITS(0x40000000u, first(other, out));

    /* Damage is found out, whatever it is, and changes nothing. */
    CHECK_STATUS(TRN3_VALUE, trn3_snapshot_load(other, bytes, 0));
    for (size_t cut = 1; cut < size; cut += size / 12 + 1) {
        CHECK_STATUS(TRN3_VALUE, trn3_snapshot_load(other, bytes, cut));
    }
    CHECK_BITS(0x40000000u, first(other, out));
    trn3_device *unlike = created("{\"cores\": 2}");
    CHECK_STATUS(TRN3_VALUE, trn3_snapshot_load(unlike, bytes, size));
    free(bytes);
    CHECK_OK(trn3_device_destroy(unlike));
    CHECK_OK(trn3_device_destroy(other));
    CHECK_OK(trn3_device_destroy(device));
}

/* A network of the host: what is sent is there so much later. */
enum { MESSAGES = 64, LATENCY = 1000000 };

struct wire {
    struct {
        uint32_t from, to;
        uint64_t key, at;
        size_t length;
        unsigned char bytes[4096];
        int used;
    } messages[MESSAGES];
    uint64_t now, wake;
    int grown;
};

static trn3_status wire_send(void *user, uint32_t from, uint32_t to, uint64_t key, uint64_t at_ps, const void *bytes,
                             size_t length) {
    struct wire *wire = user;
    for (int i = 0; i < MESSAGES; ++i) {
        if (!wire->messages[i].used && length <= sizeof wire->messages[i].bytes) {
            wire->messages[i].from = from;
            wire->messages[i].to = to;
            wire->messages[i].key = key;
            wire->messages[i].at = at_ps + LATENCY;
            wire->messages[i].length = length;
            memcpy(wire->messages[i].bytes, bytes, length);
            wire->messages[i].used = 1;
            return TRN3_OK;
        }
    }
    return TRN3_CAPACITY;
}

static trn3_status wire_recv(void *user, uint32_t from, uint32_t to, uint64_t key, void *buffer, size_t capacity,
                             size_t *length, uint64_t *at_ps, uint32_t *has_come) {
    struct wire *wire = user;
    *has_come = 0;
    for (int i = 0; i < MESSAGES; ++i) {
        if (wire->messages[i].used && wire->messages[i].from == from && wire->messages[i].to == to &&
            wire->messages[i].key == key) {
            *length = wire->messages[i].length;
            if (capacity < *length) {
                wire->grown += 1;
                return TRN3_CAPACITY;
            }
            memcpy(buffer, wire->messages[i].bytes, *length);
            *at_ps = wire->messages[i].at;
            *has_come = 1;
            wire->messages[i].used = 0;
            return TRN3_OK;
        }
    }
    return TRN3_OK;
}

static trn3_status wire_schedule(void *user, uint64_t at_ps) {
    struct wire *wire = user;
    wire->wake = at_ps;
    return TRN3_OK;
}

static uint64_t wire_now(void *user) {
    const struct wire *wire = user;
    return wire->now;
}

static trn3_status wire_broken(void *user, uint32_t from, uint32_t to, uint64_t key, uint64_t at_ps, const void *bytes,
                               size_t length) {
    (void)user, (void)from, (void)to, (void)key, (void)at_ps, (void)bytes, (void)length;
    return TRN3_UNSUPPORTED;
}

static void networks(void) {
    static struct wire wire;
    const trn3_network table = {sizeof table, &wire, wire_send, wire_recv, wire_schedule, wire_now};
    trn3_device *devices[2] = {created("{\"rank\": 0}"), created("{\"rank\": 1}")};
    const uint32_t group[2] = {0, 1};
    trn3_command part = {.size = sizeof part, .kind = TRN3_COMMAND_COLLECTIVE};
    part.operation = TRN3_OPERATION_ALL_REDUCE;
    part.reduction = TRN3_REDUCTION_ADD;
    part.group = group;
    part.group_count = 2;
    part.key = 11;
    part.src_address = 0;
    part.dst_address = 4096;
    part.count = 256;
    part.dtype = "float32";
    part.dtype_length = 7;
    for (int rank = 0; rank < 2; ++rank) {
        CHECK_OK(trn3_set_network(devices[rank], &table));
        fill(devices[rank], 0, rank == 0 ? 0x3f800000u : 0x40000000u);
        CHECK_OK(trn3_submit(devices[rank], &part, (uint64_t)rank));
    }
    trn3_completion done[2] = {{0}, {0}};
    int complete[2] = {0, 0};
    for (int step = 0; step < 200 && complete[0] + complete[1] < 2; ++step) {
        wire.now += LATENCY / 10;
        for (int rank = 0; rank < 2; ++rank) {
            CHECK_OK(trn3_advance(devices[rank], wire.now));
            size_t count = 0;
            trn3_completion one = {.size = sizeof one};
            CHECK_OK(trn3_poll(devices[rank], &one, 1, &count));
            if (count == 1) {
                done[rank] = one;
                complete[rank] = 1;
            }
        }
    }
    for (int rank = 0; rank < 2; ++rank) {
        CHECK(complete[rank] == 1 && done[rank].status == TRN3_OK && done[rank].end_ps >= LATENCY);
        CHECK_BITS(0x40400000u, first(devices[rank], 4096));
    }
    CHECK(wire.grown > 0);

    /* What the host's network refuses fails the command; a table with holes is no table. */
    trn3_network broken = table;
    broken.send = NULL;
    CHECK_STATUS(TRN3_VALUE, trn3_set_network(devices[0], &broken));
    broken.send = wire_broken;
    CHECK_OK(trn3_set_network(devices[0], &broken));
    part.key = 12;
    CHECK_OK(trn3_submit(devices[0], &part, 3));
    for (int step = 0; step < 5; ++step) {
        wire.now += LATENCY;
        CHECK_OK(trn3_advance(devices[0], wire.now));
    }
    const trn3_completion failed = take_one(devices[0]);
    CHECK(failed.status != TRN3_OK && strstr(failed.message, "the host's network: send returned status 5") != NULL);
    CHECK_OK(trn3_set_network(devices[0], NULL));
    CHECK_OK(trn3_device_destroy(devices[0]));
    CHECK_OK(trn3_device_destroy(devices[1]));
}

static void misuse(void) {
    trn3_device *device = NULL;
    const char *bad[] = {"{", "[1]", "{\"core\": 1}", "{\"cores\": 0}", "{\"cores\": 1000000}", "{\"arch\": \"trn9\"}",
                         "{\"arch\": \"/etc/passwd.toml\"}", "{\"cores\": -1}", "{\"overrides\": {\"nothing\": 1}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        CHECK_STATUS(TRN3_VALUE, trn3_device_create(bad[i], strlen(bad[i]), &device));
        CHECK(device == NULL);
    }
    CHECK_STATUS(TRN3_VALUE, trn3_device_create("\xff\xfe", 2, &device));
    CHECK_STATUS(TRN3_VALUE, trn3_device_create(NULL, 1, &device));
    CHECK_STATUS(TRN3_VALUE, trn3_device_create("", 0, NULL));
    CHECK_OK(trn3_device_create(NULL, 0, &device));

    uint64_t number = 0;
    const char *programs[] = {"", "{", "{}", "null", "{\"format\": \"trn3-program\", \"version\": 99}"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i) {
        CHECK_STATUS(TRN3_VALUE, trn3_device_load(device, programs[i], strlen(programs[i]), &number));
    }
    CHECK_STATUS(TRN3_VALUE, trn3_device_load(device, NULL, 5, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_device_load(device, DOUBLE, strlen(DOUBLE), NULL));
    /* Any prefix of a program is none. */
    for (size_t cut = 0; cut < strlen(DOUBLE); cut += 17) {
        CHECK_STATUS(TRN3_VALUE, trn3_device_load(device, DOUBLE, cut, &number));
    }
    uint32_t bits = 0;
    CHECK_STATUS(TRN3_VALUE, trn3_memory_read(device, 3, 0, 0, &bits, 4, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_read(device, TRN3_SPACE_SBUF, 1, 0, &bits, 4, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_read(device, TRN3_SPACE_SBUF, 0, UINT64_MAX - 1, &bits, 4, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_read(device, TRN3_SPACE_HBM, 0, UINT64_MAX - 1, &bits, 4, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_write(device, TRN3_SPACE_HBM, 0, 0, NULL, 4, NULL));
    CHECK_OK(trn3_memory_write(device, TRN3_SPACE_HBM, 0, 0, NULL, 0, NULL));
    void *direct = NULL;
    CHECK_STATUS(TRN3_UNSUPPORTED, trn3_memory_direct(device, TRN3_SPACE_SBUF, 0, 0, 4, &direct));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_direct(device, TRN3_SPACE_HBM, 0, 0, 0, &direct));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_direct(device, TRN3_SPACE_HBM, 7, 0, 4, &direct));
    CHECK_STATUS(TRN3_CAPACITY, trn3_memory_direct(device, TRN3_SPACE_HBM, 0, 0, (uint64_t)1 << 36, &direct));
    CHECK_STATUS(TRN3_VALUE, trn3_advance(device, TRN3_NEVER));
    CHECK_OK(trn3_advance(device, 10));
    CHECK_STATUS(TRN3_VALUE, trn3_advance(device, 9));
    trn3_command command = {.size = sizeof command, .kind = 99};
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, &command, 1));
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, NULL, 1));
    command.kind = TRN3_COMMAND_NOP;
    command.core = 5;
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, &command, 1));
    command.size = 4;
    CHECK_STATUS(TRN3_ABI, trn3_submit(device, &command, 1));
    /* A smaller command of an older host. */
    const struct {
        size_t size;
        uint32_t kind, core;
        uint64_t program, step;
    } old = {sizeof old, TRN3_COMMAND_NOP, 0, 0, 0};
    CHECK_OK(trn3_submit(device, (const trn3_command *)(const void *)&old, 1));
    /* Smaller and larger completions. */
    size_t count = 0;
    trn3_completion done = {0};
    CHECK_STATUS(TRN3_ABI, trn3_poll(device, &done, 1, &count));
    CHECK_STATUS(TRN3_VALUE, trn3_poll(device, NULL, 1, &count));
    CHECK_OK(trn3_poll(device, NULL, 0, &count));
    CHECK(count == 0);
    CHECK_OK(trn3_submit(device, (const trn3_command *)(const void *)&old, 2));
    struct {
        trn3_completion known;
        uint64_t later;
    } larger[2];
    memset(larger, 0xff, sizeof larger);
    larger[0].known.size = sizeof *larger;
    CHECK_OK(trn3_poll(device, &larger[0].known, 2, &count));
    CHECK(count == 2 && larger[0].known.tag == 1 && larger[1].known.tag == 2 && larger[1].later == 0);
    CHECK(larger[1].known.size == sizeof *larger);

    /* Handles that are none, or no longer. */
    CHECK_STATUS(TRN3_VALUE, trn3_now(NULL, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_device_destroy(NULL));
    int local = 0;
    CHECK_STATUS(TRN3_VALUE, trn3_now((const trn3_device *)(const void *)&local, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_device_destroy((trn3_device *)(void *)&local));
    CHECK_STATUS(TRN3_VALUE, trn3_now((const trn3_device *)UINTPTR_MAX, &number));
    CHECK_OK(trn3_device_destroy(device));
    CHECK_STATUS(TRN3_VALUE, trn3_device_destroy(device));
    CHECK_STATUS(TRN3_VALUE, trn3_now(device, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_advance(device, 100));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_read(device, 0, 0, 0, &bits, 4, NULL));
    trn3_device *next = created("");
    CHECK(next != device);
    CHECK_STATUS(TRN3_VALUE, trn3_device_destroy(device));
    CHECK_OK(trn3_device_destroy(next));
}

static double figure(trn3_device *device, const char *name) {
    uint64_t bits = 0;
    double value = 0;
    CHECK_OK(trn3_profile_figure(device, 0, name, strlen(name), &bits));
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void profiles(void) {
    static unsigned char file[1 << 20], again[1 << 20];
    trn3_device *device = created("");
    uint64_t bits = 7;
    size_t size = 7, length = 0;
    CHECK_STATUS(TRN3_VALUE, trn3_profile_figure(device, 0, "mfu", 3, &bits));
    CHECK_STATUS(TRN3_VALUE, trn3_profile_json(device, 0, file, sizeof file, &size));
    CHECK(bits == 7 && size == 7);
    const uint64_t program = load(device);
    fill(device, address_of(device, program, "x"), 0x3fc00000u);
    const trn3_command command = run_command(program);
    CHECK_OK(trn3_submit(device, &command, 1));
    finish(device);
    const trn3_completion done = take_one(device);
    const double picoseconds = (double)(done.end_ps - done.start_ps);
    CHECK(picoseconds > 0 && figure(device, "latency_us") == picoseconds / 1e6);
    CHECK(figure(device, "instructions") == 3 && figure(device, "engines.vector.instructions") == 1);
    CHECK(figure(device, "hbm_read_bytes") == 1024 && figure(device, "hbm_write_bytes") == 1024);
    CHECK_STATUS(TRN3_VALUE, trn3_profile_figure(device, 0, "kernel", 6, &bits));
    CHECK_STATUS(TRN3_VALUE, trn3_profile_figure(device, 9, "mfu", 3, &bits));
    CHECK_STATUS(TRN3_VALUE, trn3_profile_figure(device, 0, "mfu", 3, NULL));
    /* How much there is, then all of it; the same each time. */
    CHECK_STATUS(TRN3_CAPACITY, trn3_profile_json(device, 0, NULL, 0, &length));
    CHECK(length > 1000 && length < sizeof file);
    CHECK_OK(trn3_profile_json(device, 0, file, length, &size));
    static const char head[] = "{\"format\":\"trn3-profile\",\"version\":1,\"figures\":{\"kernel\":\"double\",";
    CHECK(size == length && memcmp(file, head, sizeof head - 1) == 0);
    CHECK(file[length - 1] == '}' && file[length] == 0);
    CHECK_STATUS(TRN3_CAPACITY, trn3_profile_perfetto(device, 0, file, 1, &length));
    CHECK_OK(trn3_profile_perfetto(device, 0, file, sizeof file, &size));
    CHECK_OK(trn3_profile_perfetto(device, 0, again, sizeof again, &size));
    CHECK(size == length && size > 500 && file[0] == 0x0a && memcmp(file, again, size) == 0);
    CHECK_STATUS(TRN3_VALUE, trn3_profile_perfetto(device, 0, file, sizeof file, NULL));
    CHECK_OK(trn3_device_destroy(device));
}

int main(void) {
    programs();
    callbacks();
    failures();
    observation();
    profiles();
    snapshots();
    networks();
    misuse();
    return check_result();
}
