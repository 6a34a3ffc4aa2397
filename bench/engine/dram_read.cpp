#include "bench/engine/dram_read.hpp"

#include <fmt/format.h>

namespace rigcast::bench {

std::vector<Contender> read_contenders(probe::DramRead& dram) {
  std::vector<Contender> out;
  for (const auto& pattern : probe::DramRead::read_patterns())
    out.push_back({fmt::format("DRAM read, {}", pattern.name), dram.bytes(),
                   [&dram, pattern] { dram.read(pattern); }});
  return out;
}

double best_median(std::span<const Rates> rates, std::size_t count) {
  const Rates* best = &rates[0];
  for (const Rates& r : rates.first(count))
    if (r.median() > best->median()) best = &r;
  if (best->spread() > 0.2)
    fmt::print("  the memory's own rate changed meanwhile: ratios to it say little, run again\n");
  return best->median();
}

}  // namespace rigcast::bench
