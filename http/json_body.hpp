#pragma once
// Bodies of requests that are JSON.

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.hpp"

namespace rigcast {

/// The object that a body is. Errors: no JSON, no object, or values that are nested deeper than
/// `max_depth`: copies of JSON recurse, and deeper ones would use up the stack.
Result<nlohmann::json> parse_json_body(std::string_view text, int max_depth);

}  // namespace rigcast
