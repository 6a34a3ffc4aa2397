// Models with layers or experts that the host keeps and the GPU computes, by every kind of
// placement.
#include <algorithm>

#include "core/model/traffic.hpp"
#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"
#include "engine/synth/synthetic_file.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/decode_traffic.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

enum class Of {
  kGpu,              // the GPU's own
  kStreamed,         // copied for every token and batch
  kOffloadable,      // the host's, whose batches the GPU may compute
  kExperts,          // the GPU's, but for its experts
  kStreamedExperts,  // streamed, but for its experts
};

LayerPlacement layer_of(Of of) {
  LayerPlacement l{0, 0, 0, 0, 0, 0, 0};
  if (of == Of::kOffloadable) l = {.prefill_on = 0};
  if (of == Of::kStreamed || of == Of::kStreamedExperts) l.weights = l.experts = kHost;
  if (of == Of::kExperts || of == Of::kStreamedExperts) l.experts = l.decode_experts_on = kHost;
  return l;
}

struct Case {
  const char* name;
  std::vector<Of> layers;

  ExecutorOptions options(PrefillOffloadPolicy by = PrefillOffloadPolicy::kGpu) const {
    Placement p;
    for (const Of of : layers) p.layers.push_back(layer_of(of));
    p.head = p.head_on = 0;
    ExecutorOptions options;
    options.placement = p;
    options.threads = 2;
    options.prefill_offload = by;
    return options;
  }
  int streamed() const { return int(std::ranges::count(layers, Of::kStreamed)); }
};

using enum Of;

// An odd and an even number of layers, which alternate in two slots.
const std::vector<Case> kStreamedCases = {{"the first layer streamed", {kStreamed, kGpu, kGpu}},
                                          {"the one in the middle", {kGpu, kStreamed, kGpu}},
                                          {"the last one", {kGpu, kGpu, kStreamed}},
                                          {"the outer two", {kStreamed, kGpu, kStreamed}},
                                          {"all", {kStreamed, kStreamed, kStreamed}}};
const std::vector<Case> kOffloadableCases = {
    {"the first layer offloadable", {kOffloadable, kGpu, kGpu}},
    {"the last two", {kGpu, kOffloadable, kOffloadable}},
    {"all offloadable", {kOffloadable, kOffloadable, kOffloadable}},
    {"one offloadable, one streamed", {kOffloadable, kGpu, kStreamed}}};
const std::vector<Case> kExpertCases = {
    {"experts in RAM", {kExperts, kExperts, kExperts}},
    {"experts of one layer", {kGpu, kExperts, kGpu}},
    {"streamed with experts", {kStreamed, kGpu, kStreamed}},
    {"streamed without experts", {kStreamedExperts, kGpu, kStreamedExperts}},
    {"offloadable with experts", {kOffloadable, kOffloadable, kGpu}}};

TinyTraits of_three(TinyTraits traits) {
  traits.layers = 3;
  return traits;
}

// All kinds of calls, one after the other: batches, single tokens, sampled tokens, a truncated
// context.
std::vector<std::vector<float>> logits_of_a_session(const TinyModel& tiny,
                                                    ExecutorOptions options) {
  options.ubatch = 40;
  options.kv_block = 48;
  const auto executor = on_gpu(tiny, options);
  std::vector<std::vector<float>> all;
  const auto keep = [&](std::span<const float> logits) {
    all.emplace_back(logits.begin(), logits.end());
  };
  const auto tokens = prompt_of(130, 500);
  const auto part = [&](std::size_t first, std::size_t count) {
    return std::span(tokens).subspan(first, count);
  };
  keep(executor->forward(part(0, 100), Logits::kAll));
  for (std::size_t i = 100; i < 105; ++i) keep(executor->forward(part(i, 1), Logits::kLast));
  keep(executor->forward(part(105, 25), Logits::kAll));
  Sampler greedy({}), drawing({.temperature = 1, .seed = 5});
  std::int32_t id = 7;
  for (int i = 0; i < 4; ++i) id = executor->decode(id, i < 2 ? greedy : drawing);
  keep(executor->forward({&id, 1}, Logits::kLast));
  executor->truncate(60);
  keep(executor->forward(part(60, 30), Logits::kAll));
  keep(executor->forward(part(90, 1), Logits::kLast));
  return all;
}

