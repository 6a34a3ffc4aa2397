#include "cli/shared/output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/shared/flag_checks.hpp"
#include "cli/shared/same_file.hpp"
#include "core/files/output_file.hpp"

namespace rigcast::cli {

namespace {

bool prints_errors_as_json = false;
bool has_answered = false;  // a program has got something that it will parse, as text or as a file

const char* name(Format format) {
  switch (format) {
    case Format::kText: return "text";
    case Format::kJson: return "json";
    case Format::kCsv: return "csv";
  }
  return "";
}

const char* name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kBadInput: return "bad_input";
    case ErrorKind::kDoesNotFit: return "does_not_fit";
    case ErrorKind::kMachine: return "machine";
  }
  return "";
}

std::string to_json(const Error& error) {
  using Json = nlohmann::ordered_json;
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(text);
  };
  Json e = {{"kind", name(error.kind)},
            {"message", error.message},
            {"hint", text_or_null(error.hint)},
            {"key", text_or_null(error.key)},
            {"file", nullptr},
            {"line", nullptr},
            {"column", nullptr}};
  if (error.where) e["file"] = error.where->file;
  if (error.where && error.where->line > 0) {
    e["line"] = error.where->line;
    e["column"] = error.where->column;
  }
  // A name of the input may be no UTF-8.
  return Json{{"schema", "rigcast.error/1"}, {"error", e}}.dump(2, ' ', false,
                                                                Json::error_handler_t::replace);
}

}  // namespace

void add_format(CLI::App& verb, Format& format, const std::vector<Format>& forms) {
  std::string names;  // "text, json or csv"
  for (std::size_t i = 0; i < forms.size(); ++i)
    names += fmt::format("{}{}",
                         i == 0                  ? ""
                         : i + 1 == forms.size() ? " or "
                                                 : ", ",
                         name(forms[i]));
  const auto check = [=](const std::string& text) {
    const bool is_known = std::ranges::any_of(forms, [&](Format f) { return text == name(f); });
    return is_known ? std::string() : fmt::format("expected {}, got \"{}\"", names, text);
  };
  const auto take = [forms, &format](const std::string& text) {
    for (const Format f : forms)
      if (text == name(f)) format = f;
  };
  verb.add_option_function<std::string>("--format", take, names)
      ->check(CLI::Validator(check, ""))
      ->type_name("FORMAT")
      ->group("Output");
}

void OutputOptions::add_to(CLI::App& verb, const std::vector<Format>& forms) {
  add_format(verb, format, forms);
  verb.add_option("-o,--output", file, "write to a file")
      ->check(not_empty())
      ->type_name("FILE")
      ->group("Output");
}

std::optional<Error> check_outputs(const std::vector<std::string>& files) {
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (file->empty()) continue;
    if (auto error = check_writable(*file)) return error;
    const auto is_own = [&](const std::string& before) {
      return !before.empty() && is_same_file(before, *file);
    };
    if (is_replaced(*file) && std::any_of(files.begin(), file, is_own))
      return bad_input(fmt::format("{}: two outputs go into this file", *file), "a file for each");
  }
  return std::nullopt;
}

std::optional<Error> check_inputs_stay(const Scenario& scenario, const std::string& scenario_file,
                                       const std::vector<std::string>& outputs) {
  std::vector<std::string> inputs = {scenario_file};
  if (scenario.model_file) inputs.push_back(scenario.model_file->string());
  if (scenario.load) inputs.push_back(scenario.load->trace.string());
  for (const std::string& output : outputs) {
    if (output.empty() || !is_replaced(output)) continue;
    for (const std::string& input : inputs)
      if (!input.empty() && is_same_file(input, output))
        return bad_input(
            fmt::format("{}: that file is read, and an output would replace it", output),
            "another name for the output");
  }
  return std::nullopt;
}

void warn_of_hours(const Scenario& scenario) {
  if (!scenario.memory || scenario.memory->timeline.size() < 2) return;
  fmt::print(
      stderr,
      "rigcast: of [[timeline]] the first entry alone counts here: rigcast simulate tells the "
      "hours\n");
}

void errors_in_json() { prints_errors_as_json = true; }

int fail(const Error& error) {
  if (prints_errors_as_json && !has_answered) fmt::print("{}\n", to_json(error));
  // The user's input may hold control characters, which a terminal must not obey.
  std::string text = error.text();
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = ' ';
  fmt::print(stderr, "rigcast: {}\n", text);
  switch (error.kind) {
    case ErrorKind::kBadInput: return kBadInput;
    case ErrorKind::kDoesNotFit: return kAnswerIsNo;
    case ErrorKind::kMachine: return kMachineFailed;
  }
  return kMachineFailed;
}

int screen_width() {
  constexpr int kDefault = 100, kMin = 60;
  winsize size{};
  const bool is_known =
      isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? std::max<int>(size.ws_col, kMin) : kDefault;
}

TextStyle screen_style(const OutputOptions& options) {
  if (!options.file.empty() || !isatty(STDOUT_FILENO)) return {};
  const char* no_colour = std::getenv("NO_COLOR");
  return {!(no_colour && *no_colour), screen_width()};
}

std::optional<Error> emit(const OutputOptions& options, const std::string& text) {
  if (!options.file.empty()) {
    auto error = write_file(options.file, text);
    has_answered = !error;
    return error;
  }
  has_answered = true;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    return Error{ErrorKind::kMachine, "cannot write to standard output", ""};
  return std::nullopt;
}

}  // namespace rigcast::cli
