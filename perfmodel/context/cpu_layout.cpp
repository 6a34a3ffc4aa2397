#include "perfmodel/context/cpu_layout.hpp"

#include <algorithm>

namespace rigcast {
namespace {

bool has_level(const CpuPart& cpu, const std::vector<std::string>& levels) {
  const auto named = [&](const std::string& level) {
    return level == cpu.simd || (level == kAmx && cpu.amx);
  };
  return std::ranges::any_of(levels, named);
}

}  // namespace

const RuntimeProfile::Repacking* cpu_layout(const StepContext& s, const CpuMatrix& matrix) {
  // llama.cpp beside a GPU keeps host weights as they are in the file.
  if (!s.rig.gpus.empty() && s.runtime.memory.maps_file) return nullptr;
  const auto applies = [&](const RuntimeProfile::Repacking& r) {
    return r.format == matrix.format && has_level(s.rig.cpu, r.simd) && matrix.rows % r.rows == 0 &&
           (r.experts || !matrix.of_experts) &&
           s.settings.build_year.value_or(r.since.value) >= r.since.value;
  };
  const auto found = std::ranges::find_if(s.runtime.repackings, applies);
  return found == s.runtime.repackings.end() ? nullptr : &*found;
}

}  // namespace rigcast
