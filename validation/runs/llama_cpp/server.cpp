#include "validation/runs/llama_cpp/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/run/request.hpp"
#include "validation/runs/llama_cpp/bench_build.hpp"
#include "validation/runs/process/child_process.hpp"

namespace rigcast::validation {
namespace {

using Json = nlohmann::json;

constexpr const char* kStart = "start llama-server, or name its address with --server";

Error told(const LlamaServer& server, std::string what, ErrorKind kind = ErrorKind::kMachine) {
  return {kind, fmt::format("{}: {}", server.address.text(), what)};
}

// The member at a path such as {"a", "b"}, or null.
Json member(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return *at;
}

std::string text_of(const Json& json) { return json.is_string() ? json.get<std::string>() : ""; }

// What can be shown of an answer that is none: one line of printable characters.
std::string shown(std::string text) {
  constexpr std::size_t kShown = 200;
  text.resize(std::min(text.size(), kShown));
  for (char& c : text)
    if (c < ' ' || c > '~') c = ' ';
  return text;
}

// The object that it answers with.
Result<Json> ask(const LlamaServer& server, const std::string& target,
                 const std::optional<std::string>& body, Seconds time) {
  const auto response = http_request(server.address, target, body, {time});
  if (!response) return response.error();
  const Json answer = Json::parse(response->body, nullptr, false);
  if (response->status == 200 && answer.is_object()) return answer;
  const std::string message = text_of(member(answer, {"error", "message"}));
  const bool memory = tells_of_memory(message);
  return told(server,
              fmt::format("{}: status {}, {}", target, response->status,
                          shown(message.empty() ? response->body : message)),
              memory ? ErrorKind::kDoesNotFit : ErrorKind::kMachine);
}

// "b7347-2fbe3b7b", or "b1-v0.5.0" of a build that knows no number.
std::optional<BenchBuild> build_of(const std::string& info) {
  if (info.empty()) return std::nullopt;
  BenchBuild build;
  const std::string_view number =
      std::string_view(info).substr(info.starts_with('b') ? 1 : 0, info.find('-'));
  std::from_chars(number.data(), number.data() + number.size(), build.number);
  build.commit = info.substr(std::min(info.size(), info.find('-') + 1));
  return build;
}

std::int64_t count_of(const Json& json) {
  const double value = json.is_number() ? json.get<double>() : 0;
  return value >= 0 && value < 1e9 ? std::int64_t(value) : 0;
}

// What a request was timed at.
struct Timings {
  TokenCount prompt = 0, output = 0;
  Seconds prompt_time, output_time;
};

Result<Timings> timings_of(const LlamaServer& server, const Json& answer) {
  const auto figure = [&](const char* key) {
    const Json value = member(answer, {"timings", key});
    return value.is_number() ? value.get<double>() : NAN;
  };
  const double values[] = {figure("prompt_n"), figure("predicted_n"), figure("prompt_ms"),
                           figure("predicted_ms")};
  const bool all = std::ranges::all_of(values, [](double v) { return v >= 0 && v < 1e9; });
  if (!all) return told(server, "its answer has no timings: " + shown(answer.dump()));
  return Timings{TokenCount(values[0]), TokenCount(values[1]), Seconds{values[2] / 1e3},
                 Seconds{values[3] / 1e3}};
}

// Requests that the scenario stands for.
class Client {
 public:
  Client(const LlamaServer& server, const Scenario& s, Seconds time)
      : server_(server), s_(s), time_(time), depth_(tokens(s.workload.depth, 1)) {}

  // Reads the tokens of the depth, which the next prompts begin with.
  std::optional<Error> fill() const {
    if (depth_.empty()) return std::nullopt;
    const auto answer = complete(depth_, 1);
    return answer ? std::nullopt : std::optional(answer.error());
  }

  Result<Timings> request(std::uint64_t seed) const {
    std::vector<std::int32_t> prompt = depth_;
    const auto more = tokens(s_.workload.prompt_tokens, seed);
    prompt.insert(prompt.end(), more.begin(), more.end());
    const auto answer = complete(prompt, s_.workload.output_tokens);
    if (!answer) return answer.error();
    auto times = timings_of(server_, *answer);
    if (!times) return times.error();
    if (times->prompt != s_.workload.prompt_tokens)
      return told(server_, fmt::format("it read {} tokens of a prompt of {}{}", times->prompt,
                                       s_.workload.prompt_tokens,
                                       depth_.empty() ? "" : ": it did not keep those before it"));
    if (times->output != s_.workload.output_tokens)
      return told(server_, fmt::format("it decoded {} tokens instead of {}", times->output,
                                       s_.workload.output_tokens));
    return times;
  }

 private:
  std::vector<std::int32_t> tokens(TokenCount count, std::uint64_t seed) const {
    return engine::random_prompt(count, s_.model.vocabulary, seed);
  }

  Result<Json> complete(const std::vector<std::int32_t>& prompt, TokenCount output) const {
    const Json body = {{"prompt", prompt},     {"n_predict", output},   {"ignore_eos", true},
                       {"cache_prompt", true}, {"id_slot", 0},          {"temperature", 0},
                       {"stream", false},      {"return_tokens", false}};
    return ask(server_, "/completion", body.dump(), time_);
  }

