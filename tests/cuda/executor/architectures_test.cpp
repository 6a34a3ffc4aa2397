// Families of architectures on the GPU against the scalar F32 reference: their norms, scales, soft
// caps, rotations and windows in single tokens, batches and steps of sequences, wherever layers,
// caches and experts are.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <future>

#include "core/scenario/engine_sizes.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "engine/placement/check_shapes.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "engine/threads/thread_team.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/batches.hpp"
#include "tests/cuda/executor/families.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/folder.hpp"

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

// The host computes no experts beside a dense FFN of the GPU's.
bool may_share_experts(const TinyTraits& t) { return t.experts > 0 && t.architecture != "gemma4"; }

// Where parts of one sequence's model are, beside all on the GPU.
std::vector<NamedPlacement> shared_placements(const TinyTraits& t) {
  const Placement all = split(t, t.layers + 1);
  std::vector<NamedPlacement> cases{{"caches on the host", with_host_cache(all)},
                                    {"streamed layers", with_streamed(all, {0, t.layers - 1})},
                                    {"tokens on the host", with_host_decode(all)}};
  if (t.layer_embedding == 0)
    cases.push_back({"half of the layers on the host", split(t, t.layers / 2)});
  if (may_share_experts(t))
    cases.push_back({"experts on the host", with_host_experts(all, t.layers)});
  return cases;
}

// The same for steps of several sequences.
std::vector<ExecutorOptions> ways_of_steps(const TinyTraits& t) {
  const Placement all = split(t, t.layers + 1);
  std::vector<ExecutorOptions> ways{shared_by(all), shared_by(with_host_cache(all)),
                                    shared_by(with_streamed(all, {0}))};
  if (t.layer_embedding == 0) ways.push_back(shared_by(split(t, t.layers / 2)));
  if (may_share_experts(t)) ways.push_back(shared_by(with_host_experts(all, t.layers)));
  return ways;
}

