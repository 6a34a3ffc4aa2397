#pragma once
// A scenario in, a report out.

#include <memory>
#include <vector>

#include "report/report.hpp"
#include "report/trace.hpp"
#include "sim/decode.hpp"

namespace rigcast::sim {

inline constexpr TokenCount kTracedTokens = 8;  // that are decoded, the first ones

struct SimulateOptions {
  Detail detail = Detail::kFinal;
  std::vector<TokenCount> positions;  // to report speed at; empty: an even grid over the context
  bool cliffs = true;
  std::vector<TraceEvent>* trace = nullptr;  // receives load, prefill and the first decoded tokens
};

/// A scenario that does not fit gives a report with fits = false and the reason, not an error.
Report simulate(std::shared_ptr<const Scenario> scenario, const SimulateOptions& options);

}  // namespace rigcast::sim
