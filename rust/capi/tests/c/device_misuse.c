/* What a host may get wrong about a device gives a status from each function: handles that are none, or none any more,
   structures of wrong sizes and at wrong addresses, snapshots of another version. */
#include "device.h"

enum { FIRST_BYTES = 16 };

static void complete(void *user, const trn3_completion *completion) {
    (void)user, (void)completion;
}

static void trace(void *user, const trn3_trace_event *event) {
    (void)user, (void)event;
}

static trn3_status network_send(void *user, uint32_t from, uint32_t to, uint64_t key, uint64_t at_ps, const void *bytes,
                                size_t length) {
    (void)user, (void)from, (void)to, (void)key, (void)at_ps, (void)bytes, (void)length;
    return TRN3_OK;
}

static trn3_status network_recv(void *user, uint32_t from, uint32_t to, uint64_t key, void *buffer, size_t capacity,
                                size_t *length, uint64_t *at_ps, uint32_t *has_come) {
    (void)user, (void)from, (void)to, (void)key, (void)buffer, (void)capacity, (void)length, (void)at_ps;
    *has_come = 0;
    return TRN3_OK;
}

static trn3_status network_schedule(void *user, uint64_t at_ps) {
    (void)user, (void)at_ps;
    return TRN3_OK;
}

static uint64_t network_now(void *user) {
    (void)user;
    return 0;
}

static trn3_network network(void) {
    const trn3_network table = {sizeof table, NULL, network_send, network_recv, network_schedule, network_now};
    return table;
}

static trn3_kernel kernel(void) {
    const trn3_kernel dma = {.size = sizeof dma, .kind = TRN3_KERNEL_DMA, .bytes = 4096};
    return dma;
}

static trn3_tensor tensor(void) {
    const trn3_tensor place = {.size = sizeof place};
    return place;
}

