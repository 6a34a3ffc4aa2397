#include "core/runtime/format_group.hpp"

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
    case QuantFormat::kQ8_0: return FormatGroup::kQ8;
    case QuantFormat::kQ4_0:
    case QuantFormat::kQ4_1: return FormatGroup::kQ4;
    case QuantFormat::kQ5_0:
    case QuantFormat::kQ5_1: return FormatGroup::kQ5;
    case QuantFormat::kQ2_K: return FormatGroup::kQ2K;
    case QuantFormat::kQ3_K: return FormatGroup::kQ3K;
    case QuantFormat::kQ4_K: return FormatGroup::kQ4K;
    case QuantFormat::kQ5_K: return FormatGroup::kQ5K;
    case QuantFormat::kQ6_K: return FormatGroup::kQ6K;
    case QuantFormat::kIQ4_NL:
    case QuantFormat::kIQ4_XS:
    case QuantFormat::kMXFP4: return FormatGroup::kIq;
  }
  return FormatGroup::kFloat;
}

}  // namespace rigcast
