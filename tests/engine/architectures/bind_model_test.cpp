// Binding of tensors, and errors for tensors that cannot be bound.

#include "engine/architectures/bind_model.hpp"

#include <cmath>
#include <functional>
#include <memory>

#include "engine/architectures/architecture.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "tests/core/model_fixtures.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

// Tensors of a model whose data are one shared block of ones.
struct Weights {
  std::vector<Tensor> tensors;
  std::shared_ptr<std::vector<float>> data = std::make_shared<std::vector<float>>(1 << 16, 1.0f);

  explicit Weights(const ModelSpec& spec, std::string_view mix = "F32")
      : tensors(table_of(spec, mix).tensors) {}

  std::vector<NamedTensor> named() const {
    std::vector<NamedTensor> out;
    for (const Tensor& t : tensors) {
      const auto end = t.shape.begin() + t.dimensions;
      out.push_back({t.name,
                     t.format,
                     {t.shape.begin(), end},
                     reinterpret_cast<const std::byte*>(data->data())});
    }
    return out;
  }
};

Result<Model> bound(const ModelSpec& spec, const std::vector<NamedTensor>& tensors,
                    std::shared_ptr<const void> storage = nullptr) {
  return bind_model(spec, default_hyperparameters(spec), tensors, std::move(storage));
}

std::string error_when(const std::function<void(ModelSpec&, std::vector<NamedTensor>&)>& change,
                       const char* architecture = "llama") {
  ModelSpec spec = tiny(architecture);
  const Weights weights(spec);
  auto tensors = weights.named();
  change(spec, tensors);
  return error_of(bound(spec, tensors));
}

NamedTensor& named(std::vector<NamedTensor>& tensors, std::string_view name) {
  const auto at = std::ranges::find(tensors, name, &NamedTensor::name);
  REQUIRE(at != tensors.end());
  return *at;
}

}  // namespace

TEST_CASE("Every tensor of a dense model is in its place", "[model]") {
  const ModelSpec spec = tiny("qwen2");
  const Weights weights(spec);
  const auto model = bound(spec, weights.named(), weights.data);
  INFO(error_of(model));
  REQUIRE(model.ok());
  CHECK(model->embedding.columns == 32);
  CHECK(model->embedding.rows == 40);
  CHECK(model->head.rows == 40);
  CHECK(model->final_norm == std::vector<float>(32, 1.0f));
  CHECK(model->rope_factors.empty());
  REQUIRE(model->layers.size() == 2);
  const Layer& layer = model->layers[1];
  CHECK(layer.q.rows == 32);
  CHECK(layer.k.rows == 16);
  CHECK(layer.v.rows == 16);
  CHECK(layer.output.columns == 32);
  CHECK(layer.q_bias.size() == 32);
  CHECK(layer.k_bias.size() == 16);
  CHECK(layer.output_bias.empty());
  CHECK(layer.q_norm.empty());
  CHECK(layer.gate.rows == 64);
  CHECK(layer.down.columns == 64);
  CHECK_FALSE(layer.router);
  CHECK_FALSE(layer.expert_up);
  CHECK(model->storage == weights.data);
}

TEST_CASE("Experts are stacks of equal matrices", "[model]") {
  const ModelSpec spec = tiny("qwen3moe");
  const Weights weights(spec, "Q8_0");
  const auto model = bound(spec, weights.named());
  INFO(error_of(model));
  REQUIRE(model.ok());
  const Layer& layer = model->layers[0];
  CHECK(layer.router.rows == 4);
  CHECK(layer.expert_gate.count == 4);
  CHECK(layer.expert_gate.first.rows == 32);
  CHECK(layer.expert_down.first.columns == 32);
  CHECK(layer.expert_up.at(3).data - layer.expert_up.first.data == 3 * 32 * 34);
  CHECK_FALSE(layer.gate);
  CHECK(layer.q_norm.size() == 8);
}

