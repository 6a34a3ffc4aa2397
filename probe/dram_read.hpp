#pragma once
// The rate at which all cores together read memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/memory/large_pages.hpp"
#include "engine/threads/thread_team.hpp"
#include "probe/samples.hpp"

namespace rigcast::probe {

/// Reads a buffer that no cache holds, with the whole team.
class DramRead {
 public:
  /// Several patterns are tried: which is fastest depends on the processor's own prefetchers.
  struct ReadPattern {
    const char* name;
    int streams;    // positions of the buffer that a thread reads alternately
    bool prefetch;  // with software prefetch, as kernels do
  };
  static std::span<const ReadPattern> read_patterns();

  /// Touches all of the buffer. Throws std::bad_alloc.
  explicit DramRead(engine::ThreadTeam& team);

  double bytes() const { return double(buffer_.size()); }
  /// One pass over the buffer.
  void read(const ReadPattern& pattern) { read(pattern, {buffer_.data(), buffer_.size()}); }
  /// One pass over `memory`, in pieces of 4 KiB; a remainder is not read.
  void read(const ReadPattern& pattern, std::span<const std::byte> memory);

 private:
  engine::ThreadTeam& team_;
  engine::LargePages buffer_;
};

/// Bytes/s of several passes with the fastest pattern. Takes about a second. n is 0 if there is no
/// memory for the buffer.
Samples dram_read(engine::ThreadTeam& team);

}  // namespace rigcast::probe
