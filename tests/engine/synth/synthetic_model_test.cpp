// Synthetic weights as a model: activations stay finite and logits tell prompts apart.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/model/tensor_table.hpp"
#include "engine/kernels/ref/forward.hpp"
#include "engine/model/layer_weights.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"
#include "tests/resident_memory.hpp"

namespace rigcast::engine {
namespace {

using fixtures::make_tiny_model;
using fixtures::TinyModel;
using fixtures::TinyTraits;

double deviation(const std::vector<float>& x) {
  double mean = 0;
  double square = 0;
  for (const float v : x) mean += double(v) / double(x.size());
  for (const float v : x) square += std::pow(double(v) - mean, 2) / double(x.size());
  return std::sqrt(square);
}

std::vector<float> difference(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

std::ptrdiff_t top(const std::vector<float>& logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

// The last logits of prompts that differ in one token.
std::vector<std::vector<float>> answers(const Model& model) {
  std::vector<std::vector<float>> out;
  for (const std::int32_t token : {1, 77, 205, 499})
    out.push_back(ref::forward(model, std::vector<std::int32_t>{token, 8}).back());
  return out;
}

// The final norm makes the hidden state of RMS 1, and rows of the head have a norm of 1: logits
// have a deviation near 1 whatever the format. Where there are experts, the last token tells most,
// which is the same: the others change a logit by a tenth of that deviation.
void check_alive(const Model& model) {
  std::set<std::ptrdiff_t> tops;
  const std::vector<std::vector<float>> of_prompts = answers(model);
  for (const std::vector<float>& logits : of_prompts) {
    CHECK(std::ranges::all_of(logits, [](float v) { return std::isfinite(v); }));
    CHECK(deviation(logits) > 0.5);
    CHECK(deviation(logits) < 2);
    tops.insert(top(logits));
  }
  if (!model.spec.moe) CHECK(tops.size() >= 3);
  CHECK(deviation(difference(of_prompts[0], of_prompts[1])) > 0.05);
}

}  // namespace

TEST_CASE("Synthetic models of every format speak", "[synth]") {
  for (int i = 0; i < kComputedFormatCount; ++i) {
    INFO(info(QuantFormat(i)).name);
    TinyTraits traits;
    traits.format = QuantFormat(i);
    check_alive(make_tiny_model(traits).model);
  }
}

TEST_CASE("Synthetic models of every architecture speak", "[synth]") {
  TinyTraits traits;
  traits.mix = "Q4_K_M";
  for (const char* architecture : {"llama", "qwen2", "qwen3", "qwen3moe"}) {
    INFO(architecture);
    traits.architecture = architecture;
    traits.experts = traits.architecture == "qwen3moe" ? 8 : 0;
    traits.tied = traits.architecture == "qwen2";
    traits.rope_freqs = traits.architecture == "llama";
    check_alive(make_tiny_model(traits).model);
  }
}

TEST_CASE("The hidden state neither explodes nor vanishes with depth", "[synth]") {
  // Each of 64 additions has an RMS of at most about 1, and they are nearly independent: together
  // at most about 8.
  TinyTraits traits;
  traits.hidden = 64;
  traits.head_dim = 16;
  traits.ffn = 128;
  traits.layers = 32;
  const TinyModel m = make_tiny_model(traits);
  for (const auto& state : ref::hidden_states(m.model, std::vector<std::int32_t>{1, 2, 3, 4})) {
    CHECK(state.size() == 64);
    CHECK(deviation(state) > 0.5);
    CHECK(deviation(state) < 8);
  }
}

TEST_CASE("Tokens stay apart in models with experts", "[synth]") {
  // The cosine of independent directions in 64 dimensions has a deviation of an eighth; attention
  // over all tokens alone would make it near 1.
  TinyTraits traits;
  traits.architecture = "qwen3moe";
  traits.experts = 16;
  traits.hidden = 64;
  traits.head_dim = 16;
  traits.layers = 16;
  std::vector<std::int32_t> ids(48);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i * 7 + 1);
  const auto states = ref::hidden_states(make_tiny_model(traits).model, ids);
  double sum = 0;
  for (std::size_t a = 24; a + 1 < states.size(); ++a) {
    double dot = 0, left = 0, right = 0;
    for (std::size_t i = 0; i < states[a].size(); ++i) {
      dot += double(states[a][i]) * states[a + 1][i];
      left += std::pow(double(states[a][i]), 2);
      right += std::pow(double(states[a + 1][i]), 2);
    }
    sum += dot / std::sqrt(left * right);
  }
  CHECK(std::abs(sum / 23) < 0.25);
}

TEST_CASE("Vectors of a model whose matrices are elsewhere take little memory", "[synth]") {
  ModelSpec spec = make_tiny_model({}).model.spec;
  spec.layers = 32;
  spec.hidden = 4096;
  spec.heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  spec.ffn = 14336;
  const auto table = make_tensor_table(spec, *QuantMix::from_name("Q4_K_M"));
  REQUIRE(table);
  double bytes = 0;
  for (const Tensor& t : table->tensors)
    if (t.dimensions == 1) bytes += double(t.bytes);
  const Bytes before = test::resident_memory();
  const auto model = make_synthetic_vectors(spec, *table, 1);
  REQUIRE(model);
  // Once as they are made, once as the model has them, and a large page where they begin and end.
  const double most = 2 * bytes + 3 * 2 * 0x1p20;
  CHECK((test::resident_memory() - before).value < most);
}

TEST_CASE("Every tensor of a table has its place in the tiny model", "[synth]") {
  TinyTraits traits;
  traits.architecture = "qwen3moe";
  traits.mix = "Q4_K_M";
  traits.qkv_bias = traits.output_bias = traits.rope_freqs = true;
  traits.experts = 4;
  traits.layers = 1;
  const TinyModel m = make_tiny_model(traits);
  const Layer& l = m.model.layers[0];
  CHECK(bool(m.model.embedding));
  CHECK(bool(m.model.head));
  CHECK_FALSE(m.model.final_norm.empty());
  CHECK_FALSE(m.model.rope_factors.empty());
  int there = 0;
  const auto count = [&](LayerWeight, const auto& w) { there += bool(w); };
  for_each_matrix(count, l);
  for_each_stack(count, l);
  for_each_vector([&](LayerWeight, const auto& v) { there += !v.empty(); }, l);
  CHECK(there == 16);
  // The 20 of them are all there are.
  CHECK(m.tensors->size() == 20);
  CHECK(m.named().size() == 20);
  CHECK(l.expert_down.count == 4);
  CHECK(l.expert_down.first.bytes() * 4 ==
        std::int64_t(m.find("blk.0.ffn_down_exps.weight")->bytes.size()));
  CHECK(l.router.format == QuantFormat::kF32);
}

}  // namespace rigcast::engine
