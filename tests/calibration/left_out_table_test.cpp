// The table of left-out forecasts, read back as others will read it.
#include "calibration/left_out_table.hpp"

#include <cmath>

#include "core/text/csv.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

ResolvedRun run_on_an_rtx_3090() {
  Measurement m;
  m.id = "A,1";
  m.gpu = "RTX 3090";
  m.gpu_count = 1;
  m.cpu = "Ryzen 9 7950X";
  m.model = "Llama-3.1-8B";
  m.quant = "Q4_K_M";
  m.date = "2025-10";
  m.tool = "llama-bench";
  m.depth = 8192;
  m.generated = 128;
  m.value = 120.5;
  auto run = Resolver(fixtures::catalogue()).resolve(m);
  if (!run) FAIL(run.error().text());
  return *std::move(run);
}

std::vector<std::string> texts(const CsvRow& row) {
  std::vector<std::string> out;
  for (const CsvField& field : row) out.push_back(field.text);
  return out;
}

}  // namespace

TEST_CASE("A fitted row is a line with both forecasts in the metric's unit", "[calibration]") {
  ResolvedRun run = run_on_an_rtx_3090();
  run.rig = "RTX 3090 \"FE\", Ryzen";
  std::vector<Sample> samples;
  samples.emplace_back(run, run.scenario->runtime);
  const std::string table = left_out_table(samples, {{}, {std::log(2.0)}, {std::log(1.0 / 3.0)}});
  const auto rows = parse_csv(table, "table");
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(texts((*rows)[0]) == std::vector<std::string>{"id", "chip", "rig", "model", "quant",
                                                      "regime", "deep", "quantized_kv", "ram_known",
                                                      "metric", "measured", "fitted", "left_out"});
  CHECK(texts((*rows)[1]) == std::vector<std::string>{"A,1", run.chip, "RTX 3090 \"FE\", Ryzen",
                                                      "llama-3.1-8b", "Q4_K_M", "resident", "1",
                                                      "0", run.ram_known ? "1" : "0", "tg_tps",
                                                      "120.5", "241", "40.1667"});
}
