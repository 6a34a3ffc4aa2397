// Families of architectures on the GPU against the scalar F32 reference: their norms, scales, soft
// caps, rotations and windows in single tokens, batches and steps of sequences, wherever layers,
// caches and experts are.
#include <algorithm>
#include <cmath>
#include <future>

#include "engine/placement/check_shapes.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "engine/threads/thread_team.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/batches.hpp"
#include "tests/cuda/executor/families.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr TokenCount kBlock = 16;

KnownModel known_of(const Family& family, std::size_t tokens) {
  KnownModel known{
      family.traits, model_of(family), prompt_of(tokens, family.traits.vocabulary), {}};
  known.want = reference_logits(known.tiny, known.tokens);
  return known;
}

// References take most of the time: each has a thread.
std::vector<KnownModel> known_of(const std::vector<Family>& families, std::size_t tokens) {
  std::vector<std::future<KnownModel>> computed;
  for (const Family& family : families)
    computed.push_back(
        std::async(std::launch::async, [&family, tokens] { return known_of(family, tokens); }));
  std::vector<KnownModel> all;
  for (auto& one : computed) all.push_back(one.get());
  return all;
}

// Where parts of one sequence's model are, beside all on the GPU.
std::vector<NamedPlacement> shared_placements(const TinyTraits& t) {
  const Placement all = split(t, t.layers + 1);
  std::vector<NamedPlacement> cases{{"half of the layers on the host", split(t, t.layers / 2)},
                                    {"caches on the host", with_host_cache(all)},
                                    {"streamed layers", with_streamed(all, {0, t.layers - 1})},
                                    {"tokens on the host", with_host_decode(all)}};
  if (t.experts > 0) cases.push_back({"experts on the host", with_host_experts(all, t.layers)});
  return cases;
}

// The same for steps of several sequences.
std::vector<ExecutorOptions> ways_of_steps(const TinyTraits& t) {
  const Placement all = split(t, t.layers + 1);
  std::vector<ExecutorOptions> ways{shared_by(all), shared_by(with_host_cache(all)),
                                    shared_by(split(t, t.layers / 2)),
                                    shared_by(with_streamed(all, {0}))};
  if (t.experts > 0) ways.push_back(shared_by(with_host_experts(all, t.layers)));
  return ways;
}

// Those whose attention differs most from Llama's.
std::vector<Family> with_own_attention(const std::string& mix) {
  std::vector<Family> some;
  for (const Family& f : families(mix))
    for (const char* name : {"gemma2", "gemma3", "olmo2", "mistral3", "exaone4", "gpt-oss"})
      if (f.traits.architecture == name) some.push_back(f);
  return some;
}

ExecutorOptions keeping(TokenCount hot_tokens) {
  ExecutorOptions options;
  options.kv_block = kBlock;
  options.ubatch = 48;
  if (hot_tokens >= 0) options.kv_eviction = KvEviction{.hot_tokens = hot_tokens};
  return options;
}