void check_session(const TinyTraits& traits, const std::vector<Case>& cases) {
  const TinyModel tiny = model_of(of_three(traits));
  const auto want = logits_of_a_session(tiny, {});
  for (const Case& c : cases)
    for (const bool graphs : {true, false}) {
      ExecutorOptions options = c.options();
      options.graphs = graphs;
      INFO(traits.architecture << " " << traits.mix << ", " << c.name << ", graphs " << graphs);
      CHECK(logits_of_a_session(tiny, options) == want);
    }
}

void check_against_reference(const TinyTraits& traits, const std::vector<std::string>& mixes,
                             const std::vector<Case>& cases) {
  for_each_mix(traits, mixes, [&](const KnownModel& known) {
    for (const Case& c : cases)
      for (const Way& way : kWays)
        for (const PrefillOffloadPolicy by :
             {PrefillOffloadPolicy::kHost, PrefillOffloadPolicy::kGpu,
              PrefillOffloadPolicy::kFaster}) {
          INFO(known.name() << ", " << c.name << ", " << way.name << ", " << int(by));
          check_near(known, agreement_of(known.tiny, way, known.tokens, known.want, c.options(by)));
        }
  });
}

// The last logits of prompts of several lengths, where those of other tokens are left out.
void check_last_logits(const TinyTraits& traits, const std::vector<Case>& cases) {
  for_each_mix(traits, {"F16", "Q8_0"}, [&](const KnownModel& known) {
    for (const Case& c : cases) {
      ExecutorOptions options = c.options(PrefillOffloadPolicy::kGpu);
      options.ubatch = 64;
      INFO(known.name() << ", " << c.name);
      check_near(known, last_logits_agree(known, options));
    }
  });
}

double matrix_bytes(const Layer& l) {
  double bytes = 0;
  for_each_matrix([&](LayerWeight, const Matrix& m) { bytes += double(m.bytes()); }, l);
  for_each_stack(
      [&](LayerWeight, const MatrixStack& s) { bytes += double(s.first.bytes() * s.count); }, l);
  return bytes;
}

// Rows of the model are a multiple of 256 bytes, so nothing is copied along.
double streamed_bytes(const TinyModel& tiny, const Case& c, Of of) {
  double bytes = 0;
  for (std::size_t i = 0; i < c.layers.size(); ++i)
    if (c.layers[i] == of) bytes += matrix_bytes(tiny.model.layers[i]);
  return bytes;
}

Bytes held(const Executor& executor) {
  const DeviceMemory gpu = executor.gpus().front();
  return gpu.weights + gpu.kv + gpu.activations + gpu.staging;
}

}  // namespace

// The kernels are the same, and so is all that they add up.
TEST_CASE("Streamed layers give the bits of the GPU's own", "[cuda][gpu][hybrid]") {
  for (const char* mix : {"F32", "F16", "Q8_0", "Q4_K_M"})
    check_session({.mix = mix}, kStreamedCases);
  check_session({.architecture = "qwen2", .mix = "Q4_K_M", .qkv_bias = true}, kStreamedCases);
  check_session({.architecture = "qwen3", .mix = "BF16", .qk_norm = true}, kStreamedCases);
  check_session({.mix = "Q4_K_M", .experts = 8}, {kExpertCases[2]});
}

TEST_CASE("A prompt's last logits are the reference's where layers or experts are copied",
          "[cuda][gpu][hybrid]") {
  check_last_logits({}, kStreamedCases);
  check_last_logits({}, kOffloadableCases);
  check_last_logits({.experts = 8}, kExpertCases);
}

TEST_CASE(
    "Offloaded layers and experts in RAM give the reference's logits, for batches on either device",
    "[cuda][gpu][hybrid]") {
  check_against_reference({}, {"F32", "Q8_0", "Q4_K_M"}, kOffloadableCases);
  check_against_reference({.window = 100}, {"F16"}, kOffloadableCases);
  check_against_reference({.architecture = "qwen2", .qkv_bias = true}, {"Q4_K_M"},
                          {kOffloadableCases[1]});
  check_against_reference({.experts = 8}, {"F16", "Q4_K_M"}, kExpertCases);
  check_against_reference(
      {.architecture = "qwen3moe", .qk_norm = true, .experts = 16, .experts_used = 4}, {"Q8_0"},
      kExpertCases);
}

