// Files of measurements: what a row says is what the measurement holds, and a broken file is an
// error with a place, never more.

#include "measurements/read_measurements.hpp"

#include <random>
#include <string>
#include <vector>

#include "measurements/llama_bench.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/measurements/measured_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using fixtures::contains;

namespace {

std::vector<Measurement> read(const std::string& text,
                              std::vector<std::string>* skipped = nullptr) {
  const auto rows = parse_measurements(text, "m", skipped);
  if (!rows) FAIL(rows.error().text());
  return *rows;
}

std::string error_of_text(const std::string& text) {
  const auto rows = parse_measurements(text, "m");
  return rows ? "" : rows.error().text();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("Every column of our own form arrives", "[measured]") {
  const auto rows = read(fixtures::kBenchmarkCsv);
  REQUIRE(rows.size() == 2);
  const Measurement& m = rows[0];
  CHECK(m.id == "A1");
  CHECK(m.source == "somebody, somewhere");
  CHECK(m.date == "2024-05-12");
  CHECK(m.build == "b228aba9 (2860)");
  CHECK(m.gpu == "RTX 3090 24GB");
  CHECK(m.gpu_count == 1);
  CHECK(m.ram_type == "DDR5-6000 dual channel 64GB");
  CHECK_FALSE(m.ram_bandwidth);
  CHECK(m.params_b == 8.03);
  CHECK(m.size->value == Approx(4.58 * 1073741824.0));
  CHECK(m.gpu_layers == 99);
  CHECK_FALSE(m.cpu_moe_layers);
  CHECK(m.flash_attention == false);
  CHECK(m.threads == 8);
  CHECK(m.generated == 128);
  CHECK(m.metric == Metric::kTg);
  CHECK(m.value == 120.5);
  CHECK(m.stdev == 0.4);
  CHECK(m.line == 2);
  CHECK_FALSE(m.doubtful());
  CHECK(rows[1].notes == "says \"fast\"; CAUTION");
  CHECK(rows[1].doubtful());
  CHECK(rows[1].metric == Metric::kPp);
  CHECK(rows[1].line == 3);
}

TEST_CASE("A CSV of llama-bench is read, and a run of prompt and output as one is skipped",
          "[measured]") {
  std::vector<std::string> skipped;
  const auto rows = read(fixtures::kBenchCsv, &skipped);
  REQUIRE(rows.size() == 1);
  const Measurement& m = rows[0];
  CHECK(m.id == "m:2");
  CHECK(m.tool == "llama-bench");
  CHECK(m.date == "2025-08-09");
  CHECK(m.gpu_count == 2);
  CHECK(m.model == "Qwen3-30B-A3B-Q4_K_M");
  CHECK(m.quant == "Q4_K - Medium");
  CHECK(m.size == Bytes{18556686912.0});
  CHECK(m.params_b == Approx(30.53).epsilon(0.001));
  CHECK(m.gpu_layers == 99);
  CHECK(m.cpu_moe_layers == 12);
  CHECK(m.flash_attention == true);
  CHECK(m.metric == Metric::kPp);
  CHECK(m.prompt == 512);
  CHECK(m.depth == 4096);
  CHECK(m.value == 2000.5);
  for (const char* said : {"backend=CUDA", "mmap=0", "nkvo=1", "ts=3.00/1.00"})
    CHECK(contains(m.notes, said));
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0] == "m:3: prompt and output measured as one");
}

TEST_CASE("JSON of llama-bench is read, older builds' fields and all", "[measured]") {
  std::vector<std::string> skipped;
  const auto rows = read(fixtures::kBenchJson, &skipped);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].line == 2);
  CHECK(rows[0].model == "Meta-Llama-3.1-8B-Instruct-Q4_K_M");
  CHECK_FALSE(rows[0].gpu_layers);  // -1: as many as there are
  CHECK(rows[0].flash_attention == false);
  CHECK(rows[0].value == 91.5);
  REQUIRE(skipped.size() == 1);
  CHECK(contains(skipped[0], "m:14:"));
}

TEST_CASE("An object a line is read, and a CPU build has no GPU", "[measured]") {
  const auto rows = read(fixtures::kBenchJsonLines);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].gpu.empty());
  CHECK(rows[0].gpu_count == 0);
  CHECK(rows[0].metric == Metric::kPp);
  CHECK(rows[1].metric == Metric::kTg);
  CHECK(rows[1].line == 3);
}

