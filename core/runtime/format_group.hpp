#pragma once
// Groups of block formats whose kernels have similar rates.

#include <string_view>

#include "core/model/quant_format.hpp"

namespace rigcast {

/// Formats of a group share their efficiency figures.
enum class FormatGroup { kFloat, kQ8, kQ4, kQ5, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIq };
inline constexpr int kFormatGroupCount = 10;
FormatGroup format_group(QuantFormat format);
std::string_view name(FormatGroup group);

}  // namespace rigcast
