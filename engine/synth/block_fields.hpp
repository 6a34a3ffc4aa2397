#pragma once
// Fields of a block of synthetic weights, for the CPU and for kernels. A tensor's bytes are the
// words of its random stream, little-endian; the fields that set a block's scale are then
// overwritten. Random bits in such a field come from the bytes that it overwrites.

#include <cstdint>
#include <cstring>

#include "core/model/quant_format.hpp"
#include "engine/synth/host_device.hpp"
#include "engine/synth/narrow_float.hpp"
#include "engine/synth/weight_scales.hpp"

namespace rigcast::engine {

template <class T>
RIGCAST_HOST_DEVICE inline T load_bytes(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
RIGCAST_HOST_DEVICE inline void store_bytes(std::uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// Gives d a random sign: codes of most formats have a mean other than 0, which cancels over blocks
/// of both signs.
RIGCAST_HOST_DEVICE inline void set_signed(std::uint8_t* d, const WeightScales& s) {
  store_bytes(d, std::uint16_t((load_bytes<std::uint16_t>(d) & 0x8000u) | s.d));
}

RIGCAST_HOST_DEVICE inline void set_pair(std::uint8_t* fields, const WeightScales& s) {
  store_bytes(fields, std::uint32_t(s.d | std::uint32_t(s.dmin) << 16));
}

/// Sets 8 scales in 32..63, with mins equal to them: the top bit of every scale is set. The first
/// eight bytes hold four of each, and above them two bits of the other four.
RIGCAST_HOST_DEVICE inline void set_six_bit_fields(std::uint8_t* p) {
  const std::uint32_t first = (load_bytes<std::uint32_t>(p) & 0x5F5F5F5Fu) | 0xA0A0A0A0u;
  const std::uint32_t nibbles = load_bytes<std::uint32_t>(p + 8) & 0x0F0F0F0Fu;
  store_bytes(p, first);
  store_bytes(p + 4, first);
  store_bytes(p + 8, nibbles | nibbles << 4);
}

/// Sets 16 scales in 8..15, with mins equal to them.
RIGCAST_HOST_DEVICE inline void set_four_bit_fields(std::uint8_t* p) {
  for (int half = 0; half < 2; ++half) {
    const std::uint64_t scales =
        (load_bytes<std::uint64_t>(p + 8 * half) & 0x0707070707070707u) | 0x0808080808080808u;
    store_bytes(p + 8 * half, scales | scales << 4);
  }
}

/// IQ1_M: d is what four words have above four scales of three bits.
RIGCAST_HOST_DEVICE inline void set_scattered(std::uint8_t* words, const WeightScales& s) {
  for (int k = 0; k < 4; ++k) {
    const unsigned kept = k < 3 ? 0x0FFFu : 0x8FFFu;  // a random sign
    const unsigned word = load_bytes<std::uint16_t>(words + 2 * k) & kept;
    store_bytes(words + 2 * k, std::uint16_t(word | (s.d >> (4 * k) & 15u) << 12));
  }
}

/// A scale of a byte: one of two neighbours at random, so that the mean square is as wanted.
RIGCAST_HOST_DEVICE inline void set_byte_scale(std::uint8_t& scale, const WeightScales& s) {
  scale = std::uint8_t(s.exponent + (scale < s.doubled_of_256));
}

/// Overwrites random bytes with the fields of one block.
template <QuantFormat kFormat>
RIGCAST_HOST_DEVICE inline void set_block_fields(std::uint8_t* block, const WeightScales& s) {
  using enum QuantFormat;
  if constexpr (kFormat == kF32) {
    const int odd = int(load_bytes<std::uint32_t>(block) >> 8) * 2 + 1 - (1 << 24);
    store_bytes(block, s.centre + s.step * float(odd));
  } else if constexpr (kFormat == kF16 || kFormat == kBF16) {
    const int odd = int(load_bytes<std::uint16_t>(block)) * 2 + 1 - (1 << 16);
    const float value = s.centre + s.step * float(odd);
    store_bytes(block, kFormat == kF16 ? small_to_fp16(value) : finite_to_bfloat(value));
  } else if constexpr (kFormat == kMXFP4) {
    set_byte_scale(block[0], s);
  } else if constexpr (kFormat == kNVFP4) {
    for (int i = 0; i < 4; ++i) set_byte_scale(block[i], s);
  } else if constexpr (kFormat == kIQ1_M) {
    set_scattered(block + 48, s);
  } else if constexpr (kFormat == kTQ1_0) {
    set_signed(block + 52, s);
  } else if constexpr (kFormat == kTQ2_0) {
    set_signed(block + 64, s);
  } else if constexpr (kFormat == kQ4_1 || kFormat == kQ5_1) {
    set_pair(block, s);
  } else if constexpr (kFormat == kQ2_K) {
    set_four_bit_fields(block);
    set_pair(block + 80, s);
  } else if constexpr (kFormat == kQ4_K || kFormat == kQ5_K) {
    set_pair(block, s);
    set_six_bit_fields(block + 4);
  } else if constexpr (kFormat == kQ3_K) {
    set_signed(block + 108, s);
  } else if constexpr (kFormat == kQ6_K) {
    set_signed(block + 208, s);
  } else {
    set_signed(block, s);
  }
}

}  // namespace rigcast::engine