/* Every function of a device, with arguments that are right but for the handle. */
static void refuse(trn3_device *device) {
    char bytes[64];
    uint64_t number = 7;
    uint32_t can = 7;
    size_t size = 7;
    void *pointer = bytes;
    trn3_completion done = {.size = sizeof done};
    const trn3_command nop = {.size = sizeof nop};
    const trn3_network table = network();
    const trn3_kernel dma = kernel();
    trn3_tensor place = tensor();
    CHECK_STATUS(TRN3_VALUE, trn3_estimate(device, &dma, &number, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_roofline(device, 1, 1, "bf16", 4, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_device_reset(device));
    CHECK_STATUS(TRN3_VALUE, trn3_device_load(device, DOUBLE, strlen(DOUBLE), &number));
    CHECK_STATUS(TRN3_VALUE, trn3_device_unload(device, 1));
    CHECK_STATUS(TRN3_VALUE, trn3_device_tensor(device, 1, "x", 1, &place));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_size(device, TRN3_SPACE_HBM, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_read(device, TRN3_SPACE_HBM, 0, 0, bytes, 4, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_write(device, TRN3_SPACE_HBM, 0, 0, bytes, 4, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_direct(device, TRN3_SPACE_HBM, 0, 0, 4, &pointer));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_release(device, 0, 4));
    CHECK_STATUS(TRN3_VALUE, trn3_set_network(device, &table));
    CHECK_STATUS(TRN3_VALUE, trn3_set_network(device, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_stats_count(device, &size));
    CHECK_STATUS(TRN3_VALUE, trn3_stats_name(device, 0, bytes, sizeof bytes));
    CHECK_STATUS(TRN3_VALUE, trn3_stats_value(device, 0, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_stats_reset(device));
    CHECK_STATUS(TRN3_VALUE, trn3_set_trace(device, trace, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_snapshot_size(device, &size));
    CHECK_STATUS(TRN3_VALUE, trn3_snapshot_save(device, bytes, sizeof bytes, &size));
    CHECK_STATUS(TRN3_VALUE, trn3_snapshot_load(device, bytes, sizeof bytes));
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, &nop, 1));
    CHECK_STATUS(TRN3_VALUE, trn3_can_submit(device, 0, &can));
    CHECK_STATUS(TRN3_VALUE, trn3_now(device, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_next_event(device, &number));
    CHECK_STATUS(TRN3_VALUE, trn3_advance(device, 1));
    CHECK_STATUS(TRN3_VALUE, trn3_poll(device, &done, 1, &size));
    CHECK_STATUS(TRN3_VALUE, trn3_on_complete(device, complete, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_device_destroy(device));
    /* Nothing was written. */
    CHECK(number == 7 && can == 7 && size == 7 && pointer == bytes);
}

static void handles(void) {
    refuse(NULL);
    refuse((trn3_device *)UINTPTR_MAX);
    trn3_device *device = created("");
    CHECK_OK(trn3_on_complete(device, complete, NULL));
    CHECK_OK(trn3_device_destroy(device));
    refuse(device);
    /* Its slot is another's, the handle is not; nor is one that is off by one. */
    trn3_device *others[300];
    for (int i = 0; i < 300; ++i) {
        others[i] = created("");
        CHECK(others[i] != device);
        CHECK(i == 0 || others[i] != others[i - 1]);
    }
    refuse(device);
    for (int i = 0; i < 300; ++i) {
        CHECK_OK(trn3_device_destroy(others[i]));
    }
    refuse((trn3_device *)((uintptr_t)others[0] + ((uintptr_t)1 << 40)));
}

/* Structures whose size is none that there can be; others before them are right. */
static void sizes(void) {
    trn3_device *device = created("");
    uint64_t program = 0, number = 0;
    CHECK_OK(trn3_device_load(device, DOUBLE, strlen(DOUBLE), &program));
    size_t count = 0;
    const size_t wrong[] = {0, 1, 8, 15, (size_t)1 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        trn3_command nop = {.size = wrong[i]};
        trn3_kernel dma = kernel();
        trn3_tensor place = tensor();
        trn3_network table = network();
        trn3_completion done = {.size = wrong[i]};
        dma.size = place.size = table.size = wrong[i];
        CHECK_STATUS(TRN3_ABI, trn3_submit(device, &nop, 1));
        CHECK_STATUS(TRN3_ABI, trn3_estimate(device, &dma, &number, NULL));
        CHECK_STATUS(TRN3_ABI, trn3_device_tensor(device, program, "x", 1, &place));
        CHECK_STATUS(TRN3_ABI, trn3_set_network(device, &table));
        CHECK_STATUS(TRN3_ABI, trn3_poll(device, &done, 1, &count));
    }
    CHECK_OK(trn3_device_destroy(device));
}

/* Structures and results at addresses that they cannot have. */
static void addresses(void) {
    trn3_device *device = created("");
    uint64_t program = 0;
    CHECK_OK(trn3_device_load(device, DOUBLE, strlen(DOUBLE), &program));
    union {
        uint64_t aligned[128];
        unsigned char bytes[1024];
    } memory;
    memset(&memory, 0, sizeof memory);
    unsigned char *odd = memory.bytes + 1;
    uint64_t *number = (uint64_t *)(void *)odd;
    size_t *size = (size_t *)(void *)odd;
    uint32_t *can = (uint32_t *)(void *)odd;
    uint64_t right = 0;
    size_t count = 0;
    trn3_device *other = NULL;
    CHECK_STATUS(TRN3_VALUE, trn3_device_create("", 0, (trn3_device **)(void *)odd));
    CHECK_STATUS(TRN3_VALUE, trn3_device_load(device, DOUBLE, strlen(DOUBLE), number));
    CHECK_STATUS(TRN3_VALUE, trn3_now(device, number));
    CHECK_STATUS(TRN3_VALUE, trn3_next_event(device, number));
    CHECK_STATUS(TRN3_VALUE, trn3_can_submit(device, 0, can));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_size(device, TRN3_SPACE_HBM, number));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_read(device, TRN3_SPACE_HBM, 0, 0, memory.bytes + 64, 3, number));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_write(device, TRN3_SPACE_HBM, 0, 0, memory.bytes + 64, 3, number));
    CHECK_STATUS(TRN3_VALUE, trn3_memory_direct(device, TRN3_SPACE_HBM, 0, 0, 4, (void **)(void *)odd));
    CHECK_STATUS(TRN3_VALUE, trn3_stats_count(device, size));
    CHECK_STATUS(TRN3_VALUE, trn3_stats_value(device, 0, number));
    CHECK_STATUS(TRN3_VALUE, trn3_snapshot_size(device, size));
    CHECK_STATUS(TRN3_VALUE, trn3_snapshot_save(device, memory.bytes + 64, 8, size));
    CHECK_STATUS(TRN3_VALUE, trn3_roofline(device, 1, 1, "bf16", 4, number));
    const trn3_kernel dma = kernel();
    CHECK_STATUS(TRN3_VALUE, trn3_estimate(device, &dma, number, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_estimate(device, &dma, &right, number));
    memcpy(odd, &dma, sizeof dma);
    CHECK_STATUS(TRN3_VALUE, trn3_estimate(device, (const trn3_kernel *)(const void *)odd, &right, NULL));
    const trn3_command nop = {.size = sizeof nop};
    memcpy(odd, &nop, sizeof nop);
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, (const trn3_command *)(const void *)odd, 1));
    const trn3_network table = network();
    memcpy(odd, &table, sizeof table);
    CHECK_STATUS(TRN3_VALUE, trn3_set_network(device, (const trn3_network *)(const void *)odd));
    const trn3_tensor place = tensor();
    memcpy(odd, &place, sizeof place);
    CHECK_STATUS(TRN3_VALUE, trn3_device_tensor(device, program, "x", 1, (trn3_tensor *)(void *)odd));
    const trn3_completion done = {.size = sizeof done};
    memcpy(odd, &done, sizeof done);
    CHECK_STATUS(TRN3_VALUE, trn3_poll(device, (trn3_completion *)(void *)odd, 1, &count));
    CHECK(other == NULL && right == 0 && count == 0);
    /* A group of ranks that is misaligned, or not there. */
    trn3_command part = {.size = sizeof part, .kind = TRN3_COMMAND_COLLECTIVE, .group_count = 1, .count = 1};
    part.dtype = "float32";
    part.dtype_length = 7;
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, &part, 1));
    part.group = (const uint32_t *)(const void *)odd;
    CHECK_STATUS(TRN3_VALUE, trn3_submit(device, &part, 1));
    CHECK_OK(trn3_device_destroy(device));
}

/* No bit of a snapshot's first bytes, which say what and of which version it is, may be another. */
static void versions(void) {
    trn3_device *device = created("");
    size_t size = 0;
    CHECK_OK(trn3_snapshot_size(device, &size));
    uint8_t *bytes = malloc(size);
    CHECK(bytes != NULL);
    CHECK_OK(trn3_snapshot_save(device, bytes, size, &size));
    for (int bit = 0; bit < 8 * FIRST_BYTES; ++bit) {
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        CHECK_STATUS(TRN3_VALUE, trn3_snapshot_load(device, bytes, size));
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    CHECK_OK(trn3_snapshot_load(device, bytes, size));
    free(bytes);
    CHECK_OK(trn3_device_destroy(device));
}

int main(void) {
    handles();
    sizes();
    addresses();
    versions();
    return check_result();
}
