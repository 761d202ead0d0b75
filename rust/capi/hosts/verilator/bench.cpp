// Drives a column of processing elements: special operands crossed, then random ones, each sum checked against
// the C ABI in pe_column_check.sv. Usage: bench [steps], 1,000,000 by default for each format.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include <verilated.h>

#include "bench_formats.h"

namespace {

struct Operands {
  uint32_t moving = 0, stationary = 0, sum = 0;
  uint8_t moving_scale = 0, stationary_scale = 0;
};

// A column under test; a row's operands are set by index, a step is one clock.
template <typename Model>
class Column {
 public:
  static constexpr int rows = 128;

  Column() : model_(std::make_unique<Model>()) {
    model_->clock = 0;
    model_->eval();
  }
  ~Column() { model_->final(); }

  void types(bool stationary_is_e5m2, bool moving_is_e5m2) {
    model_->stationary_is_e5m2 = stationary_is_e5m2;
    model_->moving_is_e5m2 = moving_is_e5m2;
  }
  void set(int row, const Operands& operands) {
    model_->moving[row] = operands.moving;
    model_->stationary[row] = operands.stationary;
    model_->injected[row] = operands.sum;
    byte(model_->moving_scale, row, operands.moving_scale);
    byte(model_->stationary_scale, row, operands.stationary_scale);
  }
  void load() { tick(true, false); }
  void step(bool inject) { tick(false, inject); }
  uint32_t sum(int row) const { return model_->sums[row]; }
  uint64_t checked() const { return model_->checked; }
  uint64_t mismatches() const { return model_->mismatches; }

 private:
  template <typename Wide>
  static void byte(Wide& words, int row, uint8_t value) {
    const int shift = row % 4 * 8;
    words[row / 4] = (words[row / 4] & ~(0xffu << shift)) | static_cast<uint32_t>(value) << shift;
  }
  void tick(bool load, bool inject) {
    model_->load = load;
    model_->inject = inject;
    model_->clock = 1;
    model_->eval();
    model_->clock = 0;
    model_->eval();
  }

  std::unique_ptr<Model> model_;
};

// Hands operand triples to the rows as they come; a full column is loaded and stepped.
template <typename Model>
class Feeder {
 public:
  explicit Feeder(Column<Model>& column) : column_(column) {}
  ~Feeder() { flush(); }
  void feed(const Operands& operands) {
    column_.set(row_++, operands);
    if (row_ == Column<Model>::rows) flush();
  }
  void flush() {
    if (row_ == 0) return;
    column_.load();
    column_.step(true);
    row_ = 0;
  }

 private:
  Column<Model>& column_;
  int row_ = 0;
};

std::vector<uint32_t> special_sums() {
  std::vector<uint32_t> sums;
  for (const uint32_t sign : {0u, 0x80000000u})
    for (const uint32_t bits : {0x00000000u, 0x00000001u, 0x00000002u, 0x00400000u, 0x007fffffu, 0x00800000u,
                                0x00800001u, 0x00ffffffu, 0x01000000u, 0x33800000u, 0x33800001u, 0x34000000u,
                                0x3effffffu, 0x3f000000u, 0x3f7fffffu, 0x3f800000u, 0x3f800001u, 0x4b7fffffu,
                                0x4b800000u, 0x7e7fffffu, 0x7f000000u, 0x7f7fffffu, 0x7f800000u, 0x7f800001u,
                                0x7fc00000u, 0x7fffffffu})
      sums.push_back(sign | bits);
  return sums;
}

// Random bits, or one of the same exponent range as the product, so that sums cancel and round.
uint32_t random_sum(std::mt19937_64& random, int product_exponent) {
  const auto bits = static_cast<uint32_t>(random());
  if (random() % 4 == 0) return bits;
  const int exponent = product_exponent + static_cast<int>(random() % 60) - 30;
  const auto biased = static_cast<uint32_t>(exponent < 0 ? 0 : exponent > 255 ? 255 : exponent);
  return (bits & 0x807fffffu) | biased << 23;
}

void specials_bf16(Column<Vbf16>& column) {
  std::vector<uint32_t> operands;
  for (const uint32_t sign : {0u, 0x8000u})
    for (const uint32_t bits : {0x0000u, 0x0001u, 0x0040u, 0x007fu, 0x0080u, 0x0081u, 0x00ffu, 0x1f80u, 0x2000u,
                                0x3f00u, 0x3f7fu, 0x3f80u, 0x3f81u, 0x4300u, 0x5f80u, 0x7f00u, 0x7f7fu, 0x7f80u,
                                0x7f81u, 0x7fc0u, 0x7fffu})
      operands.push_back(sign | bits);
  Feeder<Vbf16> feeder(column);
  for (const uint32_t moving : operands)
    for (const uint32_t stationary : operands)
      for (const uint32_t sum : special_sums()) feeder.feed({moving, stationary, sum, 0, 0});
}

void random_bf16(Column<Vbf16>& column, uint64_t steps, std::mt19937_64& random) {
  Feeder<Vbf16> feeder(column);
  for (uint64_t i = 0; i < steps; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const uint32_t moving = bits & 0xffffu, stationary = bits >> 16;
    const int exponent = static_cast<int>((moving >> 7 & 0xff) + (stationary >> 7 & 0xff)) - 127;
    feeder.feed({moving, stationary, random_sum(random, exponent), 0, 0});
  }
}

// Every pair of elements, four to a step, with scales and sums that reach the ends of the range.
void specials_mxfp8(Column<Vmxfp8>& column, bool moving_is_e5m2, bool stationary_is_e5m2) {
  constexpr uint8_t scales[] = {0, 1, 60, 126, 127, 128, 190, 254, 255};
  const std::vector<uint32_t> sums = special_sums();
  column.types(stationary_is_e5m2, moving_is_e5m2);
  Feeder<Vmxfp8> feeder(column);
  size_t next = 0;
  for (uint32_t moving = 0; moving < 256; ++moving)
    for (uint32_t stationary = 0; stationary < 256; ++stationary)
      for (int turn = 0; turn < 3; ++turn, ++next) {
        // The pair under test comes first, so that no earlier product hides it; others follow.
        const uint32_t others = static_cast<uint32_t>(next * 2654435761u) & 0xffffff00u;
        feeder.feed({moving | others, stationary | (others >> 3 & 0xffffff00u), sums[next % sums.size()],
                     scales[next / sums.size() % 9], scales[next / (9 * sums.size()) % 9]});
      }
  // One value of each kind against every pair of scales.
  for (uint32_t scale = 0; scale < 256; ++scale)
    for (uint32_t other = 0; other < 256; ++other)
      feeder.feed({0x01387eb8u, 0x38017e38u, sums[(scale + other) % sums.size()], static_cast<uint8_t>(scale),
                   static_cast<uint8_t>(other)});
}

void random_mxfp8(Column<Vmxfp8>& column, uint64_t steps, std::mt19937_64& random) {
  for (const bool moving_is_e5m2 : {false, true})
    for (const bool stationary_is_e5m2 : {false, true}) {
      column.types(stationary_is_e5m2, moving_is_e5m2);
      Feeder<Vmxfp8> feeder(column);
      for (uint64_t i = 0; i < steps / 4; ++i) {
        const uint64_t bits = random();
        const auto scale = static_cast<uint8_t>(random()), other = static_cast<uint8_t>(random());
        const int exponent = static_cast<int>(scale) + other - 127;
        feeder.feed({static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), random_sum(random, exponent),
                     scale, other});
      }
    }
}

