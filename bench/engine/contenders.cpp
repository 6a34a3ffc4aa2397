#include "bench/engine/contenders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>

namespace rigcast::bench {

Rates::Rates(std::vector<double> rates) : rates_(std::move(rates)) {
  std::sort(rates_.begin(), rates_.end());
}

double Rates::at(double quantile) const {
  const double place = quantile * double(rates_.size() - 1);
  const std::size_t below = std::size_t(place);
  const std::size_t above = std::min(below + 1, rates_.size() - 1);
  return rates_[below] + (place - double(below)) * (rates_[above] - rates_[below]);
}

std::vector<Rates> compete(std::span<const Contender> contenders, int rounds, double unit,
                           const char* unit_name) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> rates(contenders.size());
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const auto start = Clock::now();
      contenders[i].run();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      std::this_thread::sleep_for(contenders[i].rest);
      if (round > 0) rates[i].push_back(contenders[i].work / seconds);
    }
  std::vector<Rates> out;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    out.emplace_back(std::move(rates[i]));
    fmt::print("  {:<44} {:>7.1f} {}  n {:>2}  spread {:>4.1f} %\n", contenders[i].name,
               out.back().median() / unit, unit_name, out.back().count(),
               out.back().spread() * 100);
  }
  std::fflush(stdout);
  return out;
}

}  // namespace rigcast::bench
