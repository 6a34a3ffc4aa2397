// rigcast calibrate --own with what rigcast validate kept: folders and packed files.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

const std::string kRig =
    "gpu = []\ncpu = \"ryzen-9-7950x\"\nram = \"2xddr5-6000:64GiB\"\nssd = \"samsung-990-pro\"\n";
const std::string kProbed = kRig + "cpu_cores = 2\nram_bandwidth = \"30 GB/s\"\n";
const std::string kScenario =
    "[model]\nname = \"smollm2-135m\"\nquant = \"Q8_0\"\n"
    "[runtime]\nname = \"llama.cpp\"\n"
    "[workload]\nprompt_tokens = 64\noutput_tokens = 16\ndepth = 128\nstart = \"resident\"\n";

json simulate(const std::string& scenario, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"simulate", scenario, "--no-advice", "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

double decode(const json& report) { return report["decode"]["tokens_per_s"].get<double>(); }
double prefill(const json& report) { return report["prefill_tokens_per_s"].get<double>(); }

// A run as `rigcast validate --keep` leaves it; `changed`: of the machine meanwhile.
struct KeptRun {
  std::string name, probed = kProbed, scenario = kScenario;
  double decode = 100, prefill = 1000, changed = 0;
  bool is_over = true;
};

// The report of a run: a forecast's, with other speeds, whose repetitions were within a tenth.
std::string measured(const Folder& folder, const KeptRun& kept) {
  const std::string rig = folder.write("of-run.toml", kept.probed);
  const std::string scenario = folder.write("of-run-scenario.toml", kept.scenario);
  json report = simulate(scenario, {"--rig", rig});
  report["origin"] = "measured";
  report["decode"]["tokens_per_s"] = kept.decode;
  report["prefill_tokens_per_s"] = kept.prefill;
  report["interval"]["tokens_per_s"] = {0.95 * kept.decode, 1.05 * kept.decode};
  report["interval"]["prefill_tokens_per_s"] = {0.95 * kept.prefill, 1.05 * kept.prefill};
  return report.dump();
}

std::string keep(const Folder& folder, const std::string& name, const std::vector<KeptRun>& runs) {
  fs::create_directories(folder / name);
  std::string suite, times = "run,rigcast,forecast_written,run_started,tries,machine_changed\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const KeptRun& r = runs[i];
    const std::string part = name + "/0" + std::to_string(i + 1) + ".";
    suite += "[[run]]\nname = \"" + r.name + "\"\nscenario = \"0" + std::to_string(i + 1) +
             ".scenario.toml\"\nfile = false\n";
    folder.write(part + "scenario.toml", r.scenario);
    folder.write(part + "rig.toml", r.probed);
    if (r.is_over) folder.write(part + "measured.json", measured(folder, r));
    times += r.name + ",0.1.0,2026-11-25T10:00:00Z,2026-11-25T10:00:0" + std::to_string(i) +
             "Z,1," + std::to_string(r.changed) + "\n";
  }
  folder.write(name + "/suite.toml", suite);
  folder.write(name + "/times.csv", times);
  return folder / name;
}

json own(const std::vector<std::string>& paths, const std::string& rig) {
  std::vector<std::string> words{"calibrate", "--rig", rig, "--format", "json", "--own"};
  words.insert(words.end(), paths.begin(), paths.end());
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

std::string reason(const json& result, std::size_t i) { return result["skipped"][i]["reason"]; }

}  // namespace

TEST_CASE("A kept run corrects the rig as its speeds and their spread tell", "[cli][own]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string scenario = folder.write("scenario.toml", kScenario);
  // With the threads of the run, which had two cores; on the rig, not as it was probed then.
  const json forecast = simulate(scenario, {"--rig", rig, "--threads", "2"});
  KeptRun kept{"one"};
  kept.decode = 1.3 * decode(forecast);
  kept.prefill = 0.8 * prefill(forecast);
  const json result = own({keep(folder, "kept", {kept})}, rig);
  CHECK(result["kept"] == json{{"runs", 1}, {"used", 1}});
  REQUIRE(result["runs"].size() == 2);
  CHECK(result["runs"][0]["metric"] == "tg_tps");
  CHECK(result["runs"][0]["forecast"].get<double>() == Approx(decode(forecast)));
  CHECK(result["runs"][1]["forecast"].get<double>() == Approx(prefill(forecast)));

  // exp(ln ratio * prior^2 / (prior^2 + other models^2 + noise^2)): calibration/speed_of_runs.
  // Repetitions within a tenth are a standard deviation of half of it, which is the least that a
  // run has.
  const auto factor = [&](std::size_t run, double ratio, double other_models) {
    const json& interval = result["runs"][run]["interval_before"];
    const double width = std::log(interval[1].get<double>() / interval[0].get<double>());
    const double prior = std::pow(width / 2 / 1.2816, 2);
    return std::exp(std::log(ratio) * prior /
                    (prior + std::pow(other_models, 2) + std::pow(0.05, 2)));
  };
  const json& c = result["corrections"]["llama.cpp"];
  CHECK(c["decode"]["factor"].get<double>() == Approx(factor(0, 1.3, 0.14)).epsilon(1e-3));
  CHECK(c["prefill"]["factor"].get<double>() == Approx(factor(1, 0.8, 0.37)).epsilon(1e-3));
  const json after = simulate(scenario, {"--rig", rig, "--threads", "2"});
  CHECK(decode(after) == Approx(result["runs"][0]["corrected"].get<double>()).epsilon(1e-3));
  CHECK(decode(after) > 1.05 * decode(forecast));
}

