#include "core/model/model_names.hpp"

#include <algorithm>

#include "core/text/freetext.hpp"

namespace rigcast {
namespace {

using freetext::match;
using freetext::replaced;

constexpr const char* kParentheses = R"(\([^)]*\))";

// Taken off the front or the end of a name, once and in this order.
constexpr const char* kAroundName[] = {
    kParentheses,
    R"(\?[^/]*$)",                         // "?download=true"
    R"(/(?:tree|blob|resolve)/[^/]+/?$)",  // a page of a repository
    R"(/+$)",
    R"(^.*/)",
    R"(\.gguf$)",
    R"(-\d{5}-of-\d{5}$)",  // a part of a file in several
};

// llama.cpp's mixes, with Unsloth's mark of its own.
constexpr const char* kMixAtEnd =
    R"([-_. :]((?:UD[-_])?(?:I?Q[1-8]_\w+|IQ\d\w*|TQ[12]_0|MXFP4\w*|BF16|F(?:P)?16|F(?:P)?32))$)";

// Words by which files for other programs state their format.
constexpr const char* kFormatAtEnd =
    R"([-_. :](AWQ|GPTQ|MLX|FP8|NVFP4|BNB|EXL[23]|INT[48]|W[48]A(?:8|16)|[2-8](?:\.\d+)?[-_]?bit|)"
    R"(quantized|dynamic)$)";

// Words that leave a model's shape as it is.
constexpr const char* kWordAtEnd =
    R"((?::latest|[-_ :](?:GGUF|instruct|chat|it|hf|base|pt|thinking|qat|unsloth|imatrix|i1))$)";

// Publishers that some repositories put before a model's own name: "Qwen_Qwen3-8B-GGUF".
constexpr const char* kPublisherInName =
    R"(^(?:Qwen|google|meta-llama|mistralai|microsoft|deepseek-ai|openai|nvidia|ibm-granite|)"
    R"(zai-org|allenai|moonshotai|MiniMaxAI|tiiuae|HuggingFaceTB|CohereForAI)_)";

struct FormatBits {
  const char* pattern;
  const char* mix;
};
constexpr FormatBits kFormats[] = {
    {R"(8[-_]?bit|FP8|INT8|W8A)", "Q8_0"}, {R"(6(?:\.\d+)?[-_]?bit)", "Q6_K"},
    {R"(5(?:\.\d+)?[-_]?bit)", "Q5_K_M"},  {R"(3(?:\.\d+)?[-_]?bit)", "Q3_K_M"},
    {R"(2(?:\.\d+)?[-_]?bit)", "Q2_K"},    {R"(4[-_]?bit|AWQ|GPTQ|INT4|W4A|NVFP4)", "Q4_K_M"},
};

class NameReader {
 public:
  explicit NameReader(const std::string& name) : name_(replaced(name, R"(^\s+)")) { keep(); }

  StatedModel read() && {
    for (const char* pattern : kAroundName) take_off(pattern);
    while (take_mix() || take_format() || take_off(kWordAtEnd)) continue;
    take_off(kPublisherInName);
    if (stated_.quant.empty() && mix_like_format(format_)) stated_.quant = format_;
    return std::move(stated_);
  }

 private:
  void keep() {
    std::vector<std::string>& names = stated_.names;
    if (!name_.empty() && std::ranges::find(names, name_) == names.end()) names.push_back(name_);
  }
  bool take_off(const char* pattern) {
    std::string shorter = replaced(name_, pattern, "");
    if (shorter == name_) return false;
    name_ = std::move(shorter);
    keep();
    return true;
  }
  bool take_mix() {
    const auto found = match(name_, kMixAtEnd);
    if (found.empty() || !take_off(kMixAtEnd)) return false;
    if (stated_.quant.empty()) stated_.quant = found[1];
    return true;
  }
  // "GPTQ-Int4" is two words.
  bool take_format() {
    const auto found = match(name_, kFormatAtEnd);
    if (found.empty() || !take_off(kFormatAtEnd)) return false;
    format_ = format_.empty() ? found[1] : found[1] + "-" + format_;
    return true;
  }

  std::string name_;
  std::string format_;
  StatedModel stated_;
};

}  // namespace

StatedModel stated_model(const std::string& name) { return NameReader(name).read(); }

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
  text = replaced(text, R"(^FP(16|32)$)", "F$1");
  if (const auto exact = QuantMix::from_name(text); exact && !exact->is_served()) return *exact;
  const auto mix = QuantMix::from_name(replaced(text, R"(^UD[-_])", ""));
  if (mix && !mix->is_served()) return *mix;
  return std::nullopt;
}

std::optional<QuantMix> served_mix_of_label(const std::string& label) {
  constexpr std::pair<const char*, const char*> kServed[] = {
      {R"(NVFP4|MODELOPT_FP4)", "NVFP4"},
      {R"(FP8)", "FP8"},
      {R"(W8A8|INT8)", "INT8"},
      {R"(AWQ|GPTQ|W4A16|INT4|AutoRound|4[-_]?bit)", "INT4"},
      {R"(BF16|bfloat16|^F(P)?16)", "BF16"},
  };
  for (const auto& [pattern, mix] : kServed)
    if (!match(label, pattern).empty()) return *QuantMix::from_name(mix);
  return std::nullopt;
}

std::optional<QuantMix> mix_like_format(const std::string& label) {
  for (const FormatBits& format : kFormats)
    if (!match(label, format.pattern).empty()) return mix_of_label(format.mix);
  return std::nullopt;
}

std::optional<double> bits_per_weight_of_label(const std::string& label) {
  auto found = match(label, R"((\d{1,2}(?:\.\d{1,5})?) ?bpw)");
  // Recipes of Thireus's are named after their bits a weight: "THIREUS-6.2478".
  if (found.empty()) found = match(label, R"(\bthireus[- ](\d{1,2}\.\d{1,5})\b)");
  if (found.empty()) return std::nullopt;
  return std::stod(found[1]);
}

}  // namespace rigcast
