// GLM 4, dense, and GLM 4.5 to 4.7 with experts: half of a head rotates.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e4f; }
float rope_base_of_glm4moe(const ModelSpec&) { return 1e6f; }

void rotate_half(const ModelSpec& spec, Hyperparameters& h) {
  h.rope_dims = int(spec.head_dim / 2);
}

// The large ones, which norm heads, scale weights.
void set_glm4moe(const ModelSpec& spec, Hyperparameters& h) {
  rotate_half(spec, h);
  h.routing.sigmoid = true;
  h.routing.scale = spec.qk_norm ? 2.5f : 1.0f;
}

// The norm of the experts' input has the name that others give to that of attention's output.
constexpr WeightName kNames[] = {{LayerWeight::kFfnNorm, "post_attention_norm.weight"}};

// Of GLM-4.5V: one position of a text is its time, height and width.
constexpr std::string_view kVisionKeys[] = {"rope.dimension_sections"};

// Four norms, gate and up in one matrix.
constexpr Architecture kArchitectures[] = {{.name = "glm4",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .norms = NormPlan::kAround,
                                            .set_usual = rotate_half,
                                            .keys = &kDecoderKeys},
                                           {.name = "glm4moe",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base_of_glm4moe,
                                            .reads_routing = true,
                                            .set_usual = set_glm4moe,
                                            .keys = &kDecoderKeys,
                                            .own_keys = kVisionKeys,
                                            .names = kNames}};

}  // namespace

std::span<const Architecture> glm_family() { return kArchitectures; }

}  // namespace rigcast::engine
