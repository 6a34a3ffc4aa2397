#include "planner/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "core/model/quantized_model.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::planner {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr double kGain = 1.03;  // a smaller gain is inside any forecast's noise

// Seconds of all models' turns; infinite where one does not fit.
double seconds_of(const ComparedRig& rig) {
  double sum = 0;
  for (const ComparedModel& m : rig.models) sum += m.best ? m.best->turn.value : kForever;
  return sum;
}

// Where the seconds are likely to be: by the intervals of the speeds.
Interval likely_seconds(const ComparedRig& rig) {
  Interval sum;
  for (const ComparedModel& m : rig.models) {
    if (!m.best) return {kForever, kForever};
    const Report& r = m.best->report;
    const auto& speed = r.tokens_per_s_interval;
    const double turn = m.best->turn.value;
    sum.lo += speed ? turn * r.decode_tokens_per_s / speed->hi : turn;
    sum.hi += speed ? turn * r.decode_tokens_per_s / std::max(speed->lo, 1e-9) : turn;
  }
  return sum;
}

// What a rig is ranked by, the lower the better, as a multiple of its seconds: with a budget or
// without prices, the seconds themselves.
double weight_of(const Comparison& c, const ComparedRig& rig) {
  return c.budget || !rig.price.usd ? 1.0 : *rig.price.usd;
}

void rank_upgrades(Comparison& c) {
  auto& rigs = c.rigs;
  const double now = seconds_of(rigs.front());
  const bool is_enough = rigs.front().qualifies({});
  const auto gains_nothing = [&](const ComparedRig& r) {
    return seconds_of(r) * kGain >= now && (is_enough || !r.qualifies({}));
  };
  const auto costs_too_much = [&](const ComparedRig& r) { return is_beyond(c.budget, r.price); };
  const auto is_no_answer = [&](const ComparedRig& r) {
    return gains_nothing(r) || costs_too_much(r);
  };
  rigs.erase(std::remove_if(rigs.begin() + 1, rigs.end(), is_no_answer), rigs.end());
  const auto worth = [&](const ComparedRig& r) {
    const double gain = std::isfinite(now) ? now / seconds_of(r) - 1 : 1 / seconds_of(r);
    const bool priced = r.price.usd && *r.price.usd > 0;
    return std::tuple(r.qualifies(c.budget) && priced, priced ? gain / *r.price.usd : gain);
  };
  std::stable_sort(rigs.begin() + 1, rigs.end(),
                   [&](const ComparedRig& a, const ComparedRig& b) { return worth(a) > worth(b); });
}

// True if the other one may be as good as the best, within the intervals of both.
bool may_be_as_good(const Comparison& c, const ComparedRig& other, const ComparedRig& best) {
  const Interval a = likely_seconds(other), b = likely_seconds(best);
  if (c.what != Comparison::What::kUpgrades)
    return weight_of(c, other) * a.lo < weight_of(c, best) * b.hi;
  const double now = seconds_of(c.rigs.front());
  if (!std::isfinite(now))
    return a.lo * other.price.usd.value_or(1) < b.hi * best.price.usd.value_or(1);
  return (now / a.lo - 1) / other.price.usd.value_or(1) >
         (now / b.hi - 1) / best.price.usd.value_or(1);
}

std::string usd_text(const ComparedRig& r) {
  if (!r.price.usd) return "";
  return fmt::format(" for {} USD", text_count(std::llround(*r.price.usd)));
}

std::string unpriced_text(const Comparison& c) {
  const auto without =
      std::ranges::count_if(c.rigs.begin() + (c.what == Comparison::What::kUpgrades), c.rigs.end(),
                            [](const ComparedRig& r) { return !r.price.usd; });
  if (without == 0) return "";
  return fmt::format("; {} of {} have no price", without,
                     c.rigs.size() - (c.what == Comparison::What::kUpgrades));
}

std::string tie_text(const Comparison& c) {
  constexpr std::size_t kNamed = 3;
  const auto names = ties(c);
  if (names.empty()) return "";
  const std::size_t named = std::min(kNamed, names.size());
  std::string out = fmt::format(
      "; a tie with {}", fmt::join(names.begin(), names.begin() + std::ptrdiff_t(named), ", "));
  if (names.size() > named) out += fmt::format(" and {} more", names.size() - named);
  return out + ": the forecasts' intervals overlap";
}

std::string nothing_text(const Comparison& c) {
  const char* what = c.what == Comparison::What::kUpgrades ? "no single part" : "nothing";
  return c.budget
             ? fmt::format("{} for {:.0f} USD does all of it{}", what, *c.budget, unpriced_text(c))
             : fmt::format("{} does all of it", what);
}

std::string faster_text(double times) {
  return times < 1.1 ? fmt::format("{:.0f} % faster", 100 * (times - 1))
                     : fmt::format("{:.1f} times as fast", times);
}

