#include "load/lengths.hpp"

#include <algorithm>
#include <boost/random/discrete_distribution.hpp>
#include <boost/random/normal_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>

namespace rigcast {
namespace {

DrawLength draw_of(const FixedLength& lengths) {
  return [tokens = lengths.tokens](Random&) { return tokens; };
}

DrawLength draw_of(const UniformLength& lengths) {
  return [between = boost::random::uniform_int_distribution<TokenCount>(lengths.min, lengths.max)](
             Random& random) { return between(random); };
}

DrawLength draw_of(const LognormalLength& lengths) {
  boost::random::normal_distribution<double> logarithm(std::log(lengths.median), lengths.sigma);
  return [logarithm](Random& random) mutable {
    const double tokens = std::round(std::exp(logarithm(random)));
    return TokenCount(std::clamp(tokens, 1.0, double(kMaxLength)));
  };
}

DrawLength draw_of(const HistogramLength& lengths) {
  std::vector<double> weights;
  for (const auto& [tokens, weight] : lengths.bins) weights.push_back(weight);
  return [bins = lengths.bins, bin = boost::random::discrete_distribution<std::size_t>(weights)](
             Random& random) { return bins[bin(random)].first; };
}

}  // namespace

DrawLength draw_from(const LengthDistribution& lengths) {
  return std::visit([](const auto& l) { return draw_of(l); }, lengths);
}

}  // namespace rigcast
