#include "library/rigcast.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "advice/advice.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/unit_text.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "library/data_folder.hpp"
#include "library/scenario_text.hpp"
#include "probe/detect/detected_rig.hpp"
#include "report/report_json.hpp"
#include "sim/by_context.hpp"
#include "sim/serving/scenario_ram.hpp"
#include "sim/serving/simulate_load.hpp"
#include "sim/simulate.hpp"
#include "sim/workers.hpp"

namespace rigcast {
namespace {

static_assert(std::string_view(RIGCAST_VERSION_TEXT) == RIGCAST_PROJECT_VERSION,
              "rigcast.hpp states another version than CMakeLists.txt");

Result<Catalogue> open_catalogue(bool reads_files) {
  auto catalogue = Catalogue::open(beside_data());
  if (!catalogue) return catalogue;
  if (!reads_files) catalogue->refuse_files();
  catalogue->read_model_files_with(engine::read_model_file);
  catalogue->read_projector_files_with(engine::read_projector_file);
  catalogue->read_this_machine_with(
      [](const Catalogue& parts) { return probe::detected_rig(parts); });
  return catalogue;
}

std::optional<Error> check_positions(const std::vector<TokenCount>& positions, const Scenario& s) {
  for (const TokenCount position : positions)
    if (position < 0 || position > s.workload.context)
      return bad_input(fmt::format("positions: {} is not within the context of {} tokens",
                                   text_count(position), text_count(s.workload.context)),
                       "a larger workload.context");
  return std::nullopt;
}

std::optional<Error> add_serving(Report& report) {
  const Scenario& s = *report.scenario;
  auto simulation = LoadSimulation::make(s);
  if (!simulation) return simulation.error();
  auto serving = simulation->report(*s.load);
  if (!serving) return serving.error();
  report.serving = *std::move(serving);
  if (auto note = note_on_ram_limit(s, simulation->memory().ram_cache); !note.empty())
    report.warnings.push_back(std::move(note));
  if (auto note = simulation->paging_note(); !note.empty()) report.warnings.push_back(note);
  return std::nullopt;
}

Result<Report> report_of(std::string_view text, const ForecastOptions& options) {
  const auto catalogue = open_catalogue(options.reads_files);
  if (!catalogue) return catalogue.error();
  const auto document = scenario_document(text);
  if (!document) return document.error();
  auto scenario = make_scenario(*document, *catalogue);
  if (!scenario) return scenario.error();
  if (auto error = check_positions(options.positions, *scenario)) return *error;

  sim::SimulateOptions how;
  how.fidelity = options.exact ? sim::Fidelity::kExact : sim::Fidelity::kFinal;
  how.positions = options.positions;
  Report report = sim::simulate(std::make_shared<const Scenario>(*std::move(scenario)), how);
  if (report.fits && report.scenario->load)
    if (auto error = add_serving(report)) return *error;
  if (options.by_context) report.by_context = sim::by_context(*report.scenario);
  if (options.advice && !report.serving) {
    auto advice = advise(*document, *catalogue, report);
    if (!advice) return advice.error();
    report.advice = *std::move(advice);
  }
  return report;
}

// What the process that forecasts says: how it ended, and the text.
constexpr char kFits = '+', kDoesNotFit = '-', kError = '!';

std::string error_text(const Error& e) {
  const nlohmann::json parts = {int(e.kind), e.message, e.hint, e.where ? e.where->text() : "",
                                e.key};
  // A name of the input may be no UTF-8.
  return kError + parts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Failures are said here: the program may not learn how the process ended (it ignores SIGCHLD).
std::string answer_text(std::string_view scenario, const ForecastOptions& options) {
  try {
    const auto report = report_of(scenario, options);
    if (!report) return error_text(report.error());
    return (report->fits ? kFits : kDoesNotFit) + to_json(*report);
  } catch (const std::exception& e) {
    return error_text(Error{ErrorKind::kMachine, e.what()});
  }
}

ForecastAnswer failed(std::string message) {
  ForecastAnswer answer;
  answer.error = ForecastError{ForecastError::Kind::kMachine, std::move(message)};
  return answer;
}

ForecastAnswer answer_of(const std::string& text) {
  if (text.empty()) return failed("the process that forecasts ended without an answer");
  ForecastAnswer answer;
  if (text[0] != kError) {
    answer.fits = text[0] == kFits;
    answer.json = text.substr(1);
    return answer;
  }
  const auto parts = nlohmann::json::parse(text.substr(1));
  answer.error = ForecastError{ForecastError::Kind(parts[0].get<int>()), parts[1], parts[2],
                               parts[3], parts[4]};
  return answer;
}

}  // namespace

std::string ForecastError::text() const {
  std::string out = where.empty() ? message : where + ": " + message;
  if (!hint.empty()) out += "\n  " + hint;
  return out;
}

ForecastAnswer forecast(std::string_view scenario, const ForecastOptions& options) {
  std::optional<ForecastAnswer> answer;
  sim::Pieces how;
  how.work = [&](std::int64_t) { return answer_text(scenario, options); };
  how.take = [&](std::int64_t, const std::string& text) {
    answer = answer_of(text);
    return true;
  };
  how.should_stop = options.should_stop;
  try {
    const std::array<std::int64_t, 1> one{0};
    sim::run_pieces(one, 1, how);
  } catch (const MachineError& e) {
    return failed(e.what());
  }
  return answer ? *std::move(answer) : failed("stopped before it had an answer");
}

}  // namespace rigcast
