#pragma once
// Measurements of this machine's GPUs.

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "probe/copy_curve.hpp"
#include "probe/gpu_link.hpp"
#include "probe/samples.hpp"

namespace rigcast::probe {

/// Copies between host and GPU; the host waits for each.
struct CopyRates {
  CopyCurve h2d_pinned, d2h_pinned, h2d_pageable;
};

struct Gpu {
  std::string name;                     // as the driver calls it: "NVIDIA H100 80GB HBM3"
  std::string bus_id;                   // "0000:01:00.0"
  Bytes memory;                         // in all
  Samples context;                      // bytes that creating a context takes
  Samples start;                        // seconds that it takes
  std::optional<Bytes> used_by_others;  // memory used before that; nullopt: unknown, and included
                                        // in `context`
  GpuLink link;                         // state of the link while copying
  CopyRates copies;
  Samples vram_read;               // bytes/s, of a buffer that no cache holds
  std::vector<std::string> notes;  // what was left out, and why
};

struct Gpus {
  std::vector<Gpu> found;
  std::string none;  // why there are none, in one line
};

}  // namespace rigcast::probe
