#include "engine/placement/check_shapes.hpp"

#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::string refusal(const TinyTraits& traits) {
  const TinyModel tiny = make_tiny_model(traits);
  const auto error = check_shapes_on_gpu(tiny.model);
  return error ? error->text() : "";
}

}  // namespace

TEST_CASE("Shapes that a GPU computes are not refused") {
  TinyTraits t;
  t.layers = 1;
  CHECK(refusal(t) == "");
  for (const std::int64_t dim : {8, 40, 64, 72, 80, 96, 128, 256, 512}) {
    t.head_dim = dim;
    CHECK(refusal(t) == "");
  }
  t.experts = 8;
  t.architecture = "qwen3moe";
  CHECK(refusal(t) == "");
}

TEST_CASE("Sinks and biased experts are executed on a GPU") {
  TinyTraits t;
  t.layers = 1;
  t.experts = 4;
  t.architecture = "gpt-oss";
  CHECK(refusal(t) == "");
}

TEST_CASE("Norms that subtract a mean, FFNs without a gate and biases are executed on a GPU") {
  TinyTraits t;
  t.layers = 1;
  for (const char* architecture : {"command-r", "cohere2", "falcon", "phi2", "apertus"}) {
    t.architecture = architecture;
    CHECK(refusal(t) == "");
  }
}

TEST_CASE("Shared experts, routers of sigmoids and norms of rotated heads are executed on a GPU") {
  TinyTraits t;
  t.layers = 1;
  t.experts = 4;
  t.shared_ffn = 512;
  for (const char* architecture : {"qwen2moe", "minimax-m2", "hunyuan-moe"}) {
    t.architecture = architecture;
    t.shared_ffn = t.architecture == "minimax-m2" ? 0 : 512;
    CHECK(refusal(t) == "");
  }
}

TEST_CASE("Groups of experts have a limit on a GPU") {
  TinyModel tiny = make_tiny_model(
      {.architecture = "dots1", .kv_heads = 4, .layers = 1, .experts = 80, .shared_ffn = 512});
  tiny.model.hyper.routing.groups = 40;
  tiny.model.hyper.routing.groups_used = 4;
  CHECK(says(check_shapes_on_gpu(tiny.model)->message, "with 40 groups of experts"));
  tiny.model.hyper.routing.groups = 20;
  CHECK_FALSE(check_shapes_on_gpu(tiny.model));
}

TEST_CASE("Latent attention is executed on a GPU, by pieces of its rows") {
  TinyTraits t;
  t.layers = 1;
  t.architecture = "deepseek2";
  t.latent = true;
  CHECK(refusal(t) == "");
  TinyModel tiny = make_tiny_model(t);
  const auto says_of = [&](std::int64_t LatentShape::*width, std::int64_t value) {
    TinyModel other = tiny;
    other.model.layers[0].latent.*width = value;
    const auto error = check_shapes_on_gpu(other.model);
    return error && says(error->message, "with latent rows of");
  };
  CHECK(says_of(&LatentShape::rank, 576));
  CHECK(says_of(&LatentShape::rank, 96));
  CHECK(says_of(&LatentShape::plain, 48));
  CHECK(says_of(&LatentShape::value, 40));
  CHECK(says_of(&LatentShape::turned, 64));  // which the model's RoPE does not turn
}

TEST_CASE("Traits that CPUs alone compute are refused by name on a GPU") {
  const auto refused = [](const char* architecture, const auto& change) {
    TinyTraits t;
    t.architecture = architecture;
    change(t);
    return refusal(t);
  };
  const auto nothing = [](TinyTraits&) {};
  CHECK(refused("gemma4", nothing) == "");
  CHECK(refused("llama4", [](TinyTraits& t) { t.window = 64, t.window_full_every = 4; }) == "");
  CHECK(refused("gemma4", [](TinyTraits& t) {
          t.layers = 4;
          t.layer_embedding = 32;
          t.shared_kv_layers = 2;
        }) == "");
  CHECK(refused("gemma4", [](TinyTraits& t) { t.experts = 4, t.shared_ffn = 512; }) == "");
  CHECK(says(refused("phimoe", [](TinyTraits& t) { t.experts = 4; }), "with biases of norms"));
  TinyModel scaled = make_tiny_model({.architecture = "falcon", .layers = 1});
  scaled.model.hyper.residual_scale = 0.5f;
  const auto error = check_shapes_on_gpu(scaled.model);
  REQUIRE(error);
  CHECK(says(error->message, "an FFN beside it is not executed on a GPU"));
}

TEST_CASE("Recurrent layers are executed on a GPU, but for widths of Mamba 2 that it has not") {
  for (const char* architecture : {"qwen35", "lfm2", "granitehybrid", "falcon-h1", "nemotron_h"}) {
    TinyTraits t;
    t.layers = 4;
    t.architecture = architecture;
    CHECK(refusal(t).empty());
    CHECK_FALSE(check_shapes_on_gpu(make_tiny_model(t).model));
  }
  const auto refused = [](MixerWidths widths) {
    TinyModel tiny = make_tiny_model({.architecture = "granitehybrid", .layers = 2});
    tiny.model.layers[0].mixer = widths;
    const auto error = check_shapes_on_gpu(tiny.model);
    return error ? error->text() : std::string();
  };
  const MixerWidths own{4, 8 * 32, 128, 8, 2};
  CHECK(refused(own).empty());
  for (const MixerWidths& other :
       {MixerWidths{4, 2 * 256, 128, 2, 2}, MixerWidths{4, 8 * 30, 128, 8, 2},
        MixerWidths{4, 8 * 32, 128, 8, 3}, MixerWidths{4, 8 * 32, 256, 8, 2}}) {
    CHECK(says(refused(other), "of Mamba 2"));
    CHECK(says(refused(other), "--device cpu"));
  }
}

TEST_CASE("Heads that a GPU does not compute are refused with their width") {
  TinyTraits t;
  t.layers = 1;
  for (const auto& [dim, text] : {std::pair{34, "heads of 34"}, std::pair{520, "heads of 520"}}) {
    t.head_dim = dim;
    CHECK(says(refusal(t), text));
    CHECK(says(refusal(t), "up to 512"));
    CHECK(says(refusal(t), "--device cpu"));
  }
}

TEST_CASE("Rows that a GPU does not compute are refused with tensor and shape") {
  TinyTraits t;
  t.layers = 1;
  t.hidden = 48;
  CHECK(says(refusal(t), "\"blk.0.attn_q.weight\" of 48 x 256"));
  t.hidden = 256;
  t.ffn = 144;
  CHECK(says(refusal(t), "\"blk.0.ffn_down.weight\" of 144 x 256"));
}

TEST_CASE("Routers that a GPU does not compute are refused") {
  TinyTraits t;
  t.layers = 1;
  t.architecture = "qwen3moe";
  t.experts = 40;
  t.experts_used = 33;
  CHECK(says(refusal(t), "40 experts of which 33 are used"));
  t.experts_used = 2;
  TinyModel tiny = make_tiny_model(t);
  tiny.model.layers[0].router.format = QuantFormat::kQ8_0;
  const auto error = check_shapes_on_gpu(tiny.model);
  REQUIRE(error);
  CHECK(says(error->text(), "\"blk.0.ffn_gate_inp.weight\" in Q8_0"));
}
