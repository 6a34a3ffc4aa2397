// Files of every family in six formats: this engine and llama.cpp's library, each beside a forward
// pass in float64 over the same weights. Long: hidden from a run without tags ("[formats]").

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/engine/architectures/described_families.hpp"
#include "tests/peers/family_logits.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

constexpr std::size_t kTokens = 200, kPrompt = 180;

struct Distance {
  double rms = 0;      // of logits, over the deviation of the exact ones
  double mean_kl = 0;  // of the exact distribution from this one
};

Distance distance(const std::vector<float>& got, const std::vector<Doubles>& exact) {
  std::vector<std::vector<float>> rounded;
  for (const Doubles& row : exact) rounded.emplace_back(row.begin(), row.end());
  const Agreement a = compare(got, rounded);
  return {std::sqrt(a.nmse), a.mean_kl};
}

// Positions at which the best token is another, though the exact logits prefer theirs by more than
// six times the root of the mean square of what rounding did to a difference of two logits.
int lost_tokens(const std::vector<float>& got, const std::vector<Doubles>& exact, double sigma) {
  const std::size_t width = exact[0].size();
  int lost = 0;
  for (std::size_t t = 0; t < exact.size(); ++t) {
    const Doubles& want = exact[t];
    const auto row = got.begin() + std::ptrdiff_t(t * width);
    const auto best = std::size_t(std::ranges::max_element(want) - want.begin());
    const auto own = std::size_t(std::max_element(row, row + std::ptrdiff_t(width)) - row);
    lost += want[best] - want[own] > 6 * std::sqrt(2.0) * sigma;
  }
  return lost;
}

// Root of the mean square of a logit's error.
double sigma_of(const std::vector<float>& got, const std::vector<Doubles>& exact) {
  double squares = 0;
  std::size_t at = 0;
  for (const Doubles& row : exact)
    for (const double want : row) squares += std::pow(double(got[at++]) - want, 2);
  return std::sqrt(squares / double(at));
}

bool is_float_mix(const std::string& mix) { return mix == "F32" || mix == "F16"; }

// The family with what rounding does not decide, for a mix that rounds.
FamilyFile in_format(FamilyFile f, const std::string& mix) {
  if (mix != "F32") f = without_choice(std::move(f));
  f.mix = mix;
  if (f.expert_format && mix == "F16") f.expert_format = QuantFormat::kF16;
  if (f.expert_format && !is_float_mix(mix)) f.expert_format = QuantFormat::kMXFP4;
  return f;
}

void compare_family(test::LlamaCpp& llama, const test::Folder& folder, const FamilyFile& family) {
  const std::string bytes = fixtures::bytes_of(family), path = folder / "model.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  const auto tokens = prompt_of(kTokens, family.traits.vocabulary);
  const auto exact = DoubleModel(described(family), doubles_of(bytes)).forward(tokens);
  for (const std::size_t prompt : {std::size_t(0), kPrompt}) {
    const auto theirs = llama.logits(path, tokens, prompt, std::uint32_t(family.traits.context));
    INFO(family.name << " in " << family.mix << ", a prompt of " << prompt);
    CHECK(theirs);
    if (!theirs) continue;
    const auto ours = own_logits(bytes, tokens, prompt);
    const Distance own = distance(ours, exact), peer = distance(*theirs, exact);
    const double kl =
        compare(ours, rows_of(*theirs, std::size_t(family.traits.vocabulary))).mean_kl;
    const int lost = lost_tokens(ours, exact, sigma_of(*theirs, exact));
    if (std::getenv("RIGCAST_SHOW_LOGITS"))
      std::fprintf(stderr, "| %s | %s | %zu | %.3g | %.3g | %.2f | %.2g | %.2g | %.2g | %d |\n",
                   family.name.c_str(), family.mix.c_str(), prompt, own.rms, peer.rms,
                   own.rms / peer.rms, own.mean_kl, peer.mean_kl, kl, lost);
    CAPTURE(own.rms, peer.rms, own.mean_kl, peer.mean_kl, kl);
    CHECK(lost == 0);
    if (is_float_mix(family.mix)) {
      // llama.cpp rounds activations to F16 where weights are, and looks GELU up in a table of F16:
      // where that shows, float64 decides.
      CHECK(own.mean_kl <= 1e-6);
      CHECK((kl <= 1e-6 || own.rms <= peer.rms));
    } else {
      CHECK(own.rms <= 1.2 * peer.rms);
    }
  }
}

}  // namespace

TEST_CASE("In six formats no family is further from float64 than llama.cpp is",
          "[.][peers][formats]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  test::LlamaCpp llama(*test::llama_cpp_folder());
  const test::Folder folder;
  const char* const only = std::getenv("RIGCAST_FAMILY");
  for (const FamilyFile& family : family_files(kWideFamilies)) {
    if (!family.as_llama_cpp || (only && family.name != only)) continue;
    for (const char* mix : {"F32", "F16", "Q8_0", "Q4_K_M", "Q6_K", "IQ4_XS"})
      compare_family(llama, folder, in_format(family, mix));
  }
}

}  // namespace rigcast::engine
