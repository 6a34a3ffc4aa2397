#include "validation/runs/packed_runs.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "core/files/gzip.hpp"
#include "core/files/output_file.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMaxBytes = 64u << 20;
constexpr const char* kSchema = "rigcast.runs/1";

// A part of a run that is JSON itself; null where it is not there. Throws where it is none.
Json part_json(const std::string& text) { return text.empty() ? Json() : Json::parse(text); }
std::string part_text(const Json& run, const char* key) {
  const auto found = run.find(key);
  return found == run.end() || found->is_null() ? std::string() : found->dump();
}

Json to_json(const RunTimes& t) {
  return {{"rigcast", t.version},
          {"forecast_written", t.forecast_written},
          {"run_started", t.run_started},
          {"tries", t.tries},
          {"machine_changed", t.machine_changed}};
}

RunTimes times_of(const Json& json) {
  return {json.at("rigcast"), json.at("forecast_written"), json.at("run_started"), json.at("tries"),
          json.at("machine_changed")};
}

// JSON without missing fields.
Json to_json(const ArchivedRun& kept) {
  Json json{{"name", kept.run.name},
            {"scenario", kept.run.scenario.text()},
            {"file", kept.run.file},
            {"rig", kept.rig},
            {"times", kept.times ? to_json(*kept.times) : Json()},
            {"forecast", part_json(kept.forecast)},
            {"measured", part_json(kept.measured)},
            {"activities", part_json(kept.activities)}};
  if (kept.run.repeat) json["repeat"] = *kept.run.repeat;
  if (!kept.skipped.empty()) json["skipped"] = kept.skipped;
  return json;
}

// Throws where it is no run.
Result<ArchivedRun> run_of(const Json& json, const std::string& where) {
  auto scenario = TomlDocument::parse(json.at("scenario").get<std::string>(), where);
  if (!scenario) return scenario.error();
  ArchivedRun kept{
      {json.at("name"), *std::move(scenario), json.at("file")}, {}, {}, {}, {}, {}, {}};
  if (json.contains("repeat")) kept.run.repeat = json.at("repeat").get<int>();
  kept.rig = json.value("rig", "");
  kept.forecast = part_text(json, "forecast");
  kept.measured = part_text(json, "measured");
  kept.activities = part_text(json, "activities");
  if (const Json& times = json.at("times"); !times.is_null()) kept.times = times_of(times);
  kept.skipped = json.value("skipped", kept.measured.empty() ? "was not run" : "");
  return kept;
}

Error not_packed(const fs::path& file, int line) {
  return bad_input("not a run as `rigcast validate --pack` writes it", {},
                   SourceRef{file.string(), line, 1});
}

Result<ArchivedSuite> read_packed(const fs::path& file) {
  const auto text = read_gzip(file, kMaxBytes);
  if (!text) return text.error();
  ArchivedSuite suite;
  int number = 0;
  try {
    for (std::string_view rest = *text; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const Json line = Json::parse(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (number++ == 0) {
        if (line.at("schema") != kSchema) return not_packed(file, 1);
        const auto backend = engine::built_in_backends().find(line.at("device").get<std::string>());
        if (!backend)
          return bad_input(backend.error().message, backend.error().hint,
                           SourceRef{file.string(), 1, 1});
        suite.backend = *backend;
        continue;
      }
      auto run = run_of(line, fmt::format("{}:{}", file.string(), number));
      if (!run) return run.error();
      suite.runs.push_back(*std::move(run));
    }
  } catch (const Json::exception&) {
    return not_packed(file, number + 1);
  }
  if (suite.runs.empty()) return bad_input("there are no runs in it", {}, SourceRef{file.string()});
  return suite;
}

}  // namespace

std::optional<Error> write_packed(const ArchivedSuite& suite, const fs::path& file) {
  std::string text = Json{{"schema", kSchema}, {"device", suite.backend->name}}.dump() + "\n";
  for (const ArchivedRun& kept : suite.runs) {
    try {
      text += to_json(kept).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    } catch (const Json::exception&) {
      return bad_input(
          fmt::format("{}: its forecast, figures or activities are no JSON", kept.run.name));
    }
  }
  return write_file(file, gzip(text));
}

bool is_archive(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return fs::is_directory(path, none);
  char begin[2] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  return begin[0] == '\x1f' && begin[1] == '\x8b';  // RFC 1952, 2.3.1: ID1 and ID2
}

Result<ArchivedSuite> read_archive(const fs::path& path) {
  std::error_code none;
  return fs::is_directory(path, none) ? RunArchive(path).read() : read_packed(path);
}

}  // namespace rigcast::validation
