#pragma once
// A scenario as programs hand it over.

#include <string_view>

#include "core/base/error.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// TOML; or JSON, which begins with a brace, an object of tables. Errors name "scenario" with line
/// and column, or the key of the object.
Result<TomlDocument> scenario_document(std::string_view text);

}  // namespace rigcast
