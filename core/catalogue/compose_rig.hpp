#pragma once
// Parts, names and overridden figures of a [rig] table become one machine.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/hardware/rig.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// Composes the rig of a [rig] table; `warnings` gets a line for every part that was assumed.
/// Errors land in the table's document.
Rig compose_rig(const TomlTable& table, const Catalogue& catalogue,
                std::vector<std::string>& warnings);

/// Drops corrections from a rig's own runs if `given` names the rig and replaces parts of it.
void drop_foreign_corrections(const TomlDocument& given, Rig& rig,
                              std::vector<std::string>& warnings);

/// The name of the rig on which the program runs, unless a rig file of one's own has it.
inline constexpr const char* kThisMachine = "this";

/// If [rig] names a rig, its file's keys become defaults of the document's [rig], and so do the
/// corrections beside it.
std::optional<Error> merge_named_rig(TomlDocument& document, const Catalogue& catalogue);

}  // namespace rigcast
