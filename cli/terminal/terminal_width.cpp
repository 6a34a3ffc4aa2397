#include "cli/terminal/terminal_width.hpp"

#include <unistd.h>

namespace rigcast::cli {

std::size_t terminal_width(const OutputOptions& output) {
  const bool is_terminal = output.file.empty() && ::isatty(STDOUT_FILENO) == 1;
  return is_terminal ? std::size_t(screen_width()) : 0;
}

}  // namespace rigcast::cli
