#include "report/terminal/progress_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "report/terminal/text_style.hpp"

namespace rigcast {
namespace {

std::function<void(const Progress&)>& listener() {
  static std::function<void(const Progress&)> function;
  return function;
}

// One column less than there are: a full line would make some terminals begin another one.
std::size_t line_width() {
  constexpr std::size_t kDefault = 80;
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (is_known ? size.ws_col : kDefault) - 1;
}

void tell(const Progress& progress) {
  if (listener() && !progress.text.empty()) return listener()(progress);
  if (::isatty(STDERR_FILENO) != 1) return;
  const std::string shown = clip(printable(progress.text), line_width());
  std::fprintf(stderr, "\r\033[K%s", shown.c_str());
  std::fflush(stderr);
}

}  // namespace

void show_progress(std::string_view text) { tell({text}); }

void watch_progress(std::function<void(const Progress&)> function) {
  listener() = std::move(function);
}

void ProgressLine::show(const Progress& progress) {
  constexpr std::chrono::milliseconds kInterval{200};
  const auto now = Clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  tell(progress);
}

void ProgressLine::done(const Progress& progress) {
  if (listener()) return tell(progress);
  show(progress);
}

ProgressLine::~ProgressLine() {
  if (shown_) show_progress("");
}

}  // namespace rigcast
