// rigcast validate: reads files, compares forecasts with measurements, and its exit codes.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

std::string header() {
  const std::string all =
      read(fs::path(rigcast::test::source_dir()) / "runtimes/measurements/benchmarks.csv");
  return all.substr(0, all.find('\n') + 1);
}

// Values are invented: one far too low, one far too high, four that do not count.
std::string six_runs() {
  const std::string rig =
      "2025-01,llama-bench,,RTX 3090 24GB,1,Ryzen 9 7950X,DDR5-6000 dual "
      "channel 64GB,,,Ubuntu 22.04,";
  const std::string how = "4.58,99,32,,gpu,f16,f16,0,8,2048,512,0,";
  return header() + "A1,here," + rig + "Llama-3-8B,8.03,Q4_K_M," + how + ",128,tg_tps,0.001,,\n" +
         "A2,here," + rig + "Llama-3-8B,8.03,Q4_K_M," + how + "512,,pp_tps,99999999,,\n" +
         "A3,here," + rig + "Llama-3-8B,8.03,Q4_K_M," + how + ",128,tg_tps,1,,SUSPECT: paging\n" +
         "A4,here," + rig + "Nobodys-Model-8B,8.03,Q4_K_M," + how + ",128,tg_tps,1,,\n" +
         "A5,here," + rig + "Llama-3-8B,8.03,Q4_K_M," + how + ",128,ttft_s,0.5,,\n" + "A6,here," +
         rig + "Llama-3-8B,8.03,Q4_K_M," + how + "512,128,vram_gb,6,,\n";
}

// As llama-bench -o jsonl prints it; the third line is a prompt and an answer as one.
const std::string kBench =
    R"({"cpu_info": "AMD Ryzen 9 7950X 16-Core Processor", "gpu_info": "NVIDIA GeForce RTX 3090", )"
    R"("backends": "CUDA", "model_filename": "m/Llama-3.1-8B-Q4_K_M.gguf", "model_type": )"
    R"("llama 8B Q4_K - Medium", "model_size": 4912898304, "model_n_params": 8030261312, )"
    R"("n_gpu_layers": 99, "n_prompt": 512, "n_gen": 0, "avg_ts": 3000})"
    "\n"
    R"({"cpu_info": "AMD Ryzen 9 7950X 16-Core Processor", "gpu_info": "NVIDIA GeForce RTX 3090", )"
    R"("backends": "CUDA", "model_filename": "m/Llama-3.1-8B-Q4_K_M.gguf", "model_type": )"
    R"("llama 8B Q4_K - Medium", "model_size": 4912898304, "model_n_params": 8030261312, )"
    R"("n_gpu_layers": 99, "n_prompt": 0, "n_gen": 128, "avg_ts": 120})"
    "\n"
    R"({"gpu_info": "NVIDIA GeForce RTX 3090", "model_type": "llama 8B Q4_K - Medium", )"
    R"("n_gpu_layers": 99, "n_prompt": 64, "n_gen": 64, "avg_ts": 1})"
    "\n";

Outcome validate(const std::string& file, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"validate", "--against", file});
  return run(more);
}

json as_json(const std::string& file, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--format", "json"});
  const Outcome o = validate(file, more);
  INFO(o.error);
  REQUIRE(json::accept(o.out));
  return json::parse(o.out);
}

std::set<std::string> ids(const json& list) {
  std::set<std::string> out;
  for (const json& item : list) out.insert(item.at("id").get<std::string>());
  return out;
}

}  // namespace

TEST_CASE("validate has help with examples, and the program names it", "[cli]") {
  const Outcome o = run({"validate", "--help"});
  CHECK(o.exit == 0);
  for (const char* part : {"--against", "--runtime", "--doubtful", "--fail-above", "--format",
                           "--output", "Examples", "benchmarks.csv", "llama-bench -m"})
    CHECK(contains(o.out, part));
  CHECK(contains(run({"--help"}).out, "validate"));
}

