#pragma once
// What is shown of a server's capacity.

#include <optional>
#include <string>
#include <vector>

#include "core/scenario/scenario.hpp"
#include "planner/capacity/capacity.hpp"

namespace rigcast::planner {

/// A change to the scenario and what it takes then.
struct CapacityChange {
  std::string flags;  // "--kv-type q8_0"
  double most = 0;
};

struct CapacityReport {
  const Scenario& scenario;
  const Load& load;
  Capacity capacity;
  std::optional<double> lowest, highest;  // at the ends of the forecast's interval
  std::vector<CapacityChange> changes;    // that were simulated, the best first
  std::vector<std::string> notes;         // on where the model is
  std::string command;                    // that serves it; empty: none is known
};

}  // namespace rigcast::planner
