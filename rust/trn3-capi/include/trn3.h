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

// What a call returns: one of TRN3_OK to TRN3_INTERNAL. The text of a failure is trn3_last_error's.
typedef int32_t trn3_status;

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
// VALUE: 0, more than 4096, or the system refuses the threads.
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
