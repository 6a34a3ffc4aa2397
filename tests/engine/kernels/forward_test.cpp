// The reference against arithmetic by hand and against what must not change a result.

#include "engine/kernels/ref/forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"

namespace rigcast::engine::ref {
namespace {

using fixtures::make_tiny_model;
using fixtures::TinyModel;
using fixtures::TinyTraits;
using Logits = std::vector<std::vector<float>>;
using Tokens = std::vector<std::int32_t>;

const Tokens kPrompt = {3, 141, 59, 26, 53};

TinyTraits small(std::string architecture) {
  TinyTraits t;
  t.architecture = std::move(architecture);
  t.hidden = 64;
  t.head_dim = 16;
  t.ffn = 96;
  t.layers = 2;
  t.vocabulary = 200;
  return t;
}

TinyTraits small_mixture(int experts, int used) {
  TinyTraits t = small("qwen3moe");
  t.experts = experts;
  t.experts_used = used;
  return t;
}

// The largest difference, of logits with a standard deviation near 1.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(double(a[i]) - double(b[i])));
  return most;
}

double difference(const Logits& a, const Logits& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, difference(a[i], b[i]));
  return most;
}

// Two orders of summing differ by a few roundings of activations near 1, and layers pass them on.
constexpr double kRounding = 1e-5;

std::string block(int layer, const char* name) {
  return "blk." + std::to_string(layer) + "." + name;
}

// Rows in another order, `unit` at a time: the i-th of the new ones is `order[i]` of the old. If
// there are more or fewer of them, the model must be bound again.
void reorder_rows(TinyModel& m, const std::string& name, std::size_t unit,
                  const std::vector<std::size_t>& order) {
  fixtures::TinyTensor* t = m.find(name);
  REQUIRE(t != nullptr);
  const std::vector<std::byte> old = t->bytes;
  const std::size_t bytes = unit * std::size_t(t->bytes.size() / t->tensor.shape[1]);
  t->bytes.resize(bytes * order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    std::memcpy(t->bytes.data() + i * bytes, old.data() + order[i] * bytes, bytes);
  t->tensor.shape[1] = unit * order.size();
  t->tensor.bytes = t->bytes.size();
}

// Likewise of the columns of an F32 matrix.
void reorder_columns(TinyModel& m, const std::string& name, std::size_t unit,
                     const std::vector<std::size_t>& order) {
  fixtures::TinyTensor* t = m.find(name);
  REQUIRE(t != nullptr);
  const std::vector<std::byte> old = t->bytes;
  const std::size_t row = std::size_t(t->tensor.shape[0]) * sizeof(float);
  const std::size_t bytes = unit * sizeof(float);
  REQUIRE(order.size() * bytes == row);
  for (std::size_t r = 0; r < t->tensor.shape[1]; ++r)
    for (std::size_t i = 0; i < order.size(); ++i)
      std::memcpy(t->bytes.data() + r * row + i * bytes, old.data() + r * row + order[i] * bytes,
                  bytes);
}

void reorder_experts(TinyModel& m, const std::string& name, const std::vector<std::size_t>& order) {
  std::vector<std::byte>& bytes = m.find(name)->bytes;
  const std::vector<std::byte> old = bytes;
  const std::size_t one = old.size() / order.size();
  for (std::size_t i = 0; i < order.size(); ++i)
    std::memcpy(bytes.data() + i * one, old.data() + order[i] * one, one);
}

Matrix f32(const std::vector<float>& weights, std::int64_t columns) {
  return {reinterpret_cast<const std::byte*>(weights.data()), QuantFormat::kF32, columns,
          std::int64_t(weights.size()) / columns};
}

}  // namespace

