#pragma once
// The decode speed that llmfit forecasts, written anew from its constants, to compare with.
//
// Source: AlexsJones/llmfit, llmfit-core/src/fit.rs, models.rs, plan.rs and hardware.rs and
// scripts/scrape_hf_models.py, in the newest stored copies found on 2026-11-21. They are undated,
// of about 2026-09: to a snapshot of 2026-08-22 they add, for decode, gpt-oss's constant (its issue
// 969), a row for MXFP4, and the memory of unequal GPUs.
//
//   GPU        bandwidth / (parameters * bytes) * 0.55
//   spilled    the same * 0.5, however much is spilled
//   CPU only   70 (ARM: 90) / parameters * quant factor * 1.1 from 8 threads on * 0.3
//   MoE, GPU   bandwidth / (routed experts * bytes + everything else * 3.2) * cache pressure
//   MoE, split 0.8 / (active / RAM bandwidth + active / (0.55 * bandwidth))
//
// with parameters those active for one token. Layers, context and cache do not count, but for what
// fits. It gives no prefill speed by itself; the newest copy does where its user has typed in the
// GPU's TFLOP/s. Left out: its catalogue rows without a model's widths, GPUs of unknown bandwidth.

#include <optional>

#include "core/scenario/scenario.hpp"

namespace rigcast::formulas {

/// Tokens/s of decode; nullopt where the tool gives none: a quant it has no row for, or placement
/// left open and a model that it finds too large. It would give the smaller quant's speed then; a
/// scenario names its quant.
///
/// Without calibration from runs on the same machine. How many layers are on the GPU does not
/// matter: none, some and all are three of its modes. RAM bandwidth is the rig's, which its users
/// can configure; by default it measures a copy, or takes 50 GB/s.
std::optional<double> llmfit_decode(const Scenario& scenario);

}  // namespace rigcast::formulas
