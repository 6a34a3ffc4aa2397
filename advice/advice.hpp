#pragma once
// What to try in place of a scenario: alternatives that were simulated, with the quality that they
// cost.

#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"
#include "report/report.hpp"

namespace rigcast {

/// The best three changes to the scenario of `document`, of which `report` is the forecast; one of
/// a kind. First the placement of layers that a plan would choose for the same mix and cache, then
/// other settings that cost nothing, then quality by what it gives (planner::merit), then context
/// and parts; a loss that is not worth its gain is left out. Errors: the figures of quality cannot
/// be read.
Result<std::vector<Advice>> advise(const TomlDocument& document, const Catalogue& catalogue,
                                   const Report& report);

}  // namespace rigcast
