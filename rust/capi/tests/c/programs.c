/* Programs of both versions of the format: tensors without a place, marks, functions of the host's, and what is refused. */
#include "device.h"

#define HEAD(version) "{\"format\": \"trn3-program\", \"version\": " #version ", \"name\": \"p\", \"tensors\": ["
#define TENSORS                                                                                                        \
    "{\"name\": \"x\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\", \"role\": \"input\"},"         \
    "{\"name\": \"out\", \"space\": \"hbm\", \"shape\": [128, 2], \"dtype\": \"float32\", \"role\": \"output\"},"      \
    "{\"name\": \"tile\", \"space\": \"sbuf\", \"shape\": [128, 2], \"dtype\": \"float32\"}], \"steps\": ["
#define LOAD "{\"op\": \"dma_copy\", \"dst\": \"tile\", \"src\": \"x\"},"
#define STORE "{\"op\": \"dma_copy\", \"dst\": \"out\", \"src\": \"tile\"}]}"

/* A tile without a place, doubled in a loop that was unrolled. */
static const char MARKED[] = HEAD(2) TENSORS LOAD
    "{\"op\": \"loop\", \"kind\": \"affine_range\", \"trip\": 1}, {\"op\": \"iteration\"}, {\"op\": \"no_reorder\"},"
    "{\"op\": \"tensor_scalar\", \"dst\": \"tile\", \"data\": \"tile\", \"op0\": \"multiply\", \"operand0\": 2.0},"
    "{\"op\": \"end_no_reorder\"}, {\"op\": \"end_loop\"}," STORE;
static const char CALLING[] = HEAD(2) TENSORS LOAD
    "{\"op\": \"gpsimd_call\", \"function\": \"twice\", \"inputs\": [\"tile\"], \"outputs\": [\"tile\"], \"cycles\": 9}," STORE;

static trn3_status twice(void *user, const trn3_gpsimd_tile *inputs, size_t input_count, trn3_gpsimd_tile *outputs,
                         size_t output_count) {
    int *calls = user;
    *calls += 1;
    if (input_count != 1 || output_count != 1 || inputs->length != outputs->length || inputs->partitions != 128 ||
        inputs->elements != 2 || inputs->dtype_length != 7 || memcmp(inputs->dtype, "float32", 7) != 0) {
        return TRN3_SHAPE;
    }
    for (size_t i = 0; i < inputs->length; i += sizeof(float)) {
        float value = 0;
        memcpy(&value, (const char *)inputs->bytes + i, sizeof value);
        value *= 2;
        memcpy((char *)outputs->bytes + i, &value, sizeof value);
    }
    return *calls < 3 ? TRN3_OK : TRN3_VALUE;
}

static trn3_completion ran(trn3_device *device, uint64_t program, float value) {
    float values[256];
    for (int i = 0; i < 256; ++i) {
        values[i] = value;
    }
    CHECK_OK(trn3_memory_write(device, TRN3_SPACE_HBM, 0, address_of(device, program, "x"), values, sizeof values, NULL));
    const trn3_command command = run_command(program);
    CHECK_OK(trn3_submit(device, &command, 1));
    finish(device);
    trn3_completion done = {0};
    done.size = sizeof done;
    size_t count = 0;
    CHECK_OK(trn3_poll(device, &done, 1, &count));
    CHECK(count == 1);
    return done;
}

static float first(trn3_device *device, uint64_t program) {
    float value = 0;
    const uint64_t out = address_of(device, program, "out");
    CHECK_OK(trn3_memory_read(device, TRN3_SPACE_HBM, 0, out, &value, sizeof value, NULL));
    return value;
}

