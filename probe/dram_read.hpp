#pragma once
// How fast the cores together read memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/memory/large_pages.hpp"
#include "engine/threads/team.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

/// A buffer that no cache holds, read by the whole team.
class DramRead {
 public:
  /// No way of reading is the fastest everywhere: it depends on what the processor asks for by
  /// itself.
  struct Way {
    const char* name;
    int streams;     // places of the buffer that a thread reads in turn
    bool ask_ahead;  // as kernels do
  };
  static std::span<const Way> ways();

  /// Touches all of the buffer. Throws std::bad_alloc.
  explicit DramRead(engine::Team& team);

  double bytes() const { return double(buffer_.size()); }
  /// One pass over the buffer.
  void read(const Way& way) { read(way, {buffer_.data(), buffer_.size()}); }
  /// One pass over other memory, 4 KiB at a time: what is left at its end is not read.
  void read(const Way& way, std::span<const std::byte> memory);

 private:
  engine::Team& team_;
  engine::LargePages buffer_;
};

/// Bytes/s of several passes in the way that is the fastest here. Takes a second or so. n is 0 if
/// there is no memory for the buffer.
Takes dram_read(engine::Team& team);

}  // namespace rigcast::probe
