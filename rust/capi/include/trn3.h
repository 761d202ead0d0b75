// trn3: the arithmetic of Trainium3 and a device with time, for simulators written in any language.
//
// Made from the sources by their tests: do not edit.
//
// Every function returns a trn3_status and gives its results through pointers; trn3_abi_version alone returns a number.
//
// - Numbers cross as bit patterns, never as float: NaN keeps its bits.
// - Nothing is written unless the call succeeds, but for outputs of arithmetic that fails half-way (VALUE by their
//   contents), whose elements are then unspecified.
// - A null, misaligned or overlapping argument is VALUE, a structure of impossible size ABI, never a crash. Memory that a
//   pointer and its length describe must exist: that alone the library cannot see.
// - Structures begin with their size. Set it to sizeof and the rest to zero ("trn3_array a = {sizeof a};"): a program
//   built with an older, smaller structure keeps working, a newer one does as long as what it adds is zero.
// - Text goes in with its length and comes out with a NUL; both are UTF-8.
// - Functions that take no handle may be called from any thread at any time. Operations use the calling thread alone until
//   trn3_set_num_threads is called; results never depend on it, nor on the processor or its floating-point modes.
// - No function prints, reads files, installs signal handlers or ends the process. A caught panic is INTERNAL.
// - The caller's floating-point environment is as it was when a call returns.
#ifndef TRN3_H
#define TRN3_H

#include <stddef.h>
#include <stdint.h>

// The version that this header belongs to, and as trn3_abi_version gives it.
#define TRN3_VERSION_MAJOR 0
#define TRN3_VERSION_MINOR 1
#define TRN3_VERSION_PATCH 0
#define TRN3_ABI_VERSION                                                                                               \
    (((uint32_t)TRN3_VERSION_MAJOR << 16) | ((uint32_t)TRN3_VERSION_MINOR << 8) | (uint32_t)TRN3_VERSION_PATCH)

// The most axes an array has.
#define TRN3_MAX_AXES 8

// Nothing; takes no time.
#define TRN3_COMMAND_NOP 0

// Runs a loaded program.
#define TRN3_COMMAND_RUN 1

// Runs one step of a loaded program.
#define TRN3_COMMAND_STEP 2

// Copies bytes between HBM and SBUF, or within one of them.
#define TRN3_COMMAND_COPY 3

// This core's part of a collective.
#define TRN3_COMMAND_COLLECTIVE 4

// Every rank gets the reduction of all ranks' buffers.
#define TRN3_OPERATION_ALL_REDUCE 0

// Every rank gets all ranks' buffers, in order of the group.
#define TRN3_OPERATION_ALL_GATHER 1

// Place i of the group gets chunk i of the reduction.
#define TRN3_OPERATION_REDUCE_SCATTER 2

// Place i of the group gets chunk i of every rank, in order of the group.
#define TRN3_OPERATION_ALL_TO_ALL 3

// Sums.
#define TRN3_REDUCTION_ADD 0

// The largest.
#define TRN3_REDUCTION_MAX 1

// The smallest.
#define TRN3_REDUCTION_MIN 2

// [m, k] by [k, n], operands from HBM, the result to it.
#define TRN3_KERNEL_MATMUL 0

// One result an element, of so many operands, from HBM and to it.
#define TRN3_KERNEL_ELEMENTWISE 1

// A transfer between HBM and SBUF.
#define TRN3_KERNEL_DMA 2

// A collective, by the fastest algorithm.
#define TRN3_KERNEL_COLLECTIVE 3

// Bytes of the name of a dtype, its NUL included.
#define TRN3_DTYPE_NAME_BYTES 32

// HBM, one for all cores of the device.
#define TRN3_SPACE_HBM 0

// A core's SBUF: address partition * bytes of a partition + byte.
#define TRN3_SPACE_SBUF 1

// A core's PSUM, addressed as SBUF is.
#define TRN3_SPACE_PSUM 2

// Something that took a time: a command, or an instruction on its engine.
#define TRN3_TRACE_SPAN 0

// Something at a moment.
#define TRN3_TRACE_INSTANT 1

// A number from that moment on.
#define TRN3_TRACE_COUNTER 2

// A finished instruction, in program order of each command: name is the line of the commit log,
// "core engine number name start end label".
#define TRN3_TRACE_COMMIT 3

// No time: nothing will happen unless the host does something.
#define TRN3_NEVER 18446744073709551615ull

// Bytes of a completion's message, its NUL included.
#define TRN3_MESSAGE_BYTES 256

// x.
#define TRN3_ACTIVATION_COPY 0

// x^2.
#define TRN3_ACTIVATION_SQUARE 1

// 1 / (1 + e^-x).
#define TRN3_ACTIVATION_SIGMOID 2

// x where it is positive, else +0.
#define TRN3_ACTIVATION_RELU 3

// x where it is at least 0 (-0 too), else x times the parameter.
#define TRN3_ACTIVATION_PRELU 4

// x * Phi(x).
#define TRN3_ACTIVATION_GELU 5

// The derivative of gelu: Phi(x) + x * Phi'(x).
#define TRN3_ACTIVATION_GELU_DX 6

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
#define TRN3_ACTIVATION_GELU_APPRX_TANH 7

// x * s(1.702 x).
#define TRN3_ACTIVATION_GELU_APPRX_SIGMOID 8

// The derivative of that: s + 1.702 x s (1 - s), s taken of 1.702 x.
#define TRN3_ACTIVATION_GELU_APPRX_SIGMOID_DX 9

// x * s(x).
#define TRN3_ACTIVATION_SILU 10

// The derivative of silu: s (1 + x (1 - s)).
#define TRN3_ACTIVATION_SILU_DX 11

// tanh x.
#define TRN3_ACTIVATION_TANH 12

// ln(1 + e^x).
#define TRN3_ACTIVATION_SOFTPLUS 13

// x * tanh(ln(1 + e^x)).
#define TRN3_ACTIVATION_MISH 14

// erf x.
#define TRN3_ACTIVATION_ERF 15

