#include "perfmodel/max_context.hpp"

#include "perfmodel/memory.hpp"

namespace rigcast {

TokenCount max_context(const Scenario& given, const Placement& placement, TokenCount most) {
  Scenario s = given;
  // A longer cache must not push weights out of RAM.
  const Bytes outside = plan_memory(given, placement, given.workload.context).outside_ram;
  const auto leaves = [&](TokenCount context, Bytes headroom) {
    s.workload.context = context;
    const MemoryPlan plan = plan_memory(s, placement, context);
    return plan.fits() && plan.fits_on_gpus(headroom) && plan.outside_ram <= outside;
  };
  const bool keeps = leaves(given.workload.context, given.settings.headroom);
  const auto fits = [&](TokenCount context) {
    return leaves(context, keeps ? given.settings.headroom : Bytes{});
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
