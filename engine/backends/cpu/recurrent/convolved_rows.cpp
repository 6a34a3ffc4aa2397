#include "engine/backends/cpu/recurrent/convolved_rows.hpp"

#include <algorithm>

#include "engine/kernels/cpu/recurrent.hpp"

namespace rigcast::engine {

void ConvolvedRows::convolve(std::int64_t row, std::int64_t first, const float* taps,
                             std::span<float> out) const {
  std::array<const float*, kMaxKernel> from{};
  for (std::int64_t t = 0; t < kernel; ++t) {
    const std::int64_t at = row - (kernel - 1) + t;
    from[std::size_t(t)] =
        (at < 0 ? before + (kernel - 1 + at) * width : rows + at * stride) + first;
  }
  cpu::convolve(std::span(from).first(std::size_t(kernel)), taps + first * kernel, out);
}

// In ascending order: what is read of `before` is behind what is written.
void ConvolvedRows::keep(std::int64_t tokens, std::int64_t first, std::int64_t last) const {
  for (std::int64_t t = 0; t < kernel - 1; ++t) {
    const std::int64_t at = tokens - (kernel - 1) + t;
    const float* const from = at < 0 ? before + (t + tokens) * width : rows + at * stride;
    std::copy(from + first, from + last, before + t * width + first);
  }
}

}  // namespace rigcast::engine
