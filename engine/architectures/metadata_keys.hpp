#pragma once
// Metadata of a GGUF file that bear on what a model computes: keys behind "<architecture>.".

#include <span>
#include <string_view>

namespace rigcast::engine {

/// A key that is executed as if it had this value; another one is refused.
struct NeutralKey {
  std::string_view key;
  double value;
  std::string_view would;  // what another value would do
  double also = value;     // means the same
};

/// A key that is in none of the lists is refused.
struct MetadataKeys {
  std::span<const std::string_view> read;      // by read_spec and read_hyperparameters
  std::span<const std::string_view> harmless;  // change no logit
  std::span<const NeutralKey> neutral;
};

}  // namespace rigcast::engine
