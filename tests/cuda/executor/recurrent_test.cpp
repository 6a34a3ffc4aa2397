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

// Where a sequence's layers and caches are.
std::vector<NamedPlacement> placements(const TinyTraits& t) {
  const Placement all = split(t, t.layers + 1);
  return {{"all on the GPU", all},
          {"half of the layers on the host", split(t, t.layers / 2)},
          {"caches on the host", with_host_cache(all)},
          {"streamed layers", with_streamed(all, {0, t.layers - 1})},
          {"tokens on the host", with_host_decode(all)}};
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
      const auto executor = on_gpu(model_of(t), shared_by(c.placement));
      executor->fill(100);
      const auto logits = one_by_one(*executor, prompt_of(10, 500));
      CHECK(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }));
      CHECK(executor->cached() == 110);
    }
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