// A batch of an offloaded layer is bit-identical to the GPU's; later batches read what it has
// stored.
TEST_CASE("A prompt through offloaded layers is bit-identical to layers on the GPU",
          "[cuda][gpu][hybrid]") {
  const auto prompt_logits = [](const TinyModel& tiny, ExecutorOptions options, QuantFormat kv) {
    options.ubatch = 40;
    options.kv_block = 48;
    options.kv_types = {kv, kv};
    const auto executor = on_gpu(tiny, options);
    std::vector<float> all;
    for (const std::size_t first : {std::size_t(0), std::size_t(100)}) {
      const auto tokens = prompt_of(200, 500);
      const auto logits = executor->forward(std::span(tokens).subspan(first, 100), Logits::kAll);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  for (const char* mix : {"F16", "Q4_K_M"})
    for (const QuantFormat kv : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
      TinyTraits traits = of_three({.mix = mix});
      const TinyModel tiny = model_of(traits);
      auto want = prompt_logits(tiny, {}, kv);
      for (const Case& c : kOffloadableCases) {
        // Embeddings of a first layer that is the host's are looked up there: the same numbers.
        INFO(mix << ", " << c.name << ", " << info(kv).name);
        CHECK(prompt_logits(tiny, c.options(), kv) == want);
      }
    }
}

// Kernels of Hopper's tiles multiply the GPU's own experts in another order than copied ones, which
// the reference judges above: there only those that are all copied are alike.
TEST_CASE("Experts that are copied for a batch give the bits of the GPU's own",
          "[cuda][sm_80][gpu][hybrid]") {
  const TinyModel tiny = model_of(of_three({.mix = "Q4_K_M", .experts = 16, .experts_used = 4}));
  for (const TokenCount ubatch : {20, 150}) {
    const auto logits = [&](ExecutorOptions options) {
      options.ubatch = ubatch;
      return together(*on_gpu(tiny, options), prompt_of(150, 500));
    };
    const bool tiles = cuda::has_tiled_gemm();
    const auto resident = logits({}), copied = logits(kExpertCases.front().options());
    const bool alike = copied == resident;
    CHECK((alike || tiles));
    for (const Case& c : kExpertCases) {
      const auto are_copied =
          std::ranges::count_if(c.layers, [](Of of) { return of != kGpu && of != kStreamed; });
      if (tiles && are_copied != 0 && are_copied != std::ssize(c.layers)) continue;
      INFO(c.name << ", " << ubatch);
      const bool same = logits(c.options()) == (are_copied > 0 ? copied : resident);
      CHECK(same);
    }
  }
}

TEST_CASE("Greedy tokens are the same wherever weights are copied from", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model(of_three({.mix = "F32"}));
  const auto want = greedy(tiny, {}, 300);
  for (const auto& cases : {kStreamedCases, kOffloadableCases})
    for (const Case& c : cases) {
      INFO(c.name);
      CHECK(greedy(tiny, c.options(), 300) == want);
      ExecutorOptions kernels = c.options();
      kernels.graphs = false;
      CHECK(greedy(tiny, kernels, 60) == std::vector(want.begin(), want.begin() + 60));
    }
}

TEST_CASE("Streamed bytes are counted once for every token and batch", "[cuda][gpu][hybrid]") {
  for (const TinyTraits& given :
       std::vector<TinyTraits>{{.mix = "Q4_K_M"}, {.mix = "F16", .experts = 8}}) {
    const TinyModel tiny = model_of(of_three(given));
    const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(given.mix));
    for (const Case& c : kStreamedCases) {
      INFO(c.name);
      const double streamed = streamed_bytes(tiny, c, kStreamed);
      const auto executor = on_gpu(tiny, c.options());
      executor->forward(prompt_of(40, 500), Logits::kLast);
      CHECK(executor->take_bytes().to_gpu == Approx(streamed).epsilon(1e-9));
      Sampler sampler({});
      for (int i = 0; i < 3; ++i) {
        executor->decode(7, sampler);
        const MovedBytes moved = executor->take_bytes();
        const OpTraffic counted = decode_traffic(tiny.model.spec, *table, {40 + i, 1, 1}, {});
        CHECK(moved.weights == Approx(counted.weight_bytes()).epsilon(1e-9));
        CHECK(moved.kv_read == Approx(counted.kv_read_bytes).epsilon(1e-9));
        CHECK(moved.kv_written == Approx(counted.kv_write_bytes).epsilon(1e-9));
        CHECK(moved.to_gpu == Approx(streamed).epsilon(1e-9));
        CHECK(moved.to_host == 0);
        CHECK(moved.on_host == 0);
      }
    }
  }
}

TEST_CASE("Keys and values of an offloaded layer are copied to the host in whole blocks",
          "[cuda][gpu][hybrid]") {
  const TinyModel tiny = model_of(of_three({.mix = "Q8_0"}));
  const Case c{"", {kGpu, kOffloadable, kGpu}};
  ExecutorOptions options = c.options();
  options.ubatch = 100;
  options.kv_block = 48;
  const auto executor = on_gpu(tiny, options);
  executor->forward(prompt_of(100, 500), Logits::kLast);
  const double token = 2 * 2 * 64 * 2;  // K and V of two heads of 64 halves
  MovedBytes moved = executor->take_bytes();
  const double weights = streamed_bytes(tiny, c, kOffloadable);
  CHECK(moved.to_gpu == Approx(weights).epsilon(1e-9));
  CHECK(moved.to_host == Approx(3 * 48 * token).epsilon(1e-9));
  executor->forward(prompt_of(20, 500), Logits::kLast);
  moved = executor->take_bytes();
  CHECK(moved.to_gpu == Approx(weights + 3 * 48 * token).epsilon(1e-9));
  CHECK(moved.to_host == Approx(48 * token).epsilon(1e-9));  // tokens 100 to 119
}

namespace {

// Layers of 29 MB: slots and SoA memory are larger than the temporary memory of an upload or a
// batch.
TinyModel model_of_large_layers() {
  return make_tiny_model(
      of_three({.mix = "F16", .hidden = 1024, .heads = 16, .kv_heads = 4, .ffn = 4096}));
}

}  // namespace

TEST_CASE(
    "A memory limit has room for the slots of streamed weights, or the error states what is "
    "missing",
    "[cuda][gpu][hybrid]") {
  const TinyModel tiny = model_of_large_layers();
  const auto model = std::make_shared<const Model>(tiny.model);
  const Case streamed{"", {kStreamed, kStreamed, kStreamed}},
      offloadable{"", {kOffloadable, kOffloadable, kGpu}};
  for (const Case& c : {streamed, offloadable}) {
    ExecutorOptions options = c.options();
    options.ubatch = 4;
    const auto executor = on_gpu(tiny, options);
    const DeviceMemory gpu = executor->gpus().front();
    options.vram_limit = held(*executor) + 2_MiB;  // blocks of the cache are still to be taken
    const auto logits = on_gpu(tiny, options)->forward(prompt_of(4, 500), Logits::kLast);
    CHECK(logits.size() == 500);
    options.vram_limit = held(*executor) - 0.5 * gpu.staging;
    const auto refused = make_cuda_executor(model, options);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::kDoesNotFit);
    CHECK(refused.error().text().find("asked for the streamed weights") != std::string::npos);
    // By default the host computes batches; tokens of streamed layers have no alternative.
    options.prefill_offload = PrefillOffloadPolicy::kFaster;
    const auto made = make_cuda_executor(model, options);
    CHECK(made.ok() == (c.streamed() == 0));
    if (made) CHECK((*made)->gpus().front().staging.value == 0);
  }
}

