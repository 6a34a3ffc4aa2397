#pragma once
// Ranks all models of a catalogue for a purpose on one rig: which of them run fast enough, and how.
// Bytes against memory and bandwidth come first, closed forms for what is left, and simulations
// only for the rows that are shown.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan.hpp"

namespace rigcast::planner {

enum class Purpose { kChat, kCode, kLongContext, kSpeed };
std::string_view name(Purpose purpose);  // "chat", "code", "long-context", "speed"

/// What a purpose asks for. No figure of quality of a model enters: only its published facts do.
struct Asked {
  Purpose purpose = Purpose::kChat;
  TokenCount context = 0;         // the context limit; for kLongContext the least of them
  bool context_is_fixed = false;  // kLongContext: the user asked for `context`, and no more
  double min_tokens_per_s = 0;
  std::optional<Seconds> max_ttft{};
  std::optional<double> max_loss{};  // nats; nullopt: usual_loss() of each model
  std::size_t rows = 15;             // that are simulated
};
/// The purpose's own figures.
Asked asked_for(Purpose purpose);

/// A model as it is recommended, by the name that finds it.
struct ModelFacts {
  std::string name;              // for --model
  std::string released;          // "YYYY-MM"; empty: not known
  double parameters = 0;         // all of the weights
  double active_parameters = 0;  // that one token passes through
  TokenCount context = 0;        // that it was trained for
  bool is_for_code = false;      // by its name
};

struct Recommended {
  ModelFacts facts;
  Candidate candidate;
  double max_loss = 0;             // nats that it was held to
  double tokens_per_s = 0;         // in closed form, by which it was chosen
  std::optional<Report> report{};  // of the rows that are simulated
};

enum class WhyNot { kTooLarge, kTooSlow, kLateFirstToken, kShortContext, kOther };
std::string_view name(WhyNot reason);

struct LeftOut {
  ModelFacts facts;
  WhyNot reason{};
  std::string text{};                    // "at most 2.1 tok/s"
  std::optional<double> tokens_per_s{};  // kTooSlow: what it reaches, or could reach at most
};

struct Recommendation {
  Asked asked;
  std::string since;              // models of this month and later come before older ones
  std::vector<Recommended> rows;  // the best first
  std::vector<LeftOut> left_out;  // the nearest first
};

/// The scenario of a model with a context limit.
using ScenarioOf = std::function<Result<Scenario>(const std::string& model, TokenCount context)>;
/// The space that is searched for a model.
using SpaceOf = std::function<SearchSpace(const Scenario&)>;

/// `name`: the model's, or of one for code among its aliases if `for_code`.
ModelFacts facts_of(const ModelSpec& spec, bool for_code);

/// The rule of the ranking, in one sentence.
std::string rule_text(const Recommendation& recommendation);

/// Each model runs with the least loss that is all on GPUs (or in RAM, without one) and reaches the
/// speed; else as fast as it can within the loss. Errors: those of `scenario_of` if no model has a
/// scenario.
Result<Recommendation> recommend(const std::vector<ModelSpec>& models, const Asked& asked,
                                 const ScenarioOf& scenario_of, const SpaceOf& space_of,
                                 const QualityTable& quality, const Simulate& simulate);

}  // namespace rigcast::planner
