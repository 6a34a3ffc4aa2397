#include "report/serving/gap_histogram.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {

void GapHistogram::add(Seconds gap, std::int64_t count) {
  static const double per_class = std::log(kRatio);
  const double at = std::log(std::max(gap.value, kMinGap) / kMinGap) / per_class;
  counts_[std::min(std::size_t(at), kClasses - 1)] += count;
  count_ += count;
  sum_ += gap.value * double(count);
}

double GapHistogram::mean() const { return count_ > 0 ? sum_ / double(count_) : 0.0; }

double GapHistogram::quantile(double share) const {
  if (count_ == 0) return 0;
  const auto rank = std::max<std::int64_t>(1, std::int64_t(std::ceil(share * double(count_))));
  std::int64_t below = 0;
  std::size_t at = 0;
  while (below + counts_[at] < rank) below += counts_[at++];
  return kMinGap * std::pow(kRatio, double(at) + 0.5);
}

}  // namespace rigcast
