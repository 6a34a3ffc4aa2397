// rigcast validate of a suite: forecasts and runs are compared, kept, and replayed.
#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

// Two runs on a rig that is named, so that nothing is probed.
std::string suite(const Folder& folder) {
  const std::string rig = folder / "rig.toml", file = folder / "suite.toml";
  std::ofstream(rig) << "gpu = []\ncpu = \"ryzen-9-7950x\"\ncpu_cores = 2\n"
                        "ram = \"2xddr5-6000:64GiB\"\nssd = \"samsung-990-pro\"\n";
  const std::string scenario = "scenario.rig.name = \"" + rig +
                               "\"\n"
                               "scenario.model = { name = \"smollm2-135m\", quant = \"Q8_0\" }\n"
                               "scenario.workload = { prompt_tokens = 20, output_tokens = 9 }\n"
                               "scenario.runtime.threads = 2\n";
  std::ofstream(file) << "[[run]]\nname = \"resident\"\n"
                      << scenario << "[[run]]\nname = \"all starts\"\nfile = true\n"
                      << scenario;
  return file;
}

// Processes that execute a run kept in the folder.
std::vector<pid_t> processes_of_runs(const std::string& folder) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string words = read(entry.path() / "cmdline");
    if (contains(words, "run-worker") && contains(words, folder))
      found.push_back(std::stoi(entry.path().filename()));
  }
  return found;
}

std::string endless(const Folder& folder) {
  const std::string file = suite(folder), text = read(file);
  std::ofstream(file) << "[[run]]\nname = \"endless\"\nscenario.rig.name = \""
                      << folder / "rig.toml"
                      << "\"\nscenario.model.name = \"smollm2-135m\"\n"
                         "scenario.workload = { prompt_tokens = 8, output_tokens = 100000 }\n"
                         "scenario.runtime.threads = 1\n"
                      << text;
  return file;
}

json rows_of(const json& validation, const std::string& id) {
  json out = json::object();
  for (const json& row : validation["rows"])
    if (row["id"] == id) out[row["metric"].get<std::string>()] = row;
  return out;
}

}  // namespace

TEST_CASE("A suite is forecast, run and set side by side", "[cli][validate]") {
  const Folder folder;
  const std::string kept = folder / "kept";
  const Outcome o = run({"validate", suite(folder), "--keep", kept, "--scratch", folder / "",
                         "--repeat", "1", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  const json resident = rows_of(v, "resident"), starts = rows_of(v, "all starts");
  for (const char* metric :
       {"decode.tokens_per_s", "prefill_tokens_per_s", "memory.0.total", "traffic_bytes.ram",
        "ttft.resident.total_s", "activities.decode.ffn", "activities.prefill.attention"}) {
    INFO(metric);
    CHECK(resident.contains(metric));
    CHECK(starts.contains(metric));
  }
  CHECK_FALSE(resident.contains("ttft.cold.total_s"));
  CHECK(starts.contains("ttft.cold.total_s"));
  CHECK(starts.contains("ttft.warm.breakdown_s.prefill"));
  CHECK(starts.contains("ttft.cold.breakdown_s.load"));
  // Both sides count the same bytes, by the same tensors, to the last norm vector.
  CHECK(std::abs(resident["traffic_bytes.ram"]["error"].get<double>()) < 0.01);

  for (const char* file :
       {"suite.toml", "01.scenario.toml", "01.activities.json", "01.forecast.json",
        "01.measured.json", "02.forecast.json", "02.measured.json", "times.csv"})
    CHECK(std::filesystem::exists(std::filesystem::path(kept) / file));
  for (const auto& file : std::filesystem::directory_iterator(folder / ""))
    CHECK(file.path().extension() != ".gguf");  // the weights are gone

  const Outcome again = run({"validate", "--replay", kept, "--format", "json"});
  REQUIRE(again.exit == 0);
  const json replayed = rows_of(json::parse(again.out), "all starts");
  REQUIRE(replayed.size() == starts.size());
  for (const auto& [metric, row] : starts.items()) {
    if (metric == "decode.by_position.tokens_per_s") continue;  // several rows of one name
    INFO(metric);
    CHECK(replayed[metric]["predicted"] == row["predicted"]);
    CHECK(replayed[metric]["measured"] == row["measured"]);
  }

  // Packed into one file they give the same result.
  const std::string packed = folder / "packed.jsonl.gz";
  REQUIRE(run({"validate", "--pack", kept, "-o", packed}).exit == 0);
  const Outcome of_file = run({"validate", "--replay", packed, "--format", "json"});
  CHECK(of_file.exit == 0);
  CHECK(of_file.out == again.out);
}

TEST_CASE("A validation continues where it stopped, and does not repeat a run that ended it",
          "[cli][validate]") {
  const Folder folder;
  const std::string kept = folder / "kept", file = suite(folder);
  const auto validate = [&](const std::string& of) {
    return run({"validate", of, "--keep", kept, "--scratch", folder / "", "--repeat", "1",
                "--format", "json", "--resume"});
  };
  REQUIRE(validate(file).exit == 0);
  const std::filesystem::path in(kept);
  const std::string first = read(in / "01.measured.json"), times = read(in / "times.csv");

  // As if the second had been interrupted.
  std::filesystem::remove(in / "02.measured.json");
  const Outcome on = validate(file);
  INFO(on.error);
  REQUIRE(on.exit == 0);
  CHECK(read(in / "01.measured.json") == first);
  CHECK(std::filesystem::exists(in / "02.measured.json"));
  CHECK(read(in / "times.csv").starts_with(times));
  const json v = json::parse(on.out);
  CHECK(rows_of(v, "resident").contains("decode.tokens_per_s"));
  CHECK(rows_of(v, "all starts").contains("ttft.cold.total_s"));

  // As if it had ended the program.
  std::ofstream(in / "02.unfinished.txt") << "the program ended while it ran";
  const json skipped = json::parse(validate(file).out)["skipped"];
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0]["id"] == "all starts");
  CHECK(contains(skipped[0]["reason"], "ended while it ran"));
  CHECK(rows_of(json::parse(run({"validate", "--replay", kept, "--format", "json"}).out),
                "all starts")
            .empty());

  const std::string other = folder / "other.toml";
  std::ofstream(other) << "[[run]]\nname = \"x\"\nscenario.model.name = \"smollm2-360m\"\n";
  const Outcome refused = validate(other);
  CHECK(refused.exit == 2);
  CHECK(contains(refused.error, "is of another suite"));
  CHECK(read(in / "01.measured.json") == first);
}

