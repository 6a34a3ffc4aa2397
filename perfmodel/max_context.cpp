#include "perfmodel/max_context.hpp"

#include "perfmodel/memory.hpp"

namespace rigcast {

TokenCount max_context(const Scenario& given, const Placement& placement, TokenCount most) {
  Scenario s = given;
  const auto fits = [&](TokenCount context) {
    s.workload.context = context;
    return plan_memory(s, placement, context).fits();
  };
  if (fits(most)) return most;
  TokenCount good = 0;
  for (TokenCount bad = most; bad - good > 1;) {
    const TokenCount middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace rigcast
