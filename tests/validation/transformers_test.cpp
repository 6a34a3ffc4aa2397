// Hugging Face transformers as a subprocess: what it is asked for, what it tells, and how a Python
// that lacks it, or a script that breaks, is told. The script itself is the repository's.

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/model/kv_bytes.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "validation/report_comparison.hpp"
#include "validation/runs/process/child_process.hpp"
#include "validation/runs/transformers/measured_report.hpp"
#include "validation/runs/transformers/request.hpp"
#include "validation/runs/transformers/run_transformers.hpp"

using namespace rigcast;
using namespace rigcast::validation;
using Catch::Contains;
using fixtures::scenario;
using nlohmann::json;
using test::Folder;
namespace fs = std::filesystem;

namespace {

constexpr Seconds kShort{1.5};
const fs::path kRoot = test::source_dir();
const fs::path kScript = kRoot / "scripts/run_transformers.py";

Report forecast_of(const fixtures::Settings& settings) {
  Scenario s = scenario(fixtures::with({{"model.name", "llama-3.2-1b"},
                                        {"model.quant", "BF16"},
                                        {"placement.gpu_layers", "17"},
                                        {"runtime.name", "transformers"},
                                        {"workload.prompt_tokens", "40"},
                                        {"workload.output_tokens", "8"}},
                                       settings));
  Report r;
  r.placement = resolve_placement(s);
  r.scenario = std::make_shared<const Scenario>(std::move(s));
  return r;
}

json request_of(const fixtures::Settings& settings, int repeat = 3) {
  const auto request = transformers_request(forecast_of(settings), repeat);
  if (!request) FAIL(request.error().text());
  return json::parse(*request);
}

// The line of a run on a GPU, of the request of `forecast_of({})`.
json good() {
  return json::parse(R"({"schema": "rigcast.transformers/1", "status": "ok",
    "versions": {"python": "3.12.3", "torch": "2.11.0", "transformers": "5.17.0", "cuda": "13.0",
                 "hqq": null},
    "ttft_s": [0.5, 0.4, 0.8], "handover_s": 0, "decode_s": [0.07, 0.14, 0.28],
    "token_s": [0.04, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04], "prompt_tokens": 40,
    "output_tokens": 8, "depth": 0, "attention": "sdpa", "cache": "DynamicCache", "gpu": "H100",
    "prompt_device": "cuda", "decode_device": "cuda", "memory": {"cuda": {"weights": 100,
    "kv": 10, "peak_allocated": 150, "peak_reserved": 200}}})");
}

// As the script prints it: nlohmann::json sorts the keys, and the schema comes first.
std::string line_of(json j) {
  j.erase("schema");
  return R"({"schema": "rigcast.transformers/1", )" + j.dump().substr(1) + "\n";
}

json with(const char* key, const json& value) {
  json j = good();
  j[json::json_pointer(key)] = value;
  return j;
}

json without(const char* key) {
  json j = good();
  j.erase(key);
  return j;
}

// A program for --python that does what `body` does, in a shell.
std::string make_python(const Folder& folder, const std::string& body) {
  const std::string file = folder.write("python3", "#!/bin/sh\n" + body + "\n");
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

std::string prints(const std::string& text) { return "cat <<'END'\n" + text + "END\n"; }

// A Python that answers --versions, and otherwise does what `body` does.
TransformersRun run_with(const Folder& folder, const std::string& body, Seconds limit = kShort) {
  const std::string versions =
      R"({"schema": "rigcast.transformers/1", "status": "ok", "versions": {}})";
  const auto python = find_transformers(
      make_python(folder, "case \"$2\" in --versions) " + ("echo '" + versions + "'") +
                              "; exit;; esac\n" + body),
      kRoot);
  if (!python) FAIL(python.error().text());
  return run_transformers(*python, request_of({}).dump(), limit);
}

// Runs the real script in a real Python whose packages are those of `folder` alone.
std::string python_of(const Folder& folder) {
  return make_python(folder, "PYTHONPATH='" + folder.path().string() +
                                 "/packages' PYTHONDONTWRITEBYTECODE=1 exec python3 -S \"$@\"");
}

void add_package(const Folder& folder, const std::string& name, const std::string& version) {
  const fs::path info = folder.path() / "packages" / (name + "-" + version + ".dist-info");
  fs::create_directories(info);
  folder.write(fs::relative(info / "METADATA", folder.path()).string(),
               "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n");
}

// Ends the test where no Python has torch and transformers. ctest counts it as skipped by this.
#define RIGCAST_NEEDS_TRANSFORMERS(python)                                              \
  const auto python = find_transformers(std::nullopt, kRoot);                           \
  if (!python) {                                                                        \
    WARN("skipped: no torch and transformers for python3: " << python.error().message); \
    return;                                                                             \
  }                                                                                     \
  static_cast<void>(0)

}  // namespace

