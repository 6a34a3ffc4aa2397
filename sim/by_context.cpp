#include "sim/by_context.hpp"

#include <algorithm>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/decode.hpp"
#include "sim/machine/machine.hpp"

namespace rigcast::sim {
namespace {

constexpr TokenCount kShortest = 1024;

ContextSpeed at_context(Scenario s, TokenCount context) {
  s.workload.context = context;
  ContextSpeed out{.context = context};
  const Placement placement = resolve_placement(s);
  out.gpu_layers = placement.gpu_layers;
  out.cpu_moe_layers = placement.cpu_moe_layers;
  out.fits = plan_memory(s, placement, context).fits();
  if (!out.fits) return out;
  DecodeModel decode(s, placement, Fidelity::kSweep);
  out.first_tokens_per_s = 1.0 / decode.period(1).value;
  out.last_tokens_per_s = 1.0 / decode.period(context).value;
  return out;
}

}  // namespace

std::vector<ContextSpeed> by_context(const Scenario& given) {
  Scenario s = given;
  s.workload.depth = 0;
  s.workload.prompt_tokens = s.workload.output_tokens = 1;
  std::vector<TokenCount> contexts{given.workload.context};
  for (TokenCount n = kShortest; n < s.model.context; n *= 2) contexts.push_back(n);
  contexts.push_back(s.model.context);
  std::ranges::sort(contexts);
  contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
  set_machine(s.rig);
  std::vector<ContextSpeed> out;
  for (const TokenCount context : contexts) out.push_back(at_context(s, context));
  return out;
}

}  // namespace rigcast::sim
