#pragma once
// Plans the best ways to run a model on a rig: candidates are priced in closed form, and the best
// of them are simulated.

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

/// The search space. A list with one entry fixes that setting.
struct SearchSpace {
  std::vector<std::string> quants;
  std::vector<KvTypes> kv_types;
  std::vector<KvPolicy> policies;
  std::vector<int> ubatches;
  std::vector<int> threads;  // host threads, where the host computes
  std::vector<TokenCount> contexts;
  std::vector<DecodeDevice> decode_devices{DecodeDevice::kPlacement};
  bool places_layers = true;  // otherwise the scenario's placement settings stay
  bool splits_layers = true;  // an FFN may be in RAM while the rest of its layer is on a GPU
};
/// Everything that the scenario's runtime supports, at the scenario's context.
SearchSpace full_space(const Scenario& scenario);
/// Contexts from the smallest that holds the workload to the model's limit.
std::vector<TokenCount> all_contexts(const Workload& workload, const ModelSpec& model);

/// Restricts the space to what a Modelfile can express: no FFN in RAM, no cache in RAM, and one
/// type for keys and values.
void limit_to_ollama(SearchSpace& search_space);

enum class Objective {
  kBalanced,  // the knee of quality against time
  kSpeed,     // the shortest turn
  kQuality,   // the smallest loss
  kContext,   // the longest context
};

struct Constraints {
  Objective objective = Objective::kBalanced;
  double min_tokens_per_s = 0;
  std::optional<Seconds> max_ttft;
  bool with_load = false;          // the first token waits for the load of the scenario's start
  std::optional<double> max_loss;  // nats
};

/// One candidate: the settings that differ from the given scenario.
struct Candidate {
  std::string quant;
  KvTypes kv_types{};
  KvPolicy policy = KvPolicy::kVram;
  int ubatch = 512;
  int threads = 1;
  TokenCount context = 0;
  PlacementSettings placement{};
  QualityLoss loss{};
  double seconds = 0;  // seconds of the request, in closed form
};

/// The scenario's own settings.
Candidate candidate_of(const Scenario& scenario);
/// A scenario with the option's settings.
Scenario scenario_of(const Scenario& base, const Candidate& candidate);

struct RankedPlan {
  Candidate candidate;
  Report report{};
  bool on_front = false;  // on the Pareto front of quality, time and context
  bool is_knee = false;
  double merit = 0;     // quality against time: the front's best is the knee
  std::string unmet{};  // the constraint that it does not meet; empty: none
  Seconds first_token{};  // of a loaded model, unless the constraints include the load
  Seconds request{};      // first token, and every further token
  Seconds turn{};         // what plans are compared by: the request, or a conversation's mean turn
};

/// How good a way is: its quality against the time of a turn, by a rate of exchange that does not
/// depend on what else was searched. By Pinsker's inequality at most sqrt(loss / 2) of an answer's
/// tokens are others than the unquantised model's, which is how a loss is felt: the first
/// thousandths count most.
double merit(Seconds turn, TokenCount output_tokens, double loss_nats);

/// True if `a` is at least as good as `b` in quality, mean turn and context.
bool is_as_good(const RankedPlan& a, const RankedPlan& b);

struct Plan {
  std::vector<RankedPlan> ranked;      // all that were simulated and fit, the best first
  std::size_t candidates = 0;          // number of priced candidates, each with its best placement
  std::size_t too_large = 0;           // number of candidates that fit in no placement
  std::optional<Crossover> crossover;  // for the mix and cache of the best plan
  std::string would_fit{};             // where the best reads from the disk: what would hold it all
};

using Simulate = std::function<Report(std::shared_ptr<const Scenario>)>;

/// Fills in first_token, request and turn from the report. A conversation's other turns are to the
/// simulated one as the closed form says.
void time_turns(const Constraints& constraints, const RequestCost& cost, RankedPlan& ranked);

/// `cost` prices a scenario's request, or a conversation's mean turn, in closed form; `simulate`
/// forecasts the finalists. `cost` is called from several threads.
Plan make_plan(const Scenario& scenario, const SearchSpace& search_space,
               const Constraints& constraints, const QualityTable& quality, const RequestCost& cost,
               const Simulate& simulate);

}  // namespace rigcast::planner
