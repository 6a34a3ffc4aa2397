#include "validation/runs/llama_cpp/bench_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "validation/runs/process/child_process.hpp"

namespace rigcast::validation {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShown = 80;  // of a wrong line
constexpr double kMaxSpeed = 1e9;   // tokens/s, of any machine

// Ends the reading of a line.
struct WrongLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

double number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) throw WrongLine(fmt::format("no number {}", key));
  return found->get<double>();
}

// A count that every later calculation can hold.
std::int64_t count(const Json& json, const char* key, std::optional<std::int64_t> absent = {}) {
  if (absent && !json.contains(key)) return *absent;
  const double value = number(json, key);
  if (value < -1 || value > 1e15 || value != std::floor(value))
    throw WrongLine(fmt::format("{} is no count: {}", key, value));
  return std::int64_t(value);
}

TokenCount tokens(const Json& json, const char* key, std::optional<std::int64_t> absent = {}) {
  const std::int64_t value = count(json, key, absent);
  if (value < 0 || value > (1 << 30)) throw WrongLine(fmt::format("{} is {}", key, value));
  return TokenCount(value);
}

std::string text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<double> speeds(const Json& json) {
  const auto samples = json.find("samples_ts");
  if (samples == json.end() || !samples->is_array() || samples->empty())
    throw WrongLine("no samples_ts");
  std::vector<double> out;
  for (const Json& sample : *samples) {
    const double value = sample.is_number() ? sample.get<double>() : 0;
    if (!(value > 0) || value > kMaxSpeed) throw WrongLine("a sample is no speed");
    out.push_back(value);
  }
  return out;
}

Bytes bytes(const Json& json, const char* key) { return Bytes{double(count(json, key))}; }

void read_library(const Json& json, BenchTest& out) {
  if (!json.is_object()) throw WrongLine("`library` is no object");
  out.load = Seconds{1e-9 * double(count(json, "load_ns"))};
  for (const Json& b : json.value("buffers", Json::array()))
    out.buffers.push_back({text(b, "name"), text(b, "kind"), bytes(b, "bytes")});
  for (const Json& g : json.value("gpus", Json::array()))
    out.gpus.push_back(
        {text(g, "name"), bytes(g, "free_before") - bytes(g, "free_after"), bytes(g, "total")});
}

BenchTest test_of(const Json& json) {
  BenchTest out;
  out.prompt = tokens(json, "n_prompt");
  out.output = tokens(json, "n_gen");
  out.depth = tokens(json, "n_depth", 0);  // releases before May 2025 have none
  if (out.prompt + out.output == 0) throw WrongLine("a test of no token");
  out.tokens_per_s = speeds(json);
  out.backends = text(json, "backends");
  out.cpu = text(json, "cpu_info");
  out.gpu = text(json, "gpu_info");
  out.model_file = text(json, "model_filename");
  out.gpu_layers = int(std::min<std::int64_t>(count(json, "n_gpu_layers", 0), 1 << 20));
  out.key_type = text(json, "type_k");
  out.threads = int(std::min<std::int64_t>(count(json, "n_threads", 0), 1 << 20));
  if (const auto library = json.find("library"); library != json.end()) read_library(*library, out);
  return out;
}

// Adds the test of a line. Throws WrongLine, or what the JSON library does.
void add_line(const std::string& line, BenchOutput& out) {
  const Json json = Json::parse(line);
  BenchTest test = test_of(json);
  test.line = line;
  if (!out.build)
    out.build = {text(json, "build_commit"),
                 int(std::clamp<std::int64_t>(count(json, "build_number", 0), 0, 1 << 30))};
  out.tests.push_back(std::move(test));
}

}  // namespace

double BenchTest::mean() const {
  return std::accumulate(tokens_per_s.begin(), tokens_per_s.end(), 0.0) /
         double(tokens_per_s.size());
}

double BenchTest::median() const {
  std::vector<double> sorted = tokens_per_s;
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

BenchOutput parse_bench_output(const std::string& all) {
  BenchOutput out;
  std::istringstream lines(all);
  int at = 0;
  for (std::string line; std::getline(lines, line);) {
    ++at;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.front() != '{') {
      ++out.other_lines;
      continue;
    }
    try {
      add_line(line, out);
    } catch (const std::exception& e) {
      const bool is_json = Json::accept(line);
      out.error =
          Error{ErrorKind::kMachine,
                fmt::format("line {} of llama-bench's output is {}: {}", at,
                            is_json ? std::string("no test, ") + e.what() : "cut or no JSON",
                            last_lines(line.substr(0, kShown)))};
      break;
    }
  }
  return out;
}

}  // namespace rigcast::validation
