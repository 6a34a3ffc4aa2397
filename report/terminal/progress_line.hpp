#pragma once
// One line on standard error that says what happens now. Nothing is printed where standard error is
// no terminal.

#include <chrono>
#include <string_view>

namespace rigcast {

/// Replaces the line; an empty text clears it.
void show_progress(std::string_view text);

/// Replaces the line a few times a second, and clears it at the end of its life.
class ProgressLine {
 public:
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void show(std::string_view text);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

}  // namespace rigcast
