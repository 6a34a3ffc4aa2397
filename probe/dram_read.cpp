#include "probe/dram_read.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace rigcast::probe {
namespace {

constexpr std::int64_t kBytes = std::int64_t(1) << 30;  // more than the caches of any one socket
constexpr std::int64_t kPiece = 1 << 20;
constexpr int kPasses = 7;

class Buffer {
 public:
  Buffer() {
    void* p = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    words_ = static_cast<std::uint64_t*>(p);
    ::madvise(p, kBytes, MADV_HUGEPAGE);  // where it cannot, small pages cost a little
  }
  ~Buffer() {
    if (words_) ::munmap(words_, kBytes);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::uint64_t* words() const { return words_; }

 private:
  std::uint64_t* words_ = nullptr;
};

// Eight sums side by side, so that loads alone set the pace.
std::uint64_t sum(const std::uint64_t* words, std::int64_t count) {
  std::uint64_t s[8] = {};
  for (std::int64_t i = 0; i < count; i += 8)
    for (int k = 0; k < 8; ++k) s[k] ^= words[i + k];
  return s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7];
}

}  // namespace

Takes dram_read(engine::Team& team) {
  const Buffer buffer;
  if (!buffer.words()) return {};
  const auto pass = [&](const auto& use) {
    team.run([&](engine::Worker& worker) {
      worker.share(kBytes / kPiece, 1, [&](std::int64_t i, std::int64_t) {
        use(buffer.words() + i * kPiece / 8, kPiece / 8);
      });
    });
  };
  pass([](std::uint64_t* words, std::int64_t count) { std::fill_n(words, count, 1); });
  std::atomic<std::uint64_t> seen{0};
  std::vector<double> rates;
  for (int i = 0; i < kPasses; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pass([&](const std::uint64_t* words, std::int64_t count) { seen ^= sum(words, count); });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    rates.push_back(double(kBytes) / time.count());
  }
  return takes_of(std::move(rates));
}

}  // namespace rigcast::probe
