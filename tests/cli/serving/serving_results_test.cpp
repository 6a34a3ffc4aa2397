// Results of benchmarks of servers beside forecasts of them.
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/measurements/serving/serving_result_files.hpp"

using namespace rigcast::cli_test;
using namespace rigcast::fixtures;
using Json = nlohmann::json;

namespace {

const Folder& folder() {
  static const Folder here;
  return here;
}

Outcome against(const std::string& text, const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"validate", "--against", folder().write("results", text)};
  words.insert(words.end(), flags.begin(), flags.end());
  return run(words);
}

const std::vector<std::string> kServed = {"--gpu", "rtx-4090",  "--quant",
                                          "BF16",  "--runtime", "vllm"};

std::vector<std::string> with(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace

TEST_CASE("A benchmark of a server is set beside its forecast", "[cli][serving]") {
  const Outcome text = against(kVllmBench, kServed);
  INFO(text.out << text.error);
  CHECK(text.exit == 0);
  for (const char* word : {"1 of 1 run forecast", "16 users: 1,024 in, 128 out", "TTFT p50",
                           "380 ms", "TPOT mean", "22.6 ms", "ITL p99", "80 % interval"})
    CHECK(contains(text.out, word));
  const Json json = Json::parse(against(kVllmBench, with(kServed, {"--format", "json"})).out);
  std::map<std::string, Json> rows;
  for (const Json& row : json["rows"]) rows[row["metric"]] = row;
  CHECK(rows.size() == 10);
  CHECK(rows.at("output_tps")["measured"] == 621.4);
  CHECK(rows.at("ttft_p99_s")["measured"].get<double>() == Approx(1.1025));
  CHECK(rows.at("tpot_p50_s")["interval"][0] < rows.at("tpot_p50_s")["predicted"]);
  CHECK(rows.at("tpot_p50_s")["load"] == "16 users: 1,024 in, 128 out");
  CHECK(json["summary"].size() >= 10);
}

TEST_CASE("Every form of results is forecast", "[cli][serving]") {
  const std::vector<std::string> sglang = {"--gpu", "rtx-4090", "--quant", "BF16"};
  const Outcome lines = against(kSglangBench, sglang);
  INFO(lines.out << lines.error);
  CHECK(contains(lines.out, "1 of 2 runs forecast"));
  CHECK(contains(lines.out, "speculative decoding is not forecast"));
  const Outcome sweep = against(kGuideLlm, kServed);
  INFO(sweep.out << sweep.error);
  CHECK(contains(sweep.out, "2 of 4 runs forecast"));
  CHECK(contains(sweep.out, "8 users: 512 in, 128 out"));
  const Outcome aiperf = against(kAiPerf, kServed);
  INFO(aiperf.out << aiperf.error);
  CHECK(contains(aiperf.out, "4 users: 256 in, 64 out"));
  const std::vector<std::string> batches = {"--gpu",        "rtx-3090", "--model",
                                            "llama-3.1-8b", "--quant",  "Q4_K_M"};
  const Outcome table = against(kBatchedTable, batches), json = against(kBatchedJsonl, batches);
  INFO(table.out << table.error);
  CHECK(contains(table.out, "8 sequences: 512 in, 32 out"));
  CHECK(contains(table.out, "prompts, tok/s"));
  CHECK(table.out == json.out);
}

TEST_CASE("A benchmark that knows too little says what to add", "[cli][serving]") {
  const Outcome nothing = against(kVllmBench, {});
  INFO(nothing.error);
  CHECK(nothing.exit == 2);
  for (const char* flag : {"--runtime", "--gpu", "--quant"}) CHECK(contains(nothing.error, flag));
  CHECK_FALSE(contains(nothing.error, "--model"));
  const Outcome broken = against(kVllmBench.substr(0, 500), kServed);
  CHECK(broken.exit == 2);
  CHECK(contains(broken.error, ":1:"));
  CHECK(contains(broken.error, "ends early"));
}