TEST_CASE("A scenario is what the script is asked for", "[transformers]") {
  const json on_gpu = request_of({{"workload.depth", "24"}});
  CHECK(on_gpu["model"] == json{{"architecture", "llama"},
                                {"layers", 16},
                                {"hidden", 2048},
                                {"heads", 32},
                                {"kv_heads", 8},
                                {"head_dim", 64},
                                {"ffn", 8192},
                                {"vocabulary", 128256},
                                {"tied_embeddings", true}});
  CHECK(on_gpu["dtype"] == "bfloat16");
  CHECK(on_gpu["attention"] == "sdpa");
  CHECK(on_gpu["cache"] == json{{"kind", "dynamic"}});
  CHECK(on_gpu["prompt_device"] == "cuda");
  CHECK(on_gpu["decode_device"] == "cuda");
  CHECK(on_gpu["depth"] == 24);
  CHECK(on_gpu["prompt_tokens"] == 40);
  CHECK(on_gpu["output_tokens"] == 8);
  CHECK(on_gpu["repeat"] == 3);

  CHECK(request_of({{"runtime.flash_attention", "false"}})["attention"] == "eager");
  CHECK(request_of({{"kv.policy", "stream"}})["cache"] == json{{"kind", "offloaded"}});
  CHECK(request_of({{"kv.type_k", "q4_0"}, {"kv.type_v", "q4_0"}})["cache"] ==
        json{{"kind", "quantized"}, {"bits", 4}});
  CHECK(request_of({{"kv.type_k", "q8_0"}, {"kv.type_v", "q8_0"}})["cache"]["bits"] == 8);
  CHECK(request_of({{"model.quant", "F16"}})["dtype"] == "float16");
  CHECK(request_of({{"model.name", "qwen3-0.6b"},
                    {"placement.gpu_layers", "29"}})["model"]["architecture"] == "qwen3");

  const json handed_over = request_of({{"placement.decode_device", "cpu"}});
  CHECK(handed_over["prompt_device"] == "cuda");
  CHECK(handed_over["decode_device"] == "cpu");
  for (const fixtures::Settings& cpu :
       {fixtures::Settings{{"placement.gpu_layers", "0"}},
        fixtures::Settings{{"rig.gpu", "[]"}, {"placement.gpu_layers", "0"}}}) {
    CHECK(request_of(cpu)["prompt_device"] == "cpu");
    CHECK(request_of(cpu)["decode_device"] == "cpu");
  }
}