// The derivative of erf: 2 / sqrt(pi) * e^(-x^2).
#define TRN3_ACTIVATION_ERF_DX 16

// e^x: the bits of trn3_exp without bias.
#define TRN3_ACTIVATION_EXP 17

// ln x.
#define TRN3_ACTIVATION_LOG 18

// sin x from -pi to pi; beyond, a third-order polynomial about pi.
#define TRN3_ACTIVATION_SIN 19

// arctan x.
#define TRN3_ACTIVATION_ARCTAN 20

// The square root.
#define TRN3_ACTIVATION_SQRT 21

// 1 over the square root.
#define TRN3_ACTIVATION_RSQRT 22

// 1 / x.
#define TRN3_ACTIVATION_RECIPROCAL 23

// -1, +0 or 1.
#define TRN3_ACTIVATION_SIGN 24

// The magnitude.
#define TRN3_ACTIVATION_ABS 25

// The rule a format takes when none is named: trn3 for fp8, ocp for fp4.
#define TRN3_SCALE_RULE_DEFAULT 0

// E = floor(log2 amax) - (Emax - 1): nothing saturates; the QuantizeMX instruction since NKI 0.5.
#define TRN3_SCALE_RULE_TRN3 1

// E = floor(log2 amax) - Emax: clips; the sample rule of OCP MX 1.0.
#define TRN3_SCALE_RULE_OCP 2

// The smallest E with amax <= largest * 2^E.
#define TRN3_SCALE_RULE_RCEIL 3

// To the nearer neighbour, ties to the even code.
#define TRN3_ROUNDING_NEAREST 0

// To the neighbour nearer zero; never overflows a finite value.
#define TRN3_ROUNDING_ZERO 1

// Away from zero with the probability of the distance: one 32-bit draw an element.
#define TRN3_ROUNDING_STOCHASTIC 2

// Beyond the largest finite value: infinity where the format has one, else NaN; float4_e2m1fn saturates.
#define TRN3_OVERFLOW_IEEE 0

// Beyond the largest finite value: that value, for infinities too.
#define TRN3_OVERFLOW_SATURATE 1

// A device. Handles are tokens that are checked at each use, not addresses. Calls that take a const handle may run on
// several threads at once; the others need the device alone and are BUSY while another call uses it, which a call from a
// callback of the device always is.
typedef struct trn3_device trn3_device;

// What a call returns: one of TRN3_OK to TRN3_INTERNAL. The text of a failure is trn3_last_error's.
typedef int32_t trn3_status;

// A piece of work by its shape. Set size to sizeof(trn3_kernel) and the fields that its kind does not use to 0.
typedef struct trn3_kernel {
    // sizeof this structure.
    size_t size;
    // TRN3_KERNEL_...
    uint32_t kind;
    // ELEMENTWISE: operands.
    uint32_t operands;
    // MATMUL: rows of the result.
    uint64_t m;
    // MATMUL: contraction.
    uint64_t k;
    // MATMUL: columns of the result.
    uint64_t n;
    // ELEMENTWISE: elements.
    uint64_t elements;
    // DMA, COLLECTIVE: bytes; of all_gather those of the gathered buffer, else of one rank's input.
    uint64_t bytes;
    // MATMUL, ELEMENTWISE: bf16, fp16, fp8, mxfp8, mxfp4, tf32, fp32.
    const char *dtype;
    // Bytes of that.
    size_t dtype_length;
    // COLLECTIVE: TRN3_OPERATION_...
    uint32_t operation;
    // COLLECTIVE: ranks (cores), the first ones of the system.
    uint32_t ranks;
} trn3_kernel;

// A tile: partitions times elements, in C order and little-endian.
typedef struct trn3_gpsimd_tile {
    // Its elements. Those of inputs are not to be written.
    void *bytes;
    // Bytes of them.
    size_t length;
    // Partitions: the lanes, 16 to each of the eight processors.
    size_t partitions;
    // Elements in each partition.
    size_t elements;
    // Name of the element type, as nki.language spells it, without a NUL.
    const char *dtype;
    // Bytes of that.
    size_t dtype_length;
} trn3_gpsimd_tile;

// Fills output tiles, which come zeroed, from input tiles. It is called inside the calls that run a program, on their
// thread, and must return (no exception, no longjmp); calls on the device from within are BUSY. The tiles are the host's for
// the call alone. What is not TRN3_OK fails the step.
typedef trn3_status (*trn3_gpsimd_fn)(void *user,
                                      const struct trn3_gpsimd_tile *inputs,
                                      size_t input_count,
                                      struct trn3_gpsimd_tile *outputs,
                                      size_t output_count);

// Where a tensor of a loaded program lies. Set size to sizeof(trn3_tensor) before the call that fills it.
typedef struct trn3_tensor {
    // sizeof this structure.
    size_t size;
    // TRN3_SPACE_...
    uint32_t space;
    // Number of axes.
    uint32_t ndim;
    // First byte: in HBM its address; on chip partition * bytes of a partition + byte.
    uint64_t address;
    // Bytes: in HBM of the whole tensor, which lie in C order; on chip of each partition.
    uint64_t bytes;
    // Length of each axis.
    int64_t shape[TRN3_MAX_AXES];
    // Name of the element type, with a NUL after it.
    char dtype[TRN3_DTYPE_NAME_BYTES];
} trn3_tensor;

// What carries the messages of collectives, as functions of the host. They are called inside trn3_submit and
// trn3_advance, on the calling thread, and must return; calls on the device from within are BUSY. None of them waits. Set
// size to sizeof(trn3_network); all functions are needed.
typedef struct trn3_network {
    // sizeof this structure.
    size_t size;
    // Given back to each function.
    void *user;
    // Starts a message at at_ps. The bytes are the host's for the call alone. What is not TRN3_OK fails the command.
    trn3_status (*send)(void *user,
                        uint32_t from,
                        uint32_t to,
                        uint64_t key,
                        uint64_t at_ps,
                        const void *bytes,
                        size_t length);
    // Takes a message: if it has come, or is known to come, sets has_come to 1, length and at_ps, and writes its bytes;
    // if not, sets has_come to 0. With less capacity than the message has bytes it sets length alone and returns
    // TRN3_CAPACITY, keeps the message, and is called again.
    trn3_status (*recv)(void *user,
                        uint32_t from,
                        uint32_t to,
                        uint64_t key,
                        void *buffer,
                        size_t capacity,
                        size_t *length,
                        uint64_t *at_ps,
                        uint32_t *has_come);
    // The device asks to be advanced at that time.
    trn3_status (*schedule)(void *user, uint64_t at_ps);
    // The network's own time in picoseconds; the device takes no message earlier than it.
    uint64_t (*now)(void *user);
} trn3_network;

