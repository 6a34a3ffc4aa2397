#pragma once
// All that a data file says, value by value, whatever its schema.

#include <optional>
#include <string>
#include <vector>

#include "core/text/toml_reader.hpp"

namespace rigcast {

struct TomlFact {
  std::string key;                  // "memory.bandwidth", "spread[2].low"
  std::string value;                // as text, without quotes; a list as "a, b"
  bool is_number = false;           // a number, true or false
  std::optional<std::string> kind;  // of a figure that states its own
  std::optional<std::string> source;
};

/// In the order of the document.
std::vector<TomlFact> facts_of(const TomlDocument& document);

}  // namespace rigcast
