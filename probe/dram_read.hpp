#pragma once
// The rate at which all cores together read memory, and those of one memory node that of another.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/stop_flag.hpp"
#include "engine/memory/large_pages.hpp"
#include "engine/threads/thread_team.hpp"
#include "probe/host.hpp"
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

/// The same of the cores of `reader`, one thread each, which read pages of `memory`, in turn of
/// each of its nodes. n is 0 also where the system refuses to place threads or pages.
Samples dram_read(const MemoryNode& reader, const MemoryNode& memory, const StopFlag& stop = {});

/// Rates by reader and by memory.
using NodeMatrix = std::vector<std::vector<Samples>>;

struct NodeRates {
  std::vector<MemoryNode> nodes;  // between which reads are slower than within
  NodeMatrix matrix;              // of these
  Samples local, remote;          // the matrix's medians; n is 0: not measured
};

/// Of nodes of one socket, those that read each other's memory at 0.9 of their own rate or more
/// become one. `matrix` has what was measured of them; n = 0 elsewhere.
std::vector<MemoryNode> joined_nodes(const std::vector<MemoryNode>& nodes,
                                     const NodeMatrix& matrix);

/// Takes about a second for each pair. With one node, or where the system refuses, nothing is
/// measured and `nodes` has at most one entry.
NodeRates measure_nodes(const std::vector<MemoryNode>& nodes, const StopFlag& stop = {});

}  // namespace rigcast::probe
