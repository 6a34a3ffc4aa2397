#include "load/arrival_times.hpp"

#include <boost/math/tools/roots.hpp>
#include <boost/random/exponential_distribution.hpp>
#include <boost/random/gamma_distribution.hpp>
#include <boost/random/uniform_01.hpp>
#include <boost/random/weibull_distribution.hpp>
#include <cmath>
#include <utility>

namespace rigcast {
namespace {

using Exponential = boost::random::exponential_distribution<double>;
using Gamma = boost::random::gamma_distribution<double>;
using Weibull = boost::random::weibull_distribution<double>;

// A gamma distribution of this mean and coefficient of variation.
Gamma gamma_with(double mean, double cv) { return Gamma(1 / (cv * cv), mean * cv * cv); }

// A Weibull distribution of this mean and coefficient of variation, which falls as the shape grows.
Weibull weibull_with(double mean, double cv) {
  const auto excess = [cv](double shape) {
    return std::lgamma(1 + 2 / shape) - 2 * std::lgamma(1 + 1 / shape) - std::log1p(cv * cv);
  };
  constexpr double kMin = 0.05, kMax = 1000;  // beyond the variations that a load may have
  const auto [below, above] =
      boost::math::tools::bisect(excess, kMin, kMax, boost::math::tools::eps_tolerance<double>());
  const double shape = (below + above) / 2;
  return Weibull(shape, mean / std::tgamma(1 + 1 / shape));
}

// Gaps that do not depend on one another.
template <class Gap>
class Renewal : public ArrivalTimes {
 public:
  explicit Renewal(Gap gap) : gap_(std::move(gap)) {}
  Seconds next(Random& random) override { return now_ += Seconds{gap_(random)}; }

 private:
  Gap gap_;
  Seconds now_{};
};

template <class Gap>
std::unique_ptr<ArrivalTimes> renewal(Gap gap) {
  return std::make_unique<Renewal<Gap>>(std::move(gap));
}

// Poisson while it is on, silent while it is off; both periods are exponential. (An interrupted
// Poisson process.)
class OnOff : public ArrivalTimes {
 public:
  OnOff(double rate, Seconds on, Seconds off)
      : gap_(rate * (on + off).value / on.value),
        on_(1 / on.value),
        off_(1 / off.value),
        share_on_(on / (on + off)) {}

  Seconds next(Random& random) override {
    if (!begun_) begin(random);
    double gap = gap_(random);
    for (; gap > left_; left_ = on_(random)) {  // goes on after the pause
      gap -= left_;
      now_ += left_ + off_(random);
    }
    left_ -= gap;
    return Seconds{now_ += gap};
  }

 private:
  // What is left of an exponential period is as long as a whole one.
  void begin(Random& random) {
    begun_ = true;
    if (boost::random::uniform_01<double>()(random) >= share_on_) now_ = off_(random);
    left_ = on_(random);
  }

  Exponential gap_, on_, off_;
  double share_on_;
  bool begun_ = false;
  double now_ = 0, left_ = 0;  // seconds; of the period that is on
};

// Poisson with a rate that is drawn anew every period. (A doubly stochastic Poisson process.)
class DoublyStochastic : public ArrivalTimes {
 public:
  DoublyStochastic(double rate, double cv, Seconds period)
      : rates_(gamma_with(rate, cv)), period_(period.value) {}

  Seconds next(Random& random) override {
    // Points expected until the next one: exponential, whatever the rate does.
    double expected = Exponential(1)(random);
    while (expected >= rate_ * left_) {
      expected -= rate_ * left_;
      now_ += left_;
      left_ = period_;
      rate_ = rates_(random);
    }
    const double gap = expected / rate_;
    left_ -= gap;
    return Seconds{now_ += gap};
  }

 private:
  Gamma rates_;
  double period_;
  double now_ = 0, left_ = 0, rate_ = 0;  // seconds; of the period; points per second in it
};

}  // namespace

std::unique_ptr<ArrivalTimes> arrival_times(const Load& load, double rate) {
  switch (load.arrival) {
    case ArrivalProcess::kPoisson: return renewal(Exponential(rate));
    case ArrivalProcess::kGamma: return renewal(gamma_with(1 / rate, load.cv));
    case ArrivalProcess::kWeibull: return renewal(weibull_with(1 / rate, load.cv));
    case ArrivalProcess::kConstant: return renewal([rate](Random&) { return 1 / rate; });
    case ArrivalProcess::kOnOff: return std::make_unique<OnOff>(rate, load.on, load.off);
    case ArrivalProcess::kDoublyStochastic:
      return std::make_unique<DoublyStochastic>(rate, load.rate_cv, load.rate_period);
    case ArrivalProcess::kBurst: return renewal([](Random&) { return 0.0; });
    case ArrivalProcess::kTrace:
    case ArrivalProcess::kClosed: break;
  }
  RIGCAST_ASSERT(false);
  return nullptr;
}

}  // namespace rigcast