// Rows of each expert's gate, then those of its up.
TEST_CASE("An expert's gate and up may be one matrix", "[model]") {
  const ModelSpec spec = tiny("qwen3moe");
  const Weights weights(spec, "Q8_0");
  auto tensors = weights.named();
  REQUIRE(spec.layers == 2);
  std::erase_if(tensors,
                [](const NamedTensor& t) { return t.name.ends_with("ffn_up_exps.weight"); });
  for (NamedTensor& t : tensors) {
    if (!t.name.ends_with("ffn_gate_exps.weight")) continue;
    t.name = t.name.starts_with("blk.0.") ? "blk.0.ffn_gate_up_exps.weight"
                                          : "blk.1.ffn_gate_up_exps.weight";
    t.shape[1] *= 2;
  }
  const auto model = bound(spec, tensors);
  INFO(error_of(model));
  REQUIRE(model.ok());
  const Layer& layer = model->layers[1];
  const std::int64_t one = layer.expert_gate.first.bytes();
  CHECK(layer.expert_gate.first.rows == 32);
  CHECK(layer.expert_up.at(0).data - layer.expert_gate.at(0).data == one);
  CHECK(layer.expert_gate.at(3).data - layer.expert_gate.at(0).data == 6 * one);
  CHECK(layer.expert_up.at(3).data - layer.expert_gate.at(3).data == one);
  named(tensors, "blk.0.ffn_gate_up_exps.weight").shape[1] -= 1;
  CHECK(contains(error_of(bound(spec, tensors)), "blk.0.ffn_gate_up_exps.weight"));
}

TEST_CASE("Tied embeddings are the head, rope factors are read", "[model]") {
  ModelSpec spec = tiny("llama");
  spec.tied_embeddings = spec.rope_freqs = true;
  const Weights weights(spec);
  const auto model = bound(spec, weights.named());
  REQUIRE(model.ok());
  CHECK(model->head.data == model->embedding.data);
  CHECK(model->rope_factors.size() == 4);
}

TEST_CASE("Tensors that are missing, of another shape or of a wrong format are refused",
          "[model]") {
  using Tensors = std::vector<NamedTensor>;
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) { t.pop_back(); }), "there is no \"output"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) {
                   named(t, "blk.1.attn_k.weight").shape = {32, 32};
                 }),
                 "\"blk.1.attn_k.weight\" has the shape 32 x 32, expected 32 x 16"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) {
                   named(t, "blk.0.attn_norm.weight").format = QuantFormat::kQ8_0;
                 }),
                 "\"blk.0.attn_norm.weight\" is in Q8_0, expected F32"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) {
                   named(t, "blk.0.ffn_up.weight").format = QuantFormat::kQ4_K;
                 }),
                 "no multiple of a block of Q4_K"));
  CHECK(contains(
      error_when([](ModelSpec&, Tensors& t) { named(t, "blk.0.ffn_up.weight").data = nullptr; }),
      "has no data"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) { t.push_back(t.front()); }),
                 "\"token_embd.weight\" is there twice"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) {
                   t.push_back(t.front());
                   t.back().name = "blk.0.ffn_gate.3.weight";
                 }),
                 "one matrix of one expert"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) {
                   t.push_back(t.front());
                   t.back().name = "blk.0.attn_q.scale";
                 }),
                 "\"blk.0.attn_q.scale\" has no place"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) {
                   t.push_back(t.front());
                   t.back().name = "blk.0.ffn_gate.";
                 }),
                 "has no place"));
  CHECK(contains(error_when([](ModelSpec&, Tensors& t) { t.clear(); }), "there is no"));
}

