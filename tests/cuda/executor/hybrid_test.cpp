// Models that are split between GPU and host, by every kind of placement.
#include <algorithm>

#include "core/model/traffic.hpp"
#include "engine/model/model_bytes.hpp"
#include "engine/placement/host_placement.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/decode_traffic.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

using Case = NamedPlacement;

std::vector<Case> cases_of(const TinyTraits& t) { return kinds_of_placement(t); }

ExecutorOptions options_of(const Case& c) { return shared_by(c.placement); }

void check(const TinyTraits& traits, const std::vector<std::string>& mixes) {
  for_each_mix(traits, mixes, [](const KnownModel& known) {
    for (const Case& c : cases_of(known.traits))
      for (const Way& way : kWays) {
        INFO(known.name() << ", " << c.name << ", " << way.name);
        check_near(known, agreement_of(known.tiny, way, known.tokens, known.want, options_of(c)));
      }
  });
}

}  // namespace

TEST_CASE("A model split between GPU and host gives the reference's logits for every placement",
          "[cuda][gpu][hybrid]") {
  check({}, {"F32", "F16", "Q8_0", "Q4_K_M"});
  check({.architecture = "qwen3", .qk_norm = true}, {"F16"});
  check({.architecture = "qwen2", .qkv_bias = true}, {"Q4_K_M"});
  check({.tied = true, .rope_freqs = true}, {"F16"});
  check({.window = 100}, {"F16"});
}

TEST_CASE("Experts on the host give the reference's logits", "[cuda][gpu][hybrid]") {
  check({.experts = 8}, {"F16", "Q4_K_M"});
  check({.architecture = "qwen3moe", .qk_norm = true, .experts = 16, .experts_used = 4}, {"Q8_0"});
}

TEST_CASE("Greedy tokens are the same wherever layers are", "[cuda][gpu][hybrid]") {
  TinyTraits traits{.mix = "F32", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto want = greedy(tiny, {}, 300);
  for (const Case& c : cases_of(traits)) {
    INFO(c.name);
    CHECK(greedy(tiny, options_of(c), 300) == want);
    ExecutorOptions kernels = options_of(c);
    kernels.graphs = false;
    CHECK(greedy(tiny, kernels, 60) == std::vector(want.begin(), want.begin() + 60));
  }
}

TEST_CASE("Bytes that GPU and host move add up to those of the model", "[cuda][gpu][hybrid]") {
  for (TinyTraits traits :
       std::vector<TinyTraits>{{.mix = "Q4_K_M"}, {.mix = "F16", .experts = 8}}) {
    traits.layers = 3;
    const TinyModel tiny = model_of(traits);
    for (const Case& c : cases_of(traits)) {
      INFO(c.name);
      const auto executor = on_gpu(tiny, options_of(c));
      executor->forward(prompt_of(40, 500), Logits::kLast);
      executor->take_bytes();
      Sampler sampler({});
      executor->decode(7, sampler);
      const MovedBytes moved = executor->take_bytes();
      const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(traits.mix));
      const OpTraffic counted = decode_traffic(tiny.model.spec, *table, {40, 1, 1}, {});
      CHECK(moved.weights == Approx(counted.weight_bytes()).epsilon(1e-9));
      CHECK(moved.kv_read == Approx(counted.kv_read_bytes).epsilon(1e-9));
      CHECK(moved.kv_written == Approx(counted.kv_write_bytes).epsilon(1e-9));
    }
  }
}

TEST_CASE("A shared model decodes the same token again after its context was cut",
          "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "Q8_0", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto executor = on_gpu(tiny, options_of({"", split(traits, 2)}));
  Sampler sampler({});
  const auto first = sampler.next(executor->forward(prompt_of(40, 500), Logits::kLast));
  const auto want = executor->decode(first, sampler);
  executor->truncate(40);
  CHECK(executor->decode(first, sampler) == want);
}

TEST_CASE("The host's parts of a model follow its placement", "[cuda]") {
  const TinyTraits traits{.layers = 4, .experts = 8};
  const ModelSpec spec = model_of(traits).model.spec;
  using enum HostOp::Kind;
  CHECK(HostPlacement().calls().empty());
  CHECK(!HostPlacement(spec, split(traits, 5)).any());
  CHECK(HostPlacement(spec, split(traits, 3)).calls() ==
        std::vector<HostOp>{{kLayers, 0, 1}, {kHead, 4, 4}});
  Placement p = with_host_experts(split(traits, 5), 2);
  p.layers[0].kv = p.layers[0].decode_cache_on = kHost;
  p.layers[2] = p.layers[3] = {};
  const HostPlacement parts(spec, p);
  CHECK(parts.calls() ==
        std::vector<HostOp>{{kCache, 0, 1}, {kExperts, 0, 1}, {kExperts, 1, 2}, {kLayers, 2, 4}});
  CHECK(parts.cached_layers() == std::vector{0, 2, 3});
  CHECK(parts.layers_cached_on_gpu() == std::vector{1});
}

TEST_CASE("Where the host decodes, the GPU has parts in prompts alone", "[cuda]") {
  const TinyTraits traits{.layers = 4, .experts = 8};
  const TinyModel tiny = model_of(traits);
  const ModelSpec& spec = tiny.model.spec;
  using enum HostOp::Kind;
  const HostPlacement all(spec, with_host_decode(split(traits, 5)));
  CHECK(all.decodes());
  CHECK(all.embedding());
  CHECK(all.head());
  CHECK(all.calls() == std::vector<HostOp>{{kHead, 4, 4}});
  CHECK(all.cached_layers() == std::vector{0, 1, 2, 3});
  CHECK(all.layers_cached_on_gpu() == std::vector{0, 1, 2, 3});
  CHECK(all.weight_bytes(tiny.model) == model_bytes(tiny.model));
  const HostPlacement half(spec, with_host_decode(with_host_experts(split(traits, 2), 4)));
  CHECK(half.decodes());
  CHECK(half.end_of_layers(0) == 2);
  CHECK(half.experts(3));
  CHECK(half.cached_layers() == std::vector{0, 1, 2, 3});
  CHECK(half.layers_cached_on_gpu() == std::vector{2, 3});
  CHECK(!HostPlacement(spec, split(traits, 2)).decodes());
  const HostPlacement none(spec, split(traits, 0));
  CHECK(none.decodes());
  CHECK(none.layers_cached_on_gpu().empty());
}

TEST_CASE("Weights in the host's memory are those of its parts", "[cuda]") {
  for (const bool tied : {false, true}) {
    const TinyTraits traits{.layers = 3, .tied = tied, .experts = 8};
    const TinyModel tiny = model_of(traits);
    const Model& m = tiny.model;
    const auto bytes = [&](const Placement& p) { return HostPlacement(m.spec, p).weight_bytes(m); };
    const std::int64_t embedding = m.embedding.bytes();
    CHECK(bytes(split(traits, 4)) == (tied ? 0 : embedding));
    CHECK(HostPlacement().weight_bytes(m) == (tied ? 0 : embedding));
    CHECK(bytes(with_host_experts(split(traits, 4), 1)) ==
          (tied ? 0 : embedding) + expert_bytes(m.layers[0]));
    // The host computes the head with a tied matrix, and the GPU reads rows from a copy.
    CHECK(bytes(split(traits, 3)) == embedding + m.head.bytes());
    CHECK(bytes(split(traits, 1)) == embedding + (tied ? 0 : m.head.bytes()) +
                                         layer_bytes(m.layers[0]) + layer_bytes(m.layers[1]));
  }
}