// Those whose attention differs most from Llama's.
std::vector<Family> with_own_attention(const std::string& mix) {
  std::vector<Family> some;
  for (const Family& f : families(mix))
    for (const char* name :
         {"gemma2", "gemma3", "olmo2", "mistral3", "exaone4", "gpt-oss", "hunyuan-moe", "qwen35"})
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

TEST_CASE("Prompts of these families have the reference's last logits, without those before",
          "[cuda][gpu][hybrid][architectures]") {
  for (const KnownModel& known : known_of(families(std::vector<std::string>{"Q8_0", "F16"}), 90)) {
    std::vector<NamedPlacement> cases = shared_placements(known.traits);
    cases.push_back({"all on the GPU", split(known.traits, known.traits.layers + 1)});
    for (const NamedPlacement& c : cases) {
      INFO(known.name() << ", " << c.name);
      ExecutorOptions options = shared_by(c.placement);
      options.ubatch = 48;
      check_near(known, last_logits_agree(known, options));
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
  std::vector<Family> some = with_own_attention("F16");
  for (const Family& f : families("F16"))
    if (f.traits.architecture == "gemma4") some.push_back(f);
  for (const KnownModel& known : known_of(some, 90)) {
    ExecutorOptions options;
    options.kv_types = {QuantFormat::kQ8_0, QuantFormat::kQ8_0};
    for (const Way& way : kWays) {
      INFO(known.name() << ", " << way.name);
      CHECK(agreement_of(known.tiny, way, known.tokens, known.want, options).mean_kl <= 1e-3);
    }
  }
}

TEST_CASE("Caches of layers with different heads do not leave the GPU",
          "[cuda][gpu][hybrid][architectures]") {
  for (const Family& family : families("F16")) {
    if (family.traits.architecture != "gemma4") continue;
    const auto model = std::make_shared<const Model>(model_of(family).model);
    const auto one = make_cuda_executor(model, keeping(20));
    REQUIRE_FALSE(one);
    CHECK(one.error().message.find("its layers have different heads") != std::string::npos);
    BatchOptions pool;
    pool.blocks = 64;
    ExecutorOptions options = keeping(20);
    options.host_share = 0;
    const auto many = make_cuda_batch_executor(model, options, pool);
    REQUIRE_FALSE(many);
    CHECK(many.error().message.find("its layers have different heads") != std::string::npos);
  }
}

TEST_CASE("Layers whose inputs or caches are the GPU's are not the host's",
          "[cuda][gpu][hybrid][architectures]") {
  for (const Family& family : families("F16")) {
    const TinyTraits& t = family.traits;
    if (t.shared_kv_layers == 0) continue;
    const auto model = std::make_shared<const Model>(model_of(family).model);
    Placement last =
        split(t, t.layers + 1);  // but the last layer, which attends to the third's cache
    last.layers.back() = {};
    const auto made = make_cuda_executor(model, shared_by(last));
    REQUIRE_FALSE(made);
    const char* why = t.layer_embedding > 0 ? "cannot be the host's" : "which the GPU has";
    CHECK(made.error().message.find(why) != std::string::npos);
  }
}

namespace {

std::vector<Family> with_latent_attention(const std::string& mix) {
  std::vector<Family> some;
  for (const Family& f : families(mix))
    if (f.traits.latent) some.push_back(f);
  return some;
}

}  // namespace

TEST_CASE("Quantized latent caches stay close", "[cuda][gpu][executor][architectures]") {
  for (const KnownModel& known : known_of(with_latent_attention("F16"), 90))
    for (const QuantFormat type : {QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
      ExecutorOptions options;
      options.kv_types = {type, type};
      for (const Way& way : kWays) {
        INFO(known.name() << ", " << way.name << ", " << info(type).name);
        // A step of Q4_0 is 16 times as long as one of Q8_0, and divergence grows with its square.
        CHECK(agreement_of(known.tiny, way, known.tokens, known.want, options).mean_kl <=
              1e-3 * (type == QuantFormat::kQ8_0 ? 1 : 16 * 16));
      }
    }
}

TEST_CASE("Latent caches do not leave the GPU by parts", "[cuda][gpu][executor][architectures]") {
  const auto model =
      std::make_shared<const Model>(model_of(with_latent_attention("F16").front()).model);
  const auto made = make_cuda_executor(model, keeping(20));
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().text().find("does not leave a GPU by parts") != std::string::npos);
}

TEST_CASE("Latent contexts of many tiles and splits have the logits of short ones",
          "[cuda][gpu][executor][architectures]") {
  // A context that is filled, cut and computed again: as bits of batches, and of tokens.
  for (const Family& family : with_latent_attention("Q8_0")) {
    INFO(family.name());
    TinyTraits longer = family.traits;
    longer.context = 4096;
    const TinyModel tiny = model_of(Family{longer, family.set, family.set_vectors});
    const auto executor = on_gpu(tiny, keeping(-1)), again = on_gpu(tiny, keeping(-1));
    executor->fill(1500);
    again->fill(1500);
    const auto tokens = prompt_of(40, 500);
    const auto want = together(*executor, tokens);
    executor->truncate(1500);
    CHECK(together(*executor, tokens) == want);
    std::vector<std::vector<float>> rows;
    const auto width = std::size_t(longer.vocabulary);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      rows.emplace_back(want.begin() + std::ptrdiff_t(i * width),
                        want.begin() + std::ptrdiff_t((i + 1) * width));
    CHECK(compare(one_by_one(*again, tokens), rows).mean_kl <= 5e-3);
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
  FamilyFile described{"phi3", family_traits("phi3")};
  described.traits.context = 8192;
  described.traits.rope_factors = described.traits.head_dim / 2;
  described.vectors = {{"rope_factors_long.weight",
                        std::vector<float>(std::size_t(described.traits.rope_factors), 4.0f)}};
  const test::Folder folder;
  std::ofstream(folder / "x.gguf", std::ios::binary) << bytes_of(described);
  const auto file = GgufFile::open(folder / "x.gguf");
  REQUIRE(file);
  const auto tokens = prompt_of(50, described.traits.vocabulary);
  std::vector<std::vector<float>> logits;
  for (const TokenCount context : {512, 8192}) {
    auto model = load_model(*file);
    REQUIRE(model);
    choose_rope_factors(*model, context);
    const auto chosen =
        make_cuda_executor(std::make_shared<const Model>(*std::move(model)), ExecutorOptions{});
    const auto from_file = make_cuda_executor(*file, {.context = context});
    REQUIRE(chosen);
    REQUIRE(from_file);
    logits.push_back(together(**from_file, tokens));
    CHECK(together(**chosen, tokens) == logits.back());
  }
  CHECK((logits[0] != logits[1]));
}

namespace {

// Whose windows prompts, single tokens and blocks cross.
std::vector<Family> with_windows(const std::string& mix) {
  std::vector<Family> some;
  for (const Family& f : families(mix))
    if (f.traits.window > 0) some.push_back(f);
  some.push_back({{.architecture = "llama", .mix = mix, .layers = 3, .window = 40}});
  return some;
}

ExecutorOptions with_rings(const Placement& placement, bool rings) {
  ExecutorOptions options = keeping(-1);
  options.placement = placement;
  options.threads = 2;
  options.window_rings = rings;
  return options;
}

// As logits_of(), behind a context that is longer than any ring.
std::vector<float> logits_at_depth(const TinyModel& tiny, const ExecutorOptions& options) {
  const auto executor = on_gpu(tiny, options);
  auto all = together(*executor, prompt_of(300, 500));
  const auto more = one_by_one(*executor, prompt_of(40, 400));
  all.insert(all.end(), more.begin(), more.end());
  const auto last = together(*executor, prompt_of(60, 450));
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

}  // namespace

TEST_CASE("Rings of layers with a window change no bit, wherever caches are",
          "[cuda][gpu][hybrid][architectures]") {
  for (const char* mix : {"F16", "Q4_K_M"})
    for (const Family& family : with_windows(mix)) {
      const TinyTraits& t = family.traits;
      const TinyModel tiny = model_of(family);
      const Placement all = split(t, t.layers + 1);
      for (const Placement& placement :
           {all, with_host_cache(all), split(t, t.layers / 2), with_streamed(all, {0})}) {
        if (t.layer_embedding > 0 && placement.gpu_layers < t.layers) continue;
        INFO(family.name() << ", " << placement.gpu_layers << " layers on the GPU");
        CHECK(logits_at_depth(tiny, with_rings(placement, true)) ==
              logits_at_depth(tiny, with_rings(placement, false)));
      }
    }
}

TEST_CASE("Rings of layers with a window take less of the GPU's memory",
          "[cuda][gpu][executor][architectures]") {
  const TinyTraits t{.architecture = "gemma2", .layers = 4, .window = 40, .window_full_every = 2};
  const TinyModel tiny = make_tiny_model(t);
  const Placement all = split(t, t.layers + 1);
  const auto ring = on_gpu(tiny, with_rings(all, true)),
             whole = on_gpu(tiny, with_rings(all, false));
  ring->fill(330);
  whole->fill(330);
  // 21 blocks of 16 tokens, of which a ring has the seven of 39 tokens and 48; and one list more.
  const double layer_block = 16.0 * 2 * 2 * double(t.kv_heads * t.head_dim);
  CHECK(whole->gpus().front().kv.value - ring->gpus().front().kv.value ==
        2 * (21 - 7) * layer_block - double(kMaxKvBlocks) * sizeof(void*));
}

TEST_CASE("A context on a GPU that is cut where its window is gone is computed again",
          "[cuda][gpu][executor][architectures]") {
  const Family family{
      {.architecture = "gemma2", .mix = "Q8_0", .layers = 4, .window = 40, .window_full_every = 2}};
  const TinyModel tiny = model_of(family);
  const auto executor = on_gpu(tiny, keeping(-1));
  const auto tokens = prompt_of(300, 500);
  const auto want = together(*executor, tokens);
  executor->truncate(290);
  CHECK(executor->cached() == 290);
  executor->truncate(100);
  CHECK(executor->cached() == 0);
  CHECK(together(*executor, tokens) == want);
}
