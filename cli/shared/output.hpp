#pragma once
// Writes results to standard output or a file, in the requested format.

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::cli {

enum ExitCode { kDone = 0, kAnswerIsNo = 1, kBadInput = 2, kMachineFailed = 3 };

enum class Format { kText, kJson, kCsv };

/// Says on stderr that a timeline's hours are no part of the answer, where there are some.
void warn_of_hours(const Scenario& scenario);

/// --format, one of `forms`.
void add_format(CLI::App& verb, Format& format, const std::vector<Format>& forms);

struct OutputOptions {
  Format format = Format::kText;
  std::string file;  // empty: standard output
  std::string html;  // of verbs with --html: a page beside it; empty: none

  void add_to(CLI::App& verb,
              const std::vector<Format>& forms = {Format::kText, Format::kJson, Format::kCsv});
};

/// Why one of the files cannot be written, before the work for it is done, also because another
/// output goes there. Empty names are skipped.
std::optional<Error> check_outputs(const std::vector<std::string>& files);
/// Why an output would take the place of a file that is read: of its scenario, the model or the
/// trace of its load. Empty names are skipped.
std::optional<Error> check_inputs_stay(const Scenario& scenario, const std::string& scenario_file,
                                       const std::vector<std::string>& outputs);

/// Prints "rigcast: ..." with the hint below on standard error, and gives the exit code of its
/// kind. After errors_in_json(), standard output gets it as JSON, too, unless it has had an answer.
int fail(const Error& error);
void errors_in_json();

/// Columns of the terminal that standard output is, at least 60; 100 where it is none, or where it
/// does not say.
int screen_width();
/// For a text of `options`: as wide as the terminal, in colour unless NO_COLOR is set; what goes
/// elsewhere is always the same.
TextStyle screen_style(const OutputOptions& options);

/// Writes text to the file, as OutputFile does, or to standard output.
std::optional<Error> emit(const OutputOptions& options, const std::string& text);

}  // namespace rigcast::cli
