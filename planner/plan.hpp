#pragma once
// The best ways to run a model on a rig: searched in closed form, the best of them simulated.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/scenario/scenario.hpp"
#include "planner/crossover.hpp"
#include "planner/quality.hpp"
#include "report/report.hpp"

namespace rigcast::planner {

/// What may be chosen. What a list has one entry of is settled.
struct Space {
  std::vector<std::string> quants;
  std::vector<KvTypes> kv_types;
  std::vector<KvPolicy> policies;
  std::vector<int> ubatches;
  std::vector<int> threads;  // of the host, where it computes
  std::vector<TokenCount> contexts;
  std::vector<DecodeDevice> decode_devices{DecodeDevice::kPlacement};
  bool places_layers = true;  // else the scenario's placement settings stay
  bool splits_layers = true;  // an FFN may be in RAM while the rest of its layer is on a GPU
};
/// All that the scenario's runtime can do, with the scenario's context.
Space whole_space(const Scenario& scenario);
/// From what the scenario's workload needs to what its model takes.
std::vector<TokenCount> all_contexts(const Scenario& scenario);

/// A Modelfile has no FFN in RAM, no cache in RAM and one type for keys and values.
void keep_what_ollama_says(Space& space);

enum class Objective {
  kBalanced,  // the knee of quality against time
  kSpeed,     // the shortest request
  kQuality,   // the smallest loss
  kContext,   // the longest context
};

struct Wish {
  Objective objective = Objective::kBalanced;
  double min_tokens_per_s = 0;
  std::optional<Seconds> max_ttft;
  std::optional<double> max_loss;  // nats
  Bytes headroom;                  // of every GPU
};

/// One way to run it: what differs from the scenario that was asked about.
struct Option {
  std::string quant;
  KvTypes kv_types{};
  KvPolicy policy = KvPolicy::kVram;
  int ubatch = 512;
  int threads = 1;
  TokenCount context = 0;
  PlacementSettings placement{};
  QualityLoss loss{};
  double seconds = 0;  // of the request, in closed form
};

/// The scenario's own settings.
Option option_of(const Scenario& scenario);
/// A scenario with the option's settings.
Scenario scenario_of(const Scenario& base, const Option& option);

struct Choice {
  Option option;
  Report report{};
  bool on_front = false;  // no other is at least as good in quality, time and context
  bool is_knee = false;
  double merit = 0;     // on the front: how far beyond an even trade of quality for time
  std::string unmet{};  // which wish it does not meet; empty: all are

  /// Of the whole request: TTFT of the scenario's start, and every further token.
  Seconds request() const;
};

/// At least as good in quality, time and context.
bool is_as_good(const Choice& a, const Choice& b);

struct Plan {
  std::vector<Choice> choices;         // all that were simulated and fit, the best first
  std::size_t options = 0;             // priced, each with the best of all placements
  std::size_t too_large = 0;           // of those that do not fit in any placement
  std::optional<Crossover> crossover;  // of the best choice's mix and cache
};

using Simulate = std::function<Report(std::shared_ptr<const Scenario>)>;

/// `cost` prices a scenario's request, `simulate` forecasts those that are left.
Plan make_plan(const Scenario& scenario, const Space& space, const Wish& wish,
               const QualityTable& quality, const RequestCost& cost, const Simulate& simulate);

}  // namespace rigcast::planner