TEST_CASE("Norms, biases and rope factors are numbers to compute with", "[model]") {
  const auto error_with = [](const char* architecture, const char* name, float value) {
    ModelSpec spec = tiny(architecture);
    spec.rope_freqs = architecture == std::string_view("llama");
    const Weights weights(spec);
    auto tensors = weights.named();
    std::vector<float> odd(64, 1.0f);
    odd[3] = value;
    named(tensors, name).data = reinterpret_cast<const std::byte*>(odd.data());
    return error_of(bound(spec, tensors));
  };
  for (const float value : {0.0f, -1.0f, NAN, INFINITY, -INFINITY}) {
    const std::string said = error_with("llama", "rope_freqs.weight", value);
    INFO(said);
    CHECK(contains(said, "element 3 of \"rope_freqs.weight\" is "));
  }
  CHECK(error_with("llama", "rope_freqs.weight", 8.0f).empty());
  for (const float value : {NAN, INFINITY}) {
    for (const char* name :
         {"blk.1.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
      CHECK(contains(error_with("llama", name, value), "element 3 of \"" + std::string(name)));
    CHECK(contains(error_with("qwen2", "blk.1.attn_k.bias", value), "expected a finite number"));
  }
  CHECK(error_with("qwen2", "blk.1.attn_k.bias", -3.0f).empty());
  CHECK(error_with("llama", "output_norm.weight", 0.0f).empty());
}

TEST_CASE("A vector may be stored as a matrix of one row", "[model]") {
  CHECK(error_when([](ModelSpec&, std::vector<NamedTensor>& t) {
          named(t, "output_norm.weight").shape = {32, 1};
        }).empty());
}

TEST_CASE("Traits that are not executed are named", "[model]") {
  const auto refused = [](const std::function<void(ModelSpec&)>& change) {
    ModelSpec spec = tiny("llama");
    change(spec);
    CHECK(check_executable(spec));
    return error_of(bind_model(spec, default_hyperparameters(spec), {}, nullptr));
  };
  CHECK(contains(refused([](ModelSpec& m) { m.architecture = "gemma3n"; }), "\"gemma3n\""));
  CHECK(contains(refused([](ModelSpec& m) { m.window = SlidingWindow{.full_kv_heads = 2}; }),
                 "layers without a window"));
  CHECK(contains(refused([](ModelSpec& m) { m.mla = LatentAttention{}; }), "latent attention"));
  CHECK(contains(refused([](ModelSpec& m) { m.gated_ffn = false; }), "without a gate"));
  CHECK(contains(refused([](ModelSpec& m) { m.norms_per_layer = 4; }), "two norms"));
  CHECK(contains(refused([](ModelSpec& m) {
                   m.architecture = "gpt-oss";
                   m.layers = 1;
                 }),
                 "a dense FFN with clamped SwiGLU"));
  CHECK(contains(refused([](ModelSpec& m) { m.moe = MixtureOfExperts{.expert_bias = true}; }),
                 "biased experts"));
  CHECK(contains(refused([](ModelSpec& m) { m.heads = 0; }), "width of 0"));
  CHECK(contains(refused([](ModelSpec& m) { m.layers = -1; }), "width of 0"));
  CHECK(contains(refused([](ModelSpec& m) { m.kv_heads = 3; }), "width of 0"));
  for (const char* architecture : {"llama", "qwen2", "qwen3", "qwen3moe"})
    CHECK_FALSE(check_executable(tiny(architecture)));
}

TEST_CASE("Hyperparameters that make no sense are refused", "[model]") {
  const ModelSpec spec = tiny("llama");
  const Weights weights(spec);
  const auto with = [&](const std::function<void(Hyperparameters&)>& change) {
    Hyperparameters hyper = default_hyperparameters(spec);
    change(hyper);
    return error_of(bind_model(spec, hyper, weights.named(), nullptr));
  };
  CHECK(with([](Hyperparameters&) {}).empty());
  CHECK(contains(with([](Hyperparameters& h) { h.rope_dims = 7; }), "7 of 8 elements"));
  CHECK(contains(with([](Hyperparameters& h) { h.rope_dims = 10; }), "10 of 8"));
  CHECK(contains(with([](Hyperparameters& h) { h.rope_dims = 0; }), "0 of 8"));
  CHECK(contains(with([](Hyperparameters& h) { h.rope_base = 0; }), "make no sense"));
  CHECK(contains(with([](Hyperparameters& h) { h.norm_eps = -1e-5f; }), "make no sense"));
  CHECK(contains(with([](Hyperparameters& h) { h.rope_scale = INFINITY; }), "make no sense"));
}

TEST_CASE("Usual hyperparameters are those of the publishers", "[model]") {
  using namespace rigcast::fixtures;
  const auto base = [](const ModelSpec& m) { return default_hyperparameters(m).rope_base; };
  CHECK(base(llama_2_7b()) == 1e4f);
  CHECK(base(mistral_7b_v0_1()) == 1e4f);
  CHECK(base(mistral_7b_v0_3()) == 1e6f);
  CHECK(base(llama_3_8b()) == 5e5f);
  CHECK(base(llama_3_1_8b()) == 5e5f);
  CHECK(base(mixtral_8x7b()) == 1e6f);
  CHECK(base(qwen2_5_7b()) == 1e6f);
  CHECK(base(qwen3_30b_a3b()) == 1e6f);
  const Hyperparameters qwen = default_hyperparameters(qwen3_8b());
  CHECK(qwen.norm_eps == 1e-6f);
  CHECK(qwen.rope_dims == 128);
  CHECK(qwen.rope_pairs == RopePairs::kNeox);
  CHECK(default_hyperparameters(llama_3_8b()).norm_eps == 1e-5f);
  CHECK(default_hyperparameters(llama_3_8b()).rope_pairs == RopePairs::kInterleaved);
}

}  // namespace rigcast::engine
