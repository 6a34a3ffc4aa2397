#pragma once
// The figures of a scenario with a load.

#include <utility>

#include "sim/serving/simulate_load.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

namespace rigcast::fixtures {

inline ServingFigures figures_of(const Settings& settings) {
  const Scenario s = scenario(settings);
  auto simulation = LoadSimulation::make(s);
  REQUIRE(simulation);
  auto figures = simulation->figures(*s.load);
  REQUIRE(figures);
  return *std::move(figures);
}

}  // namespace rigcast::fixtures