TEST_CASE("Every run of the suite fits a GPU, and is one that the script is asked for",
          "[transformers]") {
  const Catalogue catalogue(test::source_dir());
  const auto suite = TomlDocument::read(kRoot / "examples/suites/transformers.toml");
  REQUIRE(suite);
  std::map<std::string, int> kinds;
  for (const TomlTable& run : suite->root().tables("run")) {
    INFO(run.text("name"));
    TomlDocument document = TomlDocument::of(run.table("scenario"));
    REQUIRE_FALSE(document.set("rig.name", "\"h200-16core\"", "test"));
    const auto made = make_scenario(document, catalogue);
    if (!made) FAIL(made.error().text());
    Report forecast;
    forecast.placement = resolve_placement(*made);
    forecast.scenario = std::make_shared<const Scenario>(*made);
    const auto request = transformers_request(forecast, 2);
    if (!request) FAIL(request.error().text());
    const json asked = json::parse(*request);
    ++kinds[asked["cache"]["kind"].get<std::string>() + " " +
            asked["prompt_device"].get<std::string>() + " " +
            asked["decode_device"].get<std::string>()];
  }
  CHECK(kinds == std::map<std::string, int>{{"dynamic cuda cuda", 6},
                                            {"dynamic cuda cpu", 4},
                                            {"dynamic cpu cpu", 2},
                                            {"offloaded cuda cuda", 6},
                                            {"quantized cuda cuda", 1}});
}

TEST_CASE("What transformers is not run with is refused by name", "[transformers]") {
  const auto refused = [](const fixtures::Settings& settings) {
    const auto request = transformers_request(forecast_of(settings), 3);
    REQUIRE_FALSE(request);
    CHECK(request.error().kind == ErrorKind::kBadInput);
    return request.error().message;
  };
  const auto model = [&](const char* name) {
    return refused({{"model.name", name}, {"placement.gpu_layers", "0"}});
  };
  CHECK_THAT(model("gemma-3-12b"), Contains("architecture gemma3"));
  CHECK_THAT(model("qwen3-30b-a3b"), Contains("architecture qwen3moe"));
  CHECK_THAT(model("mixtral-8x7b"), Contains("experts"));
  CHECK_THAT(model("mistral-7b-v0.1"), Contains("sliding window"));
  CHECK_THAT(refused({{"model.quant", "Q4_K_M"}}), Contains("Q4_K_M"));
  CHECK_THAT(refused({{"kv.type_k", "q5_0"}, {"kv.type_v", "q5_0"}}), Contains("KV types"));
  CHECK_THAT(refused({{"kv.type_k", "q4_0"}}), Contains("KV types"));
  CHECK_THAT(refused({{"placement.gpu_layers", "8"}}), Contains("8 of 17 layers"));
  CHECK_THAT(refused({{"workload.output_tokens", "1"}}), Contains("two tokens"));
  CHECK_THAT(refused({{"rig.gpu", "[\"rtx-3060-12gb\", \"rtx-3060-12gb\"]"}}), Contains("one GPU"));
  CHECK_THAT(refused({{"kv.policy", "stream"}, {"kv.type_k", "q4_0"}, {"kv.type_v", "q4_0"}}),
             Contains("offloaded"));
  CHECK_THAT(refused({{"kv.type_k", "q4_0"}, {"kv.type_v", "q4_0"}, {"placement.gpu_layers", "0"}}),
             Contains("CPU"));
}

TEST_CASE("The line of the script is read, among what libraries print", "[transformers]") {
  const auto out = parse_transformers_output("a note\n{\"other\": 1}\n" + line_of(good()));
  if (!out) FAIL(out.error().text());
  CHECK(out->versions.transformers == "5.17.0");
  CHECK(out->ttft_s == std::vector<double>{0.5, 0.4, 0.8});
  CHECK(out->decoded() == 7);
  CHECK(out->memory.at("cuda").weights == Bytes{100});
  CHECK(out->memory.at("cuda").kv == Bytes{10});
  CHECK(out->memory.at("cuda").peak == Bytes{150});
  const auto quantized = parse_transformers_output(line_of(with("/memory/cuda/kv", nullptr)));
  REQUIRE(quantized);
  CHECK_FALSE(quantized->memory.at("cuda").kv);
}

