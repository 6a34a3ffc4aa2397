#pragma once
// How much of a load a server takes: the most users, or requests per second, with which the
// latencies that are wanted are met.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/scenario/load.hpp"
#include "report/serving/serving_report.hpp"

namespace rigcast::planner {

/// What a server makes of a load: the forecast, or a measurement.
using ServeLoad = std::function<Result<ServingFigures>(const Load&)>;

struct CapacityPoint {
  double amount = 0;  // users, or requests/s
  ServingFigures figures;
};

struct Capacity {
  bool in_users = true;   // else in requests/s
  double most = 0;        // that meets the SLO; 0: not even the least
  bool is_least = false;  // the search ended before anything broke
  double broken_at = 0;   // the least that was found not to meet it; 0: the search ended before
  std::string broken;     // what that breaks: "TTFT p95"; empty: the search ended before
  std::optional<ServingFigures> at_most;  // of `most`; nullopt: nobody is served
  std::vector<CapacityPoint> curve;       // around it, rising
};

/// Why there is no capacity for such a load: it has no SLO, or is a trace or a burst.
std::optional<Error> check_capacity(const Load& load);

/// The load without an end, of which as many requests are simulated as without a duration: what a
/// server takes is what it takes for good.
Load lasting(Load load);

/// Up to 200 users are found exactly, more of them to one in 200; a rate to 2 %. A duration of the
/// load is none of it: see lasting(). Errors: those of check_capacity() and of `serve`.
Result<Capacity> find_capacity(const Load& load, const ServeLoad& serve);

/// As find_capacity(), without a curve. `about`: where the search begins, if something is known.
/// The answer depends on it only as far as, by chance, more users are served within the limits
/// where a few less are not.
Result<Capacity> find_most(const Load& load, const ServeLoad& serve, double about = 0);

/// The load with so many users, or at such a rate.
Load with_amount(Load load, double amount);

}  // namespace rigcast::planner
