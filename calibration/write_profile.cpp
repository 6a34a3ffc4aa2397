#include "calibration/write_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace rigcast::calibration {
namespace {

// The support of one parameter: measurements whose forecasts depend on it.
struct Support {
  int rows = 0;
  std::set<std::string> chips;
  double squares = 0;

  double residual() const { return rows > 0 ? std::sqrt(squares / rows) : 0.0; }
};

std::vector<Support> supports(std::size_t parameters, const std::vector<Sample>& samples,
                              const std::vector<double>& errors) {
  std::vector<Support> out(parameters);
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (const int p : samples[i].depends_on()) {
      Support& s = out[std::size_t(p)];
      ++s.rows;
      s.chips.insert(samples[i].run().chip);
      // The clamp keeps a single row with a large error from dominating the others.
      s.squares += std::pow(std::clamp(errors[i], -0.7, 0.7), 2);
    }
  return out;
}

std::string figure_text(const Parameter& p, double value, const Support& support,
                        const std::vector<Parameter>& all, const std::string& from) {
  const std::string text = toml_value(p, value);
  if (support.rows == 0) {
    const std::string near =
        p.parent >= 0 ? "near " + all[std::size_t(p.parent)].path : "as before the fit";
    std::string quoted = near;
    std::erase(quoted, '"');
    return fmt::format("{{ value = {}, kind = \"assumed\", source = \"no rows; {}\" }}", text,
                       quoted);
  }
  return fmt::format(
      "{{ value = {}, kind = \"fitted\", n = {}, chips = {}, residual = {:.3f}, source = "
      "\"fit on {}\" }}",
      text, support.rows, support.chips.size(), support.residual(), from);
}

// "gpu.\"ampere\"" and "read" of "gpu.\"ampere\".read".
std::pair<std::string, std::string> split_path(const std::string& path) {
  const auto dot = path.rfind('.');
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// `of`: what `chips` counts, which is the name of its key.
std::string spreads_text(std::span<const LeftOutRow> rows, const char* table, const char* of) {
  std::string text;
  for (const RuntimeProfile::Spread& s : spreads(rows))
    text += fmt::format(
        "\n[[{}]]\nmetric = \"{}\"\nregime = \"{}\"\nlow = {:.3f}\nhigh = {:.3f}\nrows = {}\n"
        "{} = {}\n",
        table, name(s.metric), s.regime, s.low, s.high, s.rows, of, s.chips);
  return text;
}

// A run on chips of several families is a row of each.
std::string families_text(const std::vector<Sample>& samples) {
  std::map<std::pair<std::string, bool>, std::pair<int, int>> rows;  // of decode and prefill
  for (const Sample& s : samples) {
    if (s.run().dense) continue;
    for (const std::string& family : s.run().families) {
      auto& [decode, prefill] = rows[{family, s.run().slow_host}];
      ++(*speed_metric(s.run().measured.metric) == SpeedMetric::kDecode ? decode : prefill);
    }
  }
  std::string text;
  for (const auto& [of, count] : rows)
    text += fmt::format(
        "\n[[measured_family]]\nfamily = \"{}\"\n{}decode_rows = {}\nprefill_rows = {}\n", of.first,
        of.second ? "slow_host = true\n" : "", count.first, count.second);
  return text;
}

}  // namespace

std::string to_toml(const RuntimeProfile& profile, const std::string& runtime,
                    const std::vector<Parameter>& parameters, const std::vector<Sample>& samples,
                    const LeftOut& fit, const std::string& file) {
  std::string from = file;
  for (char& c : from)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = '_';
  const auto support = supports(parameters.size(), samples, fit.fitted);
  std::string text = fmt::format(
      "# Written by `rigcast calibrate`: figures that are laid over those of ../{}.toml. n and\n"
      "# chips: rows and chips whose forecast the figure moves; residual: root mean square of\n"
      "# their errors, as logarithms.\n",
      runtime.empty() ? profile.id : runtime);
  // Tables appear in the order of the parameters, each once.
  std::vector<std::string> order;
  std::map<std::string, std::string> lines;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (p.runtime != runtime || !p.source.empty()) continue;
    const auto [table, key] = split_path(p.path);
    if (!lines.contains(table)) order.push_back(table);
    lines[table] += fmt::format(
        "{} = {}\n", key, figure_text(p, std::exp(fit.values[i]), support[i], parameters, from));
  }
  for (const std::string& table : order) text += fmt::format("\n[{}]\n{}", table, lines.at(table));
  if (!runtime.empty()) return text;
  const std::vector<LeftOutRow> rows = left_out_rows(samples, fit);
  return text + spreads_text(rows, "spread", "chips") +
         spreads_text(by_family(rows), "family_spread", "families") + families_text(samples);
}

}  // namespace rigcast::calibration