TEST_CASE("A line with impossible figures is an error", "[transformers]") {
  const std::string line = line_of(good());
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  for (const std::string& wrong : {
           std::string(),
           std::string("no results here\n"),
           line.substr(0, line.size() / 2),
           std::string("{\"schema\"\n"),
           std::string("{\"schema\": 7}\n"),
           std::string("{\"schema\": \"rigcast.transformers/2\", \"status\": \"ok\"}\n"),
           "{\"schema\": " + deep + "}\n",
           std::string("{\"schema\": \"\xff\xfe\0\"}\n", 18),
           line_of(with("/status", 7)),
           line_of(with("/ttft_s", json::array())),
           line_of(with("/ttft_s/1", -0.4)),
           line_of(with("/ttft_s/1", 0)),
           line_of(with("/ttft_s/1", 1e300)),
           line_of(with("/ttft_s/1", "0.4")),
           line_of(with("/ttft_s/1", nullptr)),
           "{\"schema\": \"rigcast.transformers/1\", \"status\": \"ok\", \"versions\": {}, "
           "\"ttft_s\": [" +
               deep + "]}\n",
           line_of(with("/decode_s", json{0.1})),
           line_of(with("/token_s", json{0.1})),
           line_of(with("/prompt_tokens", 0)),
           line_of(with("/prompt_tokens", -40)),
           line_of(with("/prompt_tokens", 40.5)),
           line_of(with("/output_tokens", 1)),
           line_of(with("/output_tokens", 1e12)),
           line_of(with("/memory", json::array())),
           line_of(with("/memory/cuda", 7)),
           line_of(with("/memory/cuda/weights", -1)),
           line_of(with("/memory/cuda/peak_allocated", 1e30)),
           line_of(with("/versions", "5.17")),
           line_of(without("decode_s")),
           line_of(without("memory")),
           line_of(with("/handover_s", -1)),
           line_of(without("versions")),
       }) {
    INFO(wrong.substr(0, 300));
    const auto out = parse_transformers_output(wrong);
    REQUIRE_FALSE(out);
    CHECK(out.error().kind == ErrorKind::kMachine);
    CHECK(out.error().message.size() < 500);
  }
}

TEST_CASE("Every end of a run of the script is told", "[transformers]") {
  const Folder folder;
  struct Case {
    std::string body, says;
    ErrorKind kind = ErrorKind::kMachine;
  };
  const auto told = [](const char* status, const char* error) {
    return prints(line_of({{"status", status}, {"error", error}}));
  };
  const std::string line = prints(line_of(good()));
  for (const Case& c : std::vector<Case>{
           {told("out of memory", "OutOfMemoryError: CUDA out of memory. Tried to allocate 64 GiB"),
            "64 GiB", ErrorKind::kDoesNotFit},
           {told("missing", "quantized: a cache of 4 bits needs optimum-quanto or hqq"),
            "optimum-quanto", ErrorKind::kBadInput},
           {told("refused", "no config"), "no config", ErrorKind::kBadInput},
           {told("failed", "torch 2.11 finds no GPU"), "finds no GPU"},
           {"echo 'Traceback: ImportError' >&2; exit 1", "exit code 1: Traceback: ImportError"},
           {"kill -SEGV $$", "signal 11"},
           {"kill -KILL $$", "too little memory"},
           {"echo 'torch.OutOfMemoryError: CUDA out of memory' >&2; exit 1", "out of memory",
            ErrorKind::kDoesNotFit},
           {"exit 0", "there is none"},
           {"echo a warning", "there is none"},
           {"printf '{\"schema\": \"rigcast.tra'", "cut"},
           {line + "sleep 100", "stopped after 1.5 s"},
           {"trap '' TERM INT; sleep 100", "stopped after"},
           {"yes", "more than results"},
           {line + "kill -ABRT $$", "signal 6"},
           {prints(line_of(with("/prompt_tokens", 41))), "something else"},
           {prints(line_of(with("/decode_device", "cpu"))), "something else"},
       }) {
    INFO(c.body);
    const TransformersRun run = run_with(folder, c.body);
    REQUIRE(run.error);
    INFO(run.error->text());
    CHECK(run.error->kind == c.kind);
    CHECK_THAT(run.error->message, Contains(c.says));
    CHECK(run.error->message.size() < 2000);
    CHECK_FALSE(run.output);
  }
  const TransformersRun run = run_with(folder, "echo \"$2\" >&2\n" + line);
  if (run.error) FAIL(run.error->text());
  REQUIRE(run.output);
  CHECK(json::parse(run.err) == request_of({}));
}

