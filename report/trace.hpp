#pragma once
// Timelines in the Chrome/Perfetto trace-event format, with the same track and activity names for
// a forecast and for a run.

#include <string>
#include <vector>

#include "core/scenario/placement.hpp"
#include "report/activity.hpp"

namespace rigcast {

struct TraceEvent {
  std::string track;  // track_of(...)
  Phase phase = Phase::kDecode;
  ActivityKind kind = ActivityKind::kHostWork;
  int layer = -1;
  TokenCount token = 0;  // position of the token or of the ubatch's first; 0 in the load
  double start_s = 0;
  double finish_s = 0;
  double bytes = 0;
};

/// "GPU 0", "PCI-E to GPU 0", "PCI-E from GPU 0", "CPU", "SSD".
std::string track_of(ActivityKind kind, DeviceIndex device);

/// JSON that ui.perfetto.dev and chrome://tracing open.
std::string to_chrome_trace(const std::vector<TraceEvent>& events, std::string_view title);

}  // namespace rigcast
