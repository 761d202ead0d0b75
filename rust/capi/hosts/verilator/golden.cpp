// The golden model of the column: DPI-C functions over the C ABI. Bits in, bits out; a refusal ends the bench.
#include <cstdio>
#include <cstdlib>

#include <trn3.h>

#include "bench_formats.h"

extern "C" {
uint32_t golden_bf16_step(uint32_t moving, uint32_t stationary, uint32_t sum);
uint32_t golden_mxfp8_step(uint8_t moving_is_e5m2, uint32_t moving, uint32_t moving_scale, uint8_t stationary_is_e5m2,
                           uint32_t stationary, uint32_t stationary_scale, uint32_t sum);
}

namespace {

void expect_ok(trn3_status status) {
  if (status == TRN3_OK) return;
  char text[512];
  trn3_last_error(text, sizeof text);
  std::fprintf(stderr, "the golden model refuses: %s\n", text);
  std::exit(2);
}

trn3_dtype fp8(bool is_e5m2) { return is_e5m2 ? TRN3_DTYPE_FLOAT8_E5M2 : TRN3_DTYPE_FLOAT8_E4M3FN; }

trn3_array matrix(const void* data, trn3_dtype dtype, int64_t rows, int64_t columns) {
  trn3_array array{};
  array.size = sizeof array;
  array.data = data;
  array.dtype = dtype;
  array.ndim = 2;
  array.shape[0] = rows;
  array.shape[1] = columns;
  return array;
}

trn3_array_mut scalar(uint32_t* bits) {
  trn3_array_mut array{};
  array.size = sizeof array;
  array.data = bits;
  array.dtype = TRN3_DTYPE_FLOAT32;
  array.ndim = 2;
  array.shape[0] = array.shape[1] = 1;
  return array;
}

uint32_t bf16_operand(std::mt19937_64& random) {
  const auto bits = static_cast<uint32_t>(random());
  return (bits & 0x807fu) | (120 + (bits >> 16) % 16) << 7;
}

uint8_t no_scale(std::mt19937_64&) { return 0; }

uint32_t bf16_product(const std::vector<uint32_t>& moving, const std::vector<uint8_t>&,
                      const std::vector<uint32_t>& stationary, const std::vector<uint8_t>&) {
  const std::vector<uint16_t> left(moving.begin(), moving.end()), right(stationary.begin(), stationary.end());
  const auto count = static_cast<int64_t>(left.size());
  const trn3_array a = matrix(left.data(), TRN3_DTYPE_BFLOAT16, 1, count);
  const trn3_array b = matrix(right.data(), TRN3_DTYPE_BFLOAT16, count, 1);
  uint32_t result = 0;
  const trn3_array_mut out = scalar(&result);
  expect_ok(trn3_matmul(&a, &b, nullptr, &out, nullptr, nullptr, 0));
  return result;
}

// Four e4m3 elements, none of them NaN.
uint32_t mxfp8_operand(std::mt19937_64& random) {
  auto word = static_cast<uint32_t>(random());
  for (uint32_t shift = 0; shift < 32; shift += 8)
    if ((word >> shift & 0x7f) == 0x7f) word ^= 1u << shift;
  return word;
}

uint8_t mxfp8_scale(std::mt19937_64& random) { return static_cast<uint8_t>(120 + random() % 16); }

// The elements of 128 words in order of k, and a scale for each 32 of them, which eight rows share.
class Quantized {
 public:
  Quantized(const std::vector<uint32_t>& words, const std::vector<uint8_t>& row_scales, bool is_row) {
    for (const uint32_t word : words)
      for (uint32_t shift = 0; shift < 32; shift += 8) elements_.push_back(static_cast<uint8_t>(word >> shift));
    for (size_t row = 0; row < row_scales.size(); row += 8) scales_.push_back(row_scales[row]);
    const auto count = static_cast<int64_t>(elements_.size()), blocks = static_cast<int64_t>(scales_.size());
    parts_[0] = matrix(elements_.data(), TRN3_DTYPE_FLOAT8_E4M3FN, is_row ? 1 : count, is_row ? count : 1);
    parts_[1] = matrix(scales_.data(), TRN3_DTYPE_FLOAT8_E8M0FNU, is_row ? 1 : blocks, is_row ? blocks : 1);
    array_.size = sizeof array_;
    array_.elements = &parts_[0];
    array_.scales = &parts_[1];
    array_.axis = is_row ? 1 : 0;
  }
  Quantized(const Quantized&) = delete;
  Quantized& operator=(const Quantized&) = delete;
  const trn3_mx_array* array() const { return &array_; }

 private:
  std::vector<uint8_t> elements_, scales_;
  trn3_array parts_[2];
  trn3_mx_array array_{};
};

uint32_t mxfp8_product(const std::vector<uint32_t>& moving, const std::vector<uint8_t>& moving_scale,
                       const std::vector<uint32_t>& stationary, const std::vector<uint8_t>& stationary_scale) {
  const Quantized a(moving, moving_scale, true), b(stationary, stationary_scale, false);
  uint32_t result = 0;
  const trn3_array_mut out = scalar(&result);
  expect_ok(trn3_matmul_mx(a.array(), b.array(), nullptr, &out, nullptr, nullptr, 0));
  return result;
}

}  // namespace

uint32_t golden_bf16_step(uint32_t moving, uint32_t stationary, uint32_t sum) {
  uint32_t out = 0;
  expect_ok(trn3_accumulate_step(TRN3_DTYPE_BFLOAT16, moving, TRN3_DTYPE_BFLOAT16, stationary, sum, &out));
  return out;
}

uint32_t golden_mxfp8_step(uint8_t moving_is_e5m2, uint32_t moving, uint32_t moving_scale, uint8_t stationary_is_e5m2,
                           uint32_t stationary, uint32_t stationary_scale, uint32_t sum) {
  uint32_t out = 0;
  expect_ok(trn3_accumulate_step_mx(fp8(moving_is_e5m2 != 0), moving, moving_scale, fp8(stationary_is_e5m2 != 0),
                                    stationary, stationary_scale, sum, &out));
  return out;
}

const Format& bf16_format() {
  static const Format format{bf16_operand, no_scale, bf16_product};
  return format;
}

const Format& mxfp8_format() {
  static const Format format{mxfp8_operand, mxfp8_scale, mxfp8_product};
  return format;
}
