#pragma once
// Other values in a TOML text that people wrote: comments, order and spaces stay as they are.

#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace rigcast {

struct TomlEdit {
  std::string key;    // "table.key", no part of which has a dot
  std::string value;  // as TOML
};

/// `text` with these values. A key of the root that is not there is put before all others. Errors:
/// a text that is no TOML; a key of a table that is not there.
Result<std::string> with_values(std::string_view text, std::span<const TomlEdit> edits);

}  // namespace rigcast
