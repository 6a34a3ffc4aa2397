// Gemma 1 to 4: GELU, an embedding that is scaled; from Gemma 2 on four norms and windows; in Gemma
// 4 heads of another width in layers with a window, and in 26B-A4B experts beside a dense FFN.

#include <cmath>

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e4f; }
float rope_base_of_gemma3(const ModelSpec&) { return 1e6f; }

void scale_embedding(const ModelSpec& spec, Hyperparameters& h) {
  h.embedding_scale = std::sqrt(float(spec.hidden));
}

// The largest models scale scores as if heads were hidden / heads wide. Files do not say it; they
// are known by their layers.
void scale_scores(const ModelSpec& spec, int layers_of_largest, Hyperparameters& h) {
  if (spec.layers == layers_of_largest)
    h.score_scale = 1 / std::sqrt(float(spec.hidden / spec.heads));
}

void set_gemma2(const ModelSpec& spec, Hyperparameters& h) {
  constexpr int kLayersOf27b = 46;
  scale_embedding(spec, h);
  scale_scores(spec, kLayersOf27b, h);
  h.score_softcap = 50;
  h.logit_softcap = 30;
}

void set_gemma3(const ModelSpec& spec, Hyperparameters& h) {
  constexpr int kLayersOf27b = 62;
  scale_embedding(spec, h);
  scale_scores(spec, kLayersOf27b, h);
  h.local_rope_base = 1e4f;
}

void set_gemma4(const ModelSpec& spec, Hyperparameters& h) {
  scale_embedding(spec, h);
  h.score_scale = 1;
  h.logit_softcap = 30;
  h.local_rope_base = 1e4f;
  if (spec.window && spec.window->full_head_dim > 0) {
    h.rope_dims = int(spec.window->full_head_dim);
    h.local_rope_dims = int(spec.head_dim);
  }
}

constexpr ScalarKey kGemma2Scalars[] = {
    {"attn_logit_softcapping", &Hyperparameters::score_softcap},
    {"final_logit_softcapping", &Hyperparameters::logit_softcap},
};
constexpr ScalarKey kGemma3Scalars[] = {
    {"rope.freq_base_swa", &Hyperparameters::local_rope_base},
    {"final_logit_softcapping", &Hyperparameters::logit_softcap},
};

constexpr Architecture kGemma = {.name = "gemma",
                                 .rope_pairs = RopePairs::kNeox,
                                 .norm_eps = 1e-6f,
                                 .rope_base = rope_base,
                                 .activation = FfnActivation::kGelu,
                                 .set_usual = scale_embedding,
                                 .keys = &kDecoderKeys};

constexpr Architecture gemma2() {
  Architecture a = kGemma;
  a.name = "gemma2";
  a.norms = NormPlan::kAround;
  a.set_usual = set_gemma2;
  a.scalars = kGemma2Scalars;
  return a;
}

constexpr Architecture gemma3() {
  Architecture a = kGemma;
  a.name = "gemma3";
  a.norms = NormPlan::kAround;
  a.rope_base = rope_base_of_gemma3;
  a.local_rope = LocalRope::kOwnBase;
  a.set_usual = set_gemma3;
  a.scalars = kGemma3Scalars;
  return a;
}

// Of heads in layers with a window; read_spec and read_hyperparameters read these.
constexpr std::string_view kGemma4Keys[] = {"attention.value_length_swa",
                                            "rope.dimension_count_swa"};

// A dense FFN beside experts has its usual names.
constexpr WeightName kGemma4Names[] = {{LayerWeight::kSharedGate, "ffn_gate.weight"},
                                       {LayerWeight::kSharedUp, "ffn_up.weight"},
                                       {LayerWeight::kSharedDown, "ffn_down.weight"}};

constexpr Architecture gemma4() {
  Architecture a = gemma3();
  a.name = "gemma4";
  a.layers_differ = true;
  a.experts_beside = true;
  a.set_usual = set_gemma4;
  a.own_keys = kGemma4Keys;
  a.names = kGemma4Names;
  return a;
}

constexpr Architecture kArchitectures[] = {kGemma, gemma2(), gemma3(), gemma4()};

}  // namespace

std::span<const Architecture> gemma_family() { return kArchitectures; }

}  // namespace rigcast::engine