TEST_CASE("A Python without transformers is refused, with what it lacks", "[transformers]") {
  const auto refused = [](const std::string& path, const fs::path& root = kRoot) {
    const auto found = find_transformers(path, root);
    REQUIRE_FALSE(found);
    CHECK(found.error().kind == ErrorKind::kBadInput);
    CHECK_FALSE(found.error().hint.empty());
    return found.error().message;
  };
  const Folder folder;
  CHECK_THAT(refused(folder / "none"), Contains("not a program"));
  CHECK_THAT(refused("/bin/true"), Contains("there is none"));
  CHECK_THAT(refused("/bin/true", folder.path()), Contains("run_transformers.py"));
  CHECK_THAT(refused(make_python(folder, "kill -SEGV $$")), Contains("signal 11"));

  // The script itself, of packages that are named in these folders alone.
  CHECK_THAT(refused(python_of(folder)), Contains("no torch and no transformers"));
  add_package(folder, "torch", "2.11.0");
  CHECK_THAT(refused(python_of(folder)), Contains("no transformers") && !Contains("no torch"));
  add_package(folder, "transformers", "4.40.1");
  CHECK_THAT(refused(python_of(folder)), Contains("4.40.1 is too old"));
  fs::remove_all(folder.path() / "packages/transformers-4.40.1.dist-info");
  add_package(folder, "transformers", "5.17.0");
  const auto python = find_transformers(python_of(folder), kRoot);
  if (!python) FAIL(python.error().text());
  CHECK(python->versions.torch == "2.11.0");
  CHECK(python->versions.transformers == "5.17.0");

  const auto error_of = [&](const fixtures::Settings& settings) {
    const TransformersRun run = run_transformers(*python, request_of(settings).dump(), Seconds{60});
    REQUIRE(run.error);
    return *run.error;
  };
  const Error quantized = error_of({{"kv.type_k", "q4_0"}, {"kv.type_v", "q4_0"}});
  CHECK(quantized.kind == ErrorKind::kBadInput);
  CHECK_THAT(quantized.message, Contains("optimum-quanto"));
  const Error broken = error_of({});  // what pip names is not there
  CHECK(broken.kind == ErrorKind::kMachine);
  CHECK_THAT(broken.message, Contains("No module named 'torch'"));
}

TEST_CASE("A report of transformers has medians, ranges and torch's memory", "[transformers]") {
  const Report forecast = forecast_of({});
  const auto out = parse_transformers_output(line_of(good()));
  REQUIRE(out);
  const Report r = measured_report(forecast.scenario, forecast.placement, *out);
  CHECK(r.origin == Origin::kMeasured);
  CHECK(r.resident->total().value == Approx(0.5));
  CHECK_FALSE(r.warm);
  CHECK(r.prefill_tokens_per_s == Approx(40 / 0.5));
  CHECK(r.prefill_interval->lo == Approx(40 / 0.8));
  CHECK(r.prefill_interval->hi == Approx(40 / 0.4));
  CHECK(r.decode_tokens_per_s == Approx(7 / 0.14));
  CHECK(r.tokens_per_s_interval->lo == Approx(7 / 0.28));
  CHECK(r.tokens_per_s_interval->hi == Approx(7 / 0.07));
  CHECK(r.measured->runs == 3);
  REQUIRE(r.warnings.size() == 1);
  CHECK(r.warnings[0] == "transformers 5.17.0, torch 2.11.0, CUDA 13.0, attention sdpa");
  REQUIRE(r.memory.devices.size() == 2);
  const DeviceMemory& gpu = r.memory.devices[0];
  CHECK(gpu.weights == Bytes{100});
  CHECK(gpu.kv == Bytes{10});
  CHECK(gpu.activations == Bytes{40});
  CHECK(gpu.total() == Bytes{150});
  CHECK(r.memory.devices[1].total() == Bytes{});

  json handed_over = with("/decode_device", "cpu");
  handed_over["handover_s"] = 0.25;
  handed_over["memory"]["cpu"] = {{"weights", 100}, {"kv", 20}};
  const auto on_cpu = parse_transformers_output(line_of(handed_over));
  REQUIRE(on_cpu);
  const Report split = measured_report(forecast.scenario, forecast.placement, *on_cpu);
  REQUIRE(split.warnings.size() == 2);
  CHECK_THAT(split.warnings[1], Contains("0.250 s"));
  REQUIRE(split.memory.devices.size() == 2);
  CHECK(split.memory.devices[1].total() == Bytes{});  // its buffers are not told

  const auto unknown = parse_transformers_output(line_of(with("/memory/cuda/kv", nullptr)));
  REQUIRE(unknown);
  CHECK(measured_report(forecast.scenario, forecast.placement, *unknown).memory.devices.empty());
}