TEST_CASE("Every run of a file is a row or is skipped with a reason", "[cli]") {
  const Folder folder;
  const json v = as_json(folder.write("runs.csv", six_runs()));
  CHECK(v.at("schema") == "rigcast.validation/1");
  CHECK(ids(v.at("rows")) == std::set<std::string>{"A1", "A2", "A6"});
  CHECK(ids(v.at("skipped")) == std::set<std::string>{"A3", "A4", "A5"});
  for (const json& s : v.at("skipped")) {
    const auto reason = s.at("reason").get<std::string>();
    if (s.at("id") == "A3") CHECK(reason == "marked SUSPECT or CAUTION by its source");
    if (s.at("id") == "A4") CHECK(contains(reason, "model"));
    if (s.at("id") == "A5") CHECK(contains(reason, "prompt"));
  }
  for (const json& r : v.at("rows")) {
    const double predicted = r.at("predicted").get<double>();
    CHECK(predicted > 0);
    CHECK(r.at("error").get<double>() == Approx(predicted / r.at("measured").get<double>() - 1));
    CHECK(r.at("regime") == "resident");
    const json& interval = r.at("interval");
    CHECK(interval.is_null() == (r.at("metric") == "vram_gb"));
    if (interval.is_null()) continue;
    CHECK(interval.at(0).get<double>() <= predicted);
    CHECK(predicted <= interval.at(1).get<double>());
    CHECK(r.at("inside") == false);  // the values are absurd
  }
}

TEST_CASE("A run that is marked as doubtful counts when asked for", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("runs.csv", six_runs());
  CHECK(ids(as_json(file, {"--doubtful"}).at("rows")).contains("A3"));
}

TEST_CASE("Rows can be limited to a runtime", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("runs.csv", six_runs());
  CHECK(as_json(file, {"--runtime", "LLAMA.CPP"}).at("rows").size() == 3);
  const json other = as_json(file, {"--runtime", "ik-llama.cpp"});
  CHECK(other.at("rows").empty());
  CHECK(other.at("skipped").size() == 6);
}

TEST_CASE("The three forms say the same", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("runs.csv", six_runs());
  const Outcome text = validate(file);
  CHECK(text.exit == 0);
  CHECK(text.error.empty());
  for (const char* part : {"3 of 6 runs forecast", "tg_tps", "pp_tps", "vram_gb", "resident",
                           "inside 80 %", "A1", "skipped 3"})
    CHECK(contains(text.out, part));
  const Outcome csv = validate(file, {"--format", "csv"});
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 4);
  const std::string out = folder / "v.json";
  CHECK(validate(file, {"--format", "json", "-o", out}).out.empty());
  CHECK(json::parse(read(out)) == as_json(file));
}

TEST_CASE("What llama-bench printed is read as it is", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("runs.jsonl", kBench);
  const json v = as_json(file);
  REQUIRE(v.at("rows").size() == 2);
  CHECK(v.at("rows").at(0).at("metric") == "pp_tps");
  CHECK(v.at("rows").at(1).at("metric") == "tg_tps");
  CHECK(contains(v.at("rows").at(1).at("rig").get<std::string>(), "3090"));
  REQUIRE(v.at("skipped").size() == 1);
  CHECK(v.at("skipped").at(0).at("id") == file + ":3");
  CHECK(v.at("skipped").at(0).at("reason") == "prompt and output measured as one");
}

TEST_CASE("A threshold ends with 1 and says which regime is above it", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("runs.csv", six_runs());
  // Forecasts of speed are off by far more than 90 %, whatever they are.
  const Outcome above = validate(file, {"--fail-above", "tg_tps=0.9"});
  CHECK(above.exit == 1);
  CHECK(contains(above.error, "rigcast: tg_tps, resident: the median error"));
  CHECK(contains(above.out, "farthest off"));
  const Outcome two = validate(file, {"--fail-above", "tg_tps=0.5", "--fail-above", "pp_tps=0.5"});
  CHECK(two.exit == 1);
  CHECK(contains(two.error, "tg_tps"));
  CHECK(contains(two.error, "pp_tps"));
  CHECK(validate(file, {"--fail-above", "median_abs_error=0.9"}).exit == 1);
}

