// The table of left-out forecasts, read back as others and as the program read it.
#include "calibration/left_out_rows.hpp"

#include <cmath>
#include <fstream>

#include "core/text/csv.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

ResolvedRun run_on_an_rtx_3090() {
  Measurement m;
  m.id = "A,1";
  m.source = "a thread";
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

Result<std::vector<LeftOutRow>> read(const std::string& text) {
  const test::Folder folder;
  std::ofstream(folder / "table.csv") << text;
  return read_left_out(folder / "table.csv");
}

}  // namespace

TEST_CASE("A fitted row is a line with both forecasts in the metric's unit", "[calibration]") {
  ResolvedRun run = run_on_an_rtx_3090();
  run.rig = "RTX 3090 \"FE\", Ryzen";
  std::vector<Sample> samples;
  samples.emplace_back(run, run.scenario->runtime);
  const std::string table =
      to_csv(left_out_rows(samples, {{}, {std::log(2.0)}, {std::log(1.0 / 3.0)}, {std::log(4.0)}}));
  const auto rows = parse_csv(table, "table");
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(texts((*rows)[0]) ==
        std::vector<std::string>{"id", "chip", "rig", "model", "quant", "regime", "deep",
                                 "quantized_kv", "ram_known", "metric", "measured", "fitted",
                                 "left_out", "family", "family_left_out", "source", "year"});
  CHECK(texts((*rows)[1]) == std::vector<std::string>{"A,1", run.chip, "RTX 3090 \"FE\", Ryzen",
                                                      "llama-3.1-8b", "Q4_K_M", "resident", "1",
                                                      "0", run.ram_known ? "1" : "0", "tg_tps",
                                                      "120.5", "241", "40.1667", "ampere", "482",
                                                      "a thread", "2025"});
}

TEST_CASE("Dense runs of one machine are no rows of the table", "[calibration]") {
  ResolvedRun run = run_on_an_rtx_3090();
  run.dense = true;
  std::vector<Sample> samples;
  samples.emplace_back(run, run.scenario->runtime);
  CHECK(left_out_rows(samples, {{}, {0.1}, {0.0}, {0.0}}).empty());
}

TEST_CASE("A table of left-out rows is read back as it was written", "[calibration]") {
  LeftOutRow row{"A,1",          "rtx-3090",    "RTX 3090",    "llama",  "Q4_0",
                 Regime::kSplit, true,          false,         true,     SpeedMetric::kPrefill,
                 120.5,          std::log(2.0), std::log(0.5), "ampere", std::log(4.0),
                 "a thread",     2025};
  const auto rows = read(to_csv(std::vector{row}));
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  const LeftOutRow& back = rows->front();
  CHECK(back.id == row.id);
  CHECK(back.regime == row.regime);
  CHECK(back.metric == row.metric);
  CHECK(back.deep);
  CHECK_FALSE(back.quantized_kv);
  CHECK(back.fitted_speed() == Approx(241));
  CHECK(back.left_out_speed() == Approx(60.25));
  CHECK(back.family == "ampere");
  CHECK(back.family_left_out_speed() == Approx(482));
  CHECK(back.source == "a thread");
  CHECK(back.year == 2025);
}

TEST_CASE("A table by family has families in the place of chips", "[calibration]") {
  LeftOutRow row;
  row.chip = "rtx-3090";
  row.left_out = 0.1;
  row.family = "ampere";
  row.family_left_out = -0.4;
  const auto rows = by_family(std::vector{row});
  REQUIRE(rows.size() == 1);
  CHECK(rows.front().chip == "ampere");
  CHECK(rows.front().left_out == -0.4);
}

TEST_CASE("What is no table of left-out rows is refused where it stands", "[calibration]") {
  LeftOutRow row;
  row.measured = 1;
  const std::string good = to_csv(std::vector{row});
  CHECK(read(good));
  const std::string header = good.substr(0, good.find('\n') + 1);
  CHECK(read(header + "a,b\n").error().where->line == 2);
  CHECK_FALSE(read("id,chip\n"));
  CHECK_FALSE(read(""));
  // A speed that is no number would be an error of nothing.
  CHECK_FALSE(read(header + "a,c,r,m,q,resident,0,0,0,tg_tps,1,1,nan,f,1,s,0\n"));
  CHECK_FALSE(read(header + "a,c,r,m,q,resident,0,0,0,tg_tps,1,1,1,f,nan,s,0\n"));
  CHECK_FALSE(read(header + "a,c,r,m,q,elsewhere,0,0,0,tg_tps,1,1,1,f,1,s,0\n"));
  CHECK(read(header + "a,c,r,m,q,resident,0,0,0,tg_tps,1,1,1,f,1,s,0\n"));
  CHECK_FALSE(read(header + "a,c,r,m,q,resident,0,0,0,tg_tps,1,1,1,f,1,s,soon\n"));
}
