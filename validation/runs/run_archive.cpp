#include "validation/runs/run_archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "core/files/output_file.hpp"
#include "core/text/csv.hpp"
#include "core/text/unit_text.hpp"
#include "measurements/build_month.hpp"
#include "validation/runs/llama_cpp/bench_output.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTimes = "run,rigcast,forecast_written,run_started,tries,machine_changed\n";
constexpr const char* kUnfinished = "unfinished.txt";

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

fs::path RunArchive::part(std::size_t index, const char* what) const {
  return folder_ / fmt::format("{:02}.{}", index + 1, what);
}

std::optional<std::string> RunArchive::text(std::size_t index, const char* what) const {
  return text_of(part(index, what));
}

std::optional<Error> RunArchive::write(std::size_t index, const char* what,
                                       const std::string& text) const {
  return write_file(part(index, what), text);
}

std::optional<Error> RunArchive::is_of(const Suite& suite) const {
  for (std::size_t i = 0; i < suite.runs.size(); ++i)
    if (const auto kept = text(i, "scenario.toml"); kept && *kept != suite.runs[i].scenario.text())
      return bad_input(fmt::format("--resume: {} is of another suite: \"{}\" differs",
                                   folder_.string(), suite.runs[i].name),
                       "--keep DIR with another folder");
  return std::nullopt;
}

std::optional<Error> RunArchive::begin(const Suite& suite, bool resume) {
  if (auto error = make_folder(folder_)) {
    error->hint = "--keep DIR, a folder that can be written to";
    return error;
  }
  if (resume)
    if (auto error = is_of(suite)) return error;
  times_ = resume ? text_of(folder_ / "times.csv").value_or(kTimes) : kTimes;
  std::string text = suite.backend == &engine::cpu_backend()
                         ? std::string()
                         : fmt::format("device = {}\n\n", toml_text(suite.backend->name));
  for (std::size_t i = 0; i < suite.runs.size(); ++i) {
    const SuiteRun& run = suite.runs[i];
    if (!resume)
      for (const char* what :
           {"rig.toml", "forecast.json", "measured.json", "activities.json", "llama-bench.jsonl",
            "llama-bench.txt", "transformers.json", "transformers.txt", kUnfinished}) {
        std::error_code ignored;
        fs::remove(part(i, what), ignored);  // of a validation before this one
      }
    if (auto error = write(i, "scenario.toml", run.scenario.text())) return error;
    text += fmt::format("[[run]]\nname = {}\nscenario = {}\nfile = {}\n\n", toml_text(run.name),
                        toml_text(part(i, "scenario.toml").filename().string()), run.file);
  }
  return write_file(suite_file(), text);
}

bool RunArchive::was_run(std::size_t index) const {
  std::error_code none;
  return fs::exists(part(index, "measured.json"), none) &&
         !fs::exists(part(index, kUnfinished), none);
}

std::optional<std::string> RunArchive::failure(std::size_t index) const {
  return text(index, kUnfinished);
}

std::optional<Error> RunArchive::begin_run(std::size_t index) const {
  return fail_run(index, "the program ended while it ran");
}

std::optional<Error> RunArchive::end_run(std::size_t index, const std::string& times) {
  std::error_code ignored;
  fs::remove(part(index, kUnfinished), ignored);
  times_ += times;
  return write_file(folder_ / "times.csv", times_);
}

std::optional<Error> RunArchive::fail_run(std::size_t index, const std::string& why) const {
  return write(index, kUnfinished, why);
}

void RunArchive::discard_run(std::size_t index) const {
  std::error_code ignored;
  for (const char* what : {"measured.json", kUnfinished}) fs::remove(part(index, what), ignored);
}

namespace {

// Times by the runs' names; missing fields are empty.
Result<std::map<std::string, RunTimes>> times_of(const fs::path& file) {
  const auto rows = parse_csv(text_of(file).value_or(""), file.string());
  if (!rows) return rows.error();
  std::map<std::string, RunTimes> out;
  for (std::size_t i = 1; i < rows->size(); ++i) {
    const CsvRow& row = (*rows)[i];
    const auto field = [&](std::size_t at) {
      return at < row.size() ? row[at].text : std::string();
    };
    const double tries = std::strtod(field(4).c_str(), nullptr);
    out[field(0)] = {field(1), field(2), field(3), int(std::clamp(tries, 0.0, 1e6)),
                     std::strtod(field(5).c_str(), nullptr)};
  }
  return out;
}

// The scenario with the build that ran, where it names none: what llama.cpp places on a GPU and how
// fast it is depends on it. `bench`: what llama-bench printed.
TomlDocument with_build(const TomlDocument& scenario, const std::string& bench) {
  TomlDocument out = scenario.clone();
  const auto build = parse_bench_output(bench).build;
  if (!build || scenario.has("runtime.build")) return out;
  if (const auto month = month_of_build(build->number))
    (void)out.set("runtime.build", toml_text(month->text()), "llama-bench");
  return out;
}

}  // namespace

Result<ArchivedSuite> RunArchive::read() const {
  const auto suite = read_suite(suite_file());
  if (!suite) return suite.error();
  const auto times = times_of(folder_ / "times.csv");
  if (!times) return times.error();
  ArchivedSuite out{suite->backend, {}};
  for (std::size_t i = 0; i < suite->runs.size(); ++i) {
    const auto part_text = [&](const char* what) { return text(i, what).value_or(""); };
    ArchivedRun run{suite->runs[i],
                    part_text("rig.toml"),
                    part_text("forecast.json"),
                    part_text("measured.json"),
                    part_text("activities.json"),
                    {},
                    {}};
    run.run.scenario = with_build(run.run.scenario, part_text("llama-bench.jsonl"));
    if (const auto found = times->find(run.run.name); found != times->end())
      run.times = found->second;
    if (!was_run(i)) run.skipped = failure(i).value_or("was not run");
    out.runs.push_back(std::move(run));
  }
  return out;
}

}  // namespace rigcast::validation
