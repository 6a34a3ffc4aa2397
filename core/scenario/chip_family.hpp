#pragma once
// Families of chips: those that share a runtime's kernels, and so the figures of its profile.

#include <string>
#include <vector>

#include "core/scenario/regime.hpp"

namespace rigcast {

struct Rig;

/// The architectures of the rig's GPUs in alphabetical order, each once; the SIMD level of its CPU
/// where no GPU computes: {"ada", "ampere"}, {"avx2"}.
std::vector<std::string> chip_families(const Rig& rig, Regime regime);

/// True if a GPU computes and a CPU with small cores launches its kernels.
bool has_slow_host(const Rig& rig, Regime regime);

}  // namespace rigcast
