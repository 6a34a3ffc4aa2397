#pragma once
// Simulates a scenario and returns a report.

#include <memory>
#include <vector>

#include "report/report.hpp"
#include "report/trace.hpp"
#include "sim/decode.hpp"

namespace rigcast::sim {

inline constexpr TokenCount kTracedTokens = 8;  // the first decoded tokens that are traced

struct SimulateOptions {
  Fidelity fidelity = Fidelity::kFinal;
  std::vector<TokenCount> positions;  // positions at which speed is reported; empty: an even grid
                                      // over the context
  bool cliffs = true;
  std::vector<TraceEvent>* trace = nullptr;  // receives load, prefill and the first decoded tokens
};

/// A scenario that does not fit gives a report with fits = false and the reason, not an error.
Report simulate(std::shared_ptr<const Scenario> scenario, const SimulateOptions& options);

}  // namespace rigcast::sim
