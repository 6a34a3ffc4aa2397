#pragma once
// An architecture as a row of traits, from which a layer's operations follow (decoder_layer.hpp).

#include <span>
#include <string_view>

#include "core/model/model_spec.hpp"
#include "engine/architectures/traits/metadata_keys.hpp"
#include "engine/model/hyperparameters.hpp"
#include "engine/model/layer_weights.hpp"

namespace rigcast::engine {

/// Where the norms of a layer are.
enum class NormPlan {
  kBefore,  // of what attention and FFN read: two in a layer
  kBehind,  // of what they add: two in a layer
  kAround,  // both: four in a layer
  kShared,  // one, of what attention and FFN both read, side by side
};

enum class FfnActivation { kSilu, kGelu, kClampedSwiglu, kXielu, kSquaredRelu };

/// What mixes tokens in recurrent layers.
enum class Mixer { kNone, kShortConvolution, kDeltaNet, kMamba };

/// RoPE in layers with a window.
enum class LocalRope {
  kSame,      // as in the other layers
  kUnscaled,  // of the same base, without scaling
  kOwnBase,   // of Hyperparameters::local_rope_base, without scaling
};

/// A weight that this architecture's files call otherwise than name_of().
struct WeightName {
  LayerWeight weight{};
  std::string_view name;
};

/// What computing a model of an architecture needs in addition to its ModelSpec, which has the
/// traits that vary within an architecture: biases, norms of heads, fused matrices, windows.
struct Architecture {
  std::string_view name;  // general.architecture of a GGUF file
  RopePairs rope_pairs{};
  float norm_eps = 0;  // default for files without it
  /// Default base of the RoPE frequencies, for files without it.
  float (*rope_base)(const ModelSpec& spec) = nullptr;

  NormPlan norms = NormPlan::kBefore;
  bool layer_norm = false;    // norms subtract the mean
  bool biased_norms = false;  // norms that do not may have biases all the same
  FfnActivation activation = FfnActivation::kSilu;
  Mixer mixer = Mixer::kNone;
  bool mixes_beside = false;   // attention and the mixer of every layer read one norm
  bool normed_mixer = true;    // what Mamba 2 gives is normed
  bool single_blocks = false;  // a layer is a mixer, attention, or an FFN (ModelSpec::pattern)
  /// Experts, if any, are beside a dense FFN, with norms of their own.
  bool experts_beside = false;
  /// Neighbouring heads of a delta net share keys, and the two gates of their states are in one
  /// matrix, by group.
  bool grouped_heads = false;
  /// False: queries and keys of this layer are not rotated. nullptr: those of all layers are.
  bool (*rotates)(const ModelSpec& spec, int layer) = nullptr;
  LocalRope local_rope = LocalRope::kSame;
  /// Queries are scaled by position; Hyperparameters::temperature may be 0, though.
  bool scales_queries = false;
  /// ... in layers without RoPE.
  bool scales_unturned = false;
  /// Attention is over latent rows (MLA).
  bool latent_attention = false;
  /// Norms of heads are behind RoPE.
  bool norms_rotated = false;
  /// True: heads that RoPE turned are normed, without weights. nullptr: they are not.
  bool (*norms_turned)(const ModelSpec& spec) = nullptr;
  /// Files say how experts are weighted: one without `expert_weights_norm` does not normalize.
  bool reads_routing = false;
  /// Heads of values are normed. Heads of layers with a window may have another width, later layers
  /// may attend to the cache of earlier ones, tokens have an input of each layer, and layers a
  /// scale.
  bool layers_differ = false;
  /// Sets hyperparameters that follow from the spec or are the architecture's own. For those that
  /// `scalars` read, usual values, which weights that come from no file get.
  void (*set_usual)(const ModelSpec& spec, Hyperparameters& hyper) = nullptr;

  /// Metadata keys that are read, and keys that would change the result.
  const MetadataKeys* keys = nullptr;
  /// Keys of this architecture alone: numbers, keys that are read elsewhere or change nothing, and
  /// keys of which one value is executed. They go before `keys`.
  std::span<const ScalarKey> scalars{};
  std::span<const std::string_view> own_keys{};
  std::span<const NeutralKey> own_neutral{};
  std::span<const WeightName> names{};
  std::string_view final_norm = "output_norm.weight";
};

/// Its files' name of a weight, after "blk.N.".
inline std::string_view weight_name(const Architecture& architecture, LayerWeight weight) {
  for (const WeightName& own : architecture.names)
    if (own.weight == weight) return own.name;
  return name_of(weight);
}

}  // namespace rigcast::engine
