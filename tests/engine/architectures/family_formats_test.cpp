// Families on the CPU in formats that round, beside the reference: what not all of them have.

#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

constexpr std::size_t kTokens = 150;
constexpr KvTypes kExact{QuantFormat::kF32, QuantFormat::kF32};

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
  REQUIRE(model.ok());
  out->model = *std::move(model);
  return out;
}

// A prompt in batches of 64, then token by token.
std::vector<float> cpu_logits(const std::shared_ptr<Loaded>& file, KvTypes types,
                              const std::vector<std::int32_t>& tokens, std::size_t prompt) {
  CpuExecutor executor(std::shared_ptr<const Model>(file, &file->model),
                       CpuOptions{2, types, 16, 64});
  std::vector<float> out;
  for (std::size_t first = 0; first < tokens.size();) {
    const std::size_t count = first < prompt ? prompt : 1;
    const auto logits = executor.forward(std::span(tokens).subspan(first, count), Logits::kAll);
    out.insert(out.end(), logits.begin(), logits.end());
    first += count;
  }
  return out;
}

}  // namespace

TEST_CASE("Latent attention stays close to the reference in every format of weights and caches",
          "[engine][families]") {
  const auto tokens = prompt_of(kTokens, 200);
  FamilyFile family = latent_files()[1];
  family.traits.experts_used = family.traits.experts;  // no choice that rounding decides
  const auto exact = loaded(family);
  const auto want = ref::forward(exact->model, tokens);
  const auto kl = [&](QuantFormat type) {
    return compare(cpu_logits(exact, {type, type}, tokens, 120), want).mean_kl;
  };
  CHECK(kl(QuantFormat::kF16) <= 1e-6);
  CHECK(kl(QuantFormat::kQ8_0) <= 1e-3);
  CHECK(kl(QuantFormat::kQ4_0) <= 5e-2);
  // Of 8 products of a layer that the bound counts, 4 are attention's: here there are 6 (two for
  // queries, one for the row, one for keys, one for values, the output), and as many of the shared
  // expert as of the others, 4.
  const double bound = rounding_bound(family.traits) * (6 + 4 + 4) / 8;
  for (const char* mix : {"F16", "Q8_0", "Q4_0"}) {
    family.mix = mix;
    const auto file = loaded(family);
    const auto own = ref::forward(file->model, tokens);
    for (const std::size_t prompt : {std::size_t(0), std::size_t(130)}) {
      const Agreement a = compare(cpu_logits(file, kExact, tokens, prompt), own);
      CAPTURE(mix, prompt, a.nmse, a.mean_kl, bound);
      CHECK(a.nmse <= bound);
    }
  }
}

TEST_CASE("Biased experts stay close to the reference in every format", "[engine][families]") {
  const auto tokens = prompt_of(kTokens, 200);
  FamilyFile family = gpt_oss_file();
  family.traits.experts_used = family.traits.experts;  // no choice that rounding decides
  using enum QuantFormat;
  for (const auto& [mix, format] :
       {std::pair{"F32", kF32}, {"F16", kF16}, {"Q8_0", kQ8_0}, {"MXFP4", kMXFP4}}) {
    family.mix = mix;
    family.expert_format = format;
    const auto file = loaded(family);
    const auto want = ref::forward(file->model, tokens);
    for (const std::size_t prompt : {std::size_t(0), std::size_t(130)}) {
      const Agreement a = compare(cpu_logits(file, kExact, tokens, prompt), want);
      CAPTURE(mix, prompt, a.nmse, a.mean_kl, rounding_bound(family.traits));
      CHECK(a.nmse <= rounding_bound(family.traits));
    }
  }
}

}  // namespace rigcast::engine
