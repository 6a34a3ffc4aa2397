#pragma once
// What verbs take from the machine they run on.

#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"
#include "probe/host.hpp"

namespace rigcast::cli {

/// The scenario says on which machine: a rig, or parts of one.
bool names_a_rig(const TomlDocument& document);

/// The catalogue's part of that name, or one of its instruction set and vendor.
std::string cpu_of_catalogue(const probe::Host& host, const Catalogue& catalogue);

}  // namespace rigcast::cli
