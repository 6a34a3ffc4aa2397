#include "probe/dram_read.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace rigcast::probe {
namespace {

constexpr std::size_t kPiece = 4096;      // bytes of a stream that are read in turn
constexpr std::int64_t kShare = 2 << 20;  // bytes that a thread claims at once
constexpr int kPasses = 7;

std::size_t buffer_bytes() {
  const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t least = std::size_t(1) << 30;
  return std::max(least, 8 * std::size_t(std::max(l3, 0L)));
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
std::uint64_t
sum_words(const std::uint64_t* p, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += p[i];
  return sum;
}

std::uint64_t read_piece(const std::byte* p, bool prefetch) {
  if (prefetch)
    for (std::size_t i = 0; i < kPiece; i += 64) __builtin_prefetch(p + 2 * kPiece + i, 0, 2);
  return sum_words(reinterpret_cast<const std::uint64_t*>(p), kPiece / 8);
}

std::atomic<std::uint64_t> sink;

}  // namespace

std::span<const DramRead::ReadPattern> DramRead::read_patterns() {
  static constexpr ReadPattern kWays[] = {
      {"1 stream per thread", 1, false},
      {"1 stream per thread, asked ahead", 1, true},
      {"2 streams per thread", 2, false},
  };
  return kWays;
}

DramRead::DramRead(engine::ThreadTeam& team) : team_(team), buffer_(buffer_bytes()) {
  team_.run([&](engine::Worker& worker) {
    worker.parallel_for(std::int64_t(buffer_.size()), 2 << 20,
                        [&](std::int64_t begin, std::int64_t end) {
                          std::memset(buffer_.data() + begin, 1, std::size_t(end - begin));
                        });
  });
}

// Pieces are claimed dynamically, as in kernels: with fixed parts the slowest thread would count,
// and where others use the machine, that is half as fast.
void DramRead::read(const ReadPattern& pattern, std::span<const std::byte> memory) {
  team_.run([&](engine::Worker& worker) {
    std::uint64_t sum = 0;
    worker.parallel_for(
        std::int64_t(memory.size()), kShare, [&](std::int64_t begin, std::int64_t end) {
          const std::byte* part = memory.data() + begin;
          const std::size_t each =
              std::size_t(end - begin) / std::size_t(pattern.streams) / kPiece * kPiece;
          for (std::size_t i = 0; i < each; i += kPiece)
            for (int s = 0; s < pattern.streams; ++s)
              sum += read_piece(part + std::size_t(s) * each + i, pattern.prefetch);
        });
    sink += sum;
  });
}

Samples dram_read(engine::ThreadTeam& team) try {
  DramRead dram(team);
  const auto ways = DramRead::read_patterns();
  std::vector<std::vector<double>> rates(ways.size());
  for (int i = 0; i < kPasses; ++i)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const auto begin = std::chrono::steady_clock::now();
      dram.read(ways[w]);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      rates[w].push_back(dram.bytes() / time.count());
    }
  Samples best;
  for (auto& r : rates) {
    const Samples samples = samples_of(std::move(r));
    if (samples.median > best.median) best = samples;
  }
  return best;
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace rigcast::probe
