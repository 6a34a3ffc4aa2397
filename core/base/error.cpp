#include "core/base/error.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace rigcast {

std::string SourceRef::text() const {
  if (line == 0) return file;
  return fmt::format("{}:{}:{}", file, line, column);
}

std::string Error::text() const {
  std::string out = where ? where->text() + ": " + message : message;
  if (!hint.empty()) out += "\n  " + hint;
  return out;
}

void detail::assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "rigcast: internal error: %s does not hold (%s:%d)\n", condition, file,
               line);
  std::abort();
}

}  // namespace rigcast
