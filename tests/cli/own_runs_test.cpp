// rigcast calibrate --own: reads a rig's own runs, writes a correction, which changes forecasts.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

constexpr double kFaster = 1.2;

const std::string kRig =
    "gpu = [\"rtx-3090\"]\ncpu = \"ryzen-9-7950x\"\nram = \"2xddr5-6000:64GiB\"\n"
    "ssd = \"samsung-990-pro\"\n";

// As llama-bench -o jsonl prints it: a prompt of 512 tokens, then 128 of output.
std::string bench(double prompt_tps, double output_tps,
                  const std::string& gpu = "NVIDIA GeForce RTX 3090") {
  const auto line = [&](const char* counts, double tps) {
    json j{{"cpu_info", "AMD Ryzen 9 7950X 16-Core Processor"},
           {"gpu_info", gpu},
           {"backends", gpu.empty() ? "CPU" : "CUDA"},
           {"model_filename", "m/Llama-3.1-8B-Q4_K_M.gguf"},
           {"model_type", "llama 8B Q4_K - Medium"},
           {"model_size", 4912898304},
           {"model_n_params", 8030261312},
           {"n_gpu_layers", 99},
           {"flash_attn", true},
           {"avg_ts", tps}};
    j.update(json::parse(counts));
    return j.dump() + "\n";
  };
  return line(R"({"n_prompt": 512, "n_gen": 0})", prompt_tps) +
         line(R"({"n_prompt": 0, "n_gen": 128})", output_tps);
}

