#include "cli/kept_runs.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "cli/output.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTimes = "run,rigcast,forecast_written,run_started,tries,machine_changed\n";
constexpr const char* kUnfinished = "unfinished.txt";

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::optional<Error> make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) return std::nullopt;
  return Error{ErrorKind::kMachine, "cannot be made: " + failed.message(),
               "--keep DIR, a folder that can be written to", SourceRef{folder.string()}};
}

}  // namespace

fs::path KeptRuns::part(std::size_t index, const char* what) const {
  return folder_ / fmt::format("{:02}.{}", index + 1, what);
}

std::optional<std::string> KeptRuns::text(std::size_t index, const char* what) const {
  return text_of(part(index, what));
}

std::optional<Error> KeptRuns::write(std::size_t index, const char* what,
                                     const std::string& text) const {
  return write_file(part(index, what).string(), text);
}

std::optional<Error> KeptRuns::is_of(const Suite& suite) const {
  for (std::size_t i = 0; i < suite.runs.size(); ++i)
    if (const auto kept = text(i, "scenario.toml"); kept && *kept != suite.runs[i].scenario.text())
      return bad_input(fmt::format("--resume: {} is of another suite: \"{}\" differs",
                                   folder_.string(), suite.runs[i].name),
                       "--keep DIR with another folder");
  return std::nullopt;
}

std::optional<Error> KeptRuns::begin(const Suite& suite, bool resume) {
  if (auto error = make_folder(folder_)) return error;
  if (resume)
    if (auto error = is_of(suite)) return error;
  times_ = resume ? text_of(folder_ / "times.csv").value_or(kTimes) : kTimes;
  std::string text = suite.device == Device::kCuda ? "device = \"cuda\"\n\n" : "";
  for (std::size_t i = 0; i < suite.runs.size(); ++i) {
    const SuiteRun& run = suite.runs[i];
    if (!resume)
      for (const char* what :
           {"rig.toml", "forecast.json", "measured.json", "activities.json", kUnfinished}) {
        std::error_code ignored;
        fs::remove(part(i, what), ignored);  // of a validation before this one
      }
    if (auto error = write(i, "scenario.toml", run.scenario.text())) return error;
    text += fmt::format("[[run]]\nname = {}\nscenario = {}\nfile = {}\n\n", toml_text(run.name),
                        toml_text(part(i, "scenario.toml").filename().string()), run.file);
  }
  return write_file(suite_file().string(), text);
}

bool KeptRuns::was_run(std::size_t index) const {
  std::error_code none;
  return fs::exists(part(index, "measured.json"), none) &&
         !fs::exists(part(index, kUnfinished), none);
}

std::optional<std::string> KeptRuns::failure(std::size_t index) const {
  return text(index, kUnfinished);
}

std::optional<Error> KeptRuns::begin_run(std::size_t index) const {
  return fail_run(index, "the program ended while it ran");
}

std::optional<Error> KeptRuns::end_run(std::size_t index, const std::string& times) {
  std::error_code ignored;
  fs::remove(part(index, kUnfinished), ignored);
  times_ += times;
  return write_file((folder_ / "times.csv").string(), times_);
}

std::optional<Error> KeptRuns::fail_run(std::size_t index, const std::string& why) const {
  return write(index, kUnfinished, why);
}

void KeptRuns::forget_run(std::size_t index) const {
  std::error_code ignored;
  for (const char* what : {"measured.json", kUnfinished}) fs::remove(part(index, what), ignored);
}

}  // namespace rigcast::cli