std::string upgrade_text(const Comparison& c) {
  if (c.rigs.size() < 2)
    return c.budget ? fmt::format("no single part for {:.0f} USD makes it faster", *c.budget)
                    : "no single part makes it faster";
  const ComparedRig& best = c.rigs[1];
  if (!best.qualifies(c.budget)) return nothing_text(c);
  const double now = seconds_of(c.rigs.front()), then = seconds_of(best);
  const bool is_enough = c.rigs.front().qualifies({});
  const std::string gain = !std::isfinite(now) ? "it fits"
                           : is_enough
                               ? faster_text(now / then)
                               : "it meets what is asked for, which the rig as it is does not";
  const std::string before = best.price.usd ? "most for the money: " : "";
  return before + best.name + usd_text(best) + ": " + gain + tie_text(c) + unpriced_text(c);
}

}  // namespace

bool ComparedRig::qualifies(std::optional<double> budget) const {
  if (budget && (!price.usd || *price.usd > *budget)) return false;
  return std::ranges::all_of(
      models, [](const ComparedModel& m) { return m.best && m.best->unmet.empty(); });
}

bool is_beyond(const std::optional<double>& budget, const PartsPrice& price) {
  return budget && price.usd && *price.usd > *budget;
}

std::string beyond_text(const PartsPrice& price) {
  return fmt::format("{} USD: more than the budget", text_count(std::llround(*price.usd)));
}

std::string beyond_text(std::size_t parts, const std::optional<double>& budget) {
  if (parts == 0 || !budget) return {};
  return fmt::format("{} {} more than {:.0f} USD: not computed", parts,
                     parts == 1 ? "part costs" : "parts cost", *budget);
}

std::optional<double> usual_loss(const ModelSpec& model, const TensorTable& tensors,
                                 const QualityTable& quality) {
  const auto mix = quality.of_mix(default_quant(model), model, double(tensors.elements()));
  const auto kv = quality.of_kv({QuantFormat::kQ8_0, QuantFormat::kQ8_0});
  if (!mix || !kv) return std::nullopt;
  return (*mix + *kv).nats;
}

std::optional<double> watts_of(const Rig& rig) {
  double watts = 0;
  for (const GpuPart& gpu : rig.gpus) {
    if (!gpu.board_power) return std::nullopt;
    watts += gpu.board_power->value.value * rig.engines;
  }
  if (rig.unified()) return watts;
  if (!rig.cpu.tdp) return std::nullopt;
  return watts + rig.cpu.tdp->value.value;
}

void rank(Comparison& c) {
  if (c.what == Comparison::What::kUpgrades) return rank_upgrades(c);
  std::ranges::stable_sort(c.rigs, {}, [&](const ComparedRig& r) {
    const double seconds = seconds_of(r);
    return std::tuple(!r.qualifies(c.budget), !r.price.usd, weight_of(c, r) * seconds, seconds);
  });
}

std::vector<std::string> ties(const Comparison& c) {
  std::vector<std::string> names;
  const std::size_t first = c.what == Comparison::What::kUpgrades ? 1 : 0;
  if (c.rigs.size() <= first) return names;
  const ComparedRig& best = c.rigs[first];
  const bool by_price = best.price.usd.has_value();
  for (std::size_t i = first + 1; i < c.rigs.size(); ++i) {
    const ComparedRig& r = c.rigs[i];
    if (!r.qualifies(c.budget) || (by_price && !r.price.usd)) continue;
    if (may_be_as_good(c, r, best)) names.push_back(r.name);
  }
  return names;
}

std::string verdict_text(const Comparison& c) {
  if (c.rigs.empty()) return "nothing to compare";
  if (c.what == Comparison::What::kUpgrades) return upgrade_text(c);
  const ComparedRig& best = c.rigs.front();
  if (!best.qualifies(c.budget)) return nothing_text(c);
  std::string out = c.budget         ? "fastest within the budget: "
                    : best.price.usd ? "most speed for the price: "
                                     : "fastest: ";
  out += best.name + usd_text(best);
  if (best.price.usd && c.what == Comparison::What::kGpus) out += " of GPUs";
  if (best.watts) out += fmt::format(", {:.0f} W", *best.watts);
  return out + tie_text(c) + unpriced_text(c);
}

double speed_at(const Report& report, TokenCount tokens) {
  double speed = report.decode_tokens_per_s;
  TokenCount nearest = -1;
  for (const PositionSpeed& p : report.by_position)
    if (nearest < 0 || std::abs(p.tokens - tokens) < std::abs(nearest - tokens)) {
      nearest = p.tokens;
      speed = p.tokens_per_s;
    }
  return speed;
}

}  // namespace rigcast::planner
