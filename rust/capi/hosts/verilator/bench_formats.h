// What the bench knows of its two formats: the models' types, sensible random operands, and the C ABI's product.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "Vbf16.h"
#include "Vmxfp8.h"

struct Format {
  // An operand word of ordinary magnitude, and a scale (0 where the format has none).
  uint32_t (*operand)(std::mt19937_64& random);
  uint8_t (*scale)(std::mt19937_64& random);
  // Bits of the float32 product of one row and one column of 128 processing elements.
  uint32_t (*product)(const std::vector<uint32_t>& moving, const std::vector<uint8_t>& moving_scale,
                      const std::vector<uint32_t>& stationary, const std::vector<uint8_t>& stationary_scale);
};

const Format& bf16_format();
const Format& mxfp8_format();