  const LlamaServer& server_;
  const Scenario& s_;
  const Seconds time_;
  const std::vector<std::int32_t> depth_;
};

std::optional<Error> check_scenario(const LlamaServer& server, const Scenario& s) {
  if (s.runtime.id != "llama.cpp")
    return bad_input(
        fmt::format("--server: a llama-server runs llama.cpp, the scenario {}", s.runtime.name));
  const TokenCount needed = s.workload.depth + s.workload.prompt_tokens + s.workload.output_tokens;
  if (server.slot_context > 0 && needed > server.slot_context)
    return bad_input(fmt::format("{}: a slot holds {} tokens, the scenario needs {}",
                                 server.address.text(), server.slot_context, needed),
                     "start it with a larger -c, or ask for fewer tokens");
  return std::nullopt;
}

void add(const Timings& times, LlamaBenchMeasurement& out) {
  BenchTest &prompt = out.prefill.tests.front(), &answer = out.decode.tests.front();
  prompt.tokens_per_s.push_back(double(times.prompt) / times.prompt_time.value);
  answer.tokens_per_s.push_back(double(times.output - 1) / times.output_time.value);
}

std::string lines_of(const BenchTest& test, const char* what) {
  std::string out;
  for (const double speed : test.tokens_per_s)
    out +=
        Json{
            {what, speed}, {"depth", test.depth}, {"n_prompt", test.prompt}, {"n_gen", test.output}}
            .dump() +
        "\n";
  return out;
}

}  // namespace

Result<LlamaServer> find_llama_server(const std::string& url) {
  constexpr Seconds kTime{10};
  const auto address = parse_http_address(url);
  if (!address) return address.error();
  if (!is_loopback(*address))
    return bad_input(fmt::format("--server {}: the machine is probed and forecast on which rigcast "
                                 "runs, so the server has to run there too",
                                 url),
                     "http://127.0.0.1:8080");
  LlamaServer out;
  out.address = *address;
  const auto props = ask(out, "/props", std::nullopt, kTime);
  if (!props) {
    Error error = props.error();
    if (error.hint.empty()) error.hint = kStart;
    return error;
  }
  const Json settings = member(*props, {"default_generation_settings"});
  if (!settings.is_object())
    return Error{ErrorKind::kMachine,
                 fmt::format("{}: /props is none of llama-server's", out.address.text()), kStart};
  out.slot_context = count_of(member(settings, {"n_ctx"}));
  out.model_file = text_of(member(*props, {"model_path"}));
  out.build = build_of(text_of(member(*props, {"build_info"})));
  return out;
}

std::optional<Error> state_server(const LlamaServer& server, TomlDocument& scenario) {
  std::map<std::string, std::string> told;
  if (!scenario.has("runtime.name")) told["runtime.name"] = toml_text("llama.cpp");
  if (!scenario.has("model.name") && !scenario.has("model.file") && !server.model_file.empty())
    told["model.file"] = toml_text(server.model_file);
  for (const char* reserved : {"rig.vram_reserved", "rig.ram_reserved"})
    if (!scenario.has(reserved)) told[reserved] = toml_text("0 MiB");
  if (const auto month = server.build ? build_month_of(*server.build) : std::nullopt;
      month && !scenario.has("runtime.build"))
    told["runtime.build"] = toml_text(*month);
  for (const auto& [key, value] : told)
    if (auto error = scenario.set(key, value, "--server")) return error;
  return std::nullopt;
}

Result<LlamaBenchMeasurement> measure_with(const LlamaServer& server, const Report& forecast,
                                           const MeasureLimits& limits) {
  const Scenario& s = *forecast.scenario;
  if (auto error = check_scenario(server, s)) return *error;
  LlamaBenchMeasurement out;
  BenchTest prompt, answer;
  prompt.prompt = s.workload.prompt_tokens;
  prompt.depth = s.workload.depth;
  answer.output = s.workload.output_tokens;
  answer.depth = s.workload.depth + s.workload.prompt_tokens;
  out.prefill.tests = {prompt};
  out.decode.tests = {answer};
  out.prefill.build = out.decode.build = server.build;
  out.prefill.command = out.decode.command = {"POST", server.address.text() + "/completion"};
  const Client client(server, s, limits.time);
  std::optional<Error> error = client.fill();
  constexpr std::uint64_t kWarmUp = 2;  // the first request allocates
  for (int i = 0; i <= limits.repetitions && !error; ++i) {
    const auto times = client.request(kWarmUp + std::uint64_t(i));
    if (!times)
      error = times.error();
    else if (times->output < 2 || times->output_time.value <= 0 || times->prompt_time.value <= 0)
      error = told(server, "a request of too few tokens to time");
    else if (i > 0)
      add(*times, out);
  }
  out.prefill.out = lines_of(out.prefill.tests.front(), "prompt_per_second");
  out.decode.out = lines_of(out.decode.tests.front(), "predicted_per_second");
  if (error) {
    out.prefill.error = out.decode.error = error;
    out.prefill.tests.clear();
    out.decode.tests.clear();
  }
  return out;
}

}  // namespace rigcast::validation
