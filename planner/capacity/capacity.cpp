#include "planner/capacity/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace rigcast::planner {
namespace {

constexpr double kMaxUsers = 100'000, kMaxRate = 10'000;
constexpr double kMinRate = 1e-4;   // a request in three hours
constexpr double kRateStep = 1.02;  // to which a rate is found

class Search {
 public:
  Search(const Load& load, const ServeLoad& serve) : load_(load), serve_(serve) {}

  // The most that is met, between what is and what is not, doubled and then halved.
  Result<Capacity> most(double about) {
    Capacity found;
    found.in_users = !load_.is_open();
    const double least = found.in_users ? 1 : kMinRate;
    const double limit = found.in_users ? kMaxUsers : kMaxRate;
    double met = 0, broken = about > 0 ? about : found.in_users ? 1 : 0.125;
    while (broken <= limit) {
      if (!meets(broken)) break;
      met = broken;
      broken *= 2;
    }
    // Not even the first one: less of a rate, or none.
    while (!error_ && met == 0 && broken > least) {
      const double less = found.in_users ? std::floor(broken / 2) : broken / 2;
      if (meets(less))
        met = less;
      else
        broken = less;
    }
    while (!error_ && broken <= limit && met > 0 && is_far(met, broken)) {
      const double middle =
          found.in_users ? std::floor((met + broken) / 2) : std::sqrt(met * broken);
      (meets(middle) ? met : broken) = middle;
    }
    if (error_) return *std::move(error_);
    found.most = met;
    found.is_least = broken > limit;
    found.broken = broken_;
    return found;
  }

  Result<ServingFigures> serve(double amount) { return serve_(with_amount(load_, amount)); }

 private:
  bool is_far(double met, double broken) const {
    return load_.is_open() ? broken / met > kRateStep : broken - met > 1;
  }

  bool meets(double amount) {
    const auto figures = serve(amount);
    if (!figures) {
      error_ = figures.error();
      return false;
    }
    if (!figures->meets_slo())
      broken_ = figures->broken.empty() ? std::string("what it can keep up with") : figures->broken;
    return figures->meets_slo();
  }

  const Load& load_;
  const ServeLoad& serve_;
  std::string broken_;
  std::optional<Error> error_;
};

std::optional<Error> check(const Load& load) {
  if (load.arrival == ArrivalProcess::kTrace || load.arrival == ArrivalProcess::kBurst)
    return bad_input("a trace and a burst have no users and no rate to find",
                     "--users or --rate, with lengths of a preset: --load chat");
  if (load.slo.empty())
    return bad_input("no latency is wanted", "for example --slo ttft=2s@95,tpot=80ms@95");
  return std::nullopt;
}

}  // namespace

Load with_amount(Load load, double amount) {
  if (load.is_open()) {
    load.rate = amount;
  } else {
    load.users = int(amount);
  }
  return load;
}

Result<Capacity> find_most(const Load& load, const ServeLoad& serve, double about) {
  if (auto error = check(load)) return *std::move(error);
  return Search(load, serve).most(about);
}

Result<Capacity> find_capacity(const Load& load, const ServeLoad& serve) {
  auto found = find_most(load, serve);
  if (!found) return found;
  const double about = std::max(found->most, found->in_users ? 1.0 : kMinRate);
  std::set<double> amounts;
  for (const double share : {0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0}) {
    const double amount = share * about;
    amounts.insert(found->in_users ? std::max(1.0, std::round(amount)) : amount);
  }
  for (const double amount : amounts) {
    auto figures = serve(with_amount(load, amount));
    if (!figures) return figures.error();
    found->curve.push_back({amount, *std::move(figures)});
  }
  return found;
}

}  // namespace rigcast::planner
