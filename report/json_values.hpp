#pragma once
// Values as JSON, as all of the program's JSON writes them.

#include <cmath>
#include <nlohmann/json.hpp>

namespace rigcast {

/// The number, or null where it is not finite: JSON has neither NaN nor infinity.
inline nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

/// A list with what `each` makes of every item.
template <class Items, class Each>
nlohmann::ordered_json json_list(const Items& items, Each each) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& item : items) out.push_back(each(item));
  return out;
}

}  // namespace rigcast