TEST_CASE("One layer and two tokens by hand", "[forward]") {
  const std::vector<float> one = {1, 0, 0, 1};
  const std::vector<float> embedding = {1, 1, 1, -1};  // tokens 0 and 1: both of RMS 1
  Model m;
  m.spec = fixtures::tiny_spec({});
  m.spec.layers = m.spec.heads = m.spec.kv_heads = 1;
  m.spec.hidden = m.spec.head_dim = m.spec.ffn = m.spec.vocabulary = 2;
  m.hyper.norm_eps = 0;
  m.hyper.rope_dims = 2;  // one pair: position 1 is rotated by an angle of 1
  m.embedding = f32(embedding, 2);
  m.head = f32(one, 2);
  m.final_norm = {1, 1};
  Layer l;
  l.attention = attention_shape(m.spec, 0);
  l.ops = layer_ops(m.spec, 0);
  l.attention_norm = l.ffn_norm = {1, 1};
  l.q = l.k = l.v = l.output = l.gate = l.up = l.down = f32(one, 2);
  m.layers = {l};

  const auto after_attention = [](double a, double b) {
    // A norm to RMS 1, silu(x) x, the residual, a norm again.
    const double rms = std::sqrt((a * a + b * b) / 2);
    const auto ffn = [rms](double x) {
      const double n = x / rms;
      return x + n / (1 + std::exp(-n)) * n;
    };
    const double c = ffn(a), d = ffn(b);
    const double last = std::sqrt((c * c + d * d) / 2);
    return std::vector<double>{c / last, d / last};
  };
  // Token 0 sees itself: attention gives (1, 1), the residual makes (2, 2).
  const auto first = after_attention(2, 2);
  // Token 1 is (1, -1) turned by 1: with itself it scores 2, with (1, 1) it scores
  // (cos 1 + sin 1) + (sin 1 - cos 1) = 2 sin 1, both divided by sqrt 2.
  const double p = 1 / (1 + std::exp((2 - 2 * std::sin(1.0)) / std::sqrt(2.0)));
  const auto second = after_attention(1 + 1, -1 + (p - (1 - p)));

  const Logits logits = forward(m, Tokens{0, 1});
  REQUIRE(logits.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(double(logits[0][i]) == Approx(first[i]).margin(1e-6));
    CHECK(double(logits[1][i]) == Approx(second[i]).margin(1e-6));
  }
}

TEST_CASE("A token changes no logits before it, and those after it", "[forward]") {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    INFO(architecture);
    const TinyModel m = make_tiny_model(small(architecture));
    const Logits before = forward(m.model, kPrompt);
    Tokens changed = kPrompt;
    changed[2] = 100;
    const Logits after = forward(m.model, changed);
    CHECK(before[0] == after[0]);
    CHECK(before[1] == after[1]);
    for (std::size_t i = 2; i < kPrompt.size(); ++i) CHECK(difference(before[i], after[i]) > 0.01);
    // And a longer prompt has the shorter one's logits.
    const Logits part = forward(m.model, std::span(kPrompt).first(3));
    CHECK(std::equal(part.begin(), part.end(), before.begin()));
  }
}

TEST_CASE("The order of heads does not matter", "[forward]") {
  const TinyModel plain = make_tiny_model(small("qwen3"));
  TinyModel swapped = make_tiny_model(small("qwen3"));
  for (int i = 0; i < 2; ++i) {
    // KV heads 0 and 1 trade places with their query heads {0, 1} and {2, 3}.
    reorder_rows(swapped, block(i, "attn_q.weight"), 16, {2, 3, 0, 1});
    reorder_rows(swapped, block(i, "attn_k.weight"), 16, {1, 0});
    reorder_rows(swapped, block(i, "attn_v.weight"), 16, {1, 0});
    reorder_columns(swapped, block(i, "attn_output.weight"), 16, {2, 3, 0, 1});
  }
  const Logits expected = forward(plain.model, kPrompt);
  CHECK(difference(forward(swapped.model, kPrompt), expected) < kRounding);
  // Query heads of the other KV head are another model.
  reorder_rows(swapped, block(0, "attn_k.weight"), 16, {1, 0});
  CHECK(difference(forward(swapped.model, kPrompt), expected) > 0.01);
}

TEST_CASE("Grouped queries are all heads with their KV head repeated", "[forward]") {
  const TinyModel grouped = make_tiny_model(small("llama"));
  TinyModel full = make_tiny_model(small("llama"));
  for (int i = 0; i < 2; ++i)
    for (const char* name : {"attn_k.weight", "attn_v.weight"})
      reorder_rows(full, block(i, name), 16, {0, 0, 1, 1});
  full.model.spec.kv_heads = 4;
  fixtures::rebind(full);
  CHECK(forward(full.model, kPrompt) == forward(grouped.model, kPrompt));
}

TEST_CASE("Rows of q and k in the other order of pairs are the other rope", "[forward]") {
  // llama's files interleave the halves: row 2 i is the i-th, row 2 i + 1 the one half a head on.
  TinyModel neox = make_tiny_model(small("llama"));
  neox.model.hyper.rope_pairs = RopePairs::kNeox;
  TinyModel neighbours = make_tiny_model(small("llama"));
  for (int i = 0; i < 2; ++i) {
    for (const char* name : {"attn_q.weight", "attn_k.weight"}) {
      std::vector<std::size_t> order;
      for (std::size_t row = 0; row < (name[5] == 'q' ? 64u : 32u); ++row)
        order.push_back(row / 16 * 16 + row % 16 / 2 + (row % 2) * 8);
      reorder_rows(neighbours, block(i, name), 1, order);
    }
  }
  const Logits expected = forward(neox.model, kPrompt);
  CHECK(difference(forward(neighbours.model, kPrompt), expected) < kRounding);
  neox.model.hyper.rope_pairs = RopePairs::kInterleaved;
  CHECK(difference(forward(neox.model, kPrompt), expected) > 0.01);
}

