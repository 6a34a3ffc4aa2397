// Logits of tiny F32 files of every family beside those of llama.cpp's library.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "tests/peers/family_logits.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

constexpr std::size_t kTokens = 200;

}  // namespace

TEST_CASE("Families have llama.cpp's logits", "[peers][families]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  test::LlamaCpp llama(*test::llama_cpp_folder());
  const test::Folder folder;
  for (FamilyFile family : family_files()) {
    if (!family.as_llama_cpp) continue;
    // The table of GELU would decide near ties of routers: there every token has all experts.
    if (family.traits.architecture == "gemma4") family = without_choice(std::move(family));
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
