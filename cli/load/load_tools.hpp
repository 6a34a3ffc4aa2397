#pragma once
// What plans, comparisons and capacities for a load share.

#include <optional>

#include "cli/shared/plan_tools.hpp"
#include "core/catalogue/catalogue.hpp"
#include "planner/load_plan/load_plan.hpp"

namespace rigcast::cli {

/// Servers that are simulated.
planner::MakeServer simulated_server();

/// What the document leaves open of mixes, caches and the server's settings.
planner::LoadSearch load_search(const TomlDocument& document, const Scenario& scenario,
                                const std::optional<double>& max_loss,
                                const planner::QualityTable& quality, const Catalogue& catalogue);

/// That RAM has less room for what leaves the cache than the server may take, of the scenario that
/// is served; empty: it has as much. Requires a server.
std::string note_on_ram(const Scenario& scenario);

/// Why the number of machines cannot be found for this load; nullopt: it can. Requires a load.
std::optional<Error> check_amount(const TomlDocument& document, const Load& load);
/// Refuses constraints of a single request: the SLO says what is wanted of many.
std::optional<Error> check_constraints(const ConstraintFlags& constraints);

}  // namespace rigcast::cli