// What happened. The texts live for the call alone and have no NUL.
typedef struct trn3_trace_event {
    // sizeof this structure as the library knows it: a newer one may have fields at its end.
    size_t size;
    // TRN3_TRACE_...
    uint32_t kind;
    // COMMIT: core.
    uint32_t core;
    // COMMIT: number in program order, from 0 in each run.
    uint32_t number;
    // 0.
    uint32_t reserved;
    // Where it belongs: an engine, a core, a counter.
    const char *track;
    // Bytes of that.
    size_t track_length;
    // What it is.
    const char *name;
    // Bytes of that.
    size_t name_length;
    // When it started or happened, in picoseconds.
    uint64_t start_ps;
    // When it ended; of what has no length, start_ps.
    uint64_t end_ps;
    // COUNTER: the bits of a double.
    uint64_t value;
} trn3_trace_event;

// Sees what happens in a device, inside the calls that make it happen, on their thread. It must return (no exception, no
// longjmp); calls on the device from within are BUSY.
typedef void (*trn3_trace_fn)(void *user, const struct trn3_trace_event *event);

// Something for a core to do. Set size to sizeof(trn3_command) and the fields that its kind does not use to 0.
typedef struct trn3_command {
    // sizeof this structure.
    size_t size;
    // TRN3_COMMAND_...
    uint32_t kind;
    // Core that does it.
    uint32_t core;
    // RUN, STEP: number of the program.
    uint64_t program;
    // STEP: number of the step, from 0.
    uint64_t step;
    // COPY: memories, TRN3_SPACE_...; a collective's are HBM.
    uint32_t dst_space;
    // COPY: as dst_space.
    uint32_t src_space;
    // COPY, COLLECTIVE: first byte of what is written.
    uint64_t dst_address;
    // COPY, COLLECTIVE: first byte of what is read.
    uint64_t src_address;
    // COPY: rows. On chip row i lies in partition i from the address's on; in HBM rows follow one another.
    uint64_t rows;
    // COPY: bytes of each row.
    uint64_t row_bytes;
    // COLLECTIVE: TRN3_OPERATION_...
    uint32_t operation;
    // COLLECTIVE: TRN3_REDUCTION_...
    uint32_t reduction;
    // COLLECTIVE: ranks, in an order that is the same for all of them.
    const uint32_t *group;
    // COLLECTIVE: number of those.
    size_t group_count;
    // COLLECTIVE: what tells it from others of the group under way; the same for all ranks.
    uint64_t key;
    // COLLECTIVE: elements that this rank gives.
    uint64_t count;
    // COLLECTIVE: name of the element type: float32, bfloat16, float16, int32; any where nothing is reduced.
    const char *dtype;
    // COLLECTIVE: bytes of that.
    size_t dtype_length;
} trn3_command;

// A command that is done. Set size to sizeof(trn3_completion) in the first one of those that a call fills.
typedef struct trn3_completion {
    // sizeof this structure.
    size_t size;
    // What the host gave with the command.
    uint64_t tag;
    // Core that did it.
    uint32_t core;
    // TRN3_OK, or what went wrong; memories are then as far as the command came.
    trn3_status status;
    // When it started, in picoseconds.
    uint64_t start_ps;
    // When it was done.
    uint64_t end_ps;
    // What went wrong in words, cut to what fits, with a NUL after it.
    char message[TRN3_MESSAGE_BYTES];
} trn3_completion;

// Hears of each completion, in the order in which they ended. It must return (no exception, no longjmp); calls on the
// device from within are BUSY.
typedef void (*trn3_complete_fn)(void *user, const struct trn3_completion *completion);

// A number format: one of the TRN3_DTYPE constants. Names and codes are those of NumPy and ml_dtypes.
typedef uint32_t trn3_dtype;

// An array to read: any layout. Set `size` to sizeof(trn3_array).
typedef struct trn3_array {
    // sizeof this structure.
    size_t size;
    // The first element, aligned to the size of one; may be null where there is none.
    const void *data;
    // Format of the elements, TRN3_DTYPE_...
    trn3_dtype dtype;
    // Number of axes, at most TRN3_MAX_AXES.
    uint32_t ndim;
    // Length of each axis.
    int64_t shape[TRN3_MAX_AXES];
    // Bytes from one element to the next along each axis, multiples of the size of one. All zero (or beyond `size`):
    // the array is C-contiguous.
    int64_t strides[TRN3_MAX_AXES];
} trn3_array;

// An array to write. Its elements must not overlap one another.
typedef struct trn3_array_mut {
    // sizeof this structure.
    size_t size;
    // The first element, aligned to the size of one; may be null where there is none.
    void *data;
    // Format of the elements, TRN3_DTYPE_...
    trn3_dtype dtype;
    // Number of axes, at most TRN3_MAX_AXES.
    uint32_t ndim;
    // Length of each axis.
    int64_t shape[TRN3_MAX_AXES];
    // As in trn3_array. An array that is not C-contiguous is written through scratch memory.
    int64_t strides[TRN3_MAX_AXES];
} trn3_array_mut;

// Generators whose state the host owns: Marsaglia's xorwow in independent lanes, one or four generators a lane. Set
// `size` to sizeof(trn3_xorwow), `words` to memory for lanes x words_per_lane numbers.
typedef struct trn3_xorwow {
    // sizeof this structure.
    size_t size;
    // State, [lanes, words_per_lane] in C order: x, y, z, w, v and the counter of each generator.
    uint32_t *words;
    // Number of lanes: on the hardware one for each of the 128 partitions.
    size_t lanes;
    // 6, or 24 for four generators a lane: draw i of a lane comes from generator i mod 4.
    uint32_t words_per_lane;
    // The generator that the next draw of each lane comes from: 0 to 3, always 0 with 6 words.
    uint32_t phase;
} trn3_xorwow;

