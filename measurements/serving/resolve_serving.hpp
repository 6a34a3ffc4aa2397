#pragma once
// From what a source states of a server under load to the scenario that a user would give for it.

#include <memory>
#include <optional>

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/toml_reader.hpp"
#include "measurements/name_resolver.hpp"
#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

struct ResolvedServing {
  ServingMeasurement measured;
  std::shared_ptr<const Scenario> scenario;  // with a load, but of a run in lockstep
  std::string chip;                          // what to leave out together
};

/// What a forecast needs, and neither the source nor `given` states, with the flags that do.
/// nullopt: nothing, or it cannot be forecast whatever is given.
std::optional<Error> missing_facts(const ServingMeasurement& m, const TomlDocument& given,
                                   NameResolver& resolver);

/// `given`: keys of a scenario that win over the source. An error's message says why no scenario
/// stands for this run.
Result<ResolvedServing> resolve_serving(const ServingMeasurement& m, NameResolver& resolver,
                                        const TomlDocument& given);
Result<ResolvedServing> resolve_serving(const ServingMeasurement& m, NameResolver& resolver);

}  // namespace rigcast