// A prompt in batches, then single tokens.
std::vector<float> logits_of(const TinyModel& tiny, const ExecutorOptions& options) {
  const auto executor = on_gpu(tiny, options);
  auto all = together(*executor, prompt_of(100, 500));
  const auto more = one_by_one(*executor, prompt_of(20, 400));
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("Families of architectures are not refused", "[cuda][architectures]") {
  for (const char* mix : {"F16", "Q4_K_M"})
    for (const Family& family : families(mix)) {
      INFO(family.name());
      CHECK_FALSE(check_shapes_on_gpu(model_of(family).model));
    }
}

TEST_CASE("Families of architectures on a GPU give the reference's logits",
          "[cuda][gpu][executor][architectures]") {
  for (const char* mix : {"F16", "Q4_K_M"})
    for (const KnownModel& known : known_of(families(mix), 90)) {
      for (const Way& way : kWays) {
        INFO(known.name() << " " << way.name);
        check_near(known, agreement_of(known.tiny, way, known.tokens, known.want));
      }
    }
}

TEST_CASE("Families of architectures decode in steps of several sequences",
          "[cuda][gpu][batch][architectures]") {
  for (const Family& family : families(std::vector<std::string>{"Q4_K_M", "F16", "Q8_0"}))
    check_batch_against_reference(family.traits, model_of(family), ways_of_steps(family.traits));
}

TEST_CASE("Families of architectures have the reference's logits wherever layers are",
          "[cuda][gpu][hybrid][architectures]") {
  for (const KnownModel& known : known_of(families(std::vector<std::string>{"Q8_0", "F32"}), 90)) {
    for (const NamedPlacement& c : shared_placements(known.traits))
      for (const Way& way : {kWays[0], kWays[1]}) {
        INFO(known.name() << ", " << c.name << ", " << way.name);
        check_near(known,
                   agreement_of(known.tiny, way, known.tokens, known.want, shared_by(c.placement)));
      }
  }
}

TEST_CASE("Caches of these families leave the GPU and come back without a change",
          "[cuda][gpu][hybrid][architectures]") {
  for (const Family& family : with_own_attention("Q4_K_M")) {
    INFO(family.name());
    const TinyModel tiny = model_of(family);
    CHECK(logits_of(tiny, keeping(20)) == logits_of(tiny, keeping(-1)));
    ExecutorOptions stays = keeping(-1), leaves = keeping(20);
    stays.kv_types = leaves.kv_types = {QuantFormat::kQ8_0, QuantFormat::kQ4_0};
    CHECK(logits_of(tiny, leaves) == logits_of(tiny, stays));
  }
}

TEST_CASE("Quantized caches of these families stay close", "[cuda][gpu][executor][architectures]") {
  for (const KnownModel& known : known_of(with_own_attention("F16"), 90)) {
    ExecutorOptions options;
    options.kv_types = {QuantFormat::kQ8_0, QuantFormat::kQ8_0};
    for (const Way& way : kWays) {
      INFO(known.name() << ", " << way.name);
      CHECK(agreement_of(known.tiny, way, known.tokens, known.want, options).mean_kl <= 1e-3);
    }
  }
}

TEST_CASE("The host attends to a share of these families' cold blocks",
          "[cuda][gpu][hybrid][architectures]") {
  for (const KnownModel& known : known_of(with_own_attention("F16"), 90)) {
    INFO(known.name());
    ExecutorOptions options = keeping(32);
    options.host_share = 0.6;
    options.threads = 2;
    check_near(known, compare(one_by_one(*on_gpu(known.tiny, options), known.tokens), known.want));
  }
}

TEST_CASE("Tokens of these families are the same as graphs and as kernels, from host or GPU",
          "[cuda][gpu][executor][architectures]") {
  for (const Family& family : families("Q4_K_M")) {
    INFO(family.name());
    const TinyModel tiny = model_of(family);
    const auto want = greedy(tiny, {}, 30);
    CHECK(greedy(tiny, {.graphs = false}, 30) == want);
    const auto executor = on_gpu(tiny);
    Sampler sampler({});
    std::vector<std::int32_t> ids{
        sampler.next(executor->forward(prompt_of(40, 500), Logits::kLast))};
    while (ids.size() < want.size())
      ids.push_back(sampler.next(executor->forward({&ids.back(), 1}, Logits::kLast)));
    CHECK(ids == want);
  }
}

TEST_CASE("Matrices in one tensor are made on the GPU as on the host",
          "[cuda][gpu][executor][architectures]") {
  for (const char* architecture : {"phi3", "glm4"}) {
    const TinyModel tiny =
        make_tiny_model({.architecture = architecture, .mix = "Q4_K_M", .layers = 3});
    const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name("Q4_K_M"));
    REQUIRE(table);
    ThreadTeam team(2);
    auto host = make_synthetic_model(tiny.model.spec, *table, 7, team);
    REQUIRE(host);
    const auto a =
        make_cuda_executor(std::make_shared<const Model>(*std::move(host)), ExecutorOptions{});
    const auto b = make_synthetic_cuda_executor(tiny.model.spec, *table, 7, {});
    REQUIRE(a);
    REQUIRE(b);
    const auto tokens = prompt_of(50, 500);
    CHECK(together(**a, tokens) == together(**b, tokens));
  }
}

TEST_CASE("The length of sequences chooses between longrope's factors, as on the CPU",
          "[cuda][gpu][executor][architectures]") {
  const TinyModel tiny =
      make_tiny_model({.architecture = "phi3", .mix = "F16", .layers = 3, .rope_factors = 24});
  const ModelSpec& spec = tiny.model.spec;
  const auto table = make_tensor_table(spec, *QuantMix::from_name("F16"));
  REQUIRE(table);
  ThreadTeam team(2);
  const auto host = make_synthetic_model(spec, *table, 7, team);
  REQUIRE(host);
  const auto tokens = prompt_of(50, 500);
  std::vector<std::vector<float>> logits;
  for (const TokenCount context : {512, 8192}) {
    Model chosen = *host;
    choose_rope_factors(chosen, context);
    const auto a = make_cuda_executor(std::make_shared<const Model>(chosen), ExecutorOptions{});
    const auto b = make_synthetic_cuda_executor(spec, *table, 7, {.context = context});
    REQUIRE(a);
    REQUIRE(b);
    logits.push_back(together(**b, tokens));
    CHECK(together(**a, tokens) == logits.back());
  }
  CHECK(logits[0] != logits[1]);
}
