#pragma once
// The rate at which all cores together read memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/memory/large_pages.hpp"
#include "engine/threads/team.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

/// Reads a buffer that no cache holds, with the whole team.
class DramRead {
 public:
  /// Several patterns are tried: which is fastest depends on the processor's own prefetchers.
  struct Way {
    const char* name;
    int streams;     // positions of the buffer that a thread reads alternately
    bool ask_ahead;  // with software prefetch, as kernels do
  };
  static std::span<const Way> ways();

  /// Touches all of the buffer. Throws std::bad_alloc.
  explicit DramRead(engine::Team& team);

  double bytes() const { return double(buffer_.size()); }
  /// One pass over the buffer.
  void read(const Way& way) { read(way, {buffer_.data(), buffer_.size()}); }
  /// One pass over `memory`, in pieces of 4 KiB; a remainder is not read.
  void read(const Way& way, std::span<const std::byte> memory);

 private:
  engine::Team& team_;
  engine::LargePages buffer_;
};

/// Bytes/s of several passes with the fastest pattern. Takes about a second. n is 0 if there is no
/// memory for the buffer.
Takes dram_read(engine::Team& team);

}  // namespace rigcast::probe
