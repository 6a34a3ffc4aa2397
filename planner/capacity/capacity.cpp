#include "planner/capacity/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace rigcast::planner {
namespace {

constexpr double kMaxUsers = 100'000, kMaxRate = 10'000;
constexpr double kMinRate = 1e-4;     // a request in three hours
constexpr double kRateStep = 1.02;    // to which a rate is found
constexpr double kUserSteps = 200;    // above as many users, they are found to one in as many
constexpr double kFirstRate = 0.125;  // requests/s that are tried where nothing is known

// What is tried are users, which are whole, or requests/s.
class Amounts {
 public:
  explicit Amounts(bool users) : users_(users) {}
  double least() const { return users_ ? 1 : kMinRate; }
  double limit() const { return users_ ? kMaxUsers : kMaxRate; }
  double first() const { return users_ ? 1 : kFirstRate; }
  double clamped(double amount) const {
    return std::clamp(users_ ? std::floor(amount) : amount, least(), limit());
  }
  // The least difference that is worth a trial: in users, or as a factor.
  double step(double met) const {
    return users_ ? std::max(1.0, std::floor(met / kUserSteps)) : kRateStep;
  }
  bool is_far(double met, double broken) const {
    return users_ ? broken - met > step(met) : broken / met > step(met);
  }
  double middle(double met, double broken) const {
    return users_ ? std::floor((met + broken) / 2) : std::sqrt(met * broken);
  }
  double above(double amount, double factor) const {
    return users_ ? std::max(amount * factor, amount + 1) : amount * factor;
  }
  double below(double amount, double factor) const {
    return users_ ? std::min(amount / factor, amount - 1) : amount / factor;
  }
  // Between the two, at least a step from either; the middle where there is no room for that.
  double between(double met, double amount, double broken) const {
    const double step = this->step(met);
    const double low = users_ ? met + step : met * std::sqrt(step);
    const double high = users_ ? broken - step : broken / std::sqrt(step);
    return low < high ? std::clamp(users_ ? std::floor(amount) : amount, low, high)
                      : middle(met, broken);
  }

 private:
  bool users_;
};

constexpr std::string_view kRoom = "memory and swap together";

class Search {
 public:
  Search(const Load& load, const ServeLoad& serve)
      : load_(load), serve_(serve), amounts_(!load.is_open()) {}

  // The most that is met, between what is and what is not.
  Result<Capacity> most(double about) {
    bracket(about);
    narrow();
    if (error_) return *std::move(error_);
    Capacity found;
    found.in_users = !load_.is_open();
    found.most = met_;
    found.is_least = !broken_;
    if (met_ > 0) found.at_most = known_.at(met_);
    if (!broken_) return found;
    found.broken_at = *broken_;
    const ServingFigures& figures = known_.at(*broken_);
    found.broken = figures.broken.empty() ? "what it can keep up with" : figures.broken;
    return found;
  }

  // As it was tried before, if it was.
  Result<ServingFigures> serve(double amount) {
    if (const auto known = known_.find(amount); known != known_.end()) return known->second;
    auto figures = serve_(with_amount(load_, amount));
    // More than fits into memory is not served; the least that there may be is told with its error.
    if (!figures && figures.error().kind == ErrorKind::kDoesNotFit && amount > amounts_.least()) {
      ServingFigures ended;
      ended.broken = kRoom;
      figures = std::move(ended);
    }
    if (figures) known_.emplace(amount, *figures);
    return figures;
  }

 private:
  // Up while it is met, or down until it is.
  void bracket(double about) {
    double factor = kNear;
    double next = about > 0 ? amounts_.clamped(about) : first_guess();
    const bool up = meets(next);
    while (!error_ &&
           (up ? !broken_ && met_ < amounts_.limit() : met_ == 0 && *broken_ > amounts_.least())) {
      if (up && about <= 0) factor = growth();
      next = up ? amounts_.above(met_, factor) : amounts_.below(*broken_, factor);
      meets(amounts_.clamped(next));
      factor = std::min(factor * factor, kFar);
    }
  }

