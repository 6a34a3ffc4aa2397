#pragma once
// Control-C while work goes on: the first ends it in good order, the second at once. Time limits.

#include <array>
#include <csignal>

#include "core/base/stop_flag.hpp"

namespace rigcast {

/// While one lives, the first interrupt is only noted, be it from the keyboard, from who ends the
/// process or from a terminal that is closed. The second ends the program, without its temporary
/// files.
class OnInterrupt {
 public:
  OnInterrupt();
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// While it lives, what looks for interrupts ends after so many seconds; what does not look for
/// them ends the program half a minute later, with exit code 3.
class TimeLimit {
 public:
  explicit TimeLimit(int seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  bool is_over() const;
};

/// True if a signal was received since the program began, or a time limit is over.
bool interrupted();
/// The flag of interrupted(), for long-running work.
StopFlag stop_flag();

}  // namespace rigcast
