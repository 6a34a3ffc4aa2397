#include "cli/html/page_output.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "cli/shared/flag_checks.hpp"
#include "cli/shared/same_file.hpp"
#include "core/files/output_file.hpp"
#include "planner/commands.hpp"
#include "report/html/page.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;

// What was typed.
std::vector<std::string>& command() {
  static std::vector<std::string> words;
  return words;
}

// "/a/b.toml" and "~/c.toml" of "--rigs=/a/b.toml,~/c.toml".
std::vector<std::string> paths_in(const std::string& word) {
  const auto equals = word.starts_with('-') ? word.find('=') : std::string::npos;
  std::istringstream items(equals == std::string::npos ? word : word.substr(equals + 1));
  std::vector<std::string> out;
  for (std::string item; std::getline(items, item, ',');) {
    const bool is_path = item.starts_with('/') || item.starts_with("~/");
    if (is_path && !item.ends_with('/')) out.push_back(item);
  }
  return out;
}

// The text with names of files where it has the word's paths: folders are nobody else's business.
std::string without_folders(std::string text, const std::string& word) {
  for (const std::string& path : paths_in(word)) {
    const std::size_t folders = path.rfind('/') + 1;
    for (auto at = text.find(path); at != std::string::npos; at = text.find(path, at))
      text.erase(at, folders);
  }
  return text;
}

std::string text_for_page(std::string text) {
  for (const std::string& word : command()) text = without_folders(std::move(text), word);
  return text;
}

}  // namespace

void set_command(const std::vector<std::string>& words) { command() = words; }

std::string command_text(const std::vector<std::string>& words) {
  planner::Words shown;
  for (const std::string& word : words) shown.push_back(without_folders(word, word));
  return planner::shell_text(shown);
}

CLI::Option* add_html(CLI::App& verb, OutputOptions& output) {
  return verb
      .add_option("--html", output.html,
                  "also write the answer as one HTML file, which opens in any browser")
      ->check(not_empty())
      ->type_name("FILE")
      ->group("Output");
}

std::optional<Error> check_html(const OutputOptions& output,
                                const std::vector<std::string>& others) {
  if (output.html.empty()) return std::nullopt;
  std::error_code ignored;
  const fs::file_status there = fs::status(output.html, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there))
    return bad_input(fmt::format("--html {}: that is no file", output.html),
                     "name a file, for example out.html");
  std::vector<std::string> files = others;
  files.push_back(output.file);
  for (const std::string& file : files)
    if (!file.empty() && is_same_file(file, output.html))
      return bad_input(fmt::format("--html {}: another output goes into this file", output.html),
                       "a file for each");
  return check_writable(output.html);
}

std::optional<Error> write_html(const OutputOptions& output, const Answer& answer) {
  const auto form = [](Format format) {
    OutputOptions options;
    options.format = format;
    options.file = "page";  // not a terminal: without colours
    return options;
  };
  const auto page = html_page(
      {answer.title, command_text(command()), RIGCAST_VERSION, answer.render(form(Format::kJson)),
       text_for_page(answer.render(form(Format::kText))), answer.timelines});
  return page ? write_file(output.html, *page) : page.error();
}

std::optional<Error> emit(const OutputOptions& output, const Answer& answer) {
  if (!output.html.empty())
    if (auto error = write_html(output, answer)) return error;
  return emit(output, answer.render(output));
}

}  // namespace rigcast::cli
