#include "measurements/quant_label.hpp"

#include "core/model/model_names.hpp"
#include "core/text/freetext.hpp"

namespace rigcast {
namespace {

using freetext::match;
using freetext::replaced;

constexpr const char* kPure = R"(\s*\(?\bpure\b\)?)";
constexpr const char* kRecipe = R"(\bmix\b|\bsmol\b)";
// "(10.9 GB)", not "(fits 24GB)".
constexpr const char* kSize = R"(\((\d{1,4}(?:\.\d{1,4})?) ?(GB|GiB)\))";
// Made with a table of importances, which changes no size.
constexpr const char* kImportances = R"(^i1-)";

struct LikeFormat {
  const char* pattern;
  const char* name;
};
// Formats of Ampere's build of llama.cpp: "model size similar to Q4_K and Q8_0, respectively",
// model cards of huggingface.co/AmpereComputing.
constexpr LikeFormat kLike[] = {{"^Q4_K_4$", "Q4_K_M"}, {"^Q8R16$", "Q8_0"}};

}  // namespace

QuantLabel parse_quant_label(const std::string& label) {
  QuantLabel out;
  if (const auto size = match(label, kSize); !size.empty())
    out.size = (freetext::lower(size[2]) == "gb" ? Bytes{1e9} : 1_GiB) * std::stod(size[1]);
  out.bits = bits_per_weight_of_label(label);
  out.pure = !match(label, kPure).empty();
  out.recipe = !match(label, kRecipe).empty();
  out.name = replaced(label, kSize);
  out.name = replaced(out.name, kPure, "");
  out.name = replaced(out.name, R"([-\s]*\b(?:mix|smol)\b[-\s]*)", "");
  out.name = replaced(out.name, kImportances, "");
  for (const LikeFormat& like : kLike) out.name = replaced(out.name, like.pattern, like.name);
  return out;
}

}  // namespace rigcast
