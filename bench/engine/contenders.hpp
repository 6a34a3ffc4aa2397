#pragma once
// Contenders run alternately, round after round, so that all of them see the same load of the
// machine.

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace rigcast::bench {

struct Contender {
  std::string name;
  double work = 0;  // bytes or operations of one run
  std::function<void()> run;
  std::chrono::milliseconds rest{0};  // after each run, unmeasured
};

/// Work per second of one contender's runs, sorted.
class Rates {
 public:
  explicit Rates(std::vector<double> rates);

  std::size_t count() const { return rates_.size(); }
  double median() const { return at(0.5); }
  /// The range of the middle half of the runs, relative to the median.
  double spread() const { return (at(0.75) - at(0.25)) / median(); }

 private:
  double at(double quantile) const;

  std::vector<double> rates_;
};

/// Runs `rounds` + 1 rounds, of which the first does not count. Prints a line for each contender:
/// its median in units of `unit` (1e9: GB/s, GOP/s), called `unit_name`.
std::vector<Rates> compete(std::span<const Contender> contenders, int rounds, double unit,
                           const char* unit_name);

}  // namespace rigcast::bench