TEST_CASE("A threshold that holds ends with 0", "[cli]") {
  const Folder folder;
  // A forecast above zero and far below the measurement has an error of nearly 100 %, never more.
  const std::string text = six_runs();
  const auto only = text.find("\nA2,") + 1;
  const std::string file =
      folder.write("runs.csv", header() + text.substr(only, text.find('\n', only) + 1 - only));
  CHECK(validate(file, {"--fail-above", "pp_tps=1"}).exit == 0);
  CHECK(validate(file, {"--fail-above", "median_abs_error=1"}).exit == 0);
}

TEST_CASE("A threshold that nothing is held against is no success", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("runs.csv", six_runs());
  const Outcome o = validate(file, {"--fail-above", "load_s=1"});
  CHECK(o.exit == 1);
  CHECK(contains(o.error, "load_s: there is no row"));
  const Outcome none = validate(file, {"--runtime", "ik-llama.cpp"});
  CHECK(none.exit == 1);
  CHECK(contains(none.error, "none of 6 runs"));
}

TEST_CASE("A threshold that makes no sense is refused before any forecast", "[cli]") {
  check_refused({"validate", "--against", "none.csv", "--fail-above", "tps=0.2"},
                {"--fail-above", "no metric named \"tps\"", "known: tg_tps", "median_abs_error"});
  check_refused({"validate", "--against", "none.csv", "--fail-above", "tg_tps=20"},
                {"--fail-above", "\"20\" is no share", "tg_tps=0.2 is 20 %"});
  check_refused({"validate", "--against", "none.csv", "--fail-above", "tg_tps"}, {"METRIC=X"});
  check_refused({"validate", "--against", "none.csv", "--runtime", "llama"},
                {"--runtime: no runtime named \"llama\"", "did you mean"});
}

TEST_CASE("Left-out rows of another program's fit are noticed", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("runs.csv", six_runs());
  const std::string table = folder.write(
      "fit.left-out.csv",
      "id,chip,rig,model,quant,regime,deep,quantized_kv,ram_known,metric,measured,fitted,left_out,"
      "family,family_left_out,source,year\n"
      "A1,rtx-3090,R,llama-3-8b,Q4_K_M,resident,0,0,1,tg_tps,0.001,0.002,0.003,ampere,0.003,"
      "a thread,2025\n");
  const Outcome o = validate(file, {"--left-out", table, "--format", "json"});
  CHECK(o.exit == 1);
  CHECK(contains(o.error, "another profile or program"));
  const json report = json::parse(o.out);
  CHECK(report.at("schema") == "rigcast.left-out/1");
  // A1, A2 and A4: A3 is doubtful, A5 and A6 are no speeds.
  CHECK(report.at("coverage").at("usable") == 3);
  CHECK(report.at("coverage").at("forecast") == 2);
  CHECK(report.at("coverage").at("same_as_fitted") == 0);
  const json all = report.at("summary").back();
  CHECK(all.at("regime") == "all");
  CHECK(std::abs(all.at("fitted_median_abs_error").get<double>() - 1) < 1e-9);
  CHECK(std::abs(all.at("left_out_median_abs_error").get<double>() - 2) < 1e-9);
  CHECK(all.at("coverage").is_null());
  CHECK(validate(file, {"--left-out", table, "--format", "csv"}).exit == 2);
  check_refused({"validate", "--left-out", table}, {"--against"});
  check_refused({"validate", "--against", "none.csv", "--replay", table}, {"excludes"});
  check_refused({"validate", "--against", file, "--left-out", file}, {"no table of left-out rows"});
}

TEST_CASE("Files that cannot be read or hold no runs are refused", "[cli]") {
  const Folder folder;
  check_refused({"validate"}, {"a file of measurements", "--against", "llama-bench"});
  check_refused({"validate", "--against", folder / "missing.csv"}, {"no file ", "missing.csv"});
  check_refused({"validate", "--against", folder.path().string()}, {folder.path().string()});
  check_refused({"validate", "--against", folder.write("empty.csv", "")},
                {"empty.csv", "no measurements"});
  check_refused({"validate", "--against", folder.write("header.csv", header())},
                {"header.csv", "no measurements"});
  check_refused({"validate", "--against", folder.write("other.csv", "a,b\n1,2\n")},
                {"other.csv:1:1: no column"});
  check_refused({"validate", "--against", folder.write("broken.json", "[{\"avg_ts\": ]\n")},
                {"broken.json:1:"});
}
