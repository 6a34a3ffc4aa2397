#pragma once
// Fills buffers with random values: matrix units draw less power on zeros, and would then run
// faster than on weights.

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::probe {

/// Which bits of a 32-bit word are random, and which others are set.
struct BitPattern {
  unsigned random = 0xFFFFFFFFu;
  unsigned set = 0;
};
/// Two values per word, of either sign, from 0.5 to 2.
inline constexpr BitPattern kHalves{0x87FF87FFu, 0x38003800u};
inline constexpr BitPattern kBfloats{0x80FF80FFu, 0x3F003F00u};

/// Fills the buffer, except up to three bytes at its end. The work is queued.
void fill_random(const engine::DeviceBuffer& buffer, BitPattern bits, const engine::Stream& stream);

}  // namespace rigcast::probe
