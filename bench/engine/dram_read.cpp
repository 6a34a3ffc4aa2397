#include "bench/engine/dram_read.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace rigcast::bench {
namespace {

constexpr std::size_t kPiece = 4096;  // bytes of a stream that are read at once

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

std::uint64_t read_piece(const std::byte* p, int ahead) {
  if (ahead > 0)
    for (std::size_t i = 0; i < kPiece; i += 64) __builtin_prefetch(p + ahead + i, 0, 2);
  return sum_words(reinterpret_cast<const std::uint64_t*>(p), kPiece / 8);
}

std::atomic<std::uint64_t> sink;

}  // namespace

DramRead::DramRead(engine::Team& team) : team_(team), buffer_(buffer_bytes()) {
  team_.run([&](engine::Worker& worker) {
    worker.share(std::int64_t(buffer_.size()), 2 << 20, [&](std::int64_t begin, std::int64_t end) {
      std::memset(buffer_.data() + begin, 1, std::size_t(end - begin));
    });
  });
}

// Every thread has a part of the buffer of its own, and reads it at `streams` places in turn.
void DramRead::read(int streams, int ahead) {
  team_.run([&](engine::Worker& worker) {
    const std::size_t own = buffer_.size() / std::size_t(worker.count());
    const std::byte* part = buffer_.data() + std::size_t(worker.index()) * own;
    const std::size_t each = own / std::size_t(streams) / kPiece * kPiece;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < each; i += kPiece)
      for (int s = 0; s < streams; ++s)
        sum +=
            read_piece(part + std::size_t(s) * each + i, i + std::size_t(ahead) < each ? ahead : 0);
    sink += sum;
  });
}

std::vector<Contender> DramRead::contenders() {
  std::vector<Contender> out;
  for (const int streams : {1, 2, 4})
    for (const int ahead : {0, 3 * int(kPiece)})
      out.push_back({fmt::format("DRAM read, {} per thread{}",
                                 streams == 1 ? "1 stream" : fmt::format("{} streams", streams),
                                 ahead > 0 ? ", prefetched" : ""),
                     double(buffer_.size()), [this, streams, ahead] { read(streams, ahead); }});
  return out;
}

double best_median(std::span<const Rates> rates, std::size_t count) {
  double best = 0;
  for (const Rates& r : rates.first(count)) best = std::max(best, r.median());
  return best;
}

}  // namespace rigcast::bench
