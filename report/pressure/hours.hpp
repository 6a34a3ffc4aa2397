#pragma once
// Speed over the hours of a scenario's timeline.

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast {

/// One moment. Between two of them that have the same `reclaim`, all changes evenly.
struct HourPoint {
  Seconds at;
  int sessions = 0;  // that decode together
  TokenCount session_tokens = 0;
  Bytes cache, weights, other;  // of the host's memory: of all sessions; mapped; of others
  Bytes room;                   // for all of them
  std::string reclaim;          // what the system takes: "fits", "files", "swap", "both" or "full"
  double tokens_per_s = 0;      // of each session; 0: the system ends a process, or none is open
  double least_tokens_per_s = 0, most_tokens_per_s = 0;
  double unpressed_tokens_per_s = 0;  // of each session, had memory sufficed
  Bytes disk, swap;                   // that a step of all sessions reads again
};

struct Hours {
  std::vector<HourPoint> points;
  std::optional<Seconds> first_page;  // when the first page leaves that a step needs
  double tokens = 0;                  // of all sessions, over all hours
  double unpressed_tokens = 0;        // had memory sufficed
};

}  // namespace rigcast
