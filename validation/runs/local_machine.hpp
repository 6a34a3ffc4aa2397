#pragma once
// The machine on which a run is executed: its parts, its memory, and whether it suffices.

#include <optional>
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/placement.hpp"
#include "core/text/toml_reader.hpp"
#include "probe/host.hpp"
#include "validation/runs/execute_options.hpp"

namespace rigcast::validation {

/// The scenario says on which machine: a rig, or parts of one.
bool names_a_rig(const TomlDocument& document);

/// What of flags holds on this machine alone: a rig that is named "this" is one that is not named,
/// and is probed. `from_flags`: a model file is named as seen from this folder; it is kept by where
/// it is, so that kept runs are read from any.
std::optional<Error> state_local(bool from_flags, TomlDocument& scenario);

/// The id of the catalogue's part of that name; empty: it has none.
std::string cpu_of_catalogue(const probe::Host& host, const Catalogue& catalogue);

/// The scenario with the engine as runtime and, if the document names no rig, this machine: its
/// cores and memory, and its own name in reports.
Result<Scenario> make_scenario_here(TomlDocument& document, const Catalogue& catalogue,
                                    const engine::EngineBackend& backend = engine::cpu_backend());

/// The same on this machine alone, whatever parts the document names: they are erased, and the
/// scenario has a warning that lists them. Limits of memory stay. A GPU that the catalogue lacks is
/// computed with as the part that the document names, under its own name.
Result<Scenario> make_scenario_of_this_machine(TomlDocument& document, const Catalogue& catalogue,
                                               const engine::EngineBackend& backend);

/// Why the scenario cannot be executed here, before any weight is read: what the engine has not,
/// or memory that is short (kDoesNotFit).
std::optional<Error> check_runnable(const Scenario& scenario, const ExecuteOptions& options);

/// The placement on this machine: the requested layers on a GPU, or as many as fit.
Result<Placement> placement_here(const Scenario& scenario, const ExecuteOptions& options);

}  // namespace rigcast::validation
