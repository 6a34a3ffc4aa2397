#pragma once
// Tensors of recurrent mixers in GGUF files. A model's table has two stand-ins for them in a layer:
// one matrix, and one vector of what is never quantised.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/model_spec.hpp"
#include "core/model/tensor.hpp"

namespace rigcast::engine {

/// Widths of a mixer, as the keys ssm.* of a file name them. A mixer that only convolves has a
/// kernel alone.
struct MixerWidths {
  std::int64_t conv_kernel = 0;     // tokens
  std::int64_t inner_size = 0;      // of all heads
  std::int64_t state_size = 0;      // of a head
  std::int64_t time_step_rank = 0;  // heads
  std::int64_t group_count = 0;     // of heads that share keys

  std::int64_t groups_width() const { return group_count * state_size; }
  /// The vector that is convolved: values, and keys and queries of all groups.
  std::int64_t convolved() const { return inner_size + 2 * groups_width(); }
  bool operator==(const MixerWidths&) const = default;
};

/// The widths from which the bytes of a state and the counts of weights in the spec follow; they
/// are the only ones. nullopt: no widths of this architecture's mixers give these counts.
std::optional<MixerWidths> mixer_widths(const ModelSpec& model);

/// What a model's spec says of its recurrent layers, but for which they are, if mixers have these
/// widths.
RecurrentLayers recurrent_layers(const ModelSpec& model, const MixerWidths& widths);

/// The tensors for which `stand_in` stands in a model whose widths are known.
std::vector<Tensor> mixer_tensors(const ModelSpec& model, const Tensor& stand_in);

}  // namespace rigcast::engine
