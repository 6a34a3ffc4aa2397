#pragma once
// Fixtures for tests of executors: tiny models with significant logits, tokens, and tolerances for
// rounding relative to the reference.

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/ref/forward.hpp"
#include "engine/model/layer_weights.hpp"
#include "tests/engine/random_values.hpp"
#include "tests/engine/tiny_model.hpp"

namespace rigcast::engine::fixtures {

inline std::vector<std::int32_t> prompt_of(std::size_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(std::int32_t((i * i * 7919 + i * 104729 + 13) % std::size_t(vocabulary)));
  return tokens;
}

// The same weights in F32: what the reference decodes once instead of for every token.
inline Model decoded(const Model& model, std::vector<std::vector<float>>& storage) {
  Model m = model;
  const auto decode = [&](MatrixStack& w) {
    if (!w) return;
    const auto each = std::size_t(w.first.rows * w.first.columns);
    auto& values = storage.emplace_back(each * std::size_t(w.count));
    for (int i = 0; i < w.count; ++i)
      ref::dequantize(w.first.format, w.at(i).data,
                      std::span(values).subspan(std::size_t(i) * each, each));
    w.first.data = reinterpret_cast<const std::byte*>(values.data());
    w.first.format = QuantFormat::kF32;
    w.stride = 0;
  };
  const auto decode_one = [&](Matrix& w) {
    MatrixStack one{w, 1, 0};
    decode(one);
    w = one.first;
  };
  for (Matrix* w : {&m.embedding, &m.head, &m.input_embedding, &m.input_projection}) decode_one(*w);
  for (Layer& l : m.layers) {
    for_each_matrix([&](LayerWeight, Matrix& w) { decode_one(w); }, l);
    for_each_stack([&](LayerWeight, MatrixStack& w) { decode(w); }, l);
  }
  return m;
}

// Routes tokens clearly: every expert has a code, and a token's embedding has the codes of a few.
// Without this, routers of random weights would have many near ties, and the slightest rounding
// would choose another expert: that is another model, not an error of this one.
inline void decide_routes(TinyModel& tiny, const TinyTraits& t) {
  const std::size_t hidden = std::size_t(t.hidden), experts = std::size_t(t.experts);
  std::vector<float> codes = normal_values(experts * hidden, 9);
  for (float& c : codes) c = c > 0 ? 1.0f : -1.0f;
  std::vector<float> rows = normal_values(std::size_t(t.vocabulary) * hidden, 10, 0.3f);
  for (std::size_t token = 0; token < std::size_t(t.vocabulary); ++token)
    for (std::size_t i = 0; i < std::size_t(t.experts_used); ++i) {
      const std::size_t expert = (token * 7 + i * (token % 3 + 1)) % experts;
      for (std::size_t k = 0; k < hidden; ++k)
        rows[token * hidden + k] += (3.0f - 0.4f * float(i)) * codes[expert * hidden + k];
    }
  set_weights(tiny, "token_embd.weight", rows);
  for (float& c : codes) c /= 16.0f;
  for (int layer = 0; layer < t.layers; ++layer)
    if (tiny.model.spec.is_moe_layer(layer))
      set_weights(tiny, "blk." + std::to_string(layer) + ".ffn_gate_inp.weight", codes);
}

inline TinyModel model_of(const TinyTraits& traits) {
  TinyModel tiny = make_tiny_model(traits);
  if (traits.experts > 0) decide_routes(tiny, traits);
  return tiny;
}

// The reference's logits after each of the tokens.
inline std::vector<std::vector<float>> reference_logits(const Model& model,
                                                        std::span<const std::int32_t> tokens) {
  std::vector<std::vector<float>> storage;  // the model points to what its vectors hold
  return ref::forward(decoded(model, storage), tokens);
}

inline std::vector<std::vector<float>> reference_logits(const TinyModel& tiny,
                                                        const std::vector<std::int32_t>& tokens) {
  return reference_logits(tiny.model, tokens);
}

inline bool is_float(const std::string& mix) {
  return mix == "F32" || mix == "F16" || mix == "BF16";
}

inline bool is_delta_net(const std::string& architecture) {
  return architecture.starts_with("qwen35") || architecture == "qwen3next";
}

// Activations of about normal distribution that are rounded in blocks of 32 by steps of max / 127
// have an error of at most (2.6 / 127)^2 / 12 of their power. Every product on the way to a logit
// adds that much at most: q, k, v, output, gate, up and down of every layer, and the head. Down's
// input is a product of two such values, with a kurtosis of 9 where theirs is 3: it counts twice.
// A gated delta net has queries, keys (which write states and read them: twice), values, a gate and
// two gates of states in place of q, k and v; what its output matrix takes is a value, by a product
// of key and query, by a gate: of three such values, with a kurtosis of 27, it counts four times.
// Latent attention makes queries by two products, or three, and has one for keys and two for
// values.
inline double rounding_bound(const TinyTraits& t) {
  constexpr double kOfOneProduct = 2.6 * 2.6 / (127.0 * 127.0) / 12.0;
  const double of_layer = is_delta_net(t.architecture) ? 15.0 : t.latent ? 11.0 : 8.0;
  return kOfOneProduct * (of_layer * t.layers + 1);
}

inline const std::vector<std::string> kMixes = {"F32",  "F16",    "BF16",   "Q8_0",
                                                "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K"};

}  // namespace rigcast::engine::fixtures