TEST_CASE("Offloaded layers release memory that the cache needs", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = model_of_large_layers();
  ExecutorOptions options = Case{"", {kOffloadable, kOffloadable, kGpu}}.options();
  const auto tokens = prompt_of(40, 500);
  const double without_cache = held(*on_gpu(tiny, options)).value;
  options.vram_limit = Bytes{without_cache} + 64_KiB;  // half a block of the cache
  CHECK_THROWS_AS(on_gpu(tiny, options)->forward(tokens, Logits::kLast), ShortOfMemory);
  options.prefill_offload = PrefillOffloadPolicy::kFaster;
  const auto executor = on_gpu(tiny, options);
  REQUIRE(executor->gpus().front().staging > 0_B);
  const auto logits = executor->forward(tokens, Logits::kAll);
  CHECK(executor->gpus().front().staging == 0_B);
  options.vram_limit.reset();
  options.prefill_offload = PrefillOffloadPolicy::kHost;
  CHECK(std::ranges::equal(logits, on_gpu(tiny, options)->forward(tokens, Logits::kAll)));
}

TEST_CASE("Offloaded layers stay offloaded if only the host's memory is short",
          "[cuda][gpu][hybrid]") {
  const TinyModel tiny = model_of_large_layers();
  ExecutorOptions options =
      Case{"", {kOffloadable, kOffloadable, kGpu}}.options(PrefillOffloadPolicy::kFaster);
  options.upload_threads = 1;
  const auto free = on_gpu(tiny, options);
  const Bytes staging = free->gpus().front().staging;
  REQUIRE(staging > 0_B);
  free->forward(prompt_of(40, 500), Logits::kLast);
  // Buffers of the upload, which are freed before the first token, have a little more than 40 MiB.
  options.ram_limit = free->host().needed() + 48_MiB;
  const auto executor = on_gpu(tiny, options);
  executor->forward(prompt_of(40, 500), Logits::kLast);
  CHECK_THROWS_AS(executor->fill(1 << 17), ShortOfMemory);
  CHECK(executor->gpus().front().staging >= staging);
  executor->truncate(0);
  CHECK(executor->forward(prompt_of(40, 500), Logits::kLast).size() == 500);
}

