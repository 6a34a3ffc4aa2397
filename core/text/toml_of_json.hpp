#pragma once
// Scenarios that come as JSON, as TOML.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rigcast {

/// May be a key of a scenario: letters, digits and underscores, 64 at most.
bool is_scenario_key(std::string_view text);

/// JSON as a value of TOML. nullopt: null, which TOML lacks, a key that no scenario has, or values
/// nested more than 16 deep.
std::optional<std::string> toml_of_json(const nlohmann::json& value);

}  // namespace rigcast
