#pragma once
// The fields of a block that set how wide its random codes spread.

#include <cstdint>

#include "core/model/tensor_table.hpp"

namespace rigcast::engine {

/// One set for a whole tensor. Which a format uses, synth.cpp says block by block.
struct WeightScales {
  std::uint16_t d = 0;     // half; of formats without a min its sign is random
  std::uint16_t dmin = 0;  // half; takes the mean of the codes off
  // MXFP4: the exponent, and how many of 256 blocks have the next one.
  std::uint8_t exponent = 0;
  int doubled_of_256 = 0;
  // F32, F16, BF16: centre + step * odd whole number
  float centre = 0;
  float step = 0;
};

/// Scales from the exact variance of uniform codes times uniform sub-scales, rounded as the block
/// stores them: within 1 % of 1 / sqrt(row width) for rows of up to 65,536 weights.
/// routes: the model has experts. Its embedding has a deviation of 4, so that what attention
/// mixes of all tokens does not drown what a token is: routers send tokens to experts as evenly as
/// trained ones learn to.
WeightScales weight_scales(const Tensor& tensor, bool routes = false);

}  // namespace rigcast::engine
