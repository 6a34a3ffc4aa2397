#include "report/terminal/progress_line.hpp"

#include <unistd.h>

#include <cstdio>

namespace rigcast {

void show_progress(std::string_view text) {
  static const bool watched = ::isatty(STDERR_FILENO) == 1;
  if (!watched) return;
  std::fprintf(stderr, "\r\033[K%.*s", int(text.size()), text.data());
  std::fflush(stderr);
}

void ProgressLine::show(std::string_view text) {
  constexpr std::chrono::milliseconds kInterval{200};
  const auto now = Clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  show_progress(text);
}

ProgressLine::~ProgressLine() {
  if (shown_) show_progress("");
}

}  // namespace rigcast
