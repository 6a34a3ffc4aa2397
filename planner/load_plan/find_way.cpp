#include "planner/load_plan/find_way.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "perfmodel/resolve_placement.hpp"

namespace rigcast::planner {
namespace {

constexpr std::size_t kMaxSequences = 1024;
constexpr std::size_t kFirstSlots = 16;
constexpr int kMinUbatch = 128, kMaxUbatch = 4096;

// True if nothing is computed by the host, or read from its memory.
bool is_on_gpus(const Scenario& s) {
  if (s.rig.gpus.empty() || s.rig.unified()) return true;
  const Placement p = resolve_placement(s);
  return p.head_on != kHost && std::ranges::none_of(p.layers, [](const LayerPlacement& l) {
           return l.weights == kHost || l.experts == kHost || l.kv == kHost;
         });
}

void set_budget(Scenario& s, TokenCount tokens) {
  s.scheduler->step_tokens = tokens;
  s.settings.batch = int(tokens);
}

// A change of one setting; false: it has no such value.
using Change = std::function<bool(Scenario&)>;

Change sequences_times(double factor) {
  return [factor](Scenario& s) {
    const auto count = std::size_t(double(s.scheduler->sequences) * factor);
    s.scheduler->sequences = count;
    return count >= 1 && count <= kMaxSequences;
  };
}

Change ubatch_times(double factor) {
  return [factor](Scenario& s) {
    s.settings.ubatch = int(s.settings.ubatch * factor);
    if (s.settings.ubatch > s.settings.batch) set_budget(s, s.settings.ubatch);
    return s.settings.ubatch >= kMinUbatch && s.settings.ubatch <= kMaxUbatch;
  };
}

Change budget_times(double factor) {
  return [factor](Scenario& s) {
    set_budget(s, TokenCount(double(s.scheduler->step_tokens) * factor));
    const bool slots = s.scheduler->layout == KvLayout::kSlots;
    const TokenCount least = slots ? s.settings.ubatch : kMinUbatch;
    return s.scheduler->step_tokens >= least && s.scheduler->step_tokens <= 65536;
  };
}

class Climb {
 public:
  Climb(const FixedSettings& fixed, bool on_gpus, const MakeServer& make_server)
      : on_gpus_(on_gpus), make_server_(make_server) {
    if (!fixed.sequences) {
      changes_.push_back(sequences_times(2));
      changes_.push_back(sequences_times(0.5));
    }
    if (!fixed.ubatch) {
      changes_.push_back(ubatch_times(2));
      changes_.push_back(ubatch_times(0.5));
    }
    if (!fixed.budget) {
      changes_.push_back(budget_times(4));
      changes_.push_back(budget_times(0.25));
    }
  }

  Result<std::optional<ServedWay>> from(Scenario start, double about) {
    if (!serve(std::move(start))) return std::optional<ServedWay>{};
    if (auto error = find(about)) return *std::move(error);
    // From the change that helped last on, each is tried once more.
    std::size_t failed = 0;
    for (std::size_t i = 0; failed < changes_.size() && way_.capacity.broken_at > 0;) {
      auto better = improve(changes_[i]);
      if (!better) return better.error();
      failed = *better ? 0 : failed + 1;
      if (!*better) i = (i + 1) % changes_.size();
    }
    return std::optional(std::move(way_));
  }

 private:
  // False: it does not fit.
  bool serve(Scenario s) {
    if (on_gpus_ && !is_on_gpus(s)) return false;
    auto scenario = std::make_shared<const Scenario>(std::move(s));
    auto server = make_server_(scenario);
    if (!server) return false;
    way_.scenario = std::move(scenario);
    server_ = *std::move(server);
    return true;
  }

  std::optional<Error> find(double about) {
    auto found = find_most(*way_.scenario->load, server_.forecast, about);
    if (!found) return found.error();
    way_.capacity = *std::move(found);
    return std::nullopt;
  }

  Result<bool> improve(const Change& change) {
    Scenario changed = *way_.scenario;
    if (!change(changed)) return false;
    const ServedWay before = way_;
    const ServerForecast server = server_;
    const double more = before.capacity.broken_at;
    if (serve(std::move(changed))) {
      const auto figures = server_.forecast(with_amount(lasting(*way_.scenario->load), more));
      if (figures && figures->meets_slo()) {
        if (auto error = find(more)) return *std::move(error);
        return true;
      }
    }
    way_ = before;
    server_ = server;
    return false;
  }

  const bool on_gpus_;
  const MakeServer& make_server_;
  std::vector<Change> changes_;
  ServedWay way_;
  ServerForecast server_;
};

}  // namespace

Result<std::optional<ServedWay>> find_way(const Scenario& scenario, const FixedSettings& fixed,
                                          bool on_gpus, const MakeServer& make_server,
                                          double about) {
  Scenario start = scenario;
  const bool slots = scenario.scheduler->layout == KvLayout::kSlots;
  if (!fixed.sequences && slots && about <= 0) start.scheduler->sequences = kFirstSlots;
  // The most slots that leave all layers on GPUs.
  if (!fixed.sequences && slots)
    while (start.scheduler->sequences > 1 && !is_on_gpus(start)) start.scheduler->sequences /= 2;
  const bool there = is_on_gpus(start);
  if (on_gpus && !there) return std::optional<ServedWay>{};
  if (!there) start.scheduler->sequences = scenario.scheduler->sequences;
  return Climb(fixed, there, make_server).from(std::move(start), about);
}

Result<bool> find_interval(ServedWay& way, const MakeServer& make_server) {
  const auto server = make_server(way.scenario);
  if (!server) return server.error();
  const Load& load = *way.scenario->load;
  const auto lowest = find_most(load, server->slowest, way.capacity.most);
  if (!lowest) return lowest.error();
  const auto highest = find_most(load, server->fastest, way.capacity.most);
  if (!highest) return highest.error();
  way.lowest = lowest->most;
  way.highest = highest->most;
  return true;
}

}  // namespace rigcast::planner