TEST_CASE("A wide range of repetitions counts as noise of the run", "[cli][own]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string kept = keep(folder, "kept", {{"one"}});
  const double calm = own({kept}, rig)["corrections"]["llama.cpp"]["decode"]["spread"];
  json report = json::parse(read(folder / "kept/01.measured.json"));
  report["interval"]["tokens_per_s"] = {60, 140};
  folder.write("kept/01.measured.json", report.dump());
  CHECK(own({kept}, rig)["corrections"]["llama.cpp"]["decode"]["spread"].get<double>() >
        1.2 * calm);
}

TEST_CASE("Kept runs that tell nothing of the rig are skipped, each with its reason",
          "[cli][own]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  KeptRun other_cpu{"other CPU"}, gpu{"with a GPU"}, noisy{"noisy"}, failed{"failed"};
  other_cpu.probed =
      "gpu = []\ncpu_name = \"Some CPU\"\ncpu_cores = 2\ncpu_simd = \"avx2\"\n"
      "ram_capacity = \"16 GiB\"\nram_bandwidth = \"30 GB/s\"\n";
  gpu.probed = "gpu = [\"rtx-3090\"]\n" + kRig.substr(kRig.find("cpu"));
  noisy.changed = 0.25;
  failed.is_over = false;
  const std::string kept = keep(folder, "kept", {other_cpu, {"good"}, gpu, noisy, failed});
  const json result = own({kept}, rig);
  CHECK(result["kept"] == json{{"runs", 5}, {"used", 1}});
  REQUIRE(result["skipped"].size() == 4);
  CHECK(contains(reason(result, 0), "ran on Some CPU, the rig has AMD Ryzen 9 7950X"));
  CHECK(contains(reason(result, 1), "ran on 1 GPU, the rig has none"));
  CHECK(contains(reason(result, 2), "the machine changed by 25 %"));
  CHECK(contains(reason(result, 3), "was not run"));
  const Outcome text = run({"calibrate", "--own", kept, "--rig", rig});
  CHECK(contains(text.out, "1 of 5 kept runs was used"));
  CHECK(contains(text.out, "kept \"noisy\": the machine changed"));
}

TEST_CASE("Packed runs count as their folder does, and no run twice", "[cli][own]") {
  const Folder folder;
  const std::string rig = folder.write("my-rig.toml", kRig);
  const std::string kept = keep(folder, "kept", {{"one"}, {"two"}});
  const std::string packed = folder / "kept.jsonl.gz";
  REQUIRE(run({"validate", "--pack", kept, "-o", packed}).exit == 0);
  const json of_folder = own({kept}, rig), of_file = own({packed}, rig);
  CHECK(of_folder["corrections"] == of_file["corrections"]);
  const json both = own({kept, packed}, rig);
  CHECK(both["corrections"] == of_folder["corrections"]);
  CHECK(both["kept"] == json{{"runs", 4}, {"used", 2}});
  CHECK(contains(reason(both, 0), "the same run"));
  check_refused({"calibrate", "--own", kept, kept + "/", "--rig", rig}, {"named twice"});
  folder.write("empty/nothing", "");
  check_refused({"calibrate", "--own", folder / "", "--rig", rig}, {"suite.toml", "--keep"});
}

TEST_CASE("Without --rig the rig of one's own that is called this is corrected", "[cli][own]") {
  const Folder folder;
  const std::string kept = keep(folder, "kept", {{"one"}});
  const How own_data{{{"XDG_DATA_HOME", folder / "data"}}};
  const Outcome none = run({"calibrate", "--own", kept}, own_data);
  CHECK(none.exit == 2);
  CHECK(contains(none.error, "rigcast probe -o my-rig.toml, then --rig my-rig.toml"));
  fs::create_directories(folder / "data/rigcast/hwprofiles/rigs");
  folder.write("data/rigcast/hwprofiles/rigs/this.toml", kRig);
  const Outcome o = run({"calibrate", "--own", kept}, own_data);
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(fs::exists(folder / "data/rigcast/hwprofiles/rigs/this.measured.toml"));
}