json own(const std::string& runs, const std::string& rig, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"calibrate", "--own", runs, "--rig", rig, "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

json simulate(const std::string& rig, const std::string& model,
              const std::string& runtime = "llama.cpp") {
  const Outcome o = run({"simulate", "--rig", rig, "--model", model, "--runtime", runtime,
                         "--context", "2048", "--no-advice", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  json report = json::parse(o.out);
  report.erase("warnings");
  return report;
}

double decode(const json& report) { return report["decode"]["tokens_per_s"].get<double>(); }
double prefill(const json& report) { return report["prefill_tokens_per_s"].get<double>(); }
// Low to high end of an interval, as logarithm.
double width(const json& interval) {
  return std::log(interval.at(1).get<double>() / interval.at(0).get<double>());
}

// Runs that are faster than today's forecast of this rig, which the program itself tells.
constexpr int kRepeated = 4;

std::string faster_runs(const Folder& folder, const std::string& rig) {
  const std::string first = folder.write("first.jsonl", bench(1000, 100));
  const json before = own(first, rig, {"-o", folder / "first.toml"});
  const std::string once = bench(kFaster * before["runs"][0]["forecast"].get<double>(),
                                 kFaster * before["runs"][1]["forecast"].get<double>());
  std::string all;
  for (int i = 0; i < kRepeated; ++i) all += once;
  return folder.write("runs.jsonl", all);
}

}  // namespace

TEST_CASE("Own runs move the forecasts of their rig, until they are forgotten", "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string file = faster_runs(folder, rig);
  const json before = simulate(rig, "qwen3-4b"), other = simulate(rig, "qwen3-4b", "rigcast");
  CHECK(before["correction"].is_null());
  const json result = own(file, rig);
  CHECK(result["schema"] == "rigcast.own_runs/1");
  REQUIRE(result["runs"].size() == 2 * kRepeated);
  for (const json& r : result["runs"]) {
    const double measured = r["measured"].get<double>();
    CHECK(measured == Approx(kFaster * r["forecast"].get<double>()));
    // The correction has part of the weight, because other models of a machine may differ.
    CHECK(r["corrected"].get<double>() > 1.01 * r["forecast"].get<double>());
    CHECK(r["corrected"].get<double>() < measured);
    CHECK(r["regime"] == "resident");
    CHECK(width(r["interval"]) <= width(r["interval_before"]) * (1 + 1e-9));
  }
  const auto narrowed = [&](const char* key, const json& profile) {
    const json& speed = result["corrections"]["llama.cpp"][key];
    return std::min(width(profile), 2 * speed["spread"].get<double>());
  };
  CHECK(result["file"] == folder / "my-rig.measured.toml");
  REQUIRE(fs::exists(folder / "my-rig.measured.toml"));

  const json after = simulate(rig, "qwen3-4b");
  const auto factor = [&](const char* key) {
    return result["corrections"]["llama.cpp"][key]["factor"].get<double>();
  };
  CHECK(decode(after) / decode(before) == Approx(factor("decode")).epsilon(0.03));
  CHECK(prefill(after) / prefill(before) == Approx(factor("prefill")).epsilon(0.03));
  for (const auto& [key, metric] :
       {std::pair{"decode", "tokens_per_s"}, {"prefill", "prefill_tokens_per_s"}})
    CHECK(width(after["interval"][metric]) ==
          Approx(narrowed(key, before["interval"][metric])).epsilon(0.001));
  CHECK(after["inputs"]["measured"].get<int>() == before["inputs"]["measured"].get<int>() + 2);
  CHECK(after["correction"]["runs"] == 2 * kRepeated);
  // The file holds four digits after the point.
  CHECK(after["correction"]["decode"]["factor"].get<double>() ==
        Approx(result["corrections"]["llama.cpp"]["decode"]["factor"].get<double>())
            .margin(0.00005 + 1e-12)
            .epsilon(0));
  CHECK(simulate(rig, "qwen3-4b", "rigcast") == other);

  fs::remove(folder / "my-rig.measured.toml");
  CHECK(simulate(rig, "qwen3-4b") == before);
}

TEST_CASE("Where layers are on the host, a run narrows what is known least", "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  std::string split = bench(300, 12);
  for (auto at = split.find("\"n_gpu_layers\":99"); at != std::string::npos;
       at = split.find("\"n_gpu_layers\":99"))
    split.replace(at, 17, "\"n_gpu_layers\":8");
  const json result = own(folder.write("runs.jsonl", split), rig);
  REQUIRE(result["runs"].size() == 2);
  const json& decoded = result["runs"][1];
  CHECK(decoded["regime"] == "layer split");
  CHECK(width(decoded["interval"]) < width(decoded["interval_before"]));
  CHECK(result["corrections"]["llama.cpp"]["decode"]["regimes"] == json::array({"layer split"}));
}

TEST_CASE("Own runs are held against the forecast without a correction", "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string file = faster_runs(folder, rig);
  const json first = own(file, rig), again = own(file, rig);
  CHECK(first == again);
}

TEST_CASE("Corrections of other runtimes stay in the file, an unreadable one is not replaced",
          "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string file = folder.write("runs.jsonl", bench(3000, 100));
  const std::string measured = folder.write(
      "my-rig.measured.toml",
      "[correction.rigcast]\ndecode = { value = 1.5, source = \"x\" }\ndecode_spread = 0.1\n");
  own(file, rig);
  CHECK(contains(read(measured), "[correction.\"rigcast\"]"));
  CHECK(contains(read(measured), "[correction.\"llama.cpp\"]"));
  const std::string broken = "[correction.rigcast]\ndecode = nan\ndecode_spread = 0.1\n";
  folder.write("my-rig.measured.toml", broken);
  check_refused({"calibrate", "--own", file, "--rig", rig}, {"my-rig.measured.toml:2:", "decode"});
  CHECK(read(measured) == broken);
}

TEST_CASE("Runs of one kind correct that kind alone", "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string both = bench(3000, 100);
  const std::string file = folder.write("runs.jsonl", both.substr(both.find('\n') + 1));
  const json before = simulate(rig, "qwen3-4b");
  const json result = own(file, rig);
  CHECK(result["corrections"]["llama.cpp"]["prefill"].is_null());
  const json after = simulate(rig, "qwen3-4b");
  CHECK(after["interval"]["prefill_tokens_per_s"].size() == 2);
  CHECK(width(after["interval"]["prefill_tokens_per_s"]) ==
        Approx(width(before["interval"]["prefill_tokens_per_s"])));
  CHECK(decode(after) != decode(before));
}

TEST_CASE("The table says what changed and where it is written", "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string file = folder.write("runs.jsonl", bench(3000, 100) + bench(1, 1, ""));
  const Outcome o = run({"calibrate", "--own", file, "--rig", rig});
  CHECK(o.exit == 0);
  CHECK(o.error.empty());
  for (const char* part :
       {"forecast", "measured", "corrected", "llama-3.1-8b Q4_K_M", "decode", "prefill",
        "80 % interval", "by 1 run;", "my-rig.measured.toml", "runs.jsonl:3: ran on the CPU alone"})
    CHECK(contains(o.out, part));
  CHECK(contains(run({"simulate", "--rig", rig, "--model", "qwen3-4b", "--no-advice"}).out,
                 "2 measured (speed correction)"));
  CHECK(folder.names().size() == 3);  // nothing temporary stays
}

TEST_CASE("Own runs need a rig file and runs of that rig", "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string file = folder.write("runs.jsonl", bench(3000, 100));
  check_refused({"calibrate", "--own", file}, {"--rig", "my-rig.toml: gpu = ["});
  check_refused({"calibrate", "--own", file, "--rig", "rtx-3090"},
                {"no rig named \"rtx-3090\"", "my-rig.toml: gpu = ["});
  check_refused({"calibrate", "--own", file, "--against", file, "--rig", rig}, {"--against"});
  check_refused({"calibrate", "--rig", rig}, {"--own"});
  check_refused({"calibrate"}, {"--against is required", "--own"});
  const std::string other =
      folder.write("other.jsonl", bench(3000, 100, "NVIDIA GeForce RTX 4090"));
  check_refused({"calibrate", "--own", other, "--rig", rig},
                {"none of 2 runs", "ran on", "4090", "3090"});
  const std::string card = "NVIDIA GeForce RTX 3090";
  const std::string two = folder.write("two.jsonl", bench(3000, 100, card + ", " + card));
  check_refused({"calibrate", "--own", two, "--rig", rig}, {"ran on 2 GPUs, the rig has 1"});
  const std::string bad_rig = folder.write("bad.toml", kRig + "colour = \"red\"\n");
  check_refused({"calibrate", "--own", file, "--rig", bad_rig}, {"bad.toml:5:", "colour"});
  CHECK(!fs::exists(folder / "my-rig.measured.toml"));
}

TEST_CASE("Runs that are no numbers are refused", "[cli]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  for (const char* value : {"-5", "\"nan\"", "1e999", "0", "\"fast\""}) {
    std::string text = bench(3000, 12345);
    text = text.substr(text.find('\n') + 1);
    text.replace(text.find("12345.0"), 7, value);
    const std::string file = folder.write("runs.jsonl", text);
    INFO(text);
    const Outcome o = run({"calibrate", "--own", file, "--rig", rig});
    INFO(o.error);
    CHECK(o.exit != 0);
    CHECK(contains(o.error, "runs.jsonl"));
    CHECK(!fs::exists(folder / "my-rig.measured.toml"));
  }
}
