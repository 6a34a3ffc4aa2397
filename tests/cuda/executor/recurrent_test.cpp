// States of recurrent layers on a GPU: cut and computed anew, filled, of many sequences, and beside
// layers on the host, whose states are there.
#include <algorithm>
#include <cmath>

#include "engine/placement/prefill_offload.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/batches.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

std::vector<TinyTraits> recurrent() {
  std::vector<TinyTraits> all;
  for (const char* architecture : {"lfm2", "qwen35", "granitehybrid", "falcon-h1", "nemotron_h"})
    all.push_back({.architecture = architecture, .mix = "F16", .layers = 4});
  return all;
}

// The GPU may compute layers of the host's for a prompt.
Placement with_offloadable(Placement p) {
  for (LayerPlacement& l : p.layers) l.prefill_on = 0;
  return p;
}

// Where a sequence's layers and caches are.
std::vector<NamedPlacement> placements(const TinyTraits& t) {
  const Placement all = split(t, t.layers + 1);
  Placement none = split(t, 0);  // but for the head: else the host decodes alone
  none.head = none.head_on = 0;
  return {{"all on the GPU", all},
          {"half of the layers on the host", split(t, t.layers / 2)},
          {"caches on the host", with_host_cache(all)},
          {"streamed layers", with_streamed(all, {0, t.layers - 1})},
          {"tokens on the host", with_host_decode(all)},
          {"half of the layers on the host, but for prompts",
           with_offloadable(split(t, t.layers / 2))},
          {"all layers on the host, but for prompts", with_offloadable(none)}};
}

std::vector<std::vector<float>> from(const std::vector<std::vector<float>>& rows,
                                     TokenCount first) {
  return {rows.begin() + std::ptrdiff_t(first), rows.end()};
}

}  // namespace

TEST_CASE("A cut leaves the reference's logits of recurrent layers, wherever they are",
          "[cuda][gpu][hybrid][recurrent]") {
  for (const TinyTraits& t : recurrent()) {
    KnownModel known{t, model_of(t), prompt_of(60, t.vocabulary), {}};
    known.want = reference_logits(known.tiny, known.tokens);
    const std::vector<std::int32_t> others = prompt_of(20, 31);
    for (const NamedPlacement& c : placements(t)) {
      ExecutorOptions options = shared_by(c.placement);
      options.ubatch = 16;
      options.prefill_offload = PrefillOffloadPolicy::kGpu;
      const auto executor = on_gpu(known.tiny, options);
      const auto check = [&](TokenCount first) {
        INFO(known.name() << ", " << c.name << ", cut at " << first);
        executor->truncate(first);
        REQUIRE(executor->cached() == first);
        const auto rest = std::span(known.tokens).subspan(std::size_t(first));
        check_near(known, compare(together(*executor, {rest.begin(), rest.end()}),
                                  from(known.want, first)));
      };
      executor->forward(std::span(known.tokens).first(40), Logits::kNone);
      one_by_one(*executor, others);
      check(40);  // the end of a prompt
      check(50);  // after it, and before it
      executor->truncate(17);
      executor->forward(others, Logits::kNone);
      check(17);
      check(0);
    }
  }
}

TEST_CASE("Tokens behind a cut are the same as without one", "[cuda][gpu][executor][recurrent]") {
  for (const TinyTraits& t : recurrent()) {
    INFO(t.architecture);
    const TinyModel tiny = model_of(t);
    const auto want = greedy(tiny, {}, 24);
    const auto executor = on_gpu(tiny);
    Sampler sampler({});
    std::vector<std::int32_t> ids{
        sampler.next(executor->forward(prompt_of(40, 500), Logits::kLast))};
    for (int i = 0; i < 12; ++i) ids.push_back(executor->decode(ids.back(), sampler));
    // So few that they are computed one by one again: to the same bits.
    executor->truncate(40 + kFewTokens);
    ids.resize(std::size_t(kFewTokens) + 1);
    while (ids.size() < want.size()) ids.push_back(executor->decode(ids.back(), sampler));
    CHECK(ids == want);
  }
}

