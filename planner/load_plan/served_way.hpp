#pragma once
// A way to serve a load on one machine, and how much of it that serves.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/scenario/scenario.hpp"
#include "planner/capacity/capacity.hpp"
#include "planner/quality.hpp"

namespace rigcast::planner {

/// The server of a scenario: the machine as it is forecast, and at the ends of the interval.
struct ServerForecast {
  ServeLoad forecast, slowest, fastest;
};
/// Errors: what does not fit. The scenario outlives what is returned.
using MakeServer = std::function<Result<ServerForecast>(std::shared_ptr<const Scenario>)>;

/// How the GPUs of a machine share the load.
enum class GpuUse {
  kTogether,  // one server: layers are split over them, or all of them share each layer
  kCopies,    // a server on each of them
};
std::string_view name(GpuUse use);  // "together", "copies"

struct ServedWay {
  std::shared_ptr<const Scenario> scenario;  // of one server, with all its settings
  GpuUse use = GpuUse::kTogether;
  int servers = 1;                            // on a machine
  QualityLoss loss{};                         // of mix and cache
  Capacity capacity{};                        // of one server
  std::optional<double> lowest{}, highest{};  // of one server, at the ends of the interval

  /// Users, or requests/s, of the whole machine: sessions are split evenly over its servers.
  double most() const { return servers * capacity.most; }
  /// The same at an end of the interval; of a machine whose end is not known, the forecast.
  double at_least() const { return servers * lowest.value_or(capacity.most); }
  double at_best() const { return servers * highest.value_or(capacity.most); }
};

/// "Q6_K/q8_0, 16 slots, a copy on each GPU": mix, cache, requests at once, what differs from the
/// runtime's own settings.
std::string text(const ServedWay& way);

/// The machine with one GPU of several and an equal share of its RAM, for one of as many servers.
/// Requires equal GPUs.
Rig with_one_gpu(const Rig& rig);
/// True if a server on each of its GPUs is a way to use it: several, all alike.
bool takes_copies(const Rig& rig);

}  // namespace rigcast::planner
