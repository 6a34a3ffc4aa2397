// The host's parts of a step of several sequences, without a GPU: what goes through them part by
// part is what the CPU's batch computes at once.
#include "engine/backends/cuda/host_offload/host_worker.cuh"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/backends/cpu/batch/cpu_blocks.hpp"
#include "engine/backends/cpu/batch/placed_rows.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/engine/executor_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr BatchLimits kLimits{16, 200, 8, 256, 16};

// All parts of the host on one CPU.
struct Parts {
  cuda::HostWorker worker;
  CpuBlocks blocks;

  Parts(const TinyModel& tiny, const TinyTraits& traits)
      : worker(std::make_shared<const Model>(tiny.model),
               HostPlacement(tiny.model.spec, split(traits, 0)),
               CpuOptions{2, KvTypes(), kLimits.block_tokens}, {}),
        blocks(worker.layers().cache(), kLimits) {}

  std::vector<float> logits(std::span<const SequenceStep> step) {
    PlacedRows rows;
    for (const SequenceStep& s : step) rows.add(s);
    const cuda::RowOwners of{std::span<const StepSequence>(rows.sequences)};
    const auto width = std::size_t(worker.layers().model().spec.hidden);
    std::vector<float> hidden(rows.ids.size() * width);
    worker.embed(of, rows.ids, hidden);
    for (int layer = 0; layer < worker.layers().model().spec.layers; ++layer)
      worker.through(layer, layer + 1, of, hidden);
    std::vector<std::int64_t> last;
    std::vector<float> states;
    for (std::size_t i = 0; i < step.size(); ++i) {
      last.push_back(rows.last_row(i));
      const auto from = hidden.begin() + std::ptrdiff_t(std::size_t(last.back()) * width);
      states.insert(states.end(), from, from + std::ptrdiff_t(width));
    }
    worker.head(of, std::int64_t(rows.ids.size()), last, states);
    return {worker.logits().begin(), worker.logits().end()};
  }
};

struct Known {
  std::vector<std::int32_t> tokens;
  std::vector<int> blocks;
  TokenCount cached = 0;

  SequenceStep next(std::size_t count) {
    const SequenceStep step{std::span(tokens).subspan(std::size_t(cached), count), cached, blocks};
    cached += TokenCount(count);
    return step;
  }
};

std::vector<Known> sequences(int count, std::int32_t salt) {
  std::vector<Known> all(static_cast<std::size_t>(count));
  for (int s = 0; s < count; ++s) {
    all[std::size_t(s)].tokens = prompt_of(60, 500);
    for (auto& t : all[std::size_t(s)].tokens) t = (t * 3 + 17 * (s == 0 ? 1 : salt + s)) % 500;
    for (int b = 0; b < 4; ++b) all[std::size_t(s)].blocks.push_back(s + b * count);
  }
  return all;
}

const std::vector<TinyTraits> kTraits = {
    {.mix = "Q4_K_M", .layers = 3},
    {.mix = "F16", .layers = 3, .window = 30},
    {.architecture = "qwen2", .mix = "Q8_0", .layers = 3, .qkv_bias = true},
    {.architecture = "qwen3", .mix = "Q6_K", .layers = 3, .qk_norm = true},
    {.mix = "Q4_K_M", .layers = 3, .experts = 8},
    {.architecture = "qwen3moe",
     .mix = "Q8_0",
     .layers = 3,
     .qk_norm = true,
     .experts = 16,
     .experts_used = 4}};

}  // namespace

TEST_CASE("The host's layers one by one give the bits of the CPU's batch", "[cuda][batch]") {
  for (const TinyTraits& traits : kTraits)
    for (const int count : {1, 3, 12}) {
      INFO(traits.architecture << " " << traits.mix << " sequences " << count);
      const TinyModel tiny = model_of(traits);
      Parts parts(tiny, traits);
      CpuBatchExecutor batch(std::make_shared<const Model>(tiny.model), {2, KvTypes()}, kLimits);
      auto all = sequences(count, 5);
      for (int step = 0; step < 8; ++step) {
        std::vector<SequenceStep> steps;
        for (std::size_t s = 0; s < all.size(); ++s)
          steps.push_back(all[s].next(step == 0 ? 5 + s : 1));
        const auto want = batch.logits(steps);
        CHECK(std::ranges::equal(parts.logits(steps), want));
      }
    }
}

TEST_CASE("Experts that the host computes alone do not depend on the neighbours", "[cuda][batch]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 2, .experts = 8};
  const TinyModel tiny = model_of(traits);
  Parts parts(tiny, traits);
  const auto mixed = [&](int salt) {
    std::vector<float> hidden;
    auto all = sequences(12, salt);
    std::vector<SequenceStep> steps;
    for (Known& s : all) steps.push_back(s.next(1));
    PlacedRows rows;
    for (const SequenceStep& s : steps) rows.add(s);
    const cuda::RowOwners of{std::span<const StepSequence>(rows.sequences)};
    hidden.resize(rows.ids.size() * 256);
    parts.worker.embed(of, rows.ids, hidden);
    parts.worker.mixture(1, of, hidden);
    return hidden;
  };
  const auto want = mixed(5);
  int differ = 0;
  for (const int salt : {9, 31, 77}) {
    const auto got = mixed(salt);
    CHECK(std::equal(got.begin(), got.begin() + 256, want.begin()));
    differ += got != want;
  }
  CHECK(differ == 3);
}

TEST_CASE("Attention that the host computes alone finds each sequence's blocks", "[cuda][batch]") {
  const TinyTraits traits{.mix = "F32", .layers = 2};
  const TinyModel tiny = model_of(traits);
  const std::int64_t q = 4 * 64, kv = 2 * 64, width = q + 2 * kv;
  // The same projections for a sequence alone and among others, in other blocks.
  const auto attended = [&](const std::vector<StepSequence>& step, std::int64_t rows,
                            Parts& parts) {
    std::vector<float> projected(std::size_t(rows * width)), out(std::size_t(rows * q));
    for (const StepSequence& s : step)
      for (std::int64_t row = s.first; row < s.first + s.tokens; ++row)
        for (std::int64_t i = 0; i < width; ++i)
          projected[std::size_t(row * width + i)] =
              std::sin(float(s.position(row) * 31 + i) * (s.table.at(0) == 3 ? 0.1f : 0.37f));
    parts.worker.attend(1, std::span<const StepSequence>(step), projected, out);
    return out;
  };
  const std::vector<int> own{3, 9, 1, 12}, other{4, 0, 7, 5};
  Parts alone(tiny, traits), among(tiny, traits);
  for (const TokenCount cached : {0, 20, 40}) {
    const auto one = attended({{cached, 0, 20, BlockTable(own)}}, 20, alone);
    const auto two = attended(
        {{cached, 0, 20, BlockTable(other)}, {cached, 20, 20, BlockTable(own)}}, 40, among);
    CHECK(std::equal(one.begin(), one.end(), two.begin() + 20 * q));
    CHECK_FALSE(std::equal(one.begin(), one.end(), two.begin()));
  }
}
