#include "probe/takes.hpp"

#include <algorithm>

namespace rigcast::probe {

Takes takes_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  const double range = values.back() - values.front();
  return {median, median > 0 ? range / median : 0, int(values.size())};
}

}  // namespace rigcast::probe
