#pragma once
// When a runtime was built: kernels get faster with the month.

#include <optional>

#include "core/text/toml_reader.hpp"

namespace rigcast {

/// `build` of a table: the month of a build, "2024-07" as 2024.5; nullopt: not stated.
std::optional<double> read_build(const TomlTable& runtime);

}  // namespace rigcast