TEST_CASE("Locked memory that waits to be used again is counted", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model(of_three({.mix = "F16"}));
  const auto executor = on_gpu(tiny, Case{"", {kOffloadable, kGpu, kOffloadable}}.options());
  const auto tokens = prompt_of(300, 500);
  executor->forward(tokens, Logits::kLast);
  const Bytes taken = executor->host().kv;
  CHECK(taken > 0_B);
  executor->truncate(0);
  CHECK(executor->host().kv == taken);
  executor->forward(tokens, Logits::kLast);
  CHECK(executor->host().kv == taken);
}

TEST_CASE("A file's and random weights are streamed as those in memory", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model(of_three({.mix = "Q4_K_M"}));
  const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name("Q4_K_M"));
  const test::Folder folder;
  REQUIRE_FALSE(write_synthetic_file(tiny.model.spec, *table, "Q4_K_M", 7, folder / "x.gguf",
                                     [](std::uint64_t) { return true; }));
  const auto file = GgufFile::open(folder / "x.gguf");
  REQUIRE(file);
  const auto tokens = prompt_of(50, 500);
  auto resident = make_cuda_executor(*file, {});
  REQUIRE(resident);
  const auto want = together(**resident, tokens);
  for (const Case& c : {kStreamedCases[3], kOffloadableCases[2]}) {
    auto from_file = make_cuda_executor(*file, c.options());
    auto made = make_synthetic_cuda_executor(tiny.model.spec, *table, 7, c.options());
    REQUIRE(from_file);
    REQUIRE(made);
    CHECK(together(**from_file, tokens) == want);
    CHECK(together(**made, tokens) == want);
  }
}

namespace {

// A prompt in two batches and some tokens.
void check_watched(const std::vector<Of>& layers) {
  const TinyModel tiny = model_of(of_three({.mix = "Q4_K_M", .experts = 8}));
  for (const bool graphs : {true, false}) {
    ExecutorOptions options = Case{"", layers}.options();
    options.graphs = graphs;
    options.ubatch = 32;
    options.kv_block = 48;
    const auto executor = on_gpu(tiny, options);
    Sampler sampler({});
    std::int32_t id = sampler.next(executor->forward(prompt_of(60, 500), Logits::kLast));
    for (int i = 0; i < 3; ++i) id = executor->decode(id, sampler);
    for (const float logit : executor->forward({&id, 1}, Logits::kLast))
      REQUIRE(std::isfinite(logit));
  }
}

}  // namespace

TEST_CASE("Streamed layers give finite logits under every sanitizer",
          "[cuda][gpu][hybrid][sanitize]") {
  check_watched({kStreamed, kGpu, kStreamed});
}

// Kernels wait for the host here, which cannot answer under a tool that runs one thing at a time.
TEST_CASE("Offloaded layers and experts of the host give finite logits under every sanitizer",
          "[cuda][gpu][hybrid][sanitize][host_answers]") {
  check_watched({kOffloadable, kStreamed, kExperts});
}

TEST_CASE("Placements that no one executes are refused", "[cuda]") {
  const TinyModel tiny = make_tiny_model(of_three({.mix = "F16", .experts = 8}));
  const auto refused = [&](const LayerPlacement& l) {
    ExecutorOptions options;
    options.placement.emplace();
    options.placement->layers.assign(3, l);
    const auto made = make_cuda_executor(std::make_shared<const Model>(tiny.model), options);
    return !made && made.error().kind == ErrorKind::kBadInput;
  };
  LayerPlacement on_gpu{0, 0, 0, 0, 0, 0, 0};
  const auto with = [&](auto change) {
    LayerPlacement l = on_gpu;
    change(l);
    return l;
  };
  CHECK(refused(with([](LayerPlacement& l) { l.decode_on = kHost; })));
  CHECK(refused(with([](LayerPlacement& l) { l.kv = kHost; })));
  CHECK(refused(with([](LayerPlacement& l) { l.experts = kHost; })));
  CHECK(refused(with([](LayerPlacement& l) { l.weights = kHost; })));
  CHECK(refused(with([](LayerPlacement& l) { l.prefill_on = 1; })));
}
