#pragma once
// Measurements of this machine's GPUs.

#include <optional>
#include <string>
#include <vector>

#include "core/base/stop_flag.hpp"
#include "core/base/units.hpp"
#include "probe/copy_curve.hpp"
#include "probe/gpu_link.hpp"
#include "probe/say.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

/// Copies between host and GPU; the host waits for each.
struct CopyRates {
  CopyCurve h2d_pinned, d2h_pinned, h2d_pageable, d2h_pageable;
  Takes both_ways;  // bytes/s of both directions together, pinned, concurrent
};

/// Rates over a buffer that no cache holds.
struct VramRates {
  Takes read;  // bytes/s
  Takes copy;  // bytes/s, read and written bytes counted
};

/// Seconds of an empty kernel, in a sequence in which each waits for the one before.
struct LaunchTimes {
  Takes eager;      // launched one by one
  Takes in_graph;   // all launched as one graph
  Takes dependent;  // with programmatic dependent launch; n 0: not on this GPU
  Takes waited;     // launched alone and waited for by the host
};

/// Products of weights (rows x columns) with a batch of tokens, by the vendor's library.
struct ProductCurve {
  struct Point {
    int tokens = 0;
    Takes flops_per_s;  // operations/s for int8
  };
  std::string type;  // "f16", "bf16" with F32 sums, "int8" with 32-bit sums
  int rows = 0, columns = 0;
  std::vector<Point> points;
};

struct Gpu {
  std::string name;                     // as the driver calls it: "NVIDIA H100 80GB HBM3"
  std::string bus_id;                   // "0000:01:00.0"
  Bytes memory;                         // in all
  Takes context;                        // bytes that creating a context takes
  std::optional<Bytes> used_by_others;  // memory used before that; nullopt: unknown, and included
                                        // in `context`
  GpuLink link;                         // state of the link while copying
  CopyRates copies;
  VramRates vram;
  std::vector<ProductCurve> products;
  LaunchTimes launches;
  Takes handoff;  // round trip in seconds from the GPU to the host and back, through pinned memory
  std::vector<std::string> notes;  // what was left out, and why
};

struct Gpus {
  std::vector<Gpu> found;
  std::string none;  // why there are none, in one line
};

/// Takes some seconds per GPU; checks `stop` between figures, and throws Interrupted. Resets this
/// process' contexts, so no other code in it may use CUDA meanwhile. A figure that cannot be
/// measured is left out and noted.
Gpus measure_gpus(const Say& say, const StopFlag& stop = {});

/// Rate at which the first GPU reads its memory, in bytes/s. Takes a second or two, and uses at
/// most a quarter of the free memory. n is 0 where it cannot be measured. Throws Interrupted.
Takes vram_read(const StopFlag& stop = {});

}  // namespace rigcast::probe
