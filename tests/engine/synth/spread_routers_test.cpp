// Routers of synthetic models spread tokens over experts as independent, uniform choices would.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/forward.hpp"
#include "engine/kernels/ref/ops.hpp"
#include "engine/synth/synth.hpp"
#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"

namespace rigcast::engine {
namespace {

using fixtures::make_tiny_model;
using fixtures::TinyModel;
using fixtures::TinyTraits;

using Ids = std::vector<std::int32_t>;
using Logits = std::vector<float>;
// The scores by which a layer's experts are compared, from the router's logits.
using Scores = std::function<Logits(const Logits&, int layer)>;

// The share of experts, in place of those that n uniform choices would touch, that is wanted.
constexpr double kSpread = 0.9;

TinyTraits traits_of(int layers, int experts, int used) {
  TinyTraits t;
  t.architecture = "qwen3moe";
  t.experts = experts;
  t.experts_used = used;
  t.ffn = 32;
  t.layers = layers;
  t.vocabulary = 4096;
  return t;
}

Ids random_ids(std::size_t count, std::int64_t vocabulary) {
  std::mt19937 random(3);
  Ids ids(count);
  for (std::int32_t& id : ids) id = std::int32_t(random() % std::uint32_t(vocabulary));
  return ids;
}

Logits unchanged(const Logits& logits, int) { return logits; }

double uniform_choice(const TinyTraits& t, std::size_t tokens) {
  return t.experts * (1 - std::pow(1 - double(t.experts_used) / t.experts, double(tokens)));
}

// Different experts that the first n tokens choose, a mean over layers.
double distinct_experts(const TinyTraits& t, const std::vector<std::vector<Logits>>& logits,
                        std::size_t n, const Scores& scores = unchanged) {
  double sum = 0;
  for (std::size_t layer = 0; layer < logits.size(); ++layer) {
    std::set<int> distinct;
    for (std::size_t token = 0; token < n; ++token)
      for (const ref::ChosenExpert& chosen :
           ref::choose_experts(scores(logits[layer][token], int(layer)), t.experts_used, {}))
        distinct.insert(chosen.expert);
    sum += double(distinct.size());
  }
  return sum / double(logits.size());
}

void check_spread(const TinyTraits& t, const std::vector<std::size_t>& counts) {
  const TinyModel m = make_tiny_model(t);
  const auto logits = ref::router_logits(m.model, random_ids(counts.back(), t.vocabulary));
  for (const std::size_t n : counts) {
    INFO(n << " tokens, " << t.layers << " layers, " << t.experts_used << " of " << t.experts);
    CHECK(distinct_experts(t, logits, n) >= kSpread * uniform_choice(t, n));
  }
}

// Biases of the routers, as synthetic files have them.
std::vector<std::vector<float>> router_biases(const TinyTraits& t) {
  std::vector<std::vector<float>> biases;
  for (int layer = 0; layer < t.layers; ++layer) {
    Tensor bias;
    bias.name = "blk." + std::to_string(layer) + ".exp_probs_b.bias";
    bias.role = TensorRole::kBias;
    bias.layer = layer;
    bias.shape = {std::uint64_t(t.experts), 1, 1};
    bias.format = QuantFormat::kF32;
    bias.bytes = tensor_bytes(bias.format, bias.shape[0], 1);
    std::vector<std::byte> bytes(bias.bytes);
    synthesize(bias, t.seed, 0, bytes, {.routes = true});
    ref::dequantize(bias.format, bytes.data(), biases.emplace_back(std::size_t(t.experts)));
  }
  return biases;
}

}  // namespace

TEST_CASE("Routers spread random tokens over experts, in any number", "[synth][spread]") {
  check_spread(traits_of(8, 128, 8), {1, 8, 64, 512});
  check_spread(traits_of(4, 8, 2), {1, 8, 64, 512});
}

TEST_CASE("Routers spread tokens in deep models too", "[synth][spread]") {
  check_spread(traits_of(48, 128, 8), {1, 8, 64});
  check_spread(traits_of(94, 128, 8), {1, 8});
}

TEST_CASE("Quantized models spread tokens as those in floats do", "[synth][spread]") {
  TinyTraits t = traits_of(8, 64, 4);
  t.mix = "Q4_K_M";
  t.ffn = 256;
  check_spread(t, {1, 8, 64});
}

TEST_CASE("Routers spread tokens through sigmoids and biases", "[synth][spread]") {
  const TinyTraits t = traits_of(4, 128, 8);
  const auto logits = ref::router_logits(make_tiny_model(t).model, random_ids(512, t.vocabulary));
  const auto biases = router_biases(t);
  const Scores biased = [&](const Logits& of, int layer) {
    Logits out(of.size());
    for (std::size_t i = 0; i < of.size(); ++i)
      out[i] = 1 / (1 + std::exp(-of[i])) + biases[std::size_t(layer)][i];
    return out;
  };
  for (const std::size_t n : {1u, 8u, 64u, 512u}) {
    INFO(n << " tokens");
    CHECK(distinct_experts(t, logits, n, biased) >= kSpread * uniform_choice(t, n));
  }
}

TEST_CASE("A text of few words touches the experts of these words", "[synth][spread]") {
  // Equal tokens have nearly equal states: 512 of them touch what the 16 different ones do.
  const TinyTraits t = traits_of(4, 128, 8);
  Ids ids = random_ids(16, t.vocabulary);
  for (std::size_t i = 16; i < 512; ++i) ids.push_back(ids[i - 16]);
  const auto logits = ref::router_logits(make_tiny_model(t).model, ids);
  for (const std::size_t n : {8u, 64u, 512u}) {
    INFO(n << " tokens");
    CHECK(distinct_experts(t, logits, n) >=
          kSpread * uniform_choice(t, std::min<std::size_t>(n, 16)));
  }
}

TEST_CASE("Greedy answers of a model with a head of its own do not repeat a token",
          "[synth][spread]") {
  const TinyTraits t = traits_of(4, 32, 4);
  const TinyModel m = make_tiny_model(t);
  Ids ids = {5};
  while (ids.size() < 17) {
    const std::vector<float> logits = ref::forward(m.model, ids).back();
    ids.push_back(std::int32_t(std::ranges::max_element(logits) - logits.begin()));
  }
  // Sixteen independent, uniform choices of 4,096 are all different with a probability of 97 %.
  CHECK(std::set<std::int32_t>(ids.begin(), ids.end()).size() >= 15);
}

}  // namespace rigcast::engine
