#pragma once
// Rows of a step that are convolved over the tokens of their sequences.

#include <array>
#include <cstdint>
#include <span>

#include "engine/backends/cpu/step/cpu_step.hpp"

namespace rigcast::engine {

/// Values of a sequence's tokens: those of the step, and those before, [token][width], the oldest
/// first.
struct ConvolvedRows {
  static constexpr std::int64_t kMaxKernel = 64;  // tokens; files with more are refused

  const float* rows = nullptr;  // of the sequence's first token in the step
  float* before = nullptr;      // of kernel - 1 tokens
  std::int64_t width = 0, kernel = 0;
  std::int64_t stride = 0;  // of `rows`

  /// out = columns [first, first + out.size()) of row `row` of the sequence, convolved.
  void convolve(std::int64_t row, std::int64_t first, const float* taps,
                std::span<float> out) const;
  /// Columns [first, last) of what is kept: those of the last tokens, once `tokens` of them are
  /// computed.
  void keep(std::int64_t tokens, std::int64_t first, std::int64_t last) const;
};

}  // namespace rigcast::engine
