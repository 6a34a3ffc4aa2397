// Every family of architectures, from a file: the reference beside an independent float64 forward
// pass, and the CPU beside the reference.

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/architectures/architecture.hpp"
#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/architectures/described_families.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

// Longer than windows and than the contexts that YaRN and temperatures begin at.
constexpr std::size_t kTokens = 150;

// A file in memory and the model in it.
struct Loaded {
  std::string bytes;
  Model model;
};

std::shared_ptr<Loaded> loaded(const FamilyFile& family) {
  auto out = std::make_shared<Loaded>();
  out->bytes = fixtures::bytes_of(family);
  const auto file = file_of(out->bytes);
  REQUIRE(file.ok());
  auto model = load_model(*file);
  INFO(family.name << ": " << error_of(model));
  REQUIRE(model.ok());
  out->model = *std::move(model);
  choose_rope_factors(out->model, 0);
  return out;
}

std::vector<float> flat(const std::vector<std::vector<float>>& rows) {
  std::vector<float> out;
  for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
  return out;
}

// A prompt in batches of 64, then token by token.
std::vector<float> cpu_logits(const std::shared_ptr<Loaded>& file, KvTypes types,
                              const std::vector<std::int32_t>& tokens, std::size_t prompt) {
  CpuExecutor executor(std::shared_ptr<const Model>(file, &file->model),
                       CpuOptions{2, types, 16, 64});
  std::vector<float> out;
  const auto step = [&](std::size_t first, std::size_t count) {
    const auto logits = executor.forward(std::span(tokens).subspan(first, count), Logits::kAll);
    out.insert(out.end(), logits.begin(), logits.end());
  };
  if (prompt > 0) step(0, prompt);
  for (std::size_t i = prompt; i < tokens.size(); ++i) step(i, 1);
  return out;
}

constexpr KvTypes kExact{QuantFormat::kF32, QuantFormat::kF32};

}  // namespace

TEST_CASE("The reference computes what publishers describe, in float64", "[engine][families]") {
  for (const FamilyFile& family : family_files()) {
    // Many layers take long, and are variants of a family whose contexts are here in full.
    const auto tokens = prompt_of(family.traits.layers > 8 ? 24 : kTokens, 200);
    const auto file = loaded(family);
    const auto want = DoubleModel(described(family), doubles_of(file->bytes)).forward(tokens);
    std::vector<std::vector<float>> rounded;
    for (const Doubles& row : want) rounded.emplace_back(row.begin(), row.end());
    const Agreement a = compare(flat(ref::forward(file->model, tokens)), rounded);
    // The reference rounds some ten vectors of a layer to F32, each by 2^-24 / sqrt 3 of a value.
    // A score's rounding is one of its exponential, too.
    const double bound = 100 * family.traits.layers * std::pow(2.0, -48) / 3 *
                         family.largest_score * family.largest_score;
    CAPTURE(family.name, a.nmse / bound, a.mean_kl);
    CHECK(a.nmse <= bound);
  }
}

TEST_CASE("Every architecture that is executed has a family's file", "[engine][families]") {
  std::set<std::string> tested, executed;
  for (const FamilyFile& f : family_files()) tested.insert(f.traits.architecture);
  for (const Architecture& a : architectures()) executed.emplace(a.name);
  CHECK(tested == executed);
}

TEST_CASE("The CPU gives the reference's logits for every family", "[engine][families]") {
  const auto tokens = prompt_of(kTokens, 200);
  for (FamilyFile family : family_files()) {
    const auto file = loaded(family);
    const auto want = ref::forward(file->model, tokens);
    for (const std::size_t prompt : {std::size_t(0), std::size_t(130)}) {
      const Agreement a = compare(cpu_logits(file, kExact, tokens, prompt), want);
      CAPTURE(family.name, prompt, a.nmse, a.mean_kl);
      CHECK(a.nmse <= 1e-9);
      CHECK(a.mean_kl <= 1e-8);
    }
  }
}

