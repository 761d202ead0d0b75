/* Collectives under limits of addresses: each gives a status, and none ends the process. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"

static const uint32_t GROUP[2] = {0, 1};

static rlim_t addressed(void) {
    unsigned long pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Two ranks reduce or exchange so many floats each; returns the first status that is none of TRN3_OK. */
static trn3_status collective(trn3_device *device, uint32_t operation, uint64_t count) {
    trn3_status worst = TRN3_OK;
    for (uint32_t core = 0; core < 2; ++core) {
        trn3_command part = {.size = sizeof part, .kind = TRN3_COMMAND_COLLECTIVE};
        part.core = core;
        part.operation = operation;
        part.reduction = TRN3_REDUCTION_ADD;
        part.group = GROUP;
        part.group_count = 2;
        part.key = 7;
        part.count = count;
        part.dst_address = (1 + (uint64_t)core) << 33;
        part.dtype = "float32";
        part.dtype_length = strlen(part.dtype);
        const trn3_status status = trn3_submit(device, &part, core);
        worst = worst == TRN3_OK ? status : worst;
    }
    finish(device);
    for (;;) {
        trn3_completion done[2] = {{0}, {0}};
        done[0].size = sizeof done[0];
        size_t polled = 0;
        CHECK_OK(trn3_poll(device, done, 2, &polled));
        if (polled == 0) {
            return worst;
        }
        for (size_t i = 0; i < polled; ++i) {
            worst = worst == TRN3_OK ? done[i].status : worst;
        }
    }
}

/* What a process of its own makes of a collective that may address so many bytes more: its exit code. */
static int under(rlim_t more, uint32_t operation, uint64_t count) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check_failures = 0;
        trn3_device *device = created("{\"cores\": 2, \"host_memory_bytes\": 17179869184}");
        CHECK(collective(device, operation, 64) == TRN3_OK);
        const struct rlimit limit = {addressed() + more, RLIM_INFINITY};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        const trn3_status status = collective(device, operation, count);
        CHECK(status == TRN3_OK || status == TRN3_CAPACITY);
        if (status != TRN3_OK) {
            /* The device goes on: its memory is there, and its other core, which may wait for the one that failed. */
            const unsigned char byte = 7;
            unsigned char back = 0;
            CHECK_OK(trn3_memory_write(device, TRN3_SPACE_HBM, 0, 5, &byte, 1, NULL));
            CHECK_OK(trn3_memory_read(device, TRN3_SPACE_HBM, 0, 5, &back, 1, NULL));
            CHECK(back == byte);
            CHECK_OK(trn3_device_reset(device));
            CHECK(collective(device, operation, 64) == TRN3_OK);
        }
        CHECK_OK(trn3_device_destroy(device));
        if (check_failures > 0) {
            (void)fflush(stdout);
            _exit(1);
        }
        _exit(status == TRN3_OK ? 0 : 42);
    }
    int ended = 0;
    CHECK(waitpid(child, &ended, 0) == child);
    CHECK(WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

int main(void) {
    const uint32_t operations[] = {TRN3_OPERATION_ALL_REDUCE, TRN3_OPERATION_ALL_GATHER, TRN3_OPERATION_REDUCE_SCATTER,
                                   TRN3_OPERATION_ALL_TO_ALL};
    const rlim_t mebibyte = 1 << 20;
    const rlim_t limits[] = {8, 24, 48, 80, 120};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; ++i) {
        for (size_t j = 0; j < sizeof limits / sizeof *limits; ++j) {
            const int code = under(limits[j] * mebibyte, operations[i], 8 << 20);
            CHECK(code == 0 || code == 42);
            CHECK(j > 0 || code == 42);
        }
        CHECK(under(4096 * mebibyte, operations[i], 8 << 20) == 0);
    }
    return check_result();
}
