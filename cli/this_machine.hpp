#pragma once
// What verbs take from the machine they run on.

#include <string>

#include "core/catalogue.hpp"
#include "probe/host.hpp"

namespace rigcast::cli {

/// The catalogue's part of that name, or one of its instruction set and vendor.
std::string cpu_of_catalogue(const probe::Host& host, const Catalogue& catalogue);

}  // namespace rigcast::cli
