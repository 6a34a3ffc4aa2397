#pragma once
// The results of a run: one type for predicted and measured ones, so that they can be compared. The
// JSON keys are a contract (docs/report.md).

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/metrics.hpp"
#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"
#include "report/activity.hpp"
#include "report/pressure/hours.hpp"
#include "report/serving/serving_report.hpp"

namespace rigcast {

enum class Origin { kPredicted, kMeasured };

struct TtftBreakdown {
  Seconds load, tokenize, transfer, prefill, sample;
  Seconds total() const { return load + tokenize + transfer + prefill + sample; }
};

/// The busiest resource of a phase, busy for `share` of its time.
struct Bottleneck {
  Resource resource = Resource::kVram;
  double share = 0;
};

struct Interval {
  double lo = 0, hi = 0;
};

/// Families of the chips that compute without a measured run behind the forecast: its interval is
/// then that of families which the fit had not seen.
struct UnmeasuredFamilies {
  std::vector<std::string> decode, prefill;
};

struct PositionSpeed {
  TokenCount tokens = 0;  // in the cache when the token is decoded
  double tokens_per_s = 0;
  Seconds tpot;
  Resource bound_by = Resource::kVram;
  std::optional<Interval> spread{};  // of tokens_per_s over the runs of a measurement
};

/// Speeds of one context limit: with a nearly empty cache, and a full one.
struct ContextSpeed {
  TokenCount context = 0;
  bool fits = false;
  int gpu_layers = 0, cpu_moe_layers = 0;  // as placed for this context
  double first_tokens_per_s = 0, last_tokens_per_s = 0;
};

/// Facts about a measurement itself.
struct MeasuredFigures {
  int runs = 0;
  BytesPerSecond read;     // of weights and cache while decoding
  BytesPerSecond ceiling;  // that this machine's memory was measured to give; 0: was not measured
  std::vector<double> token_s{};  // of every token after the first, in one of the runs
};

struct MemoryPoint {
  TokenCount tokens = 0;
  std::string device;
  Bytes total;
};

enum class CliffAxis {
  kPosition,  // speed falls within a run, at this many tokens in the cache
  kContext,   // memory no longer fits when the context limit is set beyond this
};

/// What a token in the middle of the answer brings back into RAM.
struct TokenPaging {
  std::string reclaim;  // of a forecast, what the system takes: "fits", "files", "swap" or "both"
  Bytes disk, swap;     // from files; from the swap device
  std::optional<Interval> disk_interval{}, swap_interval{};  // of a forecast
  /// Of a forecast: tokens in the cache from which on pages leave; nullopt: within the context none
  /// does, or the system ends the program.
  std::optional<TokenCount> from_tokens{};
};

/// A fall of speed that is steeper than the trend before it: a step, or a decline over many tokens.
struct Cliff {
  CliffAxis axis = CliffAxis::kPosition;
  TokenCount at_tokens = 0;
  double before_tokens_per_s = 0;
  double after_tokens_per_s = 0;  // 0: does not run
  std::string cause;              // "KV blocks leave VRAM and come back over PCI-E"
  std::string device;             // "GPU 0"
  Tier tier = Tier::kVram;        // which filled
  /// Where a decline reaches the speed after it; nullopt: a step.
  std::optional<TokenCount> until_tokens{};
};

/// One change to the scenario, simulated.
struct Advice {
  std::string change;       // "KV type q8_0"
  std::string flags;        // "--kv-type q8_0"
  double tokens_per_s = 0;  // over the same workload
  Seconds ttft;
  double gain = 0;                        // total request time before / after - 1
  std::string note;                       // "no cliff", "cliff moves to 37,900"
  std::optional<double> loss_nats = 0.0;  // of quality, that the change adds; nullopt: not known
};

struct Report {
  // Compiled once: inline, they were half of the code of sources that hold one.
  Report();
  Report(const Report&);
  Report(Report&&) noexcept;
  Report& operator=(const Report&);
  Report& operator=(Report&&) noexcept;
  ~Report();

  Origin origin = Origin::kPredicted;
  std::shared_ptr<const Scenario> scenario;
  Placement placement;

  std::optional<TtftBreakdown> resident, warm, cold;  // TTFT by start
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  TpotSummary tpot;
  std::vector<PositionSpeed> by_position;
  std::vector<ContextSpeed> by_context;  // empty: not asked for

  MemoryPlan memory;  // at the end of the run
  std::vector<MemoryPoint> timeline;
  TokenCount max_context = 0;  // that fits with this placement, at most the model's own
  std::vector<Cliff> cliffs;
  std::optional<TokenPaging> paging;  // of scenarios that state [memory]
  std::optional<Hours> hours;         // of those with a [[timeline]]

  Bottleneck prefill_bound, decode_bound;
  std::optional<Bottleneck> warm_bound, cold_bound;    // of the whole TTFT
  std::array<double, kResourceCount> utilisation{};    // of the decode
  std::array<double, kResourceCount> traffic_bytes{};  // of one request from resident
  // Forecast: 80 % intervals. Measurement: the range over its runs.
  std::optional<Interval> tokens_per_s_interval, ttft_interval, prefill_interval;
  UnmeasuredFamilies unmeasured;
  std::array<int, kSourceKindCount> inputs{};  // figures by kind
  std::vector<std::string> assumed;            // names of the assumed ones

  std::optional<ServingReport> serving;  // of the scenario's load; what is above is of one request
  std::optional<MeasuredFigures> measured;
  std::vector<Advice> advice;
  bool fits = true;
  std::vector<std::string> errors, warnings;

  /// The TTFT of the scenario's own start: from the disk, where RAM cannot hold the file.
  const std::optional<TtftBreakdown>& ttft() const;
};

}  // namespace rigcast
