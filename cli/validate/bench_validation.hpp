#pragma once
// Forecasts beside runs of llama-bench, and of whatever else states one figure a row.

#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "measurements/measurement.hpp"
#include "validation/validation.hpp"

namespace rigcast::cli {

struct BenchComparison {
  std::string file;
  std::string runtime;    // an id: others are left out; empty: none is
  bool doubtful = false;  // also runs that are marked SUSPECT or CAUTION
};

/// A row for each run that can be forecast; the others are skipped, with the reason, and so is what
/// `unread` says of "place: reason".
Validation compare_bench(const BenchComparison& how, const std::vector<Measurement>& runs,
                         const std::vector<std::string>& unread, const Catalogue& catalogue);

}  // namespace rigcast::cli