// How results are rounded. Where a function takes one, null stands for nearest, with IEEE overflow. Set size to
// sizeof(trn3_rounding).
typedef struct trn3_rounding {
    // sizeof this structure.
    size_t size;
    // TRN3_ROUNDING_...
    uint32_t rounding;
    // TRN3_OVERFLOW_...; used by casts, 0 elsewhere.
    uint32_t overflow;
    // With stochastic rounding: one draw an element in C order, or null to take them from generator.
    const uint32_t *draws;
    // Number of draws.
    size_t draw_count;
    // With stochastic rounding: the generator, which advances if the call succeeds. N elements take ceil(N / lanes)
    // draws of each lane, lane after lane.
    struct trn3_xorwow *generator;
} trn3_rounding;

// What trn3_exp subtracts and adds up; null stands for neither. float32 values are bit patterns. Set size to
// sizeof(trn3_exp_options).
typedef struct trn3_exp_options {
    // sizeof this structure.
    size_t size;
    // float32 bits of the bias of all elements, where row_biases is null.
    uint32_t bias;
    // 0.
    uint32_t reserved;
    // float32 bits of one bias for each row along the last axis, or null.
    const uint32_t *row_biases;
    // Number of those.
    size_t row_bias_count;
    // Receives the float32 bits of the sum of each row, or null.
    uint32_t *sums;
    // Number of those: one for each row.
    size_t sum_count;
} trn3_exp_options;

// A quantised array. Set size to sizeof(trn3_mx_array).
typedef struct trn3_mx_array {
    // sizeof this structure.
    size_t size;
    // Element codes: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    const struct trn3_array *elements;
    // Scale codes: float8_e8m0fnu, the shape of the elements with axis divided by 32.
    const struct trn3_array *scales;
    // The blocked axis; -1 is the last.
    int64_t axis;
} trn3_mx_array;

// A compressed matrix [K, N]: at most keep values of each group along axis 0. Set size to
// sizeof(trn3_sparse_array).
typedef struct trn3_sparse_array {
    // sizeof this structure.
    size_t size;
    // The stored values, [K / group * keep, N].
    const struct trn3_array *values;
    // Position of each in its group, one byte a value in C order; those of a group ascend.
    const uint8_t *indices;
    // Number of those.
    size_t index_count;
    // M of the pattern M:N, one of 4:16 4:12 4:8 2:8 2:4 1:4 1:2.
    uint32_t keep;
    // N of the pattern.
    uint32_t group;
} trn3_sparse_array;

// IEEE binary32.
#define TRN3_DTYPE_FLOAT32 1

// Float32 storage whose low 13 mantissa bits are zero.
#define TRN3_DTYPE_TFLOAT32 2

// IEEE binary16.
#define TRN3_DTYPE_FLOAT16 3

// The upper half of a float32.
#define TRN3_DTYPE_BFLOAT16 4

// 8 bits, 4 exponent and 3 mantissa bits, no infinity; largest value 448.
#define TRN3_DTYPE_FLOAT8_E4M3FN 5

// 8 bits, 5 exponent and 2 mantissa bits; largest value 57344.
#define TRN3_DTYPE_FLOAT8_E5M2 6

// 8 bits, IEEE-like, 4 exponent and 3 mantissa bits; largest value 240.
#define TRN3_DTYPE_FLOAT8_E4M3 7

// 8 bits, IEEE-like, 3 exponent and 4 mantissa bits; largest value 15.5.
#define TRN3_DTYPE_FLOAT8_E3M4 8

// 4 bits, one element a byte in its low half; largest value 6.
#define TRN3_DTYPE_FLOAT4_E2M1FN 9

// The scale of an MX block: a power of two, 255 is NaN.
#define TRN3_DTYPE_FLOAT8_E8M0FNU 10

// Done; every out-pointer is written.
#define TRN3_OK 0

// A dtype is not one the operation takes.
#define TRN3_TYPE 1

// A shape, or the number of axes, does not fit.
#define TRN3_SHAPE 2

// A pointer, option or value is not allowed.
#define TRN3_VALUE 3

// A buffer, queue or memory is too small for what was asked.
#define TRN3_CAPACITY 4

// The operation does not exist for these arguments.
#define TRN3_UNSUPPORTED 5

// The handle is in use by another call: another thread's, or the one whose callback is running.
#define TRN3_BUSY 6

// A structure's size or a version is not one this library knows.
#define TRN3_ABI 7

// A defect of the library, caught; what it concerned is in an unspecified state.
#define TRN3_INTERNAL 8

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Compiles a program, the JSON text that trn3_device_load takes, for the device's machine, and writes two JSON texts without
// a NUL, and how many bytes each has: the compiled program, which gives the same bits, and the report: level, times in
// microseconds (as_written_us, null where that does not fit, compiled_us, bound_us), spilled_bytes, and what each of passes
// counted. level is the text "as-written", "nki" or "neuronx-cc". The device stays as it is.
//
// CAPACITY: a buffer is too small, sizes are written all the same, and the next call with the same program and level
// compiles nothing anew; or the operands of one instruction do not fit on chip. VALUE: no such level, or what
// trn3_device_load refuses. UNSUPPORTED: the program meets other cores, calls a function, or gives a tensor on chip.
//
// program is null or has length bytes, level level_length; made and report are null or have as many bytes as their
// capacities say and lie apart; sizes are null or may be written.
trn3_status trn3_program_compile(struct trn3_device *device,
                                 const char *program,
                                 size_t length,
                                 const char *level,
                                 size_t level_length,
                                 void *made,
                                 size_t made_capacity,
                                 size_t *made_size,
                                 void *report,
                                 size_t report_capacity,
                                 size_t *report_size);