static void versions(void) {
    trn3_device *device = created("");
    uint64_t old = 0, marked = 0;
    CHECK_OK(trn3_device_load(device, DOUBLE, strlen(DOUBLE), &old));
    CHECK_OK(trn3_device_load(device, MARKED, strlen(MARKED), &marked));
    const trn3_completion one = ran(device, old, 1.5f), other = ran(device, marked, 1.5f);
    CHECK(one.status == TRN3_OK && other.status == TRN3_OK);
    CHECK(first(device, old) == 3.0f && first(device, marked) == 3.0f);
    CHECK(one.end_ps - one.start_ps == other.end_ps - other.start_ps);
    /* The place that was found is where the tensor lies. */
    trn3_tensor tile = {0};
    tile.size = sizeof tile;
    CHECK_OK(trn3_device_tensor(device, marked, "tile", 4, &tile));
    float value = 0;
    CHECK_OK(trn3_memory_read(device, TRN3_SPACE_SBUF, 0, tile.address, &value, sizeof value, NULL));
    CHECK(tile.space == TRN3_SPACE_SBUF && tile.bytes == 8 && value == 3.0f);
    CHECK_OK(trn3_device_destroy(device));
}

static void functions(void) {
    trn3_device *device = created("");
    uint64_t program = 0;
    char text[512];
    CHECK_STATUS(TRN3_UNSUPPORTED, trn3_device_load(device, CALLING, strlen(CALLING), &program));
    CHECK_OK(trn3_last_error(text, sizeof text));
    CHECK(strstr(text, "step 1 (gpsimd_call): function is \"twice\", which nobody gave") != NULL);
    int calls = 0;
    CHECK_STATUS(TRN3_VALUE, trn3_register_function(device, "twice", 5, NULL, NULL));
    CHECK_STATUS(TRN3_VALUE, trn3_register_function(device, "", 0, twice, &calls));
    CHECK_STATUS(TRN3_VALUE, trn3_register_function(device, NULL, 5, twice, &calls));
    CHECK_STATUS(TRN3_VALUE, trn3_register_function(NULL, "twice", 5, twice, &calls));
    CHECK_OK(trn3_register_function(device, "twice", 5, twice, &calls));
    CHECK_OK(trn3_device_reset(device));
    CHECK_OK(trn3_device_load(device, CALLING, strlen(CALLING), &program));
    CHECK(ran(device, program, 2.5f).status == TRN3_OK && calls == 1 && first(device, program) == 5.0f);
    CHECK(ran(device, program, 4.5f).status == TRN3_OK && calls == 2 && first(device, program) == 9.0f);
    const trn3_completion failed = ran(device, program, 1.0f);
    CHECK(failed.status == TRN3_VALUE && strstr(failed.message, "the host's function twice returned status") != NULL);
    CHECK_OK(trn3_device_destroy(device));
}

