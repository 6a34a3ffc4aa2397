#include "core/runtime/format_group.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace rigcast {

std::string_view name(FormatGroup group) {
  constexpr std::string_view kNames[] = {"float", "q8",   "q4",   "q5",   "q2_k",
                                         "q3_k",  "q4_k", "q5_k", "q6_k", "iq"};
  return kNames[std::size_t(group)];
}

FormatGroup format_group(QuantFormat f) {
  switch (f) {
    case QuantFormat::kF32:
    case QuantFormat::kF16:
    case QuantFormat::kBF16: return FormatGroup::kFloat;
    case QuantFormat::kFP8:
    case QuantFormat::kINT8:
    case QuantFormat::kQ8_0: return FormatGroup::kQ8;
    case QuantFormat::kINT4:
    case QuantFormat::kQ4_0:
    case QuantFormat::kQ4_1: return FormatGroup::kQ4;
    case QuantFormat::kQ5_0:
    case QuantFormat::kQ5_1: return FormatGroup::kQ5;
    case QuantFormat::kTQ1_0:
    case QuantFormat::kTQ2_0:
    case QuantFormat::kQ2_K: return FormatGroup::kQ2K;
    case QuantFormat::kQ3_K: return FormatGroup::kQ3K;
    case QuantFormat::kQ4_K: return FormatGroup::kQ4K;
    case QuantFormat::kQ5_K: return FormatGroup::kQ5K;
    case QuantFormat::kQ6_K: return FormatGroup::kQ6K;
    case QuantFormat::kIQ4_NL:
    case QuantFormat::kIQ4_XS:
    case QuantFormat::kMXFP4:
    case QuantFormat::kIQ1_S:
    case QuantFormat::kIQ1_M:
    case QuantFormat::kIQ2_XXS:
    case QuantFormat::kIQ2_XS:
    case QuantFormat::kIQ2_S:
    case QuantFormat::kIQ3_XXS:
    case QuantFormat::kIQ3_S:
    case QuantFormat::kNVFP4: return FormatGroup::kIq;
  }
  return FormatGroup::kFloat;
}

std::optional<QuantFormat> stands_in_for(QuantFormat f) {
  using enum QuantFormat;
  switch (f) {
    case kIQ1_S:
    case kIQ1_M:
    case kIQ2_XXS:
    case kIQ2_XS:
    case kIQ2_S:
    case kIQ3_XXS:
    case kIQ3_S: return kIQ4_XS;
    case kTQ1_0:
    case kTQ2_0: return kQ2_K;
    case kNVFP4: return kMXFP4;
    default: return std::nullopt;
  }
}

double share_of_stand_ins(const TensorTable& tensors) {
  double stored = 0, stood_in = 0;
  for (const Tensor& t : tensors.tensors) {
    const auto other = stands_in_for(t.format);
    const double bits = info(t.format).bits_per_weight();
    stored += double(t.bytes);
    stood_in +=
        double(t.bytes) * std::max(1.0, other ? info(*other).bits_per_weight() / bits : 1.0);
  }
  return stood_in > 0 ? stored / stood_in : 1.0;
}

std::string note_on_stand_ins(const TensorTable& tensors) {
  std::set<std::string_view> formats, others;
  for (const Tensor& t : tensors.tensors)
    if (const auto other = stands_in_for(t.format)) {
      formats.insert(info(t.format).name);
      others.insert(info(*other).name);
    }
  if (formats.empty()) return "";
  return fmt::format(
      "{} was not calibrated: bytes are read as fast as those of {}, at the low end of the "
      "interval weights",
      fmt::join(formats, ", "), fmt::join(others, ", "));
}

}  // namespace rigcast
