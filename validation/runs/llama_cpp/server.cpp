#include "validation/runs/llama_cpp/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/text/unit_text.hpp"
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

// Of a request that was not answered as asked.
Error refused(const LlamaServer& server, const std::string& target, int status,
              const std::string& body, const Json& answer) {
  const std::string message = text_of(member(answer, {"error", "message"}));
  return told(
      server,
      fmt::format("{}: status {}, {}", target, status, shown(message.empty() ? body : message)),
      tells_of_memory(message) ? ErrorKind::kDoesNotFit : ErrorKind::kMachine);
}

// The JSON that it answers with.
Result<Json> ask(const LlamaServer& server, const std::string& target, Seconds time) {
  const auto response = http_request(server.address, target, std::nullopt, {time});
  if (!response) return response.error();
  Json answer = Json::parse(response->body, nullptr, false);
  if (response->status == 200 && !answer.is_discarded()) return answer;
  return refused(server, target, response->status, response->body, answer);
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

// What a request was timed at, by when its tokens came.
struct Timings {
  TokenCount prompt = 0, output = 0;
  Seconds first_token, last_token;  // since it was sent
};

constexpr std::string_view kData = "data: ";

// A comment, which keeps a connection open, may come before it.
std::size_t end_of_first_event(const std::string& body) {
  const std::size_t begin = body.find(kData);
  return std::min(body.find('\n', begin), body.size() - 1) + 1;
}

// The events of a streamed answer: lines "data: " and an object, each with an empty one after it.
std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> out;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    const std::string_view line = std::string_view(body).substr(at, end - at);
    if (line.starts_with(kData))
      out.push_back(Json::parse(line.substr(kData.size()), nullptr, false));
    at = end + 1;
  }
  return out;
}

// The number of the token that an event brings. The first event has a later one than the first
// where that has no whole character yet.
TokenCount tokens_until(const Json& event) {
  return std::max<TokenCount>(1, count_of(member(event, {"tokens_predicted"})));
}

// The last event has the counts. Its times are not taken: llama-server reads its clock before it
// waits for the GPU's last batch, so that a prompt of one batch would seem to take no time.
Result<Timings> timings_of(const LlamaServer& server, const HttpResponse& response) {
  const std::vector<Json> events = events_of(response.body);
  for (const Json& event : events)
    if (event.contains("error"))
      return refused(server, "/completion", response.status, response.body, event);
  const Json last = events.empty() ? Json() : events.back();
  const Json prompt = member(last, {"timings", "prompt_n"});
  const Json output = member(last, {"timings", "predicted_n"});
  if (!prompt.is_number() || !output.is_number())
    return told(server, "its answer has no timings: " + shown(response.body));
  if (count_of(member(last, {"timings", "draft_n"})) > 0)
    return told(server, "it drafts tokens, whose gain is not forecast: start it without drafting");
  Timings out{count_of(prompt), count_of(output),
              response.arrival(end_of_first_event(response.body)),
              response.arrival(response.body.size())};
  const TokenCount first = tokens_until(events.front());
  if (first > 1 && first < out.output)
    out.first_token = out.first_token - (out.last_token - out.first_token) *
                                            (double(first - 1) / double(out.output - first));
  return out;
}

// Requests that the scenario stands for.
class Client {
 public:
  Client(const LlamaServer& server, const Scenario& s, Seconds time)
      : server_(server), s_(s), time_(time), depth_(tokens(s.workload.depth, 1)) {}

  // Reads the tokens of the depth, which the next prompts begin with.
  std::optional<Error> fill() const {
    if (depth_.empty()) return std::nullopt;
    const auto times = complete(depth_, 1);
    return times ? std::nullopt : std::optional(times.error());
  }

