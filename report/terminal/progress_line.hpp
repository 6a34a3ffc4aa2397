#pragma once
// One line on standard error that says what happens now. Nothing is printed where standard error is
// no terminal; a process that answers for another one tells that one instead.

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

namespace rigcast {

/// How far something is.
struct Progress {
  std::string_view text;
  std::optional<double> share{};  // of the whole, 0 to 1; nullopt: not known
};

/// Replaces the line, cut to the terminal's width; an empty text clears it.
void show_progress(std::string_view text);

/// From now on `listener` gets what would be shown, whatever standard error is.
void watch_progress(std::function<void(const Progress&)> listener);

/// Replaces the line a few times a second, and clears it at the end of its life.
class ProgressLine {
 public:
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void show(const Progress& progress);
  void show(std::string_view text) { show(Progress{text}); }
  /// A part is done: a listener gets this at any time.
  void done(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

}  // namespace rigcast
