#pragma once
// From what a source states of a server under load to the scenario that a user would give for it.

#include <memory>

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "measurements/name_resolver.hpp"
#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

struct ResolvedServing {
  ServingMeasurement measured;
  std::shared_ptr<const Scenario> scenario;  // with a load
  std::string chip;                          // what to leave out together
};

/// An error's message says why no scenario stands for this run.
Result<ResolvedServing> resolve_serving(const ServingMeasurement& m, NameResolver& resolver);

}  // namespace rigcast
