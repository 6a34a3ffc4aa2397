#pragma once
// The fastest that all threads together can read memory: what kernels that stream are held against.

#include <vector>

#include "bench/engine/contenders.hpp"
#include "bench/engine/huge_buffer.hpp"
#include "engine/runtime/team.hpp"

namespace rigcast::bench {

class DramRead {
 public:
  /// The buffer is many times larger than the last cache.
  explicit DramRead(engine::Team& team);

  /// Several ways to read; the best one's median is the machine's bandwidth.
  std::vector<Contender> contenders();

 private:
  void read(int streams, int ahead);

  engine::Team& team_;
  HugeBuffer buffer_;
};

/// The best median of the first `count`.
double best_median(std::span<const Rates> rates, std::size_t count);

}  // namespace rigcast::bench
