#pragma once
// The figures that entered a forecast, counted by the kind of their source.

#include <array>
#include <string>
#include <vector>

#include "core/base/sourced.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast {

struct Inputs {
  std::array<int, kSourceKindCount> count{};
  std::vector<std::string> assumed;  // names, most influential first
};

/// The figures of the rig's parts and of the runtime profile that this scenario uses.
Inputs tally_inputs(const Scenario& scenario);

}  // namespace rigcast
