// Qwen2 and Qwen3, dense and with experts, and the text models of Qwen2-VL and Qwen3-VL.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

// The RoPE bases of the publishers' config.json.
float rope_base(const ModelSpec&) { return 1e6f; }
float rope_base_of_qwen3_vl(const ModelSpec&) { return 5e6f; }

// Pairs of a head turn by positions in time, height and width, which are one and the same for a
// text: then all turn as in Qwen2 (read_hyperparameters checks the sections).
constexpr std::string_view kVisionKeys[] = {
    "rope.dimension_sections",
    "n_deepstack_layers",  // which of a picture's features are added
};

constexpr Architecture qwen(std::string_view name) {
  return {.name = name,
          .rope_pairs = RopePairs::kNeox,
          .norm_eps = 1e-6f,
          .rope_base = rope_base,
          .keys = &kDecoderKeys};
}

// Qwen2 57B A14B: weights are the probabilities among all experts.
void set_qwen2moe(const ModelSpec&, Hyperparameters& h) { h.routing.normalised = false; }

constexpr Architecture qwen2moe() {
  Architecture a = qwen("qwen2moe");
  a.set_usual = set_qwen2moe;
  return a;
}

constexpr Architecture with_vision(std::string_view name, float (*base)(const ModelSpec&)) {
  Architecture a = qwen(name);
  a.rope_base = base;
  a.own_keys = kVisionKeys;
  return a;
}

constexpr Architecture kArchitectures[] = {qwen("qwen2"),
                                           qwen2moe(),
                                           qwen("qwen3"),
                                           qwen("qwen3moe"),
                                           with_vision("qwen2vl", rope_base),
                                           with_vision("qwen3vl", rope_base_of_qwen3_vl),
                                           with_vision("qwen3vlmoe", rope_base_of_qwen3_vl)};

}  // namespace

std::span<const Architecture> qwen_family() { return kArchitectures; }

}  // namespace rigcast::engine