TEST_CASE("A model type is a model and a quant mix", "[measured]") {
  CHECK(split_model_type("llama 8B Q4_K - Medium").quant == "Q4_K - Medium");
  CHECK(split_model_type("llama 7B mostly Q4_0").quant == "Q4_0");
  CHECK(split_model_type("gpt-oss 20B MXFP4 MoE").model == "gpt-oss 20B");
  CHECK(split_model_type("llama").quant.empty());
}

TEST_CASE("What is missing or no number is refused with its place", "[measured]") {
  const std::string& csv = fixtures::kBenchmarkCsv;
  CHECK(contains(error_of_text(replaced(csv, ",quant,", ",mix,")), "m:1:1: no column quant"));
  CHECK(contains(error_of_text("a,b\n1,2\n"), "no column gpu, model, quant, metric, value"));
  CHECK(
      contains(error_of_text(replaced(csv, ",120.5,", ",fast,")), "value: \"fast\" is no number"));
  CHECK(contains(error_of_text(replaced(csv, ",120.5,", ",fast,")), "m:2:"));
  for (const char* bad : {"nan", "inf", "-1", "1e999", "0x10", "12 5", "1e300"})
    CHECK(contains(error_of_text(replaced(csv, ",120.5,", std::string(",") + bad + ",")), "value"));
  CHECK(contains(error_of_text(replaced(csv, ",120.5,", ",,")), "this row has no value"));
  CHECK(contains(error_of_text(replaced(csv, "tg_tps", "speed")), "tg_tps, pp_tps"));
  CHECK(contains(error_of_text(replaced(csv, ",99,32,", ",9.5,32,")), "no whole number"));
  CHECK(contains(error_of_text(replaced(csv, "full offload", "a,b")), "34 fields under 33"));
  CHECK(contains(error_of_text(replaced(csv, ",0,8,2048", ",maybe,8,2048")), "on nor off"));
  CHECK(contains(error_of_text(""), "no measurements"));
  CHECK(contains(error_of_text("[1]"), "something else"));
  CHECK(contains(error_of_text("{\"n_gen\": 1}\n"), "no speed"));
  CHECK(contains(error_of_text("{\"avg_ts\": 1}\n"), "without a prompt"));
  CHECK(contains(error_of_text("[{\"avg_ts\": 1,\n \"n_gen\" 1}]"), "m:2:"));
  CHECK(contains(error_of_text("[{\"avg_ts\": 1e999, \"n_gen\": 1}]"), "number"));
  CHECK(contains(error_of_text(std::string(100'000, '[')), "no JSON"));
}

TEST_CASE("A file that is none, or too large to be one, is an error", "[measured]") {
  CHECK_FALSE(read_measurements("/nowhere/at/all.csv"));
  CHECK_FALSE(read_measurements(test::source_dir()));
}

TEST_CASE("A file cut anywhere is read or refused, nothing else", "[measured]") {
  for (const std::string* text : {&fixtures::kBenchmarkCsv, &fixtures::kBenchCsv,
                                  &fixtures::kBenchJson, &fixtures::kBenchJsonLines}) {
    std::size_t read = 0;
    for (std::size_t n = 0; n <= text->size(); ++n) {
      const auto rows = parse_measurements(text->substr(0, n), "m");
      if (rows) ++read;
      if (!rows) CHECK_FALSE(rows.error().message.empty());
    }
    CHECK(read >= 1);
    CHECK(read < text->size());
  }
}

TEST_CASE("A file with bytes changed is read or refused, nothing else", "[measured]") {
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (const std::string* text : {&fixtures::kBenchmarkCsv, &fixtures::kBenchCsv,
                                  &fixtures::kBenchJson, &fixtures::kBenchJsonLines}) {
    for (int i = 0; i < 1000; ++i) {
      std::string mutated = *text;
      for (auto n = 1 + random() % 4; n > 0; --n)
        mutated[random() % mutated.size()] = char(random() % 256);
      const auto rows = parse_measurements(mutated, "m");
      refused += !rows;
      if (rows)
        for (const Measurement& m : *rows) CHECK(m.value >= 0);
    }
  }
  CHECK(refused > 100);
}
