#pragma once
// Compares rigs by their best plans for one or several models.

#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/price_list.hpp"
#include "planner/plan.hpp"

namespace rigcast::planner {

struct ComparedModel {
  std::string model;
  std::optional<double> max_loss;  // nats, the same for every rig; nullopt: any
  std::optional<RankedPlan> best;  // nullopt: it does not fit
  std::string why_not;             // why it does not fit
};

struct ComparedRig {
  std::string name;
  PartsPrice price;             // of the whole machine, of its GPUs, or of the new part
  std::optional<double> watts;  // GPUs and CPU at their limits; nullopt: not known of all
  std::vector<ComparedModel> models;
  bool is_beyond_budget = false;  // by its price alone: no plan was made

  /// True if every model fits, meets the constraints, and the price is within the budget, if there
  /// is one.
  bool qualifies(std::optional<double> budget) const;
};

/// True if one alone costs more than the budget: nothing with it qualifies.
bool is_beyond(const std::optional<double>& budget, const PartsPrice& price);
/// "2,299 USD: more than the budget".
std::string beyond_text(const PartsPrice& price);
/// "24 parts cost more than 900 USD: not computed"; empty: none does.
std::string beyond_text(std::size_t parts, const std::optional<double>& budget);

/// What is compared, and how its prices are to be read.
struct Comparison {
  enum class What { kRigs, kGpus, kUpgrades };
  What what = What::kGpus;
  std::optional<double> budget;   // USD
  std::vector<ComparedRig> rigs;  // kUpgrades: the first is the rig as it is
  std::size_t beyond_budget = 0;  // kUpgrades: parts that were left out, since each costs more
};

/// The loss, in nats, to which machines are held where nothing is stated: that of Q4_K_M, or of the
/// formats that the model was published in, with a Q8_0 cache.
std::optional<double> usual_loss(const ModelSpec& model, const TensorTable& tensors,
                                 const QualityTable& quality);

/// Power at its limits of all GPUs and the CPU.
std::optional<double> watts_of(const Rig& rig);

/// Sorts: rigs that qualify come first; with a budget the fastest, else the most speed for the
/// price. A rig with an unpriced part comes after all with a price. Of upgrades, drops those that
/// gain nothing, and sorts by gain for the price of the new part.
void rank(Comparison& comparison);

/// Names of the rigs that are no worse than the winner within the forecasts' intervals.
std::vector<std::string> ties(const Comparison& comparison);

/// The winner and the reason, its ties, and how many rigs have no price.
std::string verdict_text(const Comparison& comparison);

/// Speed at the position nearest to `tokens`.
double speed_at(const Report& report, TokenCount tokens);

}  // namespace rigcast::planner
