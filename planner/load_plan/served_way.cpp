#include "planner/load_plan/served_way.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "perfmodel/resolve_placement.hpp"
#include "planner/output/plan_text.hpp"

namespace rigcast::planner {

std::string_view name(GpuUse use) { return use == GpuUse::kCopies ? "copies" : "together"; }

std::string text(const ServedWay& way) {
  const Scenario& s = *way.scenario;
  std::string out = s.quant;
  const KvTypes types = s.kv.types;
  if (types.k != QuantFormat::kF16 || types.v != QuantFormat::kF16) out += "/" + text(types);
  const bool slots = s.scheduler->layout == KvLayout::kSlots;
  const std::size_t sequences = s.scheduler->sequences;
  out +=
      fmt::format(", {} {}{}", sequences, slots ? "slot" : "sequence", sequences == 1 ? "" : "s");
  if (slots && s.settings.ubatch != RuntimeSettings{}.ubatch)
    out += fmt::format(", ubatch {}", s.settings.ubatch);
  if (!slots) out += fmt::format(", budget {}", s.scheduler->step_tokens);
  PlacementSettings placement = s.placement;
  placement.gpu_layers = resolve_placement(s).gpu_layers;
  if (*placement.gpu_layers <= s.model.layers && !s.rig.gpus.empty())
    out += ", " + placement_text(s, placement);
  if (!s.rig.gpus.empty() && s.rig.gpus.front().shared)
    out += fmt::format(", {} GPUs share each layer", s.rig.gpus.front().shared->gpus);
  const GpuGroups& groups = s.placement.groups;
  if (groups.pipeline > 1) out += fmt::format(", {} stages", groups.pipeline);
  if (groups.data > 1) out += fmt::format(", {} engines", groups.data);
  if (way.servers > 1) out += fmt::format(", a copy on each of {} GPUs", way.servers);
  return out;
}

Rig with_one_gpu(const Rig& rig) {
  Rig one = rig;
  one.gpus.resize(1);
  one.links.resize(1);
  one.ram.capacity.value = rig.ram.capacity.value / double(rig.gpus.size());
  return one;
}

bool takes_copies(const Rig& rig) {
  return rig.gpus.size() > 1 && !rig.unified() && !rig.between_stages &&
         std::ranges::all_of(rig.gpus,
                             [&](const GpuPart& gpu) { return gpu.id == rig.gpus.front().id; });
}

}  // namespace rigcast::planner
