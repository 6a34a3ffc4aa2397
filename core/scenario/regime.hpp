#pragma once
// Kinds of placement with different bottlenecks: the uncertainty of a forecast is that of its
// regime.

#include <optional>
#include <string_view>

#include "core/scenario/placement.hpp"

namespace rigcast {

/// The first regime that applies counts.
enum class Regime {
  kCpuOnly,
  kUnified,  // one pool of memory for CPU and GPU
  kKvInRam,  // a GPU's layers with their cache in host memory
  kExpertsInRam,
  kSplit,  // some layers, or the head, on the host
  kSeveralGpus,
  kResident,  // all on one GPU
};
inline constexpr int kRegimeCount = 7;
std::string_view name(Regime regime);
/// nullopt: no regime has this name.
std::optional<Regime> regime_from(std::string_view name);

Regime regime_of(const Scenario& scenario, const Placement& placement);

}  // namespace rigcast