TEST_CASE("A first token is compared without the tokenization that the script does not do",
          "[transformers]") {
  Report forecast = forecast_of({{"workload.start", "resident"}});
  forecast.resident = TtftBreakdown{};
  forecast.resident->tokenize = Seconds{0.1};
  forecast.resident->prefill = Seconds{0.3};
  forecast.ttft_interval = Interval{0.2, 0.8};
  const auto out = parse_transformers_output(line_of(good()));
  REQUIRE(out);
  const Report measured = measured_report(forecast.scenario, forecast.placement, *out);
  const auto rows = compare_reports("a run", forecast, measured, {});
  const auto total = std::ranges::find(rows, "ttft.resident.total_s", &ValidationRow::metric);
  REQUIRE(total != rows.end());
  CHECK(total->predicted == Approx(0.3));
  REQUIRE(total->interval);
  CHECK(total->interval->lo == Approx(0.15));
  CHECK(total->interval->hi == Approx(0.6));
}

TEST_CASE("The script compiles", "[transformers]") {
  const auto python = find_program("python3", std::nullopt, "");
  if (!python) FAIL(python.error().text());
  const auto done = run_process(
      {*python, "-c", "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')",
       kScript.string()},
      {Seconds{60}, 1 << 16, 1 << 16});
  REQUIRE(done);
  INFO(done->err);
  CHECK(done->succeeded());
}

TEST_CASE("Transformers itself holds the bytes that are forecast", "[transformers]") {
  RIGCAST_NEEDS_TRANSFORMERS(python);
  // Of every class that the script builds.
  for (const char* model : {"smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b"}) {
    INFO(model);
    const Report forecast = forecast_of({{"model.name", model},
                                         {"rig.gpu", "[]"},
                                         {"placement.gpu_layers", "0"},
                                         {"runtime.threads", "2"},
                                         {"workload.depth", "12"}});
    const Scenario& s = *forecast.scenario;
    const auto request = transformers_request(forecast, 2);
    REQUIRE(request);
    const TransformersRun run = run_transformers(*python, *request, Seconds{300});
    INFO(run.err);
    if (run.error) FAIL(run.error->text());
    const TransformersMemory& cpu = run.output->memory.at("cpu");
    double weights = 0, per_token = 0;
    for (const Tensor& t : s.tensors.tensors) weights += double(t.elements());
    for (int l = 0; l < s.model.layers; ++l)
      per_token += kv_bytes_per_token(s.model, l, s.kv.types);
    // The tensor of rotary frequencies is no parameter.
    CHECK(cpu.weights.value == Approx(2 * weights).epsilon(1e-4));
    REQUIRE(cpu.kv);
    CHECK(cpu.kv->value == per_token * double(s.workload.last_position()));
  }
}