TEST_CASE("Filled contexts of recurrent layers decode to numbers", "[cuda][gpu][recurrent]") {
  for (const TinyTraits& t : recurrent())
    for (const NamedPlacement& c : placements(t)) {
      INFO(t.architecture << ", " << c.name);
      const auto executor = on_gpu(model_of(t), shared_by(c.placement));  // the faster one
      executor->fill(100);
      const auto logits = one_by_one(*executor, prompt_of(10, 500));
      CHECK(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }));
      CHECK(executor->cached() == 110);
    }
}

TEST_CASE("Without room for their states on the GPU, the host computes prompts of recurrent layers",
          "[cuda][gpu][hybrid][recurrent]") {
  // Layers of 20 MB and more: what is streamed is larger than temporary memory of an upload.
  const TinyTraits t{.architecture = "qwen35",
                     .mix = "F16",
                     .hidden = 1024,
                     .heads = 16,
                     .kv_heads = 4,
                     .ffn = 4096,
                     .layers = 4};
  const TinyModel tiny = model_of(t);
  ExecutorOptions options = shared_by(with_offloadable(split(t, t.layers / 2)));
  options.prefill_offload = PrefillOffloadPolicy::kGpu;
  const auto gpu = [](const Executor& e) { return e.gpus().front(); };
  const auto made = on_gpu(tiny, options);
  const DeviceMemory offloaded = gpu(*made);
  REQUIRE(offloaded.staging > 8_MiB);
  options.vram_limit = offloaded.needed() - offloaded.overhead - 0.5 * offloaded.staging;
  CHECK_FALSE(make_cuda_executor(std::make_shared<const Model>(tiny.model), options));
  options.prefill_offload = PrefillOffloadPolicy::kFaster;
  const auto limited = on_gpu(tiny, options);
  CHECK(gpu(*limited).staging == 0_B);
  CHECK(gpu(*limited).kv < offloaded.kv);
  options.vram_limit.reset();
  options.prefill_offload = PrefillOffloadPolicy::kHost;
  const auto host = on_gpu(tiny, options);
  CHECK(gpu(*limited).kv == gpu(*host).kv);
  const auto tokens = prompt_of(40, t.vocabulary);
  const auto want = host->forward(tokens, Logits::kAll);
  CHECK(std::ranges::equal(limited->forward(tokens, Logits::kAll), want));
}

TEST_CASE("States of sequences are their own, whichever numbers they have",
          "[cuda][gpu][batch][recurrent]") {
  for (const TinyTraits& t : recurrent()) {
    INFO(t.architecture);
    const TinyModel tiny = model_of(t);
    const auto executor = batch_on_gpu(tiny);
    const auto sequences = sequences_of(7, 60, t.vocabulary);
    const auto want = decoded_together(*executor, sequences, 20);
    auto others = sequences;
    for (std::size_t i = 0; i < others.size(); ++i)
      others[i].state = int(others.size() - 1 - i) + 3;
    CHECK(decoded_together(*executor, others, 20) == want);
    // As few rows as no step is filled up for: the same to the rounding of both.
    auto one = decoded_together(*executor, {sequences[0]}, 20)[0];
    std::vector<std::vector<float>> rows;
    for (auto at = want[0].begin(); at != want[0].end(); at += std::ptrdiff_t(t.vocabulary))
      rows.emplace_back(at, at + std::ptrdiff_t(t.vocabulary));
    CHECK(compare(one, rows).nmse <= 2 * batch_bound(t, t.mix));
  }
}

TEST_CASE("A GPU's states take the memory that they are forecast to",
          "[cuda][gpu][memory][recurrent]") {
  for (const TinyTraits& t : recurrent()) {
    INFO(t.architecture);
    const TinyModel tiny = model_of(t);
    const auto executor = on_gpu(tiny);
    // Of a sequence two, and lists of blocks; a convolution keeps one token more.
    double states = 0;
    for (int i = 0; i < t.layers; ++i)
      if (tiny.model.spec.has_recurrent_mixer(i))
        states += 2 * double(tiny.model.spec.recurrent->state_bytes);
    const double lists = double(1 << 16) * sizeof(void*);
    CHECK(executor->gpus().front().kv.value >= states + lists);
    CHECK(executor->gpus().front().kv.value <= 1.6 * states + lists + 4096);
  }
}
