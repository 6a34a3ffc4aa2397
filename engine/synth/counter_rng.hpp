#pragma once
// A counter-based random number generator: any word of a tensor can be computed without those
// before it. It uses plain integer arithmetic, so that GPU code makes the same words.

#include <cstdint>
#include <string_view>

#include "engine/synth/host_device.hpp"

namespace rigcast::engine {

/// The finalizer of SplitMix64: a bijection of 64-bit words in which every input bit flips every
/// output bit with a probability near 1/2.
RIGCAST_HOST_DEVICE constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// The FNV-1a hash of a name.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ std::uint8_t(c)) * 0x100000001B3u;
  return hash;
}

/// The key of a tensor's stream of random words.
constexpr std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  return mix_bits(mix_bits(seed + 0x9E3779B97F4A7C15u) ^ hash_name(name));
}

/// Word `index` of a stream. The key is used twice, so that no stream is a shifted copy of another.
RIGCAST_HOST_DEVICE constexpr std::uint64_t random_word(std::uint64_t key, std::uint64_t index) {
  return mix_bits(mix_bits(index * 0x9E3779B97F4A7C15u + key) ^ key);
}

}  // namespace rigcast::engine
