#include "validation/runs/llama_cpp/batched_output.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace rigcast::validation {
namespace {

using Json = nlohmann::json;

// Throws what ends the reading of a line.
double number(const Json& json, const char* key, double least, double most) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number())
    throw std::runtime_error(fmt::format("no number {}", key));
  const double value = found->get<double>();
  if (!(value >= least && value <= most))
    throw std::runtime_error(fmt::format("{} is {}", key, value));
  return value;
}

int count(const Json& json, const char* key, int least) {
  const double value = number(json, key, least, 1 << 30);
  if (value != std::floor(value)) throw std::runtime_error(fmt::format("{} is no count", key));
  return int(value);
}

// A time or a speed, which is more than nothing.
double rate(const Json& json, const char* key) { return number(json, key, 1e-9, 1e15); }

void read_library(const Json& json, BatchedTest& out) {
  out.gpu = json.at("gpu_info").get<std::string>();
  for (const Json& b : json.at("buffers"))
    out.buffers.push_back({b.at("name"), b.at("kind"), Bytes{number(b, "bytes", 0, 1e15)}});
}

BatchedTest test_of(const Json& json) {
  BatchedTest out;
  out.prompt = count(json, "pp", 0);
  out.output = count(json, "tg", 0);
  out.sequences = count(json, "pl", 1);
  out.prompt_is_shared = count(json, "is_pp_shared", 0) != 0;
  out.prompt_time = Seconds{rate(json, "t_pp")};
  out.output_time = Seconds{rate(json, "t_tg")};
  out.prompt_tokens_per_s = rate(json, "speed_pp");
  out.output_tokens_per_s = rate(json, "speed_tg");
  out.gpu_layers = count(json, "n_gpu_layers", -2);  // -1, -2: as many as fit, all
  out.threads = count(json, "n_threads", 0);
  if (const auto library = json.find("library"); library != json.end()) read_library(*library, out);
  return out;
}

}  // namespace

BatchedOutput parse_batched_output(const std::string& all) {
  BatchedOutput out;
  std::istringstream lines(all);
  int at = 0;
  for (std::string line; std::getline(lines, line);) {
    ++at;
    if (!line.starts_with('{')) continue;  // its log
    try {
      out.tests.push_back(test_of(Json::parse(line)));
    } catch (const std::exception& e) {
      const std::string what =
          Json::accept(line) ? std::string("no test: ") + e.what() : std::string("cut or no JSON");
      out.error = Error{ErrorKind::kMachine,
                        fmt::format("line {} of llama-batched-bench's output is {}", at, what)};
      break;
    }
  }
  return out;
}

}  // namespace rigcast::validation
