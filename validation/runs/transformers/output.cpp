#include "validation/runs/transformers/output.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace rigcast::validation {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "rigcast.transformers/1";
constexpr const char* kInstall =
    "pip install what it lacks, or name a Python that has it with --python";
constexpr double kMaxBytes = 1e15, kMaxSeconds = 1e6;

// Ends the reading of the line.
struct WrongLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& part(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end()) throw WrongLine(fmt::format("it has no {}", key));
  return *found;
}

std::string text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// A value in an error. Others than numbers may be nested more deeply than the stack.
std::string shown(const Json& json) {
  return json.is_number() ? json.dump() : fmt::format("no number but {}", json.type_name());
}

double number(const Json& json, const char* what, double most) {
  const double value = json.is_number() ? json.get<double>() : -1;
  if (!(value >= 0) || value > most) throw WrongLine(fmt::format("{} is {}", what, shown(json)));
  return value;
}

Bytes bytes(const Json& json, const char* key) {
  return Bytes{number(part(json, key), key, kMaxBytes)};
}

std::optional<Bytes> bytes_or_none(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return Bytes{number(*found, key, kMaxBytes)};
}

TokenCount tokens(const Json& json, const char* key) {
  const double value = number(part(json, key), key, 1 << 30);
  if (value != std::floor(value)) throw WrongLine(fmt::format("{} is {}", key, value));
  return TokenCount(value);
}

std::vector<double> seconds(const Json& json, const char* key) {
  const Json& all = part(json, key);
  if (!all.is_array() || all.empty()) throw WrongLine(fmt::format("{} has no time", key));
  std::vector<double> out;
  for (const Json& one : all) {
    out.push_back(number(one, key, kMaxSeconds));
    if (out.back() <= 0) throw WrongLine(fmt::format("{} has a time of 0", key));
  }
  return out;
}

TransformersMemory memory_of(const Json& json) {
  TransformersMemory out{bytes(json, "weights"), bytes_or_none(json, "kv"), std::nullopt};
  out.peak = bytes_or_none(json, "peak_allocated");
  if (!out.peak) out.peak = bytes_or_none(json, "peak_growth");
  return out;
}

TransformersVersions versions_of(const Json& json) {
  const Json& v = part(json, "versions");
  if (!v.is_object()) throw WrongLine("versions is no object");
  return {text(v, "python"), text(v, "torch"), text(v, "transformers"), text(v, "cuda")};
}

TransformersOutput output_of(const Json& json) {
  TransformersOutput out;
  out.versions = versions_of(json);
  out.ttft_s = seconds(json, "ttft_s");
  out.decode_s = seconds(json, "decode_s");
  out.token_s = seconds(json, "token_s");
  out.handover_s = number(part(json, "handover_s"), "handover_s", kMaxSeconds);
  out.prompt = tokens(json, "prompt_tokens");
  out.output = tokens(json, "output_tokens");
  out.depth = tokens(json, "depth");
  if (out.prompt < 1 || out.output < 2 || out.ttft_s.size() != out.decode_s.size() ||
      TokenCount(out.token_s.size()) != out.decoded())
    throw WrongLine("its counts contradict each other");
  out.gpu = text(json, "gpu");
  out.prompt_device = text(json, "prompt_device");
  out.decode_device = text(json, "decode_device");
  out.attention = text(json, "attention");
  const Json& memory = part(json, "memory");
  if (!memory.is_object()) throw WrongLine("memory is no object");
  for (const auto& [device, parts] : memory.items()) out.memory[device] = memory_of(parts);
  return out;
}

// What the script says of a run without figures.
std::optional<Error> told_error(const Json& json) {
  const std::string status = text(json, "status"), why = text(json, "error");
  if (status == "ok") return std::nullopt;
  if (status == "out of memory")
    return Error{ErrorKind::kDoesNotFit, "transformers: out of memory: " + why};
  if (status == "missing") return bad_input("transformers: " + why, kInstall);
  if (status == "refused") return bad_input("transformers: " + why);
  return Error{ErrorKind::kMachine, "transformers: " + (why.empty() ? "it failed" : why)};
}

// Errors of a line that ends early, is no JSON, or is none of this script.
Error wrong(const std::string& why) {
  return {ErrorKind::kMachine, "the script's line of results: " + why};
}

// The line, of which the script prints one, last.
Result<Json> line_of(const std::string& printed) {
  std::istringstream lines(printed);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("{\"schema\"")) last = line;
  if (last.empty()) return wrong("there is none");
  Json json = Json::parse(last, nullptr, false);
  if (json.is_discarded()) return wrong("it is cut or no JSON");
  if (text(json, "schema") != kSchema) return wrong(fmt::format("its schema is not {}", kSchema));
  return json;
}

// What `read` makes of the line of `text`, or the error that the line tells.
template <class Read>
auto read_line(const std::string& text, Read read) -> Result<decltype(read(Json()))> {
  const auto json = line_of(text);
  if (!json) return json.error();
  if (auto error = told_error(*json)) return *error;
  try {
    return read(*json);
  } catch (const std::exception& e) {
    return wrong(e.what());
  }
}

}  // namespace

Result<TransformersOutput> parse_transformers_output(const std::string& text) {
  return read_line(text, output_of);
}

Result<TransformersVersions> parse_transformers_versions(const std::string& text) {
  return read_line(text, versions_of);
}

}  // namespace rigcast::validation