  Result<Timings> request(std::uint64_t seed) const {
    std::vector<std::int32_t> prompt = depth_;
    const auto more = tokens(s_.workload.prompt_tokens, seed);
    prompt.insert(prompt.end(), more.begin(), more.end());
    auto times = complete(prompt, s_.workload.output_tokens);
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

  Result<Timings> complete(const std::vector<std::int32_t>& prompt, TokenCount output) const {
    const Json body = {{"prompt", prompt},     {"n_predict", output},   {"ignore_eos", true},
                       {"cache_prompt", true}, {"id_slot", 0},          {"temperature", 0},
                       {"stream", true},       {"return_tokens", false}};
    const auto response = http_request(server_.address, "/completion", body.dump(), {time_});
    if (!response) return response.error();
    if (response->status != 200)
      return refused(server_, "/completion", response->status, response->body,
                     Json::parse(response->body, nullptr, false));
    return timings_of(server_, *response);
  }

  const LlamaServer& server_;
  const Scenario& s_;
  const Seconds time_;
  const std::vector<std::int32_t> depth_;
};

// Whether the server has the scenario's model: of about as many tokens, which a configuration may
// pad, and bytes, of which quant mixes of one name differ by little.
std::optional<Error> check_model(const LlamaServer& server, const Scenario& s) {
  constexpr double kPadding = 0.01, kMixes = 0.03;
  const Bytes forecast{double(s.tensors.bytes())};
  const bool same_tokens =
      server.vocabulary == 0 ||
      std::fabs(double(server.vocabulary) / double(s.model.vocabulary) - 1) <= kPadding;
  const bool same_bytes =
      server.weights <= Bytes{} || std::fabs(server.weights / forecast - 1) <= kMixes;
  if (same_tokens && same_bytes) return std::nullopt;
  return bad_input(
      fmt::format("{} has another model: {} of weights, {} tokens; the scenario's has {}, {}",
                  server.address.text(), text_gib(server.weights), server.vocabulary,
                  text_gib(forecast), s.model.vocabulary),
      "leave out --model and --quant: the server's own file is taken");
}

// A slot that answers another client would share the machine with what is timed.
std::optional<Error> check_idle(const LlamaServer& server, Seconds time) {
  const auto slots = ask(server, "/slots", time);
  if (!slots || !slots->is_array()) return std::nullopt;  // it may be told not to show them
  for (const Json& slot : *slots)
    if (member(slot, {"is_processing"}) == true)
      return told(server, "it answers another client: wait until it has ended");
  return std::nullopt;
}

std::optional<Error> check_scenario(const LlamaServer& server, const Scenario& s) {
  if (s.runtime.id != "llama.cpp")
    return bad_input(
        fmt::format("--server: a llama-server runs llama.cpp, the scenario {}", s.runtime.name));
  const TokenCount needed = s.workload.depth + s.workload.prompt_tokens + s.workload.output_tokens;
  if (server.slot_context > 0 && needed > server.slot_context)
    return bad_input(fmt::format("{}: a slot holds {} tokens, the scenario needs {}",
                                 server.address.text(), server.slot_context, needed),
                     "start it with a larger -c, or ask for fewer tokens");
  return check_model(server, s);
}

void add(const Timings& times, LlamaBenchMeasurement& out) {
  BenchTest &prompt = out.prefill.tests.front(), &answer = out.decode.tests.front();
  prompt.tokens_per_s.push_back(double(times.prompt) / times.first_token.value);
  answer.tokens_per_s.push_back(double(times.output - 1) /
                                (times.last_token - times.first_token).value);
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
  const auto props = ask(out, "/props", kTime);
  if (!props) {
    Error error = props.error();
    const bool loads = error.message.find("Loading model") != std::string::npos;
    if (error.hint.empty()) error.hint = loads ? "wait until it has loaded its model" : kStart;
    return error;
  }
  const Json settings = member(*props, {"default_generation_settings"});
  if (!settings.is_object())
    return Error{ErrorKind::kMachine,
                 fmt::format("{}: /props is none of llama-server's", out.address.text()), kStart};
  out.slot_context = count_of(member(settings, {"n_ctx"}));
  out.model_file = text_of(member(*props, {"model_path"}));
  out.build = build_of(text_of(member(*props, {"build_info"})));
  if (const auto models = ask(out, "/v1/models", kTime)) {
    const Json list = member(*models, {"data"});
    const Json model = list.is_array() && !list.empty() ? list.front() : Json();
    out.vocabulary = count_of(member(model, {"meta", "n_vocab"}));
    const Json size = member(model, {"meta", "size"});
    if (size.is_number()) out.weights = Bytes{std::max(0.0, size.get<double>())};
  }
  return out;
}

std::optional<Error> state_server(const LlamaServer& server, TomlDocument& scenario) {
  if (scenario.root().table("workload").text_or("start", "resident") != "resident")
    return bad_input("--start: a server has loaded its model, and no start of it is timed");
  std::map<std::string, std::string> told;
  if (!scenario.has("runtime.name")) told["runtime.name"] = toml_text("llama.cpp");
  const bool names_none = !scenario.has("model.name") && !scenario.has("model.file");
  if (names_none && !server.model_file.empty() &&
      std::filesystem::path(server.model_file).is_relative())
    return bad_input(fmt::format("{} tells its model as {}, in a folder that it does not tell",
                                 server.address.text(), server.model_file),
                     "--model /where/it/is.gguf");
  if (names_none && !server.model_file.empty()) told["model.file"] = toml_text(server.model_file);
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
  if (auto error = check_idle(server, limits.time)) return *error;
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
    else if (times->output < 2 || times->first_token <= Seconds{} ||
             times->last_token <= times->first_token)
      error = told(server, "a request of too few tokens to time");
    else if (i > 0)
      add(*times, out);
  }
  out.prefill.out = lines_of(out.prefill.tests.front(), "prompt_tokens_per_s");
  out.decode.out = lines_of(out.decode.tests.front(), "decode_tokens_per_s");
  if (error) {
    out.prefill.error = out.decode.error = error;
    out.prefill.tests.clear();
    out.decode.tests.clear();
  }
  return out;
}

}  // namespace rigcast::validation
