#include "calibration/serving/server_fit_text.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "calibration/serving/server_parameters.hpp"
#include "core/base/quantile.hpp"
#include "core/text/csv_quote.hpp"

namespace rigcast::calibration {
namespace {

using Errors = LoadErrors FittedLoad::*;

// Absolute errors as shares of what was measured, every chip with the weight of one.
std::vector<Weighted> shares(const ServerFit& fit, LoadFigure figure, Errors of, bool as_log) {
  std::map<std::string, std::vector<double>> by_chip;
  for (const FittedLoad& load : fit.loads)
    if (const auto& error = (load.*of).of[std::size_t(figure)])
      by_chip[load.run.chip].push_back(std::abs(as_log ? *error : std::expm1(*error)));
  std::vector<Weighted> out;
  for (const auto& [chip, errors] : by_chip)
    for (const double error : errors) out.push_back({error, 1.0 / double(errors.size())});
  return out;
}

// Half of the interval in which 80 % of the left-out errors lie, as a logarithm.
std::string interval_text(const ServerFit& fit, const char* key,
                          std::initializer_list<LoadFigure> figures) {
  constexpr double kInside = 0.8;
  std::vector<Weighted> all;
  for (const LoadFigure figure : figures)
    for (const Weighted& w : shares(fit, figure, &FittedLoad::left_out, true)) all.push_back(w);
  if (all.empty()) return "";
  return fmt::format(
      "{} = {{ value = {:.3f}, kind = \"fitted\", n = {}, chips = {}, source = "
      "\"80 % of the errors of chips left out\" }}\n",
      key, weighted_quantile(all, kInside), all.size(), fit.chips);
}

std::pair<std::string, std::string> split_path(const std::string& path) {
  const auto dot = path.rfind('.');
  return {path.substr(0, dot), path.substr(dot + 1)};
}

std::string figure_text(const ServerFit& fit, std::size_t i, const std::string& from) {
  const Parameter& p = fit.parameters[i];
  if (fit.rows[i] == 0)
    return fmt::format(
        "{{ value = {}, kind = \"assumed\", source = \"no rows; as before the fit\" }}",
        toml_value(p, fit.values[i]));
  return fmt::format(
      "{{ value = {}, kind = \"fitted\", n = {}, chips = {}, source = \"fit on {}\" }}",
      toml_value(p, fit.values[i]), fit.rows[i], fit.chips, from);
}

constexpr std::array kFigures = {LoadFigure::kThroughput, LoadFigure::kTpot, LoadFigure::kTpot99,
                                 LoadFigure::kTtft, LoadFigure::kTtft99};

}  // namespace

std::string to_toml(const RuntimeProfile& profile, const ServerFit& fit, const std::string& file) {
  std::string from = file;
  for (char& c : from)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = '_';
  std::string text = fmt::format(
      "# Written by `rigcast calibrate`: figures that are laid over those of ../{}.toml. n: "
      "figures of\n"
      "# measured loads that each one moves; chips: of all.\n",
      profile.id);
  std::vector<std::string> order;
  std::map<std::string, std::string> lines;
  for (std::size_t i = 0; i < fit.parameters.size(); ++i) {
    const auto [table, key] = split_path(fit.parameters[i].path);
    if (!lines.contains(table)) order.push_back(table);
    lines[table] += fmt::format("{} = {}\n", key, figure_text(fit, i, from));
    if (fit.parameters[i].path == "gpu.default.read")
      lines[table] += fmt::format(
          "kv_read = {{ value = {:.4g}, kind = \"assumed\", source = \"in the "
          "ratio to read that ../{}.toml has\" }}\n",
          kv_read_beside(profile, fit.values[i]), profile.id);
  }
  for (const std::string& table : order) text += fmt::format("\n[{}]\n{}", table, lines.at(table));
  return text + "\n[uncertainty]\n" +
         interval_text(fit, "decode", {LoadFigure::kTpot, LoadFigure::kThroughput}) +
         interval_text(fit, "prefill", {LoadFigure::kTtft});
}

std::string to_text(const ServerFit& fit) {
  std::string text = fmt::format("{:<12} {:>5} {:>5}  {:>17}  {:>17}\n", "figure", "rows", "chips",
                                 "in the fit", "left out");
  for (const LoadFigure figure : kFigures) {
    std::set<std::string> chips;
    for (const FittedLoad& load : fit.loads)
      if (load.fitted.of[std::size_t(figure)]) chips.insert(load.run.chip);
    const auto own = shares(fit, figure, &FittedLoad::fitted, false);
    const auto out = shares(fit, figure, &FittedLoad::left_out, false);
    if (own.empty() || out.empty()) continue;
    const auto quantiles = [](const std::vector<Weighted>& errors) {
      return fmt::format("{:.1f} / {:.1f} %", 100 * weighted_quantile(errors, 0.5),
                         100 * weighted_quantile(errors, 0.9));
    };
    text += fmt::format("{:<12} {:>5} {:>5}  {:>17}  {:>17}\n", name(figure), own.size(),
                        chips.size(), quantiles(own), quantiles(out));
  }
  return text + "Absolute errors, median and 90 %; chips count equally.\n";
}

std::string to_csv(const ServerFit& fit) {
  std::string text = "id,chip,model,quant,gpus,metric,error,left_out_error\n";
  for (const FittedLoad& load : fit.loads)
    for (const LoadFigure figure : kFigures) {
      const auto& own = load.fitted.of[std::size_t(figure)];
      const auto& out = load.left_out.of[std::size_t(figure)];
      if (!own) continue;
      text += fmt::format("{},{},{},{},{},{},{:.4f},{}\n", csv_quote(load.run.measured.id),
                          csv_quote(load.run.chip), load.run.scenario->model.id,
                          load.run.scenario->quant, load.run.measured.gpus, name(figure),
                          std::expm1(*own), out ? fmt::format("{:.4f}", std::expm1(*out)) : "");
    }
  return text;
}

}  // namespace rigcast::calibration
