#include "core/scenario/length_distribution.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace rigcast {
namespace {

constexpr double kNormalP90 = 1.2815515655446004;  // standard deviations
constexpr std::string_view kForms =
    "a number of tokens, { min, max }, { median, p90 } or { histogram = [[tokens, weight], ...] }";

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;  // clang before 17 does not deduce it

bool is_length(double tokens) { return tokens >= 1 && tokens == std::floor(tokens); }

LengthDistribution read_histogram(const TomlTable& t) {
  HistogramLength lengths;
  double sum = 0;
  bool formed = true;
  for (const std::vector<double>& row : t.number_rows("histogram", 0, double(kMaxLength))) {
    formed = formed && row.size() == 2 && is_length(row[0]);
    if (!formed) break;
    lengths.bins.emplace_back(TokenCount(row[0]), row[1]);
    sum += row[1];
  }
  if (formed && sum > 0) return lengths;
  t.refuse("histogram",
           formed ? "the weights add up to nothing" : "expected rows of tokens and their weight",
           "for example [[100, 3], [2000, 1]]: three of four have 100 tokens");
  return FixedLength{};
}

LengthDistribution read_uniform(const TomlTable& t) {
  UniformLength lengths;
  lengths.min = t.integer("min", 1, kMaxLength);
  lengths.max = t.integer("max", 1, kMaxLength);
  if (lengths.max < lengths.min) t.refuse("max", "is less than min");
  return lengths;
}

LengthDistribution read_lognormal(const TomlTable& t) {
  t.require("median");
  t.require("p90");
  const double median = t.number_or("median", 1, 1, double(kMaxLength));
  const double p90 = t.number_or("p90", median, 1, double(kMaxLength));
  if (p90 < median)
    t.refuse("p90",
             fmt::format("{:g} tokens are less than the median, {:g}: nine of ten lengths are at "
                         "most p90, five of ten at most the median",
                         p90, median),
             "for example { median = 600, p90 = 2700 }");
  return lognormal_length(median, std::max(median, p90));
}

}  // namespace

HistogramLength JointLengths::prompts() const {
  HistogramLength lengths;
  for (const Bin& bin : bins) lengths.bins.emplace_back(bin.prompt, bin.weight);
  return lengths;
}

HistogramLength JointLengths::outputs() const {
  HistogramLength lengths;
  for (const Bin& bin : bins) lengths.bins.emplace_back(bin.output, bin.weight);
  return lengths;
}

double mean_tokens(const LengthDistribution& lengths) {
  return std::visit(
      Overloaded{
          [](const FixedLength& l) { return double(l.tokens); },
          [](const UniformLength& l) { return (double(l.min) + double(l.max)) / 2; },
          [](const LognormalLength& l) { return l.median * std::exp(l.sigma * l.sigma / 2); },
          [](const HistogramLength& l) {
            double sum = 0, weights = 0;
            for (const auto& [tokens, weight] : l.bins) {
              sum += double(tokens) * weight;
              weights += weight;
            }
            return sum / weights;
          }},
      lengths);
}

LognormalLength lognormal_length(double median, double p90) {
  return {median, std::log(p90 / median) / kNormalP90};
}

Sourced<LengthDistribution> read_lengths(const TomlTable& table, std::string_view key,
                                         const FigureDefaults& from) {
  Sourced<LengthDistribution> out{FixedLength{}, from.kind, from.source};
  if (!table.is_table(key)) {
    out.value = FixedLength{table.integer(key, 1, kMaxLength)};
    return out;
  }
  const TomlTable t = table.table(key);
  if (t.has("histogram"))
    out.value = read_histogram(t);
  else if (t.has("min") || t.has("max"))
    out.value = read_uniform(t);
  else if (t.has("median") || t.has("p90"))
    out.value = read_lognormal(t);
  else
    table.refuse(key, "states no length", std::string(kForms));
  out.source = t.text_or("source", out.source);
  if (const auto kind = t.find_text("kind")) {
    const auto known = source_kind_from(*kind);
    if (!known) t.refuse("kind", "expected measured, fitted, published, spec or assumed");
    out.kind = known.value_or(out.kind);
  }
  t.finish();
  return out;
}

JointLengths read_joint_lengths(const TomlTable& table, std::string_view key) {
  JointLengths lengths;
  double sum = 0;
  bool formed = true;
  for (const std::vector<double>& row : table.number_rows(key, 0, double(kMaxLength))) {
    formed = formed && row.size() == 3 && is_length(row[0]) && is_length(row[1]);
    if (!formed) break;
    lengths.bins.push_back({TokenCount(row[0]), TokenCount(row[1]), row[2]});
    sum += row[2];
  }
  if (formed && sum > 0) return lengths;
  table.refuse(key,
               lengths.bins.empty() && formed ? "there are no rows"
               : formed
                   ? "the weights add up to nothing"
                   : "expected rows of whole tokens of a prompt, at least 1, of its answer, and "
                     "their weight",
               "for example [[300, 600, 3], [8000, 100, 1]]: one of four has 8,000 and 100");
  return {{{1, 1, 1}}};
}

}  // namespace rigcast