TEST_CASE("Equal experts are one dense FFN, however many are used", "[forward]") {
  for (const int used : {1, 2, 4}) {
    TinyModel mixture = make_tiny_model(small_mixture(4, used));
    for (int i = 0; i < 2; ++i) {
      for (const char* name :
           {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"}) {
        std::vector<std::byte>& bytes = mixture.find(block(i, name))->bytes;
        const std::size_t one = bytes.size() / 4;
        for (std::size_t e = 1; e < 4; ++e) std::memcpy(bytes.data() + e * one, bytes.data(), one);
      }
    }
    Model dense = mixture.model;
    ModelSpec dense_spec = dense.spec;
    dense_spec.moe.reset();
    for (Layer& l : dense.layers) {
      l.gate = l.expert_gate.at(0);
      l.up = l.expert_up.at(0);
      l.down = l.expert_down.at(0);
      l.router = {};
      l.ops = layer_ops(dense_spec, 0);
    }
    const Logits expected = forward(dense, kPrompt);
    CHECK(difference(forward(mixture.model, kPrompt), expected) < kRounding);
    // Probabilities among all experts sum to less than 1, unless all are used.
    mixture.model.hyper.routing.normalised = false;
    const double scaled = difference(forward(mixture.model, kPrompt), expected);
    CHECK((used == 4 ? scaled < kRounding : scaled > 0.01));
  }
}

TEST_CASE("Experts that are not chosen are not read", "[forward]") {
  TinyModel m = make_tiny_model(small_mixture(4, 2));
  // Equal rows of the router: equal logits, of which the first two win.
  for (int i = 0; i < 2; ++i) reorder_rows(m, block(i, "ffn_gate_inp.weight"), 1, {0, 0, 0, 0});
  fixtures::rebind(m);
  const Logits expected = forward(m.model, kPrompt);
  const auto spoil = [&](std::size_t expert) {
    for (int i = 0; i < 2; ++i) {
      std::vector<std::byte>& bytes = m.find(block(i, "ffn_down_exps.weight"))->bytes;
      std::memset(bytes.data() + expert * bytes.size() / 4, 0xFF, bytes.size() / 4);  // NaN
    }
  };
  spoil(2);
  spoil(3);
  CHECK(forward(m.model, kPrompt) == expected);
  spoil(1);
  CHECK(std::isnan(forward(m.model, kPrompt)[0][0]));
}

TEST_CASE("The order of experts does not matter", "[forward]") {
  const TinyModel plain = make_tiny_model(small_mixture(4, 2));
  TinyModel moved = make_tiny_model(small_mixture(4, 2));
  const std::vector<std::size_t> order = {2, 0, 3, 1};
  for (int i = 0; i < 2; ++i) {
    reorder_rows(moved, block(i, "ffn_gate_inp.weight"), 1, order);
    for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"})
      reorder_experts(moved, block(i, name), order);
  }
  const Logits expected = forward(plain.model, kPrompt);
  CHECK(difference(forward(moved.model, kPrompt), expected) < kRounding);
  reorder_experts(moved, block(0, "ffn_up_exps.weight"), order);
  CHECK(difference(forward(moved.model, kPrompt), expected) > 0.01);
}

TEST_CASE("A window as long as the prompt is none", "[forward]") {
  TinyTraits traits = small("llama");
  const Logits expected = forward(make_tiny_model(traits).model, kPrompt);
  traits.window = 5;
  CHECK(forward(make_tiny_model(traits).model, kPrompt) == expected);
  traits.window = 4;
  const Logits windowed = forward(make_tiny_model(traits).model, kPrompt);
  for (std::size_t i = 0; i < 4; ++i) CHECK(windowed[i] == expected[i]);
  CHECK(difference(windowed[4], expected[4]) > 1e-4);
}

TEST_CASE("A token sees its window and no further", "[forward]") {
  TinyTraits traits = small("llama");
  traits.layers = 1;
  traits.window = 2;
  const TinyModel m = make_tiny_model(traits);
  Tokens changed = kPrompt;
  changed[0] = 100;
  const Logits a = forward(m.model, kPrompt);
  const Logits b = forward(m.model, changed);
  CHECK(difference(a[0], b[0]) > 0.01);
  CHECK(difference(a[1], b[1]) > 1e-4);
  for (std::size_t i = 2; i < a.size(); ++i) CHECK(a[i] == b[i]);
  // Of two layers the second sees all: token 0 reaches every later one.
  traits.layers = 2;
  traits.window_full_every = 2;
  const TinyModel mixed = make_tiny_model(traits);
  CHECK(difference(forward(mixed.model, kPrompt)[4], forward(mixed.model, changed)[4]) > 1e-4);
}

TEST_CASE("Head norms come before positions", "[forward]") {
  // A window of 2 sees the same pair of tokens twice, with the same result only if positions do
  // nothing but rotate. An uneven norm after the rotation would distinguish positions.
  TinyTraits traits = small("qwen3");
  traits.layers = 1;
  traits.window = 2;
  TinyModel m = make_tiny_model(traits);
  for (std::size_t i = 0; i < 16; ++i) {
    m.model.layers[0].q_norm[i] = i < 8 ? 3 : 0.25f;
    m.model.layers[0].k_norm[i] = i < 8 ? 2 : 0.5f;
  }
  const Logits logits = forward(m.model, Tokens{3, 141, 3, 141});
  CHECK(difference(logits[1], logits[3]) < kRounding);
  CHECK(difference(logits[0], logits[2]) > 0.01);
}

TEST_CASE("A head tied to the embedding is a head that equals it", "[forward]") {
  TinyTraits traits = small("llama");
  const TinyModel separate = make_tiny_model(traits);
  traits.tied = true;
  const TinyModel tied = make_tiny_model(traits);
  CHECK(tied.find("output.weight") == nullptr);
  const Logits expected = forward(tied.model, kPrompt);
  CHECK(difference(forward(separate.model, kPrompt), expected) > 0.01);
  separate.find("output.weight")->bytes = separate.find("token_embd.weight")->bytes;
  TinyModel equal = separate;
  fixtures::rebind(equal);
  CHECK(forward(equal.model, kPrompt) == expected);
}

TEST_CASE("Biases, head norms and rope factors count", "[forward]") {
  const auto without = [](TinyModel m, auto drop) {
    drop(m.model);
    return forward(m.model, kPrompt);
  };
  TinyTraits traits = small("qwen2");
  traits.output_bias = true;
  const TinyModel biased = make_tiny_model(traits);
  const Logits with_bias = forward(biased.model, kPrompt);
  for (const auto field : {&Layer::q_bias, &Layer::k_bias, &Layer::v_bias, &Layer::output_bias}) {
    REQUIRE_FALSE((biased.model.layers[1].*field).empty());
    CHECK(difference(without(biased, [&](Model& m) { (m.layers[1].*field).clear(); }), with_bias) >
          1e-5);
  }
  const TinyModel normed = make_tiny_model(small("qwen3"));
  const Logits with_norm = forward(normed.model, kPrompt);
  for (const LayerWeight norm : {LayerWeight::kQNorm, LayerWeight::kKNorm}) {
    const auto drop = [&](Model& m) {
      const std::vector<LayerWeight> weights = {norm};
      CHECK(std::erase_if(m.layers[0].ops, [&](const auto& op) { return op.weights == weights; }) ==
            1);
    };
    CHECK(difference(without(normed, drop), with_norm) > 1e-4);
  }
  traits = small("llama");
  traits.rope_freqs = true;
  const TinyModel factors = make_tiny_model(traits);
  REQUIRE(factors.model.rope_factors == std::vector<float>(8, 1.0f));
  const Logits with_ones = forward(factors.model, kPrompt);
  CHECK(without(factors, [](Model& m) { m.rope_factors.clear(); }) == with_ones);
  CHECK(difference(without(factors, [](Model& m) { m.rope_factors.assign(8, 8.0f); }), with_ones) >
        1e-3);
}

TEST_CASE("A constant added to all keys of a head changes nothing", "[forward]") {
  // Without a rotation every score changes by the same amount.
  TinyModel m = make_tiny_model(small("qwen2"));
  m.model.hyper.rope_dims = 0;
  const Logits expected = forward(m.model, kPrompt);
  for (Layer& l : m.model.layers)
    for (float& b : l.k_bias) b += 0.5f;
  CHECK(difference(forward(m.model, kPrompt), expected) < kRounding);
}

TEST_CASE("No tokens have no logits", "[forward]") {
  CHECK(forward(make_tiny_model(small("llama")).model, {}).empty());
}

}  // namespace rigcast::engine::ref
