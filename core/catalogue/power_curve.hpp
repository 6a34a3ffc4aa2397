#pragma once
// The speed of a GPU whose power is limited: hwprofiles/power.toml.

#include <string>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/catalogue/catalogue.hpp"

namespace rigcast {

/// The share of its speed that a GPU of the architecture has where its power is limited to `share`
/// of what its board is delivered with; 1 from there on. Error: neither it nor one before it was
/// measured so.
Result<Sourced<double>> speed_at_power(const Catalogue& catalogue, std::string_view architecture,
                                       double share);

}  // namespace rigcast
