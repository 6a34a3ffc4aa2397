#include "report/serving/serving_report.hpp"

namespace rigcast {

std::string_view name(ServingState state) {
  switch (state) {
    case ServingState::kStable: return "stable";
    case ServingState::kBacklogged: return "backlogged";
    case ServingState::kOverloaded: return "overloaded";
    case ServingState::kSaturated: return "saturated";
  }
  return "";
}

std::string_view name(ServingLimit limit) {
  switch (limit) {
    case ServingLimit::kPrompts: return "prompts";
    case ServingLimit::kDecodes: return "decodes";
    case ServingLimit::kSequences: return "sequences";
    case ServingLimit::kCache: return "cache";
  }
  return "";
}

ServingLimit ServingFigures::bound_by() const {
  constexpr double kOften = 0.05;  // below, waiting is no limit
  if (cache_full > kOften && cache_full >= sequences_full) return ServingLimit::kCache;
  if (sequences_full > kOften) return ServingLimit::kSequences;
  return with_prompts > 0.5 ? ServingLimit::kPrompts : ServingLimit::kDecodes;
}

}  // namespace rigcast