TEST_CASE("Quantized weights and caches stay close to the reference in every family",
          "[engine][families]") {
  const auto tokens = prompt_of(kTokens, 200);
  for (FamilyFile family : family_files()) {
    // Routers of random weights have near ties, which rounding decides.
    if (family.traits.experts > 0) continue;
    if (family.largest_score > 1) family.vectors.clear();
    if (family.traits.layers > 8) family.traits.layers = 8;
    const auto exact = loaded(family);
    const auto want = ref::forward(exact->model, tokens);
    const auto kl = [&](QuantFormat type) {
      return compare(cpu_logits(exact, {type, type}, tokens, 120), want).mean_kl;
    };
    const double f16 = kl(QuantFormat::kF16), q8 = kl(QuantFormat::kQ8_0),
                 q4 = kl(QuantFormat::kQ4_0);
    CAPTURE(family.name, f16, q8, q4);
    CHECK(f16 <= 1e-6);
    CHECK(q8 <= 1e-3);
    CHECK(q4 <= 5e-2);
    family.mix = "Q8_0";
    const auto file = loaded(family);
    const Agreement a =
        compare(cpu_logits(file, kExact, tokens, 120), ref::forward(file->model, tokens));
    CAPTURE(a.nmse, rounding_bound(family.traits));
    CHECK(a.nmse <= rounding_bound(family.traits));
  }
}

// States of recurrent layers cannot be cut: they are kept after a prompt, or computed anew.
TEST_CASE("Truncation leaves the reference's logits in every family", "[engine][families]") {
  const auto tokens = prompt_of(60, 200);
  for (const FamilyFile& family : family_files()) {
    if (family.traits.layers > 8) continue;  // a variant of a family that is here
    const auto file = loaded(family);
    const auto want = ref::forward(file->model, tokens);
    CpuExecutor executor(std::shared_ptr<const Model>(file, &file->model),
                         CpuOptions{2, kExact, 16, 16});
    const std::vector<std::int32_t> others = prompt_of(20, 31);
    const auto check = [&](TokenCount from) {
      const auto rest = std::span(tokens).subspan(std::size_t(from));
      const auto got = executor.forward(rest, Logits::kAll);
      const std::vector<float> all(got.begin(), got.end());
      const Agreement a = compare(
          all, std::vector<std::vector<float>>(want.begin() + std::ptrdiff_t(from), want.end()));
      CAPTURE(family.name, from, a.nmse);
      CHECK(a.nmse <= 1e-9);
    };
    executor.forward(std::span(tokens).first(40), Logits::kNone);
    for (const std::int32_t other : others) executor.forward({&other, 1}, Logits::kNone);
    executor.truncate(40);  // to the end of a prompt
    check(40);
    executor.truncate(50);  // after it; then before it
    check(50);
    executor.truncate(17);
    executor.forward(others, Logits::kNone);
    executor.truncate(17);
    check(17);
    executor.truncate(0);
    check(0);
  }
}

// A prompt in chunks beside one that decodes, in steps of both.
TEST_CASE("Steps of several sequences give the reference's logits in every family",
          "[engine][families]") {
  const auto first = prompt_of(100, 200), second = prompt_of(80, 200);
  const std::vector<int> first_blocks = {0, 2, 4, 6, 8, 10, 12}, second_blocks = {1, 3, 5, 7, 9};
  for (const FamilyFile& family : family_files()) {
    if (family.traits.layers > 8) continue;  // a variant of a family that is here
    const auto file = loaded(family);
    const auto want = ref::forward(file->model, first);
    CpuBatchExecutor executor(std::shared_ptr<const Model>(file, &file->model),
                              CpuOptions{2, kExact}, BatchLimits{16, 16, 4, 64, 4});
    std::vector<float> got;
    std::vector<std::vector<float>> expected;
    const auto step = [&](std::size_t at, std::size_t count, std::size_t other,
                          std::size_t others) {
      std::vector<SequenceStep> steps = {
          {std::span(first).subspan(at, count), TokenCount(at), first_blocks}};
      if (others > 0)
        steps.push_back({std::span(second).subspan(other, others), TokenCount(other), second_blocks,
                         nullptr, 1});
      const auto logits = executor.logits(steps);
      got.insert(got.end(), logits.begin(), logits.begin() + 200);
      expected.push_back(want[at + count - 1]);
    };
    step(0, 40, 0, 0);
    step(40, 20, 0, 30);
    for (std::size_t i = 60; i < 100; ++i) step(i, 1, i - 30, 1);
    const Agreement a = compare(got, expected);
    CAPTURE(family.name, a.nmse);
    CHECK(a.nmse <= 1e-9);
  }
}

}  // namespace rigcast::engine
