#pragma once
// What is compared runs in turn, round after round, so that all meet the same neighbours.

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace rigcast::bench {

struct Contender {
  std::string name;
  double work = 0;  // of one run: bytes, or operations
  std::function<void()> run;
  std::chrono::milliseconds rest{0};  // after each run, unmeasured
};

/// Work per second of one contender's runs, sorted.
class Rates {
 public:
  explicit Rates(std::vector<double> rates);

  std::size_t count() const { return rates_.size(); }
  double median() const { return at(0.5); }
  /// Of the middle half of the runs, relative to the median.
  double spread() const { return (at(0.75) - at(0.25)) / median(); }

 private:
  double at(double quantile) const;

  std::vector<double> rates_;
};

/// One round more than `rounds` is run; the first is not counted. Prints a line for each contender:
/// its median in units of `unit` (1e9: GB/s, GOP/s), called `unit_name`.
std::vector<Rates> compete(std::span<const Contender> contenders, int rounds, double unit,
                           const char* unit_name);

}  // namespace rigcast::bench
