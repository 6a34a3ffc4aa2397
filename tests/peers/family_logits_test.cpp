// Logits of tiny F32 files of every family beside those of llama.cpp's library.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
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
#include "tests/folder.hpp"
#include "tests/peers/llama_cpp.hpp"
#include "tests/peers/llama_cpp_logits.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

constexpr std::size_t kTokens = 200;

std::vector<float> own_logits(const std::string& bytes, const std::vector<std::int32_t>& tokens,
                              std::size_t prompt) {
  const auto file = file_of(bytes);
  REQUIRE(file.ok());
  auto model = load_model(*file);
  REQUIRE(model.ok());
  choose_rope_factors(*model, 0);
  CpuExecutor executor(std::make_shared<const Model>(*std::move(model)),
                       CpuOptions{2, {QuantFormat::kF32, QuantFormat::kF32}, 16, 512});
  std::vector<float> out;
  for (std::size_t first = 0; first < tokens.size();) {
    const std::size_t count = first < prompt ? prompt - first : 1;
    const auto logits = executor.forward(std::span(tokens).subspan(first, count), Logits::kAll);
    out.insert(out.end(), logits.begin(), logits.end());
    first += count;
  }
  return out;
}

std::vector<std::vector<float>> rows_of(const std::vector<float>& all, std::size_t width) {
  std::vector<std::vector<float>> out;
  for (auto at = all.begin(); at != all.end(); at += std::ptrdiff_t(width))
    out.emplace_back(at, at + std::ptrdiff_t(width));
  return out;
}

}  // namespace

TEST_CASE("Families have llama.cpp's logits", "[peers][families]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  test::LlamaCpp llama(*test::llama_cpp_folder());
  const test::Folder folder;
  for (const FamilyFile& family : family_files()) {
    if (!family.as_llama_cpp) continue;
    const std::string bytes = fixtures::bytes_of(family);
    const std::string path = folder / "model.gguf";
    std::ofstream(path, std::ios::binary) << bytes;
    const auto tokens = prompt_of(kTokens, family.traits.vocabulary);
    for (const std::size_t prompt : {std::size_t(0), std::size_t(180)}) {
      const auto theirs = llama.logits(path, tokens, prompt, std::uint32_t(family.traits.context));
      INFO(family.name << ", a prompt of " << prompt);
      CHECK(theirs);
      if (!theirs) continue;
      const auto want = rows_of(*theirs, std::size_t(family.traits.vocabulary));
      const Agreement a = compare(own_logits(bytes, tokens, prompt), want);
      CAPTURE(a.nmse);
      if (std::getenv("RIGCAST_SHOW_LOGITS"))
        std::fprintf(stderr, "%s, a prompt of %zu: KL %.2g, NMSE %.2g\n", family.name.c_str(),
                     prompt, a.mean_kl, a.nmse);
      // llama.cpp looks GELU up in a table of F16; scores of attention that are large multiply that
      // rounding. There the float64 forward pass decides (families_test.cpp).
      CHECK(a.mean_kl <= 1e-6 * family.largest_score);
    }
  }
}

}  // namespace rigcast::engine
