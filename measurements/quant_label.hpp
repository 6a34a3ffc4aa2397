#pragma once
// A label of a quant mix as sources write it, taken apart: "i1-IQ3_KS_R4 (pure)",
// "IQ2_XXS mix (10.9 GB)".

#include <optional>
#include <string>

#include "core/base/units.hpp"

namespace rigcast {

struct QuantLabel {
  std::string name;  // without the marks below, "IQ3_KS_R4"
  /// Every matrix is in the one format.
  bool pure = false;
  /// A recipe of several formats, after one of which it is named: the name alone gives no size.
  bool recipe = false;
  std::optional<double> bits;  // a weight, of the whole file
  std::optional<Bytes> size;
};
QuantLabel parse_quant_label(const std::string& label);

}  // namespace rigcast