// What a piece of work takes on this device, all its cores sharing it: picoseconds, and picojoules (energy_pj may be
// null). The energy is 0 where no power of the chip is published.
//
// kernel is null or points to one; the results are null or may be written.
trn3_status trn3_estimate(struct trn3_device *device,
                          const struct trn3_kernel *work,
                          uint64_t *ps,
                          uint64_t *energy_pj);

// The least time in picoseconds that so many operations and bytes of HBM take on this device: the longer of the two at
// their peaks. dtype is text, as in trn3_kernel.
//
// dtype is null or has dtype_length bytes; ps is null or may be written.
trn3_status trn3_roofline(const struct trn3_device *device,
                          uint64_t flops,
                          uint64_t bytes,
                          const char *dtype,
                          size_t dtype_length,
                          uint64_t *ps);

// Makes a function one that programs loaded from here on may call by that name, a text of 1 to 256 bytes; another one of the
// name is forgotten, but not by programs that were loaded before and ran. Without one, loading a program that calls it is
// UNSUPPORTED, and the text names it.
//
// name is null or has length bytes.
trn3_status trn3_register_function(struct trn3_device *device,
                                   const char *name,
                                   size_t length,
                                   trn3_gpsimd_fn function,
                                   void *user);

// Creates a device from the JSON text of its description; of no length, the description is the default: one core of
// trn3. Entries: arch, arch_toml, overrides, cores, values, timing, share_hbm_bandwidth, strict, throttle, seed,
// max_instructions, queue_depth, host_memory_bytes, rank, system, tdp. No file is read.
//
// VALUE: an entry there is not, or with a value that is not allowed. CAPACITY: too many devices exist.
//
// config is null or has length bytes; device is null or may be written.
trn3_status trn3_device_create(const char *config, size_t length, struct trn3_device **device);

// Destroys a device. Its handle, and pointers into its memories, are worth nothing from then on.
//
// VALUE: there is no such device, any more. BUSY: a call uses it.
trn3_status trn3_device_destroy(struct trn3_device *device);

// Makes a device what it was when it was created: no programs, no contents, time 0. Network, trace, functions and listener stay.
trn3_status trn3_device_reset(struct trn3_device *device);

// Loads a program, the JSON text that trn3 writes of a kernel (format "trn3-program"), and gives its number.
//
// VALUE: the text names the step and the field that is wrong. CAPACITY: its tensors do not fit. UNSUPPORTED: it calls a
// function that was not registered; the text names it.
//
// program is null or has length bytes; number is null or may be written.
trn3_status trn3_device_load(struct trn3_device *device, const char *program, size_t length, uint64_t *number);

// Forgets a program. BUSY: commands that wait need it.
trn3_status trn3_device_unload(struct trn3_device *device, uint64_t program);

// Where a tensor of a loaded program lies.
//
// VALUE: there is no such program or tensor.
//
// name is null or has length bytes; tensor is null or points to a structure with its size set.
trn3_status trn3_device_tensor(const struct trn3_device *device,
                               uint64_t program,
                               const char *name,
                               size_t length,
                               struct trn3_tensor *tensor);

// Bytes of a memory.
//
// size is null or may be written.
trn3_status trn3_memory_size(const struct trn3_device *device, uint32_t space_number, uint64_t *size);

// Reads bytes as they are now, and says how many picoseconds it takes (delay_ps may be null); time does not move. What
// nothing wrote is 0. core is not used for HBM, but must be one.
//
// VALUE: beyond the memory, or a core that there is not.
//
// buffer is null or has length bytes; delay_ps is null or may be written.
trn3_status trn3_memory_read(struct trn3_device *device,
                             uint32_t space_number,
                             uint32_t core,
                             uint64_t address,
                             void *buffer,
                             size_t length,
                             uint64_t *delay_ps);

// Writes bytes now, and says how many picoseconds it takes (delay_ps may be null); time does not move.
//
// VALUE: beyond the memory, or a core that there is not. CAPACITY: the host may keep no more of HBM (host_memory_bytes).
//
// As trn3_memory_read.
trn3_status trn3_memory_write(struct trn3_device *device,
                              uint32_t space_number,
                              uint32_t core,
                              uint64_t address,
                              const void *buffer,
                              size_t length,
                              uint64_t *delay_ps);

// A pointer to bytes of HBM for the host to read and write between calls. It stays until trn3_memory_release of them,
// and until the device is reset, destroyed or goes on from a snapshot. The bytes count as initialised.
//
// UNSUPPORTED: SBUF and PSUM, whose partitions are not one run of bytes.
//
// pointer is null or may be written. The host uses the bytes only while no call on the device runs.
trn3_status trn3_memory_direct(struct trn3_device *device,
                               uint32_t space_number,
                               uint32_t core,
                               uint64_t address,
                               uint64_t length,
                               void **pointer);

// Lets bytes of HBM move again that trn3_memory_direct gave a pointer to.
trn3_status trn3_memory_release(struct trn3_device *device, uint64_t address, uint64_t length);

// Carries messages of collectives over the host's network from here on; null: over links of the device's own, whose
// other ends are its own cores.
//
// VALUE: a function is missing.
//
// network is null or points to a table, which is copied; its functions may be called until it is replaced.
trn3_status trn3_set_network(struct trn3_device *device, const struct trn3_network *network);

// How many counters a device has.
//
// count is null or may be written.
trn3_status trn3_stats_count(const struct trn3_device *device, size_t *count);

// Writes the name of a counter with a NUL after it. 64 bytes hold every name.
//
// buffer is null or points to capacity bytes that may be written.
trn3_status trn3_stats_name(const struct trn3_device *device, size_t index, char *buffer, size_t capacity);

// The value of a counter.
//
// value is null or may be written.
trn3_status trn3_stats_value(const struct trn3_device *device, size_t index, uint64_t *value);

// Counts from zero again.
trn3_status trn3_stats_reset(struct trn3_device *device);

// Shows what happens to a function from here on; null: to none. A command of a core that shares HBM with others is shown
// when it has ended, of one alone when it begins.
//
// The function may be called by every call that needs the device alone, until it is replaced.
trn3_status trn3_set_trace(struct trn3_device *device,
                           trn3_trace_fn function,
                           void *user);

