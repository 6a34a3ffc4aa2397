#pragma once
// How fast the host's memory is read.

#include <chrono>
#include <span>
#include <vector>

#include "core/base/quantile.hpp"
#include "engine/threads/thread_team.hpp"
#include "probe/dram_read.hpp"

namespace rigcast::bench {

/// The rate at which all threads read the host's memory, with the fastest method.
class HostReads {
 public:
  explicit HostReads(int threads) : team_(threads), dram_(team_) {
    double most = 0;
    const probe::DramRead::ReadPattern* fastest = nullptr;
    for (const auto& way : dram_.read_patterns()) {
      pattern_ = &way;
      std::vector<double> rates;
      for (int i = 0; i < 3; ++i) rates.push_back(rate());
      if (median(rates) <= most) continue;
      most = median(rates);
      fastest = &way;
    }
    pattern_ = fastest;
  }

  /// Bytes per second, for a buffer that exceeds all caches.
  double rate() {
    const auto begin = std::chrono::steady_clock::now();
    dram_.read(*pattern_);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return dram_.bytes() / time.count();
  }
  /// The same of reading this memory repeatedly: reading may be slower at its addresses, and a
  /// cache may hold a part.
  double rate(const std::vector<std::span<const std::byte>>& memory) {
    double bytes = 0;
    for (const auto& part : memory) dram_.read(*pattern_, part);
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& part : memory) {
      dram_.read(*pattern_, part);
      bytes += double(part.size());
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return bytes / time.count();
  }

 private:
  engine::ThreadTeam team_;
  probe::DramRead dram_;
  const probe::DramRead::ReadPattern* pattern_ = nullptr;
};

}  // namespace rigcast::bench
