#include "measurements/model_names.hpp"

#include <algorithm>

#include "core/runtime/format_group.hpp"
#include "core/text/freetext.hpp"

namespace rigcast {
namespace {

using freetext::match;
using freetext::replaced;

constexpr const char* kParentheses = R"(\([^)]*\))";
constexpr const char* kMixAtEnd =
    R"([-_. ](?:UD[-_])?(?:I?Q[1-8]_\w+|IQ\d\w*|MXFP4\w*|BF16|F16|F32)$)";

// Runs in a mix whose formats no profile was fitted on, or of one publisher's, are taken as the mix
// that is nearest in size.
std::optional<QuantMix> fitted_mix(const std::string& name) {
  const auto mix = QuantMix::from_name(name);
  if (!mix || stands_in_for(mix->base()) || mix->plain_name() != mix->name()) return std::nullopt;
  return *mix;
}

}  // namespace

std::vector<std::string> simpler_model_names(const std::string& name) {
  std::vector<std::string> names;
  const auto add = [&](std::string simpler) {
    if (!simpler.empty() && std::ranges::find(names, simpler) == names.end())
      names.push_back(std::move(simpler));
  };
  std::string simpler = replaced(name, R"(^\s+)");
  add(simpler);
  for (const char* pattern :
       {kParentheses, R"(^.*/)", R"(\.gguf$)", kMixAtEnd, R"([-_ ]GGUF$)", R"(:latest$)",
        R"(\s+\d{1,4}(?:\.\d)?B$)", R"([-_ ](?:instruct|chat|it|hf|base|thinking|qat)$)"}) {
    simpler = replaced(simpler, pattern, "");
    add(simpler);
  }
  return names;
}

std::optional<QuantMix> mix_of_label(const std::string& label) {
  // A mix of the experts, which the models released in it keep in every file.
  if (!match(label, R"(F16 other)").empty()) return mix_of_label("F16");
  std::string text = replaced(label, kParentheses);
  text = replaced(text, R"(\s*-\s*[\d.]+ bpw.*$)", "");
  text = replaced(text, R"(\s*-\s*Medium$)", "_M");
  text = replaced(text, R"(\s*-\s*Small$)", "_S");
  text = replaced(text, R"(\s*-\s*Large$)", "_L");
  text = replaced(text, R"(\s+MoE$)", "_MOE");
  text = replaced(text, R"(^ollama default$)", "Q4_K_M");
  if (const auto mix = fitted_mix(text)) return mix;
  return fitted_mix(replaced(text, R"(^UD[-_])", ""));
}

std::optional<double> bits_per_weight_of_label(const std::string& label) {
  const auto found = match(label, R"((\d{1,2}(?:\.\d{1,5})?) ?bpw)");
  if (found.empty()) return std::nullopt;
  return std::stod(found[1]);
}

}  // namespace rigcast
