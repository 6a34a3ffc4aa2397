#pragma once
// A plan as text.

#include <string>

#include "planner/plan.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {

/// Where layers are, and in full: "27 of 32 layers on the GPU", "all on the GPUs (25 + 8)", "all on
/// the GPU, experts of 20 in RAM". `placement` states its GPU layers.
std::string placement_text(const Scenario& base, const PlacementSettings& placement);

/// The settings of an option as text: "Q4_K_M, KV q8_0, 27 of 32 layers on the GPU, ubatch 1024".
std::string candidate_text(const Scenario& base, const Candidate& candidate);

/// A short form for tables: "Q4_K_M/q8_0, 27 of 32".
std::string short_candidate_text(const Scenario& base, const Candidate& candidate);

/// Why a plan is not among the best: a constraint that it does not meet, or another plan that is at
/// least as good in everything; empty: it is among the best.
std::string rejection_text(const Scenario& base, const Plan& plan, const RankedPlan& ranked);

/// The best plan, the next ones, and the front.
std::string to_text(const Scenario& base, const Plan& plan, TextStyle style);

}  // namespace rigcast::planner
