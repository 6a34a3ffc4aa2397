#include "engine/memory/lock_pages.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::engine {

void lock_pages(const std::byte* begin, std::size_t bytes, const char* what) {
  if (bytes == 0 || ::mlock(begin, bytes) == 0) return;
  throw MachineError(
      fmt::format("{} of the {} cannot be locked in RAM: {} (ulimit -l says how "
                  "much may be)",
                  text_gib(Bytes{double(bytes)}), what, std::strerror(errno)));
}

}  // namespace rigcast::engine
