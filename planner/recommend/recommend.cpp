#include "planner/recommend/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <tuple>

#include "core/text/freetext.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/unit_text.hpp"
#include "planner/compare.hpp"
#include "planner/recommend/fastest_within.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {
namespace {

// People read 238 words a minute (Brysbaert 2019), of 4/3 tokens each: 5.3 tokens per second. An
// answer twice as fast can be skimmed.
constexpr double kChatSpeed = 10;
// Code is skimmed, and much of it is written again: a judgement.
constexpr double kCodeSpeed = 20;
constexpr TokenCount kChatContext = 8192, kCodeContext = 16384, kMinLongContext = 32768;
// Models of one and a half years before the newest of the catalogue are of the present generation.
constexpr int kGenerationMonths = 18;

// "2025-02" as a count of months; 0: not known.
int months_of(const std::string& released) {
  if (released.size() != 7) return 0;
  return 12 * std::atoi(released.c_str()) + std::atoi(released.c_str() + 5) - 1;
}

std::string generation_since(const std::vector<ModelFacts>& models) {
  int newest = 0;
  for (const ModelFacts& m : models) newest = std::max(newest, months_of(m.released));
  const int since = newest - kGenerationMonths;
  return newest == 0 ? "" : fmt::format("{:04}-{:02}", since / 12, since % 12 + 1);
}

bool names_code(const std::string& name) {
  constexpr std::string_view kWords[] = {"coder", "codellama", "codestral", "devstral"};
  const std::string lower = freetext::lower(name);
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

// The contexts to try, the longest first.
std::vector<TokenCount> contexts(const Asked& asked, const ModelFacts& facts) {
  if (asked.purpose != Purpose::kLongContext || asked.context_is_fixed)
    return {std::min(asked.context, std::max<TokenCount>(facts.context, 1))};
  std::vector<TokenCount> out;
  for (TokenCount n = facts.context; n >= asked.context; n /= 2) out.push_back(n);
  return out;
}

class Ranking {
 public:
  Ranking(const Asked& asked, const ScenarioOf& scenario_of, const SpaceOf& space_of,
          const QualityTable& quality)
      : asked_(asked), scenario_of_(scenario_of), space_of_(space_of), quality_(quality) {
    out_.asked = asked;
  }

  void add(const ModelFacts& facts) {
    if (is_too_short(facts)) {
      out_.left_out.push_back(
          {facts, WhyNot::kShortContext,
           fmt::format("was trained for {} tokens", text_count(facts.context))});
      return;
    }
    std::optional<LeftOut> why;
    std::optional<SearchSpace> space;  // the same for every context
    for (const TokenCount context : contexts(asked_, facts)) {
      const auto scenario = scenario_of_(facts.name, context);
      if (!scenario) {
        if (!error_) error_ = scenario.error();
        why = LeftOut{facts, WhyNot::kOther, scenario.error().message};
        break;
      }
      if (!space) space = space_of_(*scenario);
      if (is_found(facts, *scenario, *space, why)) return;
    }
    out_.left_out.push_back(*std::move(why));
  }

  Recommendation take(std::string since) {
    out_.since = std::move(since);
    std::ranges::stable_sort(
        out_.rows, [&](const Recommended& a, const Recommended& b) { return key(a) < key(b); });
    std::ranges::stable_sort(out_.left_out, [](const LeftOut& a, const LeftOut& b) {
      return std::tuple(a.reason != WhyNot::kTooSlow, -a.tokens_per_s.value_or(0)) <
             std::tuple(b.reason != WhyNot::kTooSlow, -b.tokens_per_s.value_or(0));
    });
    return std::move(out_);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  // A model that was trained for less than the context that it is ranked in.
  bool is_too_short(const ModelFacts& facts) const { return facts.context < asked_.context; }

  bool is_found(const ModelFacts& facts, const Scenario& s, const SearchSpace& space,
                std::optional<LeftOut>& why) {
    const double max_loss = asked_.max_loss.value_or(
        usual_loss(s.model, s.tensors, quality_).value_or(std::numeric_limits<double>::infinity()));
    const SpeedWanted wanted{.min_tokens_per_s = asked_.min_tokens_per_s,
                             .max_prompt = asked_.max_ttft,
                             .max_loss = max_loss,
                             .spends_speed = asked_.purpose != Purpose::kSpeed};
    const FastEnough found = fastest_within(s, space, wanted, quality_);
    if (found.candidate) {
      out_.rows.push_back({facts, *found.candidate, max_loss, found.tokens_per_s});
      return true;
    }
    if (found.is_late)
      why = LeftOut{facts, WhyNot::kLateFirstToken, "first token later than asked for"};
    else if (found.tokens_per_s > 0)
      why = LeftOut{facts, WhyNot::kTooSlow, "at most " + rate_text(found.tokens_per_s),
                    found.tokens_per_s};
    else
      why = LeftOut{facts, WhyNot::kTooLarge,
                    fmt::format("{} of weights as {}, the smallest within the loss",
                                text_gib(found.smallest), found.smallest_quant)};
    return false;
  }

  std::tuple<int, double, double, double> key(const Recommended& r) const {
    const bool is_old = months_of(r.facts.released) < months_of(out_.since);
    const double size = -r.facts.parameters, month = -double(months_of(r.facts.released));
    switch (asked_.purpose) {
      case Purpose::kChat: return {is_old, size, month, -r.tokens_per_s};
      case Purpose::kCode: return {2 * is_old + !r.facts.is_for_code, size, month, -r.tokens_per_s};
      case Purpose::kLongContext: return {is_old, -double(r.candidate.context), size, month};
      case Purpose::kSpeed: return {is_old, -r.tokens_per_s, size, month};
    }
    return {};
  }

  const Asked& asked_;
  const ScenarioOf& scenario_of_;
  const SpaceOf& space_of_;
  const QualityTable& quality_;
  Recommendation out_;
  std::optional<Error> error_;
};

// Simulates rows until enough of them keep what the closed form said.
void simulate_rows(Recommendation& r, const ScenarioOf& scenario_of, const Simulate& simulate) {
  std::size_t shown = 0;
  for (std::size_t i = 0; i < r.rows.size() && shown < r.asked.rows;) {
    Recommended& row = r.rows[i];
    const auto base = scenario_of(row.facts.name, row.candidate.context);
    RIGCAST_ASSERT(base.ok());
    row.report =
        simulate(std::make_shared<const Scenario>(planner::scenario_of(*base, row.candidate)));
    const double speed = row.report->decode_tokens_per_s;
    if (row.report->fits && speed >= r.asked.min_tokens_per_s) {
      ++shown, ++i;
      continue;
    }
    r.left_out.insert(r.left_out.begin(), {row.facts, WhyNot::kTooSlow, rate_text(speed), speed});
    r.rows.erase(r.rows.begin() + std::ptrdiff_t(i));
  }
}

}  // namespace

std::string_view name(Purpose purpose) {
  switch (purpose) {
    case Purpose::kChat: return "chat";
    case Purpose::kCode: return "code";
    case Purpose::kLongContext: return "long-context";
    case Purpose::kSpeed: return "speed";
  }
  return "";
}

std::string_view name(WhyNot reason) {
  switch (reason) {
    case WhyNot::kTooLarge: return "too large";
    case WhyNot::kTooSlow: return "too slow";
    case WhyNot::kLateFirstToken: return "late first token";
    case WhyNot::kShortContext: return "short context";
    case WhyNot::kOther: return "not forecast";
  }
  return "";
}

Asked asked_for(Purpose purpose) {
  switch (purpose) {
    case Purpose::kChat:
      return {.purpose = purpose, .context = kChatContext, .min_tokens_per_s = kChatSpeed};
    case Purpose::kCode:
      return {.purpose = purpose, .context = kCodeContext, .min_tokens_per_s = kCodeSpeed};
    case Purpose::kLongContext:
      return {.purpose = purpose, .context = kMinLongContext, .min_tokens_per_s = kChatSpeed};
    case Purpose::kSpeed: return {.purpose = purpose, .context = kChatContext};
  }
  return {};
}

ModelFacts facts_of(const ModelSpec& spec, bool for_code) {
  ModelFacts facts{.name = spec.id, .released = spec.released, .context = spec.context};
  facts.is_for_code = names_code(spec.id);
  if (!for_code || facts.is_for_code) return facts;
  // Of the aliases that name a model for code, the shortest finds it as well as any.
  for (const std::string& alias : spec.aliases)
    if (names_code(alias) && (!facts.is_for_code || as_id(alias).size() < facts.name.size())) {
      facts.name = as_id(alias);
      facts.is_for_code = true;
    }
  return facts;
}

std::string rule_text(const Recommendation& r) {
  const Asked& a = r.asked;
  std::string order;
  switch (a.purpose) {
    case Purpose::kChat: order = "the most parameters first"; break;
    case Purpose::kCode: order = "models for code first, then the most parameters"; break;
    case Purpose::kLongContext:
      order = "the longest context that fits first, then the most parameters";
      break;
    case Purpose::kSpeed: order = "the fastest first"; break;
  }
  const bool longest = a.purpose == Purpose::kLongContext && !a.context_is_fixed;
  std::string out = order;
  if (!r.since.empty()) out += fmt::format(", those released before {} last", r.since);
  out += "; of models with ";
  if (a.min_tokens_per_s > 0) out += fmt::format("at least {:g} tok/s in ", a.min_tokens_per_s);
  out += fmt::format("a context of {}{}", longest ? "at least " : "", text_count(a.context));
  out += a.max_loss ? fmt::format(" and a loss of at most {:g} nats", *a.max_loss)
                    : " and a loss of at most that of Q4_K_M with a Q8_0 cache";
  return out;
}

Result<Recommendation> recommend(const std::vector<ModelSpec>& models, const Asked& asked,
                                 const ScenarioOf& scenario_of, const SpaceOf& space_of,
                                 const QualityTable& quality, const Simulate& simulate) {
  std::vector<ModelFacts> facts;
  for (const ModelSpec& spec : models) {
    ModelFacts one = facts_of(spec, asked.purpose == Purpose::kCode);
    const auto table = make_tensor_table(spec, *QuantMix::from_name("F16"));
    if (table) {
      one.parameters = double(table->elements());
      one.active_parameters = active_elements(*table, spec);
    }
    facts.push_back(std::move(one));
  }
  Ranking ranking(asked, scenario_of, space_of, quality);
  for (const ModelFacts& one : facts) ranking.add(one);
  Recommendation out = ranking.take(generation_since(facts));
  if (out.rows.empty() && ranking.error() &&
      std::ranges::all_of(out.left_out, [](const LeftOut& l) {
        return l.reason == WhyNot::kOther || l.reason == WhyNot::kShortContext;
      }))
    return *ranking.error();
  simulate_rows(out, scenario_of, simulate);
  return out;
}

}  // namespace rigcast::planner
