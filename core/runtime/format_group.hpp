#pragma once
// Block formats, by whose kernels do alike.

#include <string_view>

#include "core/model/quant_format.hpp"

namespace rigcast {

/// Formats whose kernels do alike.
enum class FormatGroup { kFloat, kQ8, kQ4, kQ5, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIq };
inline constexpr int kFormatGroupCount = 10;
FormatGroup format_group(QuantFormat format);
std::string_view name(FormatGroup group);

}  // namespace rigcast