// A figure of the last command that a core began, by its name in profile.json: "latency_us", "mfu", "roofline.ridge",
// "engines.tensor.busy_share", "lines.0.critical_us". value is the bits of a double.
//
// VALUE: the core has run nothing, or there is no such number.
//
// name is null or has length bytes; value is null or may be written.
trn3_status trn3_profile_figure(struct trn3_device *device,
                                uint32_t core,
                                const char *name,
                                size_t length,
                                uint64_t *value);

// Writes the text of profile.json of the last command that a core began, without a NUL, and says how many bytes that is:
// every figure, and what the machine recorded of each instruction.
//
// CAPACITY: the buffer is too small; size is written all the same. VALUE: the core has run nothing.
//
// buffer is null or has capacity bytes; size is null or may be written.
trn3_status trn3_profile_json(struct trn3_device *device,
                              uint32_t core,
                              void *buffer,
                              size_t capacity,
                              size_t *size);

// Writes a native Perfetto trace of the last command that a core began, and says how many bytes that is.
//
// As trn3_profile_json.
//
// As trn3_profile_json.
trn3_status trn3_profile_perfetto(struct trn3_device *device,
                                  uint32_t core,
                                  void *buffer,
                                  size_t capacity,
                                  size_t *size);

// Bytes that trn3_snapshot_save writes if nothing is done with the device before.
//
// size is null or may be written.
trn3_status trn3_snapshot_size(struct trn3_device *device, size_t *size);

// Writes the whole state, and says how many bytes that is: what is done after trn3_snapshot_load of them is what would
// have been done without, bit for bit and picosecond for picosecond. What the host put in place of parts (network,
// trace, listener) is the host's to save.
//
// CAPACITY: the buffer is too small; size is written all the same.
//
// buffer is null or has capacity bytes; size is null or may be written.
trn3_status trn3_snapshot_save(struct trn3_device *device, void *buffer, size_t capacity, size_t *size);

// Goes on from a saved state, of a device of the same description. When it is refused, the device is as it was.
//
// VALUE: another version, another description, or damage.
//
// buffer is null or has length bytes.
trn3_status trn3_snapshot_load(struct trn3_device *device, const void *buffer, size_t length);

// Gives a core a command; it starts now if the core is idle. tag comes back with its completion. Ends of commands under way
// on other cores may move: see trn3_next_event.
//
// BUSY: the queue is full (queue_depth), or a call uses the device. VALUE: there is no such core, program or step. What
// goes wrong later is the completion's status.
//
// command is null or points to a command.
trn3_status trn3_submit(struct trn3_device *device,
                        const struct trn3_command *new_command,
                        uint64_t tag);

// Whether a core's queue has room: 1 or 0.
//
// can is null or may be written.
trn3_status trn3_can_submit(const struct trn3_device *device, uint32_t core, uint32_t *can);

// The device's time in picoseconds.
//
// ps is null or may be written.
trn3_status trn3_now(const struct trn3_device *device, uint64_t *ps);

// When something happens next by itself, in picoseconds; TRN3_NEVER: nothing will, unless the host does something.
//
// The answer holds until that time or the next call that takes the device alone: cores share the bandwidth of HBM, and a
// command that begins while others are under way may move their ends to later, never to what is past. Ask again after
// every trn3_submit and trn3_advance.
//
// ps is null or may be written.
trn3_status trn3_next_event(const struct trn3_device *device,
                            uint64_t *ps);

// Moves time on to until_ps, past every command that ends until then and then. Where a listener is set, it hears of them
// before this returns, on this thread, and they are not polled.
//
// VALUE: a time that is past.
trn3_status trn3_advance(struct trn3_device *device,
                         uint64_t until_ps);

// Takes up to capacity completions, of the commands that ended longest ago, and says how many.
//
// completions is null or has room for capacity structures of the size that the first one says; count is null or may be
// written.
trn3_status trn3_poll(struct trn3_device *device, struct trn3_completion *completions, size_t capacity, size_t *count);

// Has trn3_advance call a function for each completion, with user; null: none, completions are polled.
//
// The function may be called by every trn3_advance on the device until it is replaced.
trn3_status trn3_on_complete(struct trn3_device *device, trn3_complete_fn function, void *user);

// Bytes that an element of a dtype takes in an array.
//
// TYPE: there is no such dtype.
//
// `size` is null or may be written.
trn3_status trn3_dtype_size(trn3_dtype dtype, size_t *size);

// Writes the name of a status ("OK", "TYPE", ...) with a NUL after it. 16 bytes hold every name.
//
// VALUE: there is no such status. CAPACITY: the buffer holds only the start of it.
//
// buffer is null or points to capacity bytes that may be written.
trn3_status trn3_status_name(trn3_status status, char *buffer, size_t capacity);

// Writes the text of the calling thread's last failure with a NUL after it; empty before the first one. Calls that
// succeed leave it as it is, and so does this one, also when it fails.
//
// CAPACITY: the buffer holds only the start of it; trn3_last_error_size says how much it takes.
//
// buffer is null or points to capacity bytes that may be written.
trn3_status trn3_last_error(char *buffer, size_t capacity);

// Bytes that trn3_last_error needs, the NUL included.
//
// size is null or may be written.
trn3_status trn3_last_error_size(size_t *size);

// The version of the interface that the library was built with: major << 16 | minor << 8 | patch. A program built with
// TRN3_ABI_VERSION runs with every library of the same major version (of the same minor version while the major one
// is 0) that is not older.
uint32_t trn3_abi_version(void);

// Writes the version ("1.2.3") with a NUL after it. 32 bytes hold it.
//
// `buffer` is null or points to `capacity` bytes that may be written.
trn3_status trn3_version(char *buffer, size_t capacity);

// Writes the name of the kernels in use ("scalar", "portable", "avx2", "avx512", "avx512bf16") with a NUL after it. 32
// bytes hold it. Results do not depend on it. The environment variable TRN3_SIMD, where it is set, chooses it.
//
// `buffer` is null or points to `capacity` bytes that may be written.
trn3_status trn3_simd_level(char *buffer, size_t capacity);

