#pragma once
// Metadata of a GGUF file that affect what a model computes: keys after "<architecture>.".

#include <optional>
#include <span>
#include <string_view>

#include "engine/model/hyperparameters.hpp"

namespace rigcast::engine {

/// A key of which only this value is supported; a file with another one is refused.
struct NeutralKey {
  std::string_view key;
  double value;
  std::string_view would;  // effect of another value, for the error
  double also = value;     // a second value with the same meaning
  double absent = value;   // what a file without the key says
};

/// A key whose number is a hyperparameter.
struct ScalarKey {
  std::string_view key;
  float Hyperparameters::*to = nullptr;
  std::optional<double> absent{};  // in files without the key; absent: the architecture's usual one
  bool reciprocal = false;         // the hyperparameter is 1 / the key's number
};

/// A key that is in none of the lists is refused.
struct MetadataKeys {
  std::span<const std::string_view> read;      // keys read by read_spec and read_hyperparameters
  std::span<const std::string_view> harmless;  // change no logit
  std::span<const NeutralKey> neutral;
};

/// Keys of decoders with RoPE.
extern const MetadataKeys kDecoderKeys;

}  // namespace rigcast::engine
