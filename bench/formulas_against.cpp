// Forecasts of llmfit and canirun.ai for measured decode runs, as CSV for scripts/accuracy.py.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "bench/formulas/canirun.hpp"
#include "bench/formulas/llmfit.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/text/csv_quote.hpp"
#include "measurements/read_measurements.hpp"
#include "measurements/resolve.hpp"

using namespace rigcast;

namespace {

// A field of the table; empty if a tool has no forecast.
std::string field(std::optional<double> tokens_per_s) {
  return tokens_per_s ? fmt::format("{:.6g}", *tokens_per_s) : "";
}

void print_rows(const std::vector<Measurement>& runs) {
  Resolver resolver{Catalogue(RIGCAST_SOURCE_DIR)};
  fmt::print("id,metric,measured,llmfit,canirun\n");
  for (const Measurement& m : runs) {
    if (m.metric != Metric::kTg || m.doubtful()) continue;
    const auto run = resolver.resolve(m);
    if (!run) continue;
    fmt::print("{},{},{},{},{}\n", csv_quote(m.id), name(m.metric), m.value,
               field(formulas::llmfit_decode(*run->scenario)),
               field(formulas::canirun_decode(*run->scenario)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_formulas FILE\n");
    return 2;
  }
  const auto runs = read_measurements(argv[1]);
  if (!runs) {
    fmt::print(stderr, "bench_formulas: {}\n", runs.error().text());
    return 2;
  }
  print_rows(*runs);
  return 0;
}
