#pragma once
// Forecasts of servers under load beside what others measured.

#include <string>

#include "core/catalogue/catalogue.hpp"
#include "validation/validation.hpp"

namespace rigcast::cli {

/// A row for each figure of each run that can be forecast: "output_tps" of loads that keep a server
/// busy, "ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s", "kv_tokens". The others are
/// skipped, with the reason.
/// Of a table of servers' runs (is_serving_table()), of a file of this name. Errors: those of
/// parse_serving_measurements().
Result<Validation> compare_serving_table(const std::string& text, const std::string& file,
                                         const Catalogue& catalogue);

}  // namespace rigcast::cli
