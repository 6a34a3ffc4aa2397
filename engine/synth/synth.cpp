#include "engine/synth/synth.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "engine/synth/counter_rng.hpp"
#include "engine/synth/narrow_float.hpp"
#include "engine/synth/weight_scales.hpp"

// A tensor's bytes are the words of its stream, little-endian, in which the fields that set a
// block's scale are then replaced. What is random in a field comes from the bytes it replaces.

namespace rigcast::engine {
namespace {

static_assert(std::endian::native == std::endian::little);

using enum QuantFormat;
using Field = std::uint8_t*;

template <class T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store(std::uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Bytes [begin, begin + n) of the stream.
void fill(std::uint64_t key, std::uint64_t begin, std::uint8_t* out, std::size_t n) {
  std::uint64_t word = begin / 8;
  const std::size_t into = begin % 8;
  const auto part = [&](std::size_t from, std::size_t count) {
    const std::uint64_t bits = random_word(key, word++);
    std::memcpy(out, reinterpret_cast<const std::uint8_t*>(&bits) + from, count);
    out += count;
    n -= count;
  };
  if (into > 0) part(into, std::min(8 - into, n));
  for (; n >= 8; out += 8, n -= 8) store(out, random_word(key, word++));
  if (n > 0) part(0, n);
}

// Codes of most formats have a mean that is not 0; over blocks of either sign it cancels.
void set_signed(Field d, const WeightScales& s) {
  store(d, std::uint16_t((load<std::uint16_t>(d) & 0x8000u) | s.d));
}

void set_pair(Field fields, const WeightScales& s) {
  store(fields, std::uint32_t(s.d | std::uint32_t(s.dmin) << 16));
}

// 8 scales of 32..63 with mins equal to them: the top bit of every one is set. The first eight
// bytes hold four of each, and above them two bits of the other four.
void set_six_bit_fields(Field p) {
  const std::uint32_t first = (load<std::uint32_t>(p) & 0x5F5F5F5Fu) | 0xA0A0A0A0u;
  const std::uint32_t nibbles = load<std::uint32_t>(p + 8) & 0x0F0F0F0Fu;
  store(p, first);
  store(p + 4, first);
  store(p + 8, nibbles | nibbles << 4);
}

// 16 scales of 8..15 with mins equal to them.
void set_four_bit_fields(Field p) {
  for (int half = 0; half < 2; ++half) {
    const std::uint64_t scales =
        (load<std::uint64_t>(p + 8 * half) & 0x0707070707070707u) | 0x0808080808080808u;
    store(p + 8 * half, scales | scales << 4);
  }
}

template <QuantFormat kFormat>
void set_fields(Field block, const WeightScales& s) {
  if constexpr (kFormat == kF32) {
    const int odd = int(load<std::uint32_t>(block) >> 8) * 2 + 1 - (1 << 24);
    store(block, s.centre + s.step * float(odd));
  } else if constexpr (kFormat == kF16 || kFormat == kBF16) {
    const int odd = int(load<std::uint16_t>(block)) * 2 + 1 - (1 << 16);
    const float value = s.centre + s.step * float(odd);
    store(block, kFormat == kF16 ? small_to_half(value) : finite_to_bfloat(value));
  } else if constexpr (kFormat == kMXFP4) {
    block[0] = std::uint8_t(s.exponent + (block[0] < s.doubled_of_256));
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

template <QuantFormat kFormat>
void set_all_fields(std::uint8_t* bytes, std::size_t n, WeightScales s) {
  constexpr std::size_t kBlock = info(kFormat).block_bytes;
  for (std::size_t i = 0; i < n; i += kBlock) set_fields<kFormat>(bytes + i, s);
}

// By value: bytes that are written cannot be those of the scales, and the loop vectorises.
using SetAllFields = void (*)(std::uint8_t*, std::size_t, WeightScales);

template <std::size_t... kIndex>
SetAllFields setter_of(QuantFormat f, std::index_sequence<kIndex...>) {
  static constexpr SetAllFields kSetters[] = {set_all_fields<QuantFormat(kIndex)>...};
  return kSetters[std::size_t(f)];
}

}  // namespace

void synthesize(const Tensor& tensor, std::uint64_t seed, std::uint64_t first_block,
                std::span<std::byte> bytes) {
  const std::size_t block = info(tensor.format).block_bytes;
  RIGCAST_ASSERT(bytes.size() % block == 0);
  const std::uint64_t key = stream_key(seed, tensor.name);
  const WeightScales scales = weight_scales(tensor);
  const SetAllFields set_all =
      setter_of(tensor.format, std::make_index_sequence<kQuantFormatCount>{});
  // Pieces that stay in the first-level cache between the two passes.
  const std::size_t piece = 16384 / block * block;
  for (std::size_t done = 0; done < bytes.size(); done += piece) {
    auto* out = reinterpret_cast<std::uint8_t*>(bytes.data() + done);
    const std::size_t n = std::min(piece, bytes.size() - done);
    fill(key, first_block * block + done, out, n);
    set_all(out, n, scales);
  }
}

}  // namespace rigcast::engine
