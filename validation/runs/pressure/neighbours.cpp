#include "validation/runs/pressure/neighbours.hpp"

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>

namespace rigcast::validation {
namespace {

constexpr std::size_t kWords = (256u << 20) / sizeof(std::uint64_t);

// Eight sums, so that loads do not wait for one another.
std::uint64_t read_all(const std::uint64_t* words) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i < kWords; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

}  // namespace

Neighbours::Neighbours(int threads) {
  if (threads <= 0) return;
  std::latch ready(threads);
  for (int i = 0; i < threads; ++i)
    threads_.emplace_back([&ready](const std::stop_token& stop) {
      const auto words = std::make_unique<std::uint64_t[]>(kWords);
      ready.count_down();
      static std::atomic<std::uint64_t> sink;
      while (!stop.stop_requested()) sink += read_all(words.get());
    });
  ready.wait();  // until all have touched their memory
}

}  // namespace rigcast::validation
