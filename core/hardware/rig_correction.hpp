#pragma once
// Corrections of a rig's speed as files have them. Schema: hwprofiles/README.md.

#include <map>
#include <string>
#include <string_view>

#include "core/hardware/rig.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// The tables of corrections in a rig's file, by runtime id. Errors land in the table's document.
std::map<std::string, Correction> read_corrections(const TomlTable& table);
std::string to_toml(const std::map<std::string, Correction>& corrections, std::string_view source);

}  // namespace rigcast
