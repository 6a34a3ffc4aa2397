#include "validation/runs/replay.hpp"

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

#include "report/report_from_json.hpp"
#include "sim/serving/simulate_load.hpp"
#include "sim/simulate.hpp"
#include "validation/report_comparison.hpp"
#include "validation/runs/archived_scenario.hpp"
#include "validation/runs/llama_cpp/measured_report.hpp"
#include "validation/validation_json.hpp"

namespace rigcast::validation {

namespace {

// What the scenario's load gets of its server.
void add_serving(Report& report) {
  auto simulation = LoadSimulation::make(*report.scenario);
  auto serving = simulation ? simulation->report(*report.scenario->load)
                            : Result<ServingReport>(simulation.error());
  if (serving) {
    report.serving = *std::move(serving);
    return;
  }
  report.fits = false;
  report.errors.push_back(serving.error().message);
}

}  // namespace

Forecast forecast_of(const Scenario& scenario, std::vector<TokenCount> positions) {
  Forecast out;
  sim::SimulateOptions how;
  how.cliffs = evicts(scenario.kv.policy);
  how.positions = std::move(positions);
  how.trace = &out.events;
  out.report = sim::simulate(std::make_shared<const Scenario>(scenario), how);
  if (!scenario.load) return out;
  out.events.clear();  // of one request, which is none of the load
  if (out.report.fits) add_serving(out.report);
  return out;
}

Result<Report> measured_report_of(std::string_view json, const Scenario& scenario) {
  auto report = report_from_json(json, std::make_shared<const Scenario>(scenario));
  if (report && report->origin != Origin::kMeasured)
    return bad_input("this is the report of a forecast, not of a run");
  // Reports of before this was done.
  if (report && scenario.runtime.rules == RuntimeRules::kLlamaCpp && scenario.settings.mmap &&
      !report->memory.devices.empty())
    leave_copied_pages(scenario, report->placement, report->memory.devices.back().weights,
                       report->memory.devices);
  return report;
}

namespace {

// A run with its own name in what is wrong with it.
Error of_run(const ArchivedRun& kept, Error error) {
  error.message = fmt::format("{}: {}", kept.run.name, error.message);
  return error;
}

Result<Scenario> scenario_of(const ArchivedRun& kept, const Catalogue& catalogue) {
  auto scenario = scenario_on(kept.run.scenario, kept.rig, catalogue);
  if (scenario && kept.run.file && !scenario->model_file)
    scenario->model_file = "weights.gguf";  // which is gone
  return scenario;
}

}  // namespace

Result<MeasuredRun> measured_run(const ArchivedRun& kept, const Catalogue& catalogue) {
  auto scenario = scenario_of(kept, catalogue);
  if (!scenario) return scenario.error();
  auto measured = measured_report_of(kept.measured, *scenario);
  if (!measured) return of_run(kept, measured.error());
  return MeasuredRun{kept.run.name, *std::move(scenario), *std::move(measured),
                     activities_from_json(kept.activities)};
}

std::vector<ValidationRow> replay(const MeasuredRun& run) {
  const Forecast forecast = forecast_of(run.scenario, positions_of(run.measured));
  return compare_reports(run.name, forecast.report, run.measured,
                         compare_activities(forecast.events, run.activities));
}

Result<std::vector<ValidationRow>> replay(const ArchivedRun& kept, const Catalogue& catalogue) {
  const auto run = measured_run(kept, catalogue);
  if (!run) return run.error();
  return replay(*run);
}

Result<std::vector<ValidationRow>> compare_as_written(const ArchivedRun& kept,
                                                      const Catalogue& catalogue) {
  const auto scenario = scenario_of(kept, catalogue);
  if (!scenario) return scenario.error();
  if (kept.forecast.empty()) return of_run(kept, bad_input("its forecast was not kept"));
  const auto forecast =
      report_from_json(kept.forecast, std::make_shared<const Scenario>(*scenario));
  if (!forecast) return of_run(kept, forecast.error());
  const auto measured = measured_report_of(kept.measured, *scenario);
  if (!measured) return of_run(kept, measured.error());
  return compare_reports(kept.run.name, *forecast, *measured,
                         activities_from_json(kept.activities));
}

}  // namespace rigcast::validation
