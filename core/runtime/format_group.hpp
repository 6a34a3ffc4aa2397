#pragma once
// Groups of block formats whose kernels have similar rates.

#include <optional>
#include <string>
#include <string_view>

#include "core/model/quant_format.hpp"
#include "core/model/tensor.hpp"

namespace rigcast {

/// Formats of a group share their efficiency figures.
enum class FormatGroup { kFloat, kQ8, kQ4, kQ5, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIq };
inline constexpr int kFormatGroupCount = 10;
FormatGroup format_group(QuantFormat format);
std::string_view name(FormatGroup group);

/// The format whose figures stand for one that no profile was fitted on: IQ4_XS for IQ2_XXS.
/// nullopt: its group was fitted on runs of this format.
std::optional<QuantFormat> stands_in_for(QuantFormat format);

/// Bytes of the tensors over their bytes if every format without figures of its own were stored as
/// the one that stands in for it; 1 without such formats. Kernels of the smaller formats unpack
/// more for a byte: where they take as long for a weight as the one that stands in, speed is this
/// share of a forecast by bytes.
double share_of_stand_ins(const TensorTable& tensors);
/// Says which formats have no figures of their own; empty if all have.
std::string note_on_stand_ins(const TensorTable& tensors);

}  // namespace rigcast
