#pragma once
// The decode speed that canirun.ai forecasts, written anew from its constants, to compare with.
//
// Source: midudev/canirun.ai at 0700e92, read on 2026-11-21: packages/compatibility/src/index.ts
// (speed and fit), packages/models/src/index.ts (sizes), packages/runai/src/hardware-linux.ts
// (what its program sees of a machine).
//
//   size       parameters * bytes / 2^30 * 1.1 + 0.5, to one decimal
//   read       size * active / all parameters, at least 0.5
//   in VRAM    bandwidth / read * 0.70 (Apple: 0.65)
//   spilled    1 / (v / bandwidth + (1 - v) / 50) / read * 0.70 * 0.85, v = VRAM / size
//   CPU only   as in VRAM, with min(4 * GiB of RAM, 100) GB/s
//
// Layers, context and cache do not count, and there is no prefill speed. It divides GB/s by GiB.

#include <optional>

#include "core/scenario/scenario.hpp"

namespace rigcast::formulas {

/// Tokens/s of decode; nullopt where the tool gives none: a quant it has no row for, or placement
/// left open and a model that it says cannot run.
///
/// The tool shows whole tokens/s, and 1 for a spilled model below that; this is not rounded. It
/// knows one GPU: several count as one with their memory together, as a user can enter. Nor does
/// it know layers on the CPU: the memory they leave in use is entered as the card's.
std::optional<double> canirun_decode(const Scenario& scenario);

}  // namespace rigcast::formulas