TEST_CASE("A run that takes too long leaves time for the others", "[cli][validate]") {
  const Folder folder;
  const std::string file = endless(folder);
  // The short runs take a second, or some tens under sanitizers on a machine with other work.
#ifdef __SANITIZE_ADDRESS__
  constexpr const char* kLimit = "120";
#else
  constexpr const char* kLimit = "20";
#endif
  const Outcome o = run({"validate", file, "--keep", folder / "kept", "--scratch", folder / "",
                         "--repeat", "1", "--time-limit", kLimit, "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  REQUIRE_FALSE(v["skipped"].empty());
  CHECK(v["skipped"][0]["id"] == "endless");
  CHECK(v["skipped"][0]["reason"] == fmt::format("stopped after {} s: --time-limit", kLimit));
  CHECK(rows_of(v, "resident").contains("decode.tokens_per_s"));
}

TEST_CASE("A run whose process is ended leaves the others", "[cli][validate]") {
  const Folder folder;
  const std::string file = endless(folder), kept = folder / "kept";
  auto killer = std::async(std::launch::async, [&] {
    for (int i = 0; i < 600; ++i) {
      if (const auto found = processes_of_runs(kept); !found.empty())
        return ::kill(found.front(), SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return -1;
  });
  const Outcome o = run({"validate", file, "--keep", kept, "--scratch", folder / "", "--repeat",
                         "1", "--format", "json"});
  CHECK(killer.get() == 0);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  REQUIRE(v["skipped"].size() == 1);
  CHECK(v["skipped"][0]["id"] == "endless");
  CHECK(contains(v["skipped"][0]["reason"], "ended by signal 9"));
  CHECK(rows_of(v, "resident").contains("decode.tokens_per_s"));
}

TEST_CASE("An interrupt ends the run as well, and is no answer", "[cli][validate]") {
  const Folder folder;
  const std::string file = endless(folder), kept = folder / "kept";
  const Outcome o = run({"validate", file, "--keep", kept, "--scratch", folder / "", "--repeat",
                         "1", "--format", "json"},
                        {.interrupt_after = std::chrono::milliseconds(2500)});
  INFO(o.error);
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "--resume goes on"));
  CHECK(processes_of_runs(kept).empty());
  CHECK_FALSE(std::filesystem::exists(kept + "/01.measured.json"));
  CHECK_FALSE(std::filesystem::exists(kept + "/01.unfinished.txt"));  // it may be tried again
}

TEST_CASE("One scenario is kept so that it can be forecast anew", "[cli][validate]") {
  const Folder folder;
  const std::string kept = folder / "kept";
  const std::string rig = folder / "rig.toml";
  std::ofstream(rig) << "gpu = []\ncpu = \"ryzen-9-7950x\"\ncpu_cores = 2\n"
                        "ram = \"2xddr5-6000:64GiB\"\nssd = \"samsung-990-pro\"\n";
  const Outcome o = run({"validate", "--rig", rig, "--model", "smollm2-135m", "--quant", "Q4_0",
                         "--prompt-tokens", "9", "--output-tokens", "5", "--threads", "1", "--keep",
                         kept, "--repeat", "1", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  CHECK(v["activities"].size() > 3);
  const Outcome again = run({"validate", "--replay", kept, "--format", "json"});
  REQUIRE(again.exit == 0);
  const json before = rows_of(v, "this scenario"),
             after = rows_of(json::parse(again.out), "this scenario");
  for (const char* metric : {"activities.decode.ffn", "decode.tokens_per_s"}) {
    CHECK(before[metric]["measured"] == after[metric]["measured"]);
    CHECK(after[metric]["predicted"].get<double>() ==
          Approx(before[metric]["predicted"].get<double>()));
  }
}

TEST_CASE("An interrupt leaves no weights behind", "[cli][validate]") {
  const How how{.interrupt_after = std::chrono::milliseconds(800)};  // of many seconds of writing
  const Folder folder;
  const Outcome written =
      run({"synth", "llama-3.1-8b", "--quant", "F16", "-o", folder / "x.gguf"}, how);
  CHECK(written.exit == 3);
  CHECK(contains(written.error, "interrupted before " + (folder / "x.gguf") + " was written"));
  CHECK(std::filesystem::is_empty(folder / ""));
}

TEST_CASE("What is wrong in a suite is said with its place", "[cli][validate]") {
  const Folder folder;
  const std::string file = folder / "suite.toml";
  const auto error_of = [&](const std::string& text) {
    std::ofstream(file) << text;
    const Outcome o = run({"validate", file});
    CHECK(o.exit == 2);
    return o.error;
  };
  const std::string run_a = "[[run]]\nname = \"a\"\n";
  const std::string of_model = run_a + "scenario.model.name = \"qwen3-0.6b\"\n";
  CHECK(contains(error_of(of_model + "scenario.model.qaunt = \"Q8_0\"\n"), "model.qaunt"));
  CHECK(contains(error_of(run_a), "suite.toml:1:1: run[0].scenario"));
  // Errors of the scenario name its run and place, too.
  const std::string bad = error_of(of_model + "scenario.placement.gpu_layers = \"many\"\n");
  CHECK(contains(bad, "suite.toml: a: "));
  CHECK(contains(bad, "suite.toml:4:"));
  CHECK(contains(bad, "placement.gpu_layers"));
  CHECK(error_of("run = []\n").find("no runs") != std::string::npos);
  CHECK(contains(error_of(of_model + "repaet = 3\n"), "repaet"));
  CHECK(run({"validate", "--replay", folder / "nothing"}).exit == 2);
  const std::string kept = test::source_path("/tests/validation/fit.jsonl.gz");
  CHECK(run({"validate", "--replay", kept, folder / "nothing"}).exit == 2);
  const Outcome unknown = run({"validate", "--suite", "qiuck"});
  CHECK(unknown.exit == 2);
  CHECK(contains(unknown.error,
                 "cpu, cpu-fit, cpu-fit-batches, cpu-fit-threads, cpu-users, gpu-families"));
  const Outcome empty = run({"validate", "--suite", folder / "rig.toml"});
  CHECK(empty.exit == 2);
}

TEST_CASE("Configurations that the profile was fitted on count nowhere", "[cli][validate]") {
  const std::string fit = test::source_path("/tests/validation/fit.jsonl.gz");
  const Outcome text = run({"validate", "--replay", fit});
  REQUIRE(text.exit == 0);
  CHECK(text.out.find("nothing is counted") != std::string::npos);
  CHECK(text.out.find("median error") == std::string::npos);
  const Outcome o = run({"validate", "--replay", fit, "--format", "json"});
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  REQUIRE_FALSE(v["rows"].empty());
  for (const json& row : v["rows"]) CHECK(row["counted"] == false);
  const Outcome both = run({"validate", "--replay", fit, fit, "--format", "json"});
  REQUIRE(both.exit == 0);
  CHECK(json::parse(both.out)["rows"].size() == 2 * v["rows"].size());
}
