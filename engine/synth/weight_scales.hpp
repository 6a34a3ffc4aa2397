#pragma once
// Scale fields of a block, which set the spread of its random codes.

#include <cstdint>

#include "core/model/tensor_table.hpp"

namespace rigcast::engine {

/// Scale fields of a whole tensor. synth.cpp shows which of them a format uses.
struct WeightScales {
  std::uint16_t d = 0;     // FP16; its sign is random in formats without a min
  std::uint16_t dmin = 0;  // FP16; subtracts the mean of the codes
  // MXFP4, NVFP4: the byte of a scale, and how many of 256 scales have the next one.
  std::uint8_t exponent = 0;
  int doubled_of_256 = 0;
  // F32, F16, BF16: centre + step * odd integer
  float centre = 0;
  float step = 0;
};

/// What weights depend on beyond their own tensor.
struct SynthTraits {
  bool routes = false;           // the model has experts
  bool unscaled_scores = false;  // of attention, as Gemma 4's: norms of queries keep them near 1
};

/// Scales from the exact variance of uniform codes times uniform sub-scales, rounded as the block
/// stores them: the deviation is within 1 % of 1 / sqrt(row width) for rows of up to 65,536
/// weights.
///
/// routes: the model has experts, over which its routers must spread tokens as evenly as trained
/// ones do. A router of random weights does so if the states of tokens differ. What makes them
/// alike is attention: it adds about the same mean of values to every token, in every layer. So the
/// embedding has a deviation of 4, and attention's output a quarter of the usual one. After L
/// layers two of n tokens share about L / 16 / n of a variance of 16: 2 % for 48 layers and n = 8.
/// So the last token decides which are the likeliest next ones; if the head is the embedding, the
/// likeliest is that token again.
WeightScales weight_scales(const Tensor& tensor, SynthTraits traits = {});

}  // namespace rigcast::engine