// Vectors pipelined through the whole column, one a clock, skewed by a row a clock: what leaves the last row is
// the matrix product of the C ABI.
template <typename Model>
uint64_t stream(Column<Model>& column, const Format& format, int vectors, std::mt19937_64& random) {
  constexpr int rows = Column<Model>::rows;
  std::vector<Operands> weights(rows), data(static_cast<size_t>(rows) * static_cast<size_t>(vectors));
  for (int row = 0; row < rows; ++row) {
    Operands& weight = weights[static_cast<size_t>(row)];
    weight.stationary = format.operand(random);
    weight.stationary_scale = row % 8 ? weights[static_cast<size_t>(row - 1)].stationary_scale : format.scale(random);
  }
  for (int vector = 0; vector < vectors; ++vector)
    for (int row = 0; row < rows; ++row) {
      Operands& one = data[static_cast<size_t>(vector * rows + row)];
      one.moving = format.operand(random);
      one.moving_scale =
          row % 8 ? data[static_cast<size_t>(vector * rows + row - 1)].moving_scale : format.scale(random);
    }
  column.types(false, false);
  for (int row = 0; row < rows; ++row) column.set(row, weights[static_cast<size_t>(row)]);
  column.load();
  uint64_t wrong = 0;
  for (int clock = 0; clock < vectors + rows - 1; ++clock) {
    for (int row = 0; row < rows; ++row) {
      const int vector = clock - row;
      column.set(row, vector >= 0 && vector < vectors ? data[static_cast<size_t>(vector * rows + row)] : Operands{});
    }
    column.step(false);
    const int done = clock - (rows - 1);
    if (done < 0) continue;
    std::vector<uint32_t> moving(rows), stationary(rows);
    std::vector<uint8_t> moving_scale(rows), stationary_scale(rows);
    for (size_t row = 0; row < rows; ++row) {
      const Operands& one = data[static_cast<size_t>(done * rows) + row];
      moving[row] = one.moving;
      moving_scale[row] = one.moving_scale;
      stationary[row] = weights[row].stationary;
      stationary_scale[row] = weights[row].stationary_scale;
    }
    const uint32_t wanted = format.product(moving, moving_scale, stationary, stationary_scale);
    wrong += wanted != column.sum(rows - 1);
  }
  return wrong;
}

template <typename Model>
bool report(const char* name, const Column<Model>& column, uint64_t products_wrong) {
  std::printf("%s: %" PRIu64 " sums checked, %" PRIu64 " differ; %" PRIu64 " products of whole columns differ\n", name,
              column.checked(), column.mismatches(), products_wrong);
  return column.mismatches() == 0 && products_wrong == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  std::mt19937_64 random(20);

  Column<Vbf16> bf16;
  specials_bf16(bf16);
  random_bf16(bf16, steps, random);
  const uint64_t bf16_wrong = stream(bf16, bf16_format(), 200, random);

  Column<Vmxfp8> mxfp8;
  for (const bool moving_is_e5m2 : {false, true})
    for (const bool stationary_is_e5m2 : {false, true}) specials_mxfp8(mxfp8, moving_is_e5m2, stationary_is_e5m2);
  random_mxfp8(mxfp8, steps, random);
  const uint64_t mxfp8_wrong = stream(mxfp8, mxfp8_format(), 200, random);

  const bool good = report("bf16", bf16, bf16_wrong) & report("mxfp8", mxfp8, mxfp8_wrong);
  return good ? 0 : 1;
}
