// Decode speed by the number of threads, of the runs that others measured: the forecasts' curves
// have the measured shape, and their best count.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/text/csv.hpp"
#include "tests/catch.hpp"
#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::cli_test;

namespace {

// Rows of a CSV file by column name.
class Table {
 public:
  explicit Table(const std::string& text) {
    auto rows = parse_csv(text, "rows.csv");
    if (!rows) FAIL(rows.error().text());
    rows_ = *std::move(rows);
    REQUIRE(!rows_.empty());
    for (std::size_t c = 0; c < rows_[0].size(); ++c) columns_[rows_[0][c].text] = c;
  }
  std::size_t size() const { return rows_.size(); }  // the header's included
  const std::string& at(std::size_t row, const std::string& column) const {
    return rows_[row].at(columns_.at(column)).text;
  }
  std::string line(std::size_t row) const {
    std::string out;
    for (const CsvField& field : rows_[row]) {
      std::string quoted;
      for (const char c : field.text) quoted += c == '"' ? "\"\"" : std::string(1, c);
      out += (out.empty() ? "\"" : ",\"") + quoted + "\"";
    }
    return out + "\n";
  }

 private:
  std::vector<CsvRow> rows_;
  std::map<std::string, std::size_t> columns_;
};

// What a curve's rows have in common.
std::string curve_of(const Table& t, std::size_t row) {
  std::string key;
  for (const char* column : {"source", "cpu", "model", "quant", "depth", "n_gen", "tool",
                             "tool_build", "ctk", "flash_attn", "notes"})
    key += t.at(row, column) + "|";
  return key;
}

// Rows by thread of runs on a CPU alone.
std::map<std::string, std::map<int, std::size_t>> curves(const Table& t) {
  std::map<std::string, std::map<int, std::size_t>> all;
  for (std::size_t row = 1; row < t.size(); ++row) {
    const std::string& gpu = t.at(row, "gpu");
    const int threads = std::atoi(t.at(row, "threads").c_str());
    if (t.at(row, "metric") == "tg_tps" && threads > 0 && (gpu.empty() || gpu == "none"))
      all[curve_of(t, row)].emplace(threads, row);
  }
  std::erase_if(all, [](const auto& curve) { return curve.second.size() < 3; });
  return all;
}

struct Point {
  int threads;
  double measured, forecast;
};

std::size_t best(const std::vector<Point>& curve, double Point::*speed) {
  return std::size_t(std::ranges::max_element(curve, {}, speed) - curve.begin());
}

// Errors of the points, each curve scaled to its own mean: how fast the CPU is is another question.
std::vector<double> errors_of(const std::vector<Point>& curve) {
  double mean = 0;
  for (const Point& p : curve) mean += std::log(p.forecast / p.measured) / double(curve.size());
  std::vector<double> errors;
  for (const Point& p : curve)
    errors.push_back(std::exp(std::log(p.forecast / p.measured) - mean) - 1);
  return errors;
}

}  // namespace

TEST_CASE("Forecasts by thread have the shape and the best count of public runs", "[cli]") {
  const Table runs(read(fs::path(test::source_dir()) / "runtimes/measurements/benchmarks.csv"));
  const auto by_thread = curves(runs);
  const Folder folder;
  std::string text = runs.line(0);
  for (const auto& [key, rows] : by_thread)
    for (const auto& [threads, row] : rows) text += runs.line(row);
  folder.write("curves.csv", text);
  const Outcome outcome = run({"validate", "--against", folder / "curves.csv", "--format", "csv"});
  INFO(outcome.error);
  const Table forecasts(outcome.out);
  std::map<std::string, double> forecast;
  for (std::size_t row = 1; row < forecasts.size(); ++row)
    forecast[forecasts.at(row, "id")] = std::stod(forecasts.at(row, "predicted"));

  std::vector<double> errors;
  int judged = 0, best_found = 0;
  for (const auto& [key, rows] : by_thread) {
    std::vector<Point> curve;
    for (const auto& [threads, row] : rows)
      if (const auto found = forecast.find(runs.at(row, "id")); found != forecast.end())
        curve.push_back({threads, std::stod(runs.at(row, "value")), found->second});
    if (curve.size() < 3) continue;
    ++judged;
    std::string line;
    const std::vector<double> of_curve = errors_of(curve);
    for (std::size_t i = 0; i < curve.size(); ++i) {
      errors.push_back(std::fabs(of_curve[i]));
      line += " " + std::to_string(curve[i].threads) + ": " +
              std::to_string(int(std::lround(100 * of_curve[i]))) + " %";
    }
    const auto row = rows.begin()->second;
    std::printf("%-26.26s %-20.20s %-8.8s%s\n", runs.at(row, "cpu").c_str(),
                runs.at(row, "model").c_str(), runs.at(row, "quant").c_str(), line.c_str());
    const auto measured = best(curve, &Point::measured), found = best(curve, &Point::forecast);
    if (std::max(measured, found) - std::min(measured, found) <= 1) ++best_found;
  }
  REQUIRE(errors.size() >= 60);
  std::ranges::sort(errors);
  const double median = errors[errors.size() / 2];
  std::printf(
      "%d curves by thread, %zu points: median error %.1f %%, best count within a step: %d\n",
      judged, errors.size(), 100 * median, best_found);
  CHECK(median <= 0.06);
  CHECK(best_found == judged);
}
