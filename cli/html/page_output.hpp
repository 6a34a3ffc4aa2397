#pragma once
// --html FILE: the answer as a page, beside what is printed.

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/shared/output.hpp"
#include "core/scenario/scenario.hpp"
#include "report/trace.hpp"

namespace rigcast::cli {

/// An answer in every form that may be asked for.
struct Answer {
  std::string title;  // of the page
  std::function<std::string(const OutputOptions&)> render;
  std::vector<std::string> timelines{};  // timeline_json() of each, for the page
};

/// What was typed, the program first: a page says how to get the same answer again.
void set_command(const std::vector<std::string>& words);
/// As a page shows it: paths are left out of the names of files.
std::string command_text(const std::vector<std::string>& words);

CLI::Option* add_html(CLI::App& verb, OutputOptions& output);

/// Why there can be no page, before the work for it is done: a folder or a device, a place that
/// cannot be written to, or a file that gets another output (`others`), too.
std::optional<Error> check_html(const OutputOptions& output,
                                const std::vector<std::string>& others = {});

/// Writes the page, if one is wanted, and then prints the answer.
std::optional<Error> emit(const OutputOptions& output, const Answer& answer);
/// The page alone, of which one is wanted.
std::optional<Error> write_html(const OutputOptions& output, const Answer& answer);

/// Where time goes from a start whose events these are, and in a step of the decode.
std::vector<std::string> timelines_of(const std::vector<TraceEvent>& events, Start start);
/// Where time goes from the scenario's start, in a step of the decode, and from a cold start, as
/// far as there are such starts; for a scenario that fits.
std::vector<std::string> forecast_timelines(const std::shared_ptr<const Scenario>& scenario);

}  // namespace rigcast::cli
