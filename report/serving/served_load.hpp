#pragma once
// A load that a server has served, request by request, and what it took of the server: simulated,
// or run.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/units.hpp"
#include "load/arrivals.hpp"
#include "report/serving/gap_histogram.hpp"
#include "report/serving/restore_figures.hpp"

namespace rigcast {

/// When what of a request happened; times since the load's start.
struct ServedTimes {
  Seconds queued;  // at the scheduler
  Seconds scheduled, first_token, last_token;
  // Tokens of the prompt that were in the cache when it was first scheduled, and after those in RAM
  // and on disk.
  TokenCount hit = 0, ram_hit = 0, disk_hit = 0;
  int preemptions = 0;
};

/// A whole load, and what it took of the server.
struct ServingRun {
  std::vector<ServedRequest> load;
  std::vector<ServedTimes> requests;  // of the load, in its order
  std::int64_t steps = 0;
  Seconds busy;                      // in steps
  Seconds with_prompts;              // in those that compute prompts
  Seconds sequences_full;            // in which somebody waits until one of those that run ends
  Seconds cache_full;                // in which somebody waits for room in the cache
  Seconds step_full;                 // in which somebody waits for the next step
  Seconds copy_full;                 // in which all that wait do so for a copy, or steps do
  Seconds end;                       // of the last step
  GapHistogram gaps;                 // between the tokens of answers
  std::int64_t computed_tokens = 0;  // of prompts and answers, again after a preemption
  std::int64_t hit_tokens = 0;       // found in the cache, at every admission
  std::int64_t ram_hit_tokens = 0;   // found in RAM, at every admission
  std::int64_t disk_hit_tokens = 0;  // found on disk, at every admission
  std::int64_t lost_tokens = 0;      // computed or found, and given up by preemptions
  // Sums over time of requests that wait, requests that run, and blocks (or slots) of the cache in
  // use: request-seconds and block-seconds.
  double waiting = 0, running = 0, blocks = 0;
  std::size_t peak_blocks = 0, peak_running = 0;
  std::size_t free_blocks_at_end = 0;
  Seconds to_ram_busy, to_gpu_busy;  // of the link's directions
  bool copies_are_timed = true;      // false: these two are not known, of a run
  Bytes to_ram, to_gpu;              // copied
  Bytes to_disk, from_disk;
  std::optional<RestoreFigures> restore;  // nullopt: nothing was decided by rates
  std::size_t beyond_queue = 0;           // requests that found as many waiting as may wait
};

}  // namespace rigcast
