/* What the programs that use devices share. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdlib.h>

#include "check.h"

/* Doubles 128 x 2 floats by way of SBUF. */
static const char DOUBLE[] =
    "{\"format\": \"trn3-program\", \"version\": 1, \"name\": \"double\","
    " \"tensors\": ["
    "  {\"name\": \"x\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\", \"role\": \"input\"},"
    "  {\"name\": \"out\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\", \"role\": \"output\"},"
    "  {\"name\": \"tile\", \"space\": \"sbuf\", \"shape\": [128, 2], \"dtype\": \"float32\", \"address\": [0, 0]}],"
    " \"steps\": ["
    "  {\"op\": \"dma_copy\", \"dst\": \"tile\", \"src\": \"x\"},"
    "  {\"op\": \"tensor_scalar\", \"dst\": \"tile\", \"data\": \"tile\", \"op0\": \"multiply\", \"operand0\": 2.0},"
    "  {\"op\": \"dma_copy\", \"dst\": \"out\", \"src\": \"tile\"}]}";

static inline trn3_device *created(const char *config) {
    trn3_device *device = NULL;
    CHECK_OK(trn3_device_create(config, strlen(config), &device));
    return device;
}

/* Moves time until nothing happens any more. */
static inline void finish(trn3_device *device) {
    for (int events = 0; events < 100; ++events) {
        uint64_t next = 0;
        CHECK_OK(trn3_next_event(device, &next));
        if (next == TRN3_NEVER) {
            return;
        }
        CHECK_OK(trn3_advance(device, next));
    }
    CHECK(!"time comes to an end");
}

static inline uint64_t address_of(const trn3_device *device, uint64_t program, const char *name) {
    trn3_tensor tensor = {0};
    tensor.size = sizeof tensor;
    CHECK_OK(trn3_device_tensor(device, program, name, strlen(name), &tensor));
    CHECK(strcmp(tensor.dtype, "float32") == 0 && tensor.ndim == 2 && tensor.shape[0] == 128);
    return tensor.address;
}

static inline trn3_command run_command(uint64_t program) {
    trn3_command command = {0};
    command.size = sizeof command;
    command.kind = TRN3_COMMAND_RUN;
    command.program = program;
    return command;
}

#endif