static void refusals(void) {
    trn3_device *device = created("");
    uint64_t program = 0;
    char text[512];
    const struct {
        const char *program, *words;
    } wrong[] = {
        {HEAD(1) TENSORS LOAD STORE, "tensor \"tile\": address is missing"},
        {HEAD(2) TENSORS "{\"op\": \"end_loop\"}," LOAD STORE, "step 0 (end_loop): belongs to a loop, and none is open"},
        {HEAD(2) TENSORS "{\"op\": \"loop\", \"kind\": \"range\"}," LOAD STORE, "step 0 (loop): kind is \"range\""},
        {HEAD(2) TENSORS LOAD "{\"op\": \"core_barrier\", \"data\": \"x\"}," STORE,
         "step 1 (core_barrier): needs a logical core of several cores"},
        {HEAD(3) TENSORS LOAD STORE, "program version is 3; allowed: 1 to 2"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        CHECK_STATUS(TRN3_VALUE, trn3_device_load(device, wrong[i].program, strlen(wrong[i].program), &program));
        CHECK_OK(trn3_last_error(text, sizeof text));
        CHECK(strstr(text, wrong[i].words) != NULL);
    }
    /* A core of a logical core is loaded; a device does not run it past the first step that both take. */
    static const char HALF[] =
        "{\"format\": \"trn3-program\", \"version\": 2, \"name\": \"p\", \"logical_core\": {\"core\": 0, \"cores\": 2},"
        "\"tensors\": [" TENSORS LOAD "{\"op\": \"core_barrier\", \"data\": \"x\"}," STORE;
    CHECK_OK(trn3_device_load(device, HALF, strlen(HALF), &program));
    const trn3_completion alone = ran(device, program, 1.0f);
    CHECK(alone.status == TRN3_UNSUPPORTED && strstr(alone.message, "step 1 (core_barrier)") != NULL);
    CHECK_OK(trn3_device_destroy(device));
}

/* Text of a buffer that is too small first, and then is not. */
static void compiling(void) {
    trn3_device *device = created("");
    static const char LEVEL[] = "neuronx-cc";
    static char made[8192], report[4096], text[256];
    size_t made_size = 0, report_size = 0;
    CHECK_STATUS(TRN3_CAPACITY, trn3_program_compile(device, MARKED, strlen(MARKED), LEVEL, strlen(LEVEL), NULL, 0,
                                                     &made_size, NULL, 0, &report_size));
    CHECK(made_size > 0 && made_size < sizeof made && report_size > 0 && report_size < sizeof report);
    CHECK_STATUS(TRN3_CAPACITY, trn3_program_compile(device, MARKED, strlen(MARKED), LEVEL, strlen(LEVEL), made,
                                                     made_size, &made_size, report, report_size - 1, &report_size));
    CHECK(made[0] == 0 && report[0] == 0);
    CHECK_OK(trn3_program_compile(device, MARKED, strlen(MARKED), LEVEL, strlen(LEVEL), made, sizeof made, &made_size,
                                  report, sizeof report, &report_size));
    CHECK(made[made_size] == 0 && report[report_size] == 0);
    CHECK(strstr(made, "trn3-program") != NULL && strstr(report, "\"level\":\"neuronx-cc\"") != NULL);
    uint64_t own = 0, compiled = 0;
    CHECK_OK(trn3_device_load(device, MARKED, strlen(MARKED), &own));
    CHECK_OK(trn3_device_load(device, made, made_size, &compiled));
    (void)ran(device, own, 1.5f);
    (void)ran(device, compiled, 1.5f);
    CHECK(first(device, own) == 3.0f && first(device, compiled) == 3.0f);
    /* Refused: a level and a program that there are not, what cannot be compiled, and no place for an answer. */
    CHECK_STATUS(TRN3_VALUE, trn3_program_compile(device, MARKED, strlen(MARKED), "fast", 4, made, sizeof made,
                                                  &made_size, report, sizeof report, &report_size));
    CHECK_OK(trn3_last_error(text, sizeof text));
    CHECK(strstr(text, "\"fast\"; allowed: as-written, nki, neuronx-cc") != NULL);
    CHECK_STATUS(TRN3_VALUE, trn3_program_compile(device, "{}", 2, LEVEL, strlen(LEVEL), made, sizeof made, &made_size,
                                                  report, sizeof report, &report_size));
    CHECK_STATUS(TRN3_UNSUPPORTED, trn3_program_compile(device, CALLING, strlen(CALLING), LEVEL, strlen(LEVEL), made,
                                                        sizeof made, &made_size, report, sizeof report, &report_size));
    CHECK_STATUS(TRN3_VALUE, trn3_program_compile(device, MARKED, strlen(MARKED), LEVEL, strlen(LEVEL), made,
                                                  sizeof made, NULL, report, sizeof report, &report_size));
    CHECK_OK(trn3_device_destroy(device));
    CHECK_STATUS(TRN3_VALUE, trn3_program_compile(device, MARKED, strlen(MARKED), LEVEL, strlen(LEVEL), made,
                                                  sizeof made, &made_size, report, sizeof report, &report_size));
}

int main(void) {
    versions();
    functions();
    refusals();
    compiling();
    return check_result();
}
