#include "probe/samples.hpp"

#include <algorithm>

#include "core/base/quantile.hpp"

namespace rigcast::probe {

Samples samples_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const double middle = median(values);
  const double range = values.back() - values.front();
  return {middle, middle > 0 ? range / middle : 0, int(values.size())};
}

Samples inverse(const Samples& rates) { return {1 / rates.median, rates.spread, rates.n}; }

}  // namespace rigcast::probe
