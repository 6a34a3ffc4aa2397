#pragma once
// What many requests on one server come to: how long each waits, what all get, and what limits
// them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/units.hpp"
#include "report/serving/restore_figures.hpp"

namespace rigcast {

/// Of the requests of a load, in seconds.
struct Percentiles {
  double mean = 0, p50 = 0, p90 = 0, p95 = 0;
  std::optional<double> p99;  // of at least 1,000 requests
};

/// Whether a server keeps up with what arrives.
enum class ServingState {
  kStable,
  kBacklogged,  // requests wait longer and longer, or more wait at the end than chance explains
  kOverloaded,  // both: with more requests all figures would be worse
  // Of users who wait for their answers: most of the time somebody waits for a slot or for room in
  // the cache. More users would wait longer, and hardly get more.
  kSaturated,
};
std::string_view name(ServingState state);

/// What most requests that wait are waiting for, or what a step takes its time for.
enum class ServingLimit { kPrompts, kDecodes, kSequences, kCache };
std::string_view name(ServingLimit limit);

struct ServingFigures {
  std::size_t requests = 0;  // that have ended
  Seconds duration;          // from the first arrival to the last token
  std::size_t left_out = 0;  // the first ones, before the server had filled
  Percentiles ttft, tpot, e2e;
  Percentiles itl;  // of all gaps between tokens
  double requests_per_s = 0;
  double output_tokens_per_s = 0, prompt_tokens_per_s = 0;
  std::optional<double> goodput;       // requests/s within the SLO, if there is one
  std::optional<double> share_in_slo;  // of the requests
  std::string broken;                  // the first limit of the SLO that is not met: "TTFT p95"
  double most_of_limit = 0;            // the highest of its latencies over their limits
  double waiting = 0, running = 0;     // requests, mean over time
  std::size_t peak_running = 0;
  // Shares of the time in which steps are computed.
  double busy = 0;          // of the whole duration
  double with_prompts = 0;  // steps that compute prompts
  // Shares of the whole duration in which somebody waits: for one that runs to end, for room in the
  // cache, or for the next step.
  double sequences_full = 0, cache_full = 0, step_full = 0;
  ServingState state = ServingState::kStable;
  std::size_t shortened = 0;        // requests cut to the context, and conversations that it ended
  bool shortened_is_about = false;  // those of one engine, times the engines

  /// Of several engines one's, whose requests are a share of all; counts are those of all.
  struct Cache {
    bool slots = false;       // `mean` and `peak` are shares of the slots, whatever they hold
    TokenCount capacity = 0;  // tokens of requests that are as long as the context
    TokenCount capacity_without_windows = 0;  // of requests that no window cuts
    double mean = 0, peak = 0;                // shares of it
    double hit_rate = 0;                      // share of the prompts' tokens that were in it
    std::int64_t preemptions = 0;
    std::int64_t recomputed_tokens = 0;

    /// Its second tier, in RAM behind a link.
    struct Ram {
      Bytes capacity;
      double hit_rate = 0;   // share of the prompts' tokens that were in it, and not in the cache
      Bytes to_ram, to_gpu;  // copied
      // Of the time, in which the link copies; nullopt: of a run, which does not tell.
      std::optional<double> to_ram_share, to_gpu_share;
      double waits = 0;  // share of the time in which requests wait for a copy
    };
    std::optional<Ram> ram;

    /// Its tier on disk.
    struct Disk {
      Bytes capacity;
      double hit_rate = 0;  // share of the prompts' tokens that came back from there
      Bytes to_disk, from_disk;
    };
    std::optional<Disk> disk;
    std::optional<RestoreFigures> restore;  // nullopt: nothing was decided by rates
  } cache;
  std::size_t refused = 0;  // found the queue full; they are served here all the same

  /// True if all limits of the SLO are met, by a server that keeps up.
  [[nodiscard]] bool meets_slo() const {
    return broken.empty() && state != ServingState::kOverloaded;
  }
  /// What to change first.
  [[nodiscard]] ServingLimit bound_by() const;
};

/// The same load where the machine is as fast, and as slow, as the forecast's interval allows.
struct ServingReport {
  std::string load;  // in words
  ServingFigures figures;
  std::optional<ServingFigures> fastest, slowest;
};

}  // namespace rigcast
