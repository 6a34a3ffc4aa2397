#pragma once
// Forecasts of servers under load beside what others, or benchmarks on one's own server, measured.

#include <string>
#include <string_view>

#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"
#include "validation/validation.hpp"

namespace rigcast::cli {

struct ServingComparison {
  std::string_view text;
  std::string file;       // of which it is the text
  std::string runtime;    // an id: of a table, others are left out; empty: none is
  bool doubtful = false;  // also runs that contradict themselves, or that whoever collected doubts
};

/// A row for each figure of each run that can be forecast: "output_tps" of loads that keep a server
/// busy; "ttft_", "tpot_", "itl_" and "e2e_" of "mean_s", "p50_s", "p90_s", "p95_s" and "p99_s";
/// "kv_tokens"; of sequences in lockstep "pp_tps" and "tg_tps". The others are skipped, with the
/// reason.
/// `given`: what flags say, which wins over what a benchmark says; our table says all itself.
/// Of a text that has a form (serving_form()). Errors: those of parse_serving_results(); what a
/// benchmark does not say and is not given.
Result<Validation> compare_servers(const ServingComparison& how, const TomlDocument& given,
                                   const Catalogue& catalogue);

}  // namespace rigcast::cli