  // As many as would keep the server busy if it computed each of them alone: it never serves fewer
  // of them in the same time.
  double first_guess() {
    const double first = amounts_.first();
    if (!meets(first)) return first;
    const double busy = known_.at(first).busy;
    return busy > 0 ? std::max(first, amounts_.clamped(first / busy)) : first;
  }

  // A server that is mostly idle serves far more.
  double growth() const { return known_.at(met_).busy < 0.25 ? kFar : 2.0; }

  // Where the latency that is nearest to its limit would reach it, as a power of the load. That
  // grows ever faster towards the limit, so that one side would do all the work: then the middle.
  void narrow() {
    int in_a_row = 0;
    bool was_met = false;
    while (!error_ && broken_ && met_ > 0 && amounts_.is_far(met_, *broken_)) {
      const double next = in_a_row < 2 ? interpolated() : amounts_.middle(met_, *broken_);
      const bool met = meets(next);
      in_a_row = met == was_met ? in_a_row + 1 : 1;
      was_met = met;
    }
  }

  double interpolated() const {
    if (known_.at(*broken_).broken == kRoom) return amounts_.middle(met_, *broken_);
    const double below = known_.at(met_).most_of_limit;
    const double above = known_.at(*broken_).most_of_limit;
    const bool is_power = *broken_ <= kPowerRange * met_;  // over more it hardly is one
    if (!is_power || below <= 0 || below >= 1 || above <= 1) return amounts_.middle(met_, *broken_);
    const double share = -std::log(below) / (std::log(above) - std::log(below));
    return amounts_.between(met_, met_ * std::pow(*broken_ / met_, share), *broken_);
  }

  bool meets(double amount) {
    const auto figures = serve(amount);
    if (!figures) {
      error_ = figures.error();
      return false;
    }
    if (figures->meets_slo())
      met_ = amount;
    else
      broken_ = amount;
    return figures->meets_slo();
  }

  static constexpr double kNear = 1.25, kFar = 4, kPowerRange = 2;

  const Load& load_;
  const ServeLoad& serve_;
  const Amounts amounts_;
  std::map<double, ServingFigures> known_;  // by users or rate
  double met_ = 0;
  std::optional<double> broken_;
  std::optional<Error> error_;
};

}  // namespace

std::optional<Error> check_capacity(const Load& load) {
  if (load.arrival == ArrivalProcess::kTrace || load.arrival == ArrivalProcess::kBurst)
    return bad_input("a trace and a burst have no users and no rate to find",
                     "--users or --rate, with lengths of a preset: --load chat");
  if (load.slo.empty())
    return bad_input("no latency is wanted", "for example --slo ttft=2s@95,tpot=80ms@95");
  return std::nullopt;
}

Load with_amount(Load load, double amount) {
  if (load.is_open()) {
    load.rate = amount;
  } else {
    load.users = int(amount);
  }
  return load;
}

Load lasting(Load load) {
  if (!load.duration) return load;
  load.duration.reset();
  if (load.requests == kMaxRequests) load.requests = Load{}.requests;
  return load;
}

Result<Capacity> find_most(const Load& stated, const ServeLoad& serve, double about) {
  if (auto error = check_capacity(stated)) return *std::move(error);
  const Load load = lasting(stated);
  return Search(load, serve).most(about);
}

Result<Capacity> find_capacity(const Load& stated, const ServeLoad& serve) {
  if (auto error = check_capacity(stated)) return *std::move(error);
  const Load load = lasting(stated);
  Search search(load, serve);
  auto found = search.most(0);
  if (!found) return found;
  const double about = std::max(found->most, found->in_users ? 1.0 : kMinRate);
  std::set<double> amounts;
  for (const double share : {0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0}) {
    const double amount = share * about;
    amounts.insert(found->in_users ? std::max(1.0, std::round(amount)) : amount);
  }
  for (const double amount : amounts) {
    auto figures = search.serve(amount);
    if (!figures) return figures.error();
    if (figures->broken == kRoom) continue;  // no request was served
    found->curve.push_back({amount, *std::move(figures)});
  }
  return found;
}

}  // namespace rigcast::planner
