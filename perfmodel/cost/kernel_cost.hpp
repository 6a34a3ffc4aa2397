#pragma once
// What the costs of GPU and CPU kernels have in common.

#include <optional>

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/cost/roofline.hpp"

namespace rigcast {

/// Batches of up to this many tokens run as matrix-vector products, whose arithmetic is hidden
// behind their reads.
inline constexpr TokenCount kMatVecTokens = 8;

/// True for so few tokens that a GPU computes them with the kernels of one. Of kernels whose thread
/// blocks are known, those of one token take no more.
bool has_token_kernels(const StepContext& context, TokenCount tokens);

/// Bytes that attention, and the cache's growth, move of the cache. `gpu`: nullptr for the CPU.
double cache_bytes(const StepContext& context, const OpTraffic& traffic, const GpuPart* gpu);

/// The factor on a figure of the GPU's kernels in the build that is forecast.
double before_changes(const StepContext& context, const GpuPart& gpu, ChangedFigure figure);

/// From one kernel's end to the start of the next, for a batch of `tokens`.
Seconds launch_overhead(const StepContext& context, const GpuPart& gpu, TokenCount tokens);
/// What GPUs that share a layer launch for one exchange outside of captured graphs: its kernels,
/// and where they end a graph the next one.
Seconds exchange_launches(const StepContext& context, const GpuPart& gpu, TokenCount tokens);

/// The time of one host thread's work relative to the host with which the profile's launches were
/// measured, by the clock of a core that works alone; 1 where either clock is not known.
double host_clock_factor(const StepContext& context);

/// Of a core that works alone: as measured, or else its boost clock; nullopt: not known.
std::optional<Hertz> clock_of_one_core(const CpuPart& cpu);

/// As fast as rows of the chip and the rig's own runs were, for a batch of `tokens` on a device.
OpCost corrected(const StepContext& context, OpCost cost, TokenCount tokens, DeviceIndex device);

/// A GPU whose power limit is low for its rate runs large products below that rate. `usual`: watts
/// per TFLOP/s of a desktop card; more than twice as many watts no longer help.
double power_share(const StepContext& context, const GpuPart& gpu, FlopsPerSecond rate,
                   double usual);

/// 0: unknown.
inline double units_of(const GpuPart& gpu) { return gpu.units ? double(*gpu.units) : 0.0; }

/// Probability that a token of a batch is for a given expert.
double share_of_expert(const StepContext& context);

/// The heads of keys and values that the operation's attention has.
double kv_heads(const StepContext& context, const OpTraffic& traffic);
/// The same as kernels see them: latent attention has one head of keys for all queries.
double heads_of_cache(const StepContext& context, const OpTraffic& traffic);

/// Time of the attention of sequences with one new token each in a batch, besides reads and
/// products: blocks of all sequences and KV heads in waves of two a unit.
Seconds single_attention_time(const StepContext& context, const GpuPart& gpu, const OpTraffic& t);

}  // namespace rigcast
