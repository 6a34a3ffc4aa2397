#pragma once
// Scale fields of a block, which set the spread of its random codes.

#include <cstdint>

#include "core/model/tensor_table.hpp"

namespace rigcast::engine {

/// Scale fields of a whole tensor. synth.cpp shows which of them a format uses.
struct WeightScales {
  std::uint16_t d = 0;     // FP16; its sign is random in formats without a min
  std::uint16_t dmin = 0;  // FP16; subtracts the mean of the codes
  // MXFP4: the exponent, and how many of 256 blocks have the next one.
  std::uint8_t exponent = 0;
  int doubled_of_256 = 0;
  // F32, F16, BF16: centre + step * odd integer
  float centre = 0;
  float step = 0;
};

/// Scales from the exact variance of uniform codes times uniform sub-scales, rounded as the block
/// stores them: the deviation is within 1 % of 1 / sqrt(row width) for rows of up to 65,536
/// weights. routes: the model has experts. Its embedding has a deviation of 4, so that a token's
/// own state is not dominated by attention over all tokens: then routers spread tokens over experts
/// as evenly as trained ones do.
WeightScales weight_scales(const Tensor& tensor, bool routes = false);

}  // namespace rigcast::engine
