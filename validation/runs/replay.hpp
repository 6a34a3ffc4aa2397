#pragma once
// Runs that were kept, beside forecasts of them.

#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "report/report.hpp"
#include "report/trace.hpp"
#include "validation/runs/run_archive.hpp"
#include "validation/validation.hpp"

namespace rigcast::validation {

struct Forecast {
  Report report;
  std::vector<TraceEvent> events;
};

/// A forecast as in a validation: with speeds at `positions`, and with cliffs where a cache is
/// evicted.
Forecast forecast_of(const Scenario& scenario, std::vector<TokenCount> positions);

/// The report of a run, read back. Errors: no report, or one of a forecast.
Result<Report> measured_report_of(std::string_view json, const Scenario& scenario);

/// A run that has figures, read back.
struct MeasuredRun {
  std::string name;
  Scenario scenario;  // on the rig that was probed before it
  Report measured;
  std::vector<ActivityRow> activities;  // `measured_s`
};
Result<MeasuredRun> measured_run(const ArchivedRun& kept, const Catalogue& catalogue);

/// Rows that compare the measured run with a new forecast.
std::vector<ValidationRow> replay(const MeasuredRun& run);
Result<std::vector<ValidationRow>> replay(const ArchivedRun& kept, const Catalogue& catalogue);

/// Compares a kept run with the forecast that was written before it. Errors: none was kept.
Result<std::vector<ValidationRow>> compare_as_written(const ArchivedRun& kept,
                                                      const Catalogue& catalogue);

}  // namespace rigcast::validation
