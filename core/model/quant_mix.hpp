#pragma once
// Quant mixes: llama.cpp's file types and the recipes of servers, each a rule that gives every
// tensor a block format.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/quant_format.hpp"

namespace rigcast {

/// The role of a tensor. The rule of a mix depends only on the role, the layer and the row width.
/// kProjection: any matrix that no mix distinguishes, such as those of latent attention.
/// kUnquantized: a matrix that stays in the 16 bits it was published in.
enum class TensorRole : std::uint8_t {
  kTokenEmbedding,
  kOutput,
  kNorm,
  kAttentionQ,
  kAttentionK,
  kAttentionV,
  kAttentionQKV,
  kAttentionOutput,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kBias,
  kRope,
  kRecurrent,
  kProjection,
  kUnquantized,
};

struct MixRule;

class QuantMix {
 public:
  /// By name, ignoring case and "-"/"_", or by other names of llama.cpp's ("Q4_K", "MXFP4_MOE",
  /// "Q2_K_M"); unknown: an Error with the nearest names.
  static Result<QuantMix> from_name(std::string_view name);
  static std::span<const std::string> names();
  /// Recipes of what servers read from safetensors: the matrices of the layers in one format, and
  /// embedding, head and router in 16 bits.
  static std::span<const std::string> served_names();
  /// Mixes of llama.cpp and Unsloth that have no rule here, each with the nearest that has one.
  static std::span<const std::array<std::string_view, 2>> without_rule();
  /// For a recipe that differs from model to model, such as Unsloth's "UD-Q4_K_XL": the mix with
  /// about its bits per weight. nullopt: the name is not of that form.
  static std::optional<QuantMix> nearest_to_recipe(std::string_view name);

  const std::string& name() const { return name_; }
  /// "Q4_K_M" of "Q4_K_L", which only has a wider embedding and head; else the mix's own name.
  std::string_view plain_name() const;
  /// True for a recipe of served_names(), which no GGUF file has.
  bool is_served() const;
  /// The format of most weights, Q4_K of "Q4_K_M".
  QuantFormat base() const { return base_; }

  /// The format that llama.cpp's quantiser gives a tensor with rows of `row_elements` weights, when
  /// it has no importance matrix; IQ3_XXS and smaller, which are not made without one, when it has.
  /// Where that row is no multiple of the format's block: the nearest format that holds it, F16 at
  /// last. `layer` is -1 outside the blocks. Source: ggml-org/llama.cpp, src/llama-quant.cpp of
  /// 2025-02, for IQ1 to IQ3 and tied embeddings of 2026; its rule for fused QKV changed in 2026,
  /// sizes by less than 1 %.
  QuantFormat format_of(const ModelSpec& model, TensorRole role, int layer,
                        std::uint64_t row_elements) const;

 private:
  explicit QuantMix(const MixRule& rule);

  const MixRule* rule_;  // in a static table
  std::string name_;
  QuantFormat base_;
};

/// True for names that are the same but for case, "-" and "_".
bool is_same_quant(std::string_view a, std::string_view b);

}  // namespace rigcast
