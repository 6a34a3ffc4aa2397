#include "engine/synth/synth.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "engine/synth/block_fields.hpp"
#include "engine/synth/counter_rng.hpp"
#include "engine/synth/weight_scales.hpp"

namespace rigcast::engine {
namespace {

static_assert(std::endian::native == std::endian::little);

// Writes bytes [begin, begin + n) of the stream.
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
  for (; n >= 8; out += 8, n -= 8) store_bytes(out, random_word(key, word++));
  if (n > 0) part(0, n);
}

template <QuantFormat kFormat>
void set_all_fields(std::uint8_t* bytes, std::size_t n, WeightScales s) {
  constexpr std::size_t kBlock = info(kFormat).block_bytes;
  for (std::size_t i = 0; i < n; i += kBlock) set_block_fields<kFormat>(bytes + i, s);
}

// Scales are passed by value: then written bytes cannot alias them, and the loop is vectorized.
using SetAllFields = void (*)(std::uint8_t*, std::size_t, WeightScales);

template <std::size_t... kIndex>
SetAllFields setter_of(QuantFormat f, std::index_sequence<kIndex...>) {
  static constexpr SetAllFields kSetters[] = {set_all_fields<QuantFormat(kIndex)>...};
  return kSetters[std::size_t(f)];
}

}  // namespace

SynthTraits synth_traits(const TensorTable& tensors) {
  SynthTraits traits;
  traits.routes = std::ranges::any_of(tensors.layers,
                                      [](const LayerWeights& l) { return l.experts.bytes() > 0; });
  // Models with a scale of every layer's output are those whose attention has none.
  traits.unscaled_scores = std::ranges::any_of(tensors.tensors, [](const Tensor& t) {
    return t.name.ends_with(".layer_output_scale.weight");
  });
  return traits;
}

void synthesize(const Tensor& tensor, std::uint64_t seed, std::uint64_t first_block,
                std::span<std::byte> bytes, SynthTraits traits) {
  const std::size_t block = info(tensor.format).block_bytes;
  RIGCAST_ASSERT(is_computed(tensor.format) && bytes.size() % block == 0);
  const std::uint64_t key = stream_key(seed, tensor.name);
  const WeightScales scales = weight_scales(tensor, traits);
  const SetAllFields set_all =
      setter_of(tensor.format, std::make_index_sequence<kComputedFormatCount>{});
  // Pieces fit into the L1 cache between the two passes.
  const std::size_t piece = 16384 / block * block;
  for (std::size_t done = 0; done < bytes.size(); done += piece) {
    auto* out = reinterpret_cast<std::uint8_t*>(bytes.data() + done);
    const std::size_t n = std::min(piece, bytes.size() - done);
    fill(key, first_block * block + done, out, n);
    set_all(out, n, scales);
  }
}

}  // namespace rigcast::engine