// Lets operations use so many threads, the calling one included. It is 1 until this is called: nothing starts a thread
// unasked. Results do not depend on it.
//
// VALUE: 0, more than 512 where there are not as many cores, or the system refuses the threads.
trn3_status trn3_set_num_threads(size_t threads);

// How many threads operations use.
//
// `threads` is null or may be written.
trn3_status trn3_num_threads(size_t *threads);

// Writes the name of an activation function, as nki.language spells it, with a NUL after it. 32 bytes hold every name.
//
// VALUE: there is no such function.
//
// buffer is null or points to capacity bytes that may be written.
trn3_status trn3_activation_name(uint32_t function_number, char *buffer, size_t capacity);

// Bytes of scratch memory that trn3_activation with these arguments needs: 0 where out is C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_activation_scratch_size(const struct trn3_array *x, const struct trn3_array_mut *out, size_t *size);

// A function of every element, computed as float32 and rounded to nearest in the format of out; parameter is the
// float32 bits of the slope of prelu and used by no other. out may be exactly x where their elements have one size.
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_activation(const struct trn3_array *x,
                            uint32_t function_number,
                            uint32_t parameter,
                            const struct trn3_array_mut *out,
                            void *scratch,
                            size_t scratch_size);

// A function of one element: bits of dtype from to out of dtype to, both in the low bits.
//
// out is null or may be written.
trn3_status trn3_activation_one(trn3_dtype from,
                                uint32_t bits,
                                uint32_t function_number,
                                uint32_t parameter,
                                trn3_dtype to,
                                uint32_t *out);

// Bytes of scratch memory that trn3_cast with these arguments needs: 0 where out is C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_cast_scratch_size(const struct trn3_array *x, const struct trn3_array_mut *out, size_t *size);

// Rounds every element of x to the format of out, which has its shape. out may be exactly x where their elements
// have one size.
//
// TYPE: out holds block scales. SHAPE: the shapes differ. VALUE: arrays that overlap otherwise, draws that do not fit.
// CAPACITY: the scratch memory is too small.
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_cast(const struct trn3_array *x,
                      const struct trn3_array_mut *out,
                      const struct trn3_rounding *rounding,
                      void *scratch,
                      size_t scratch_size);

// Rounds one element: bits of dtype from to out of dtype to, both in the low bits. draw is used with stochastic
// rounding.
//
// out is null or may be written.
trn3_status trn3_cast_one(trn3_dtype from,
                          uint32_t bits,
                          trn3_dtype to,
                          uint32_t rounding_mode,
                          uint32_t overflow_mode,
                          uint32_t draw,
                          uint32_t *out);

// Bytes of scratch memory that trn3_exp with these arguments needs: 0 where out is C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_exp_scratch_size(const struct trn3_array *x, const struct trn3_array_mut *out, size_t *size);

// e^(x - bias) for every element, the difference rounded to float32; within 1 ulp in float32, correctly rounded between
// 16-bit formats. x and out are float32, bfloat16 or float16. Sums add the elements of a row as out holds them, in
// ascending order, each addition rounded to float32. out may be exactly x where their elements have one size.
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_exp(const struct trn3_array *x,
                     const struct trn3_array_mut *out,
                     const struct trn3_exp_options *options,
                     void *scratch,
                     size_t scratch_size);

// e^(x - bias) for one element: bits of dtype from to out of dtype to, both in the low bits; bias is the bits
// of a float32.
//
// out is null or may be written.
trn3_status trn3_exp_one(trn3_dtype from, uint32_t bits, uint32_t bias, trn3_dtype to, uint32_t *out);

// Bytes of scratch memory that trn3_matmul with these arguments needs: 0 where out is C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_matmul_scratch_size(const struct trn3_array *a,
                                     const struct trn3_array *b,
                                     const struct trn3_array_mut *out,
                                     size_t *size);

// a @ b as the 128-row array computes it: each output is a chain of fused float32 steps over each 128 k in ascending
// order, the chains' results added in float32. a is [..., M, K], b [..., K, N], batch axes broadcast; bfloat16,
// float16 and the fp8 formats in any pair, float32 and tfloat32 with each other. out is [..., M, N], float32, or
// bfloat16 rounded after every tile of 128 k. c is null or what the accumulator starts from, float32 or bfloat16 of
// the shape of out. Draws of stochastic rounding: one an output a tile, [tiles, ..., M, N].
//
// TYPE, SHAPE, VALUE: an argument does not fit, or arrays overlap. CAPACITY: the scratch memory is too small.
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_matmul(const struct trn3_array *a,
                        const struct trn3_array *b,
                        const struct trn3_array *c,
                        const struct trn3_array_mut *out,
                        const struct trn3_rounding *rounding,
                        void *scratch,
                        size_t scratch_size);

// Bytes of scratch memory that trn3_matmul_mx with these arguments needs: 0 where out is C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_matmul_mx_scratch_size(const struct trn3_mx_array *a,
                                        const struct trn3_mx_array *b,
                                        const struct trn3_array_mut *out,
                                        size_t *size);

// a @ b of quantised arrays as the 512-row array computes it: as trn3_matmul with chains of 512 k over the exact
// products of element and scale. a is blocked along its last axis, b along its second-last.
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_matmul_mx(const struct trn3_mx_array *a,
                           const struct trn3_mx_array *b,
                           const struct trn3_array *c,
                           const struct trn3_array_mut *out,
                           const struct trn3_rounding *rounding,
                           void *scratch,
                           size_t scratch_size);

// Bytes of scratch memory that trn3_quantize_mx with these arguments needs: 0 where the outputs are C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_quantize_mx_scratch_size(const struct trn3_array *x,
                                          const struct trn3_array_mut *elements,
                                          const struct trn3_array_mut *scales,
                                          size_t *size);

// Quantises x (float32, bfloat16, float16) in blocks of 32 along axis (-1 is the last), whose length must be a
// multiple of 32. elements has the shape of x and float8_e4m3fn, float8_e5m2 or float4_e2m1fn; scales is
// float8_e8m0fnu with axis divided by 32. scale_rule is TRN3_SCALE_RULE_...
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_quantize_mx(const struct trn3_array *x,
                             int64_t block_axis,
                             uint32_t scale_rule,
                             const struct trn3_array_mut *elements,
                             const struct trn3_array_mut *scales,
                             const struct trn3_rounding *rounding,
                             void *scratch,
                             size_t scratch_size);

// Bytes of scratch memory that trn3_dequantize_mx with these arguments needs: 0 where out is C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_dequantize_mx_scratch_size(const struct trn3_mx_array *x,
                                            const struct trn3_array_mut *out,
                                            size_t *size);

// element x scale, as float32, or rounded from it to bfloat16 or float16 in out.
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_dequantize_mx(const struct trn3_mx_array *x,
                               const struct trn3_array_mut *out,
                               void *scratch,
                               size_t scratch_size);

// Bytes of scratch memory that trn3_matmul_sparse with these arguments needs: 0 where out is C-contiguous.
//
// Pointers are null or point to what this describes.
trn3_status trn3_matmul_sparse_scratch_size(const struct trn3_array *a,
                                            const struct trn3_sparse_array *w,
                                            const struct trn3_array_mut *out,
                                            size_t *size);

// a @ w of a compressed w: each output is a chain over the stored nonzeros of each tile of 128 dense k; what is not
// stored contributes nothing at all. Other arguments are as in trn3_matmul.
//
// Pointers are null or point to what this describes; scratch has scratch_size bytes.
trn3_status trn3_matmul_sparse(const struct trn3_array *a,
                               const struct trn3_sparse_array *w,
                               const struct trn3_array *c,
                               const struct trn3_array_mut *out,
                               const struct trn3_rounding *rounding,
                               void *scratch,
                               size_t scratch_size);

// Compresses a dense array along axis (-1 is the last): values has the shape of w with axis divided by group
// and multiplied by keep, indices one byte a value in C order. values must be C-contiguous.
//
// VALUE: a group holds more than keep nonzeros; the text names the first one.
//
// Pointers are null or point to what this describes; indices has index_count bytes.
trn3_status trn3_compress(const struct trn3_array *w,
                          uint32_t keep,
                          uint32_t group,
                          int64_t sparse_axis,
                          const struct trn3_array_mut *values,
                          uint8_t *indices,
                          size_t index_count);

// Bytes of scratch memory that the step functions need: always 0.
//
// size is null or may be written.
trn3_status trn3_accumulate_step_scratch_size(size_t *size);

// One step of a chain: fma(a, b, sum) in float32, rounded once, NaN canonical. a and b are in the low bits of their
// words, bfloat16, float16 and the fp8 formats in any pair, float32 and tfloat32 with each other; sum and out are
// float32 bits. A chain of 128 k starts from +0, and k ascends: the result is trn3_matmul's.
//
// out is null or may be written.
trn3_status trn3_accumulate_step(trn3_dtype a_dtype,
                                 uint32_t a,
                                 trn3_dtype b_dtype,
                                 uint32_t b,
                                 uint32_t sum,
                                 uint32_t *out);

// One step of a processing element of the MX array: its four products, k ascending, each
// sum = fma(a_k x scale, b_k x scale, sum) in float32, NaN canonical. a and b hold four elements of float8_e4m3fn or
// float8_e5m2 (a byte each, the first in the low bits) or float4_e2m1fn (four bits each, in the low half); the scales
// are float8_e8m0fnu codes; sum and out are float32 bits. A chain of 512 k, 128 steps, starts from +0: the result is
// trn3_matmul_mx's.
//
// out is null or may be written.
trn3_status trn3_accumulate_step_mx(trn3_dtype a_dtype,
                                    uint32_t a,
                                    uint32_t a_scale,
                                    trn3_dtype b_dtype,
                                    uint32_t b,
                                    uint32_t b_scale,
                                    uint32_t sum,
                                    uint32_t *out);

// A finished chain joins its accumulator in PSUM: accumulator + tile in float32, and for an accumulator of dtype
// bfloat16 rounded to it by rounding_mode (draw is used with stochastic rounding). accumulator and out are bits of
// dtype, float32 or bfloat16, tile of float32.
//
// out is null or may be written.
trn3_status trn3_accumulate_tile(trn3_dtype dtype,
                                 uint32_t accumulator,
                                 uint32_t tile,
                                 uint32_t rounding_mode,
                                 uint32_t draw,
                                 uint32_t *out);

// Fills the state from a seed: one splitmix64 stream in the order of lanes, generators and words (a model choice: how the
// hardware expands a seed is not documented). The phase becomes 0.
//
// SHAPE, VALUE: no lanes, or neither 6 nor 24 words a lane.
//
// `generator` is null or points to a structure whose `words` has room for the state.
trn3_status trn3_xorwow_seed(struct trn3_xorwow *generator,
                             uint64_t seed);

// Draws `count` numbers of each lane into `out`, [lanes, count] in C order, and advances the state.
//
// VALUE: null pointers, or a state that is all zero where it must not be.
//
// `generator` is null or points to a structure with its state; `out` is null or has room for lanes x count numbers, apart
// from the state.
trn3_status trn3_xorwow_next(struct trn3_xorwow *generator,
                             uint32_t *out,
                             size_t count);

// Takes every lane `count` draws ahead, in a time that grows with the logarithm of `count`.
//
// `generator` is null or points to a structure with its state.
trn3_status trn3_xorwow_jump(struct trn3_xorwow *generator, uint64_t count);

// Replaces the state by `count` given words, [lanes, words_per_lane] in C order; the phase becomes 0.
//
// SHAPE: not as many words as the generators have. VALUE: the five xorshift words of a generator are all zero.
//
// `generator` is null or points to a structure whose `words` has room for the state; `words` is null or has `count`
// numbers, apart from it.
trn3_status trn3_xorwow_state(struct trn3_xorwow *generator, const uint32_t *words, size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif // TRN3_H
