// Summaries by examples worked out by hand, and the forms in which a validation is printed.

#include "validation/validation.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "validation/validation_json.hpp"
#include "validation/validation_text.hpp"

using namespace rigcast;
using fixtures::contains;
using Json = nlohmann::ordered_json;

namespace {

ValidationRow row(const std::string& chip, double predicted, double measured,
                  Regime regime = Regime::kResident, const std::string& metric = "tg_tps") {
  ValidationRow r;
  r.id = chip + "/" + metric;
  r.rig = "NVIDIA " + chip;
  r.what = "a-model Q4_K_M";
  r.chip = chip;
  r.regime = regime;
  r.metric = metric;
  r.predicted = predicted;
  r.measured = measured;
  return r;
}

ValidationRow with(ValidationRow r, double lo, double hi) {
  r.interval = Interval{lo, hi};
  return r;
}

const ValidationSummary& find(const std::vector<ValidationSummary>& all, const std::string& regime,
                              const std::string& metric = "tg_tps") {
  for (const ValidationSummary& s : all)
    if (s.metric == metric && name(s.group) == regime) return s;
  FAIL("no line for " << metric << ", " << regime);
  return all.front();
}

Validation small() {
  Validation v;
  v.against = "runs.csv";
  v.rows = {with(row("A1", 90, 100), 80, 110), with(row("A2", 30, 20, Regime::kSplit), 25, 36),
            row("A1", 6, 8, Regime::kResident, "vram_gb")};
  v.rows[1].deep = true;
  v.summary = summarize(v.rows);
  v.skipped = {{"X1", "no CPU named \"abc\""}, {"X2", "no CPU named \"def\""}, {"X3", "too old"}};
  return v;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

}  // namespace

TEST_CASE("The error is what the forecast is above the measurement", "[validation]") {
  CHECK(row("a", 90, 100).error() == Approx(-0.1));
  CHECK(row("a", 150, 100).error() == Approx(0.5));
}

TEST_CASE("It is the measurement that is inside, ends included", "[validation]") {
  CHECK_FALSE(row("a", 1, 1).inside());
  CHECK(with(row("a", 90, 100), 80, 100).inside() == true);
  CHECK(with(row("a", 90, 80), 80, 100).inside() == true);
  CHECK(with(row("a", 90, 101), 80, 100).inside() == false);
  CHECK(with(row("a", 90, 79), 80, 100).inside() == false);
}

TEST_CASE("Chips count alike, however many rows they have", "[validation]") {
  // Three rows of one chip at +10 %, one each of two others at -40 % and +100 %.
  const std::vector<ValidationRow> rows = {row("many", 11, 10), row("many", 22, 20),
                                           row("many", 33, 30), row("two", 6, 10),
                                           row("three", 20, 10)};
  const auto s = find(summarize(rows), "resident");
  CHECK(s.n == 5);
  CHECK(s.chips == 3);
  // Of weights 1/3 each, half is reached with the second: by rows it would be 10 %.
  CHECK(s.median_abs_error == Approx(0.4));
  CHECK(s.p90_abs_error == Approx(1.0));
  CHECK(s.bias == Approx((0.1 - 0.4 + 1.0) / 3));
}

TEST_CASE("A quantile is the smallest value whose cumulated weight reaches the share",
          "[validation]") {
  // One chip with errors of 1 to 10 %: the fifth reaches a half exactly, the ninth nine tenths.
  std::vector<ValidationRow> rows;
  for (int i = 10; i >= 1; --i) rows.push_back(row("a", 100 + i, 100));
  const auto ten = find(summarize(rows), "all");
  CHECK(ten.median_abs_error == Approx(0.05));
  CHECK(ten.p90_abs_error == Approx(0.09));
  // A second chip with one row of 50 % has half of the weight: the ten rows reach the other half.
  rows.push_back(row("b", 50, 100));
  const auto both = find(summarize(rows), "all");
  CHECK(both.median_abs_error == Approx(0.10));
  CHECK(both.p90_abs_error == Approx(0.50));
  CHECK(both.bias == Approx((0.055 - 0.50) / 2));
}

TEST_CASE("Coverage counts chips alike too, and only rows that have an interval", "[validation]") {
  std::vector<ValidationRow> rows = {with(row("a", 10, 10), 9, 11), with(row("a", 10, 20), 9, 11),
                                     with(row("a", 10, 30), 9, 11), with(row("a", 10, 40), 9, 11),
                                     with(row("b", 10, 10), 9, 11)};
  CHECK(find(summarize(rows), "resident").coverage == Approx((0.25 + 1.0) / 2));
  rows.push_back(row("c", 10, 10));
  CHECK(find(summarize(rows), "resident").coverage == Approx((0.25 + 1.0) / 2));
  CHECK(std::isnan(find(summarize(std::vector{row("a", 1, 1)}), "all").coverage));
}

TEST_CASE("Lines come by metric, then regime, then what cuts across regimes", "[validation]") {
  std::vector<ValidationRow> rows = {
      row("a", 1, 1, Regime::kResident, "vram_gb"), row("a", 1, 1, Regime::kResident),
      row("b", 1, 1, Regime::kCpuOnly), row("c", 1, 1, Regime::kResident, "pp_tps")};
  rows[1].deep = true;
  rows[2].quantized_kv = true;
  std::string order;
  for (const ValidationSummary& s : summarize(rows))
    order += s.metric + " " + std::string(name(s.group)) + "\n";
  CHECK(order ==
        "tg_tps CPU only\ntg_tps resident\ntg_tps deep context\ntg_tps quantized KV\ntg_tps all\n"
        "pp_tps resident\npp_tps all\nvram_gb resident\nvram_gb all\n");
  CHECK(find(summarize(rows), "all").n == 2);
  CHECK(find(summarize(rows), "deep context").n == 1);
  CHECK(summarize(std::vector<ValidationRow>{}).empty());
}

TEST_CASE("Every metric has its figure in the report", "[validation]") {
  auto scenario = fixtures::scenario("[rig]\ngpu = ['rtx-3090']\n[model]\nname = 'llama-3.2-1b'\n");
  REQUIRE(scenario.ok());
  scenario->workload.start = Start::kResident;
  Report r;
  r.scenario = std::make_shared<const Scenario>(*scenario);
  r.tpot.mean = Seconds{0.02};
  r.tokens_per_s_interval = Interval{40, 60};
  r.prefill_tokens_per_s = 1000;
  r.prefill_interval = Interval{900, 1100};
  r.resident = TtftBreakdown{{0.0}, {0.1}, {0.2}, {0.3}, {0.4}};
  r.warm = TtftBreakdown{{7.0}, {0.1}, {0.2}, {0.3}, {0.4}};
  r.ttft_interval = Interval{0.5, 2};
  DeviceMemory gpu, other, host;
  gpu.tier = other.tier = Tier::kVram;
  gpu.weights = 4_GB;
  gpu.page_cache = 100_GB;  // gives way
  other.kv = 2_GB;
  host.weights = 50_GB;
  r.memory.devices = {gpu, other, host};

  CHECK(figure_of(r, Metric::kTg)->value == Approx(50));
  CHECK(figure_of(r, Metric::kTg)->interval->lo == 40);
  CHECK(figure_of(r, Metric::kPp)->value == 1000);
  CHECK(figure_of(r, Metric::kPp)->interval->hi == 1100);
  CHECK(figure_of(r, Metric::kTtft)->value == Approx(1.0));
  CHECK(figure_of(r, Metric::kTtft)->interval->hi == 2);
  CHECK(figure_of(r, Metric::kLoad)->value == Approx(7.0));
  CHECK_FALSE(figure_of(r, Metric::kLoad)->interval);
  CHECK(figure_of(r, Metric::kVram)->value == Approx(6.0));
  CHECK_FALSE(figure_of(r, Metric::kVram)->interval);

  r.warm.reset();
  r.tpot.mean = Seconds{0};
  r.prefill_tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(figure_of(r, Metric::kLoad));
  CHECK_FALSE(figure_of(r, Metric::kTg));
  CHECK_FALSE(figure_of(r, Metric::kPp));
}

TEST_CASE("A limit is a metric and a share", "[validation]") {
  const auto one = parse_error_limit("tg_tps=0.2");
  REQUIRE(one.ok());
  CHECK(one->metric == "tg_tps");
  CHECK(one->share == 0.2);
  const auto all = parse_error_limit("median_abs_error=1");
  REQUIRE(all.ok());
  CHECK(all->metric.empty());
  for (const char* text : {"", "tg_tps", "tg=0.2", "=0.2", " tg_tps=0.2"}) {
    INFO(text);
    const auto bad = parse_error_limit(text);
    REQUIRE_FALSE(bad.ok());
    for (const char* name : {"tg_tps", "pp_tps", "ttft_s", "load_s", "vram_gb", "median_abs_error"})
      CHECK(contains(bad.error().hint, name));
  }
  for (const char* text : {"tg_tps=", "tg_tps=x", "tg_tps=0.2x", "tg_tps=20", "tg_tps=-0.1",
                           "tg_tps=nan", "tg_tps=20%", "tg_tps=0.2=0.3"}) {
    INFO(text);
    const auto bad = parse_error_limit(text);
    REQUIRE_FALSE(bad.ok());
    CHECK(contains(bad.error().message, "share"));
    CHECK(bad.error().hint == "tg_tps=0.2 is 20 %");
  }
}

TEST_CASE("A limit holds for every regime, and for nothing else", "[validation]") {
  // 10 % off where resident, 50 % where split; deep context and all are no regimes.
  const Validation v = small();
  const auto over = [&](std::vector<ErrorLimit> limits) { return exceeded(v.summary, limits); };
  CHECK(over({}).empty());
  CHECK(over({{"tg_tps", 0.5}}).empty());
  CHECK(over({{"tg_tps", 0.2}}) ==
        std::vector<std::string>{"tg_tps, layer split: the median error of 50.0 % is above 20 %"});
  CHECK(over({{"tg_tps", 0.05}}).size() == 2);
  CHECK(over({{"", 0.05}}).size() == 3);
  CHECK(over({{"", 0.3}, {"vram_gb", 0.2}}).size() == 2);
  CHECK(over({{"pp_tps", 0.9}}) ==
        std::vector<std::string>{"pp_tps: there is no row to hold against the limit"});
}

TEST_CASE("The JSON of a validation has the keys of the contract, and no others", "[validation]") {
  const Json json = Json::parse(to_json(small()));
  CHECK(keys(json) == std::vector<std::string>{"schema", "rows", "summary", "activities",
                                               "traced_slowdown", "skipped", "notes"});
  CHECK(json.at("schema") == "rigcast.validation/1");
  REQUIRE(json.at("rows").size() == 3);
  for (const Json& r : json.at("rows"))
    CHECK(keys(r) == std::vector<std::string>{"id", "rig", "regime", "metric", "predicted",
                                              "measured", "error", "interval", "inside",
                                              "counted"});
  const Json& first = json.at("rows").at(0);
  CHECK(first.at("regime") == "resident");
  CHECK(first.at("error").get<double>() == Approx(-0.1));
  CHECK(first.at("interval") == Json::array({80.0, 110.0}));
  CHECK(first.at("inside") == true);
  CHECK(json.at("rows").at(1).at("inside") == false);
  CHECK(json.at("rows").at(2).at("interval").is_null());
  CHECK(json.at("rows").at(2).at("inside").is_null());
  for (const Json& s : json.at("summary"))
    CHECK(keys(s) == std::vector<std::string>{"metric", "regime", "n", "chips", "median_abs_error",
                                              "p90_abs_error", "bias", "coverage"});
  CHECK(json.at("summary").back().at("metric") == "vram_gb");
  CHECK(json.at("summary").back().at("coverage").is_null());
  CHECK(json.at("skipped").at(2) == Json({{"id", "X3"}, {"reason", "too old"}}));
}

TEST_CASE("Names that are no UTF-8 and figures that are no numbers leave JSON whole",
          "[validation]") {
  Validation v = small();
  v.rows[0].rig = "bad \xff byte";
  v.rows[0].predicted = std::numeric_limits<double>::infinity();
  const Json json = Json::parse(to_json(v));
  CHECK(json.at("rows").at(0).at("predicted").is_null());
}

TEST_CASE("CSV has a line a row, and quotes what needs it", "[validation]") {
  Validation v = small();
  v.rows[0].rig = "GPU, \"CPU\"";
  CHECK(to_csv(v) ==
        "id,rig,chip,what,regime,deep,quantized_kv,ram_known,metric,predicted,measured,error,"
        "interval_lo,interval_hi,inside,counted\n"
        "A1/tg_tps,\"GPU, \"\"CPU\"\"\",A1,a-model Q4_K_M,resident,0,0,1,tg_tps,90,100,"
        "-0.09999999999999998,80,110,1,1\n"
        "A2/tg_tps,NVIDIA A2,A2,a-model Q4_K_M,layer split,1,0,1,tg_tps,30,20,0.5,25,36,0,1\n"
        "A1/vram_gb,NVIDIA A1,A1,a-model Q4_K_M,resident,0,0,1,vram_gb,6,8,-0.25,,,,1\n");
}

TEST_CASE("The text of a validation, to the letter", "[validation]") {
  CHECK(to_text(small(), {false, 100}) ==
        "runs.csv" + std::string(72, ' ') + "3 of 6 runs forecast\n" + R"(
  tg_tps, tokens generated per second
  regime              chips     rows    median       p90      bias   inside 80 %
  layer split             1        1    50.0 %    50.0 %   +50.0 %           0 %
  resident                1        1    10.0 %    10.0 %   -10.0 %         100 %
  deep context            1        1    50.0 %    50.0 %   +50.0 %           0 %
  all                     2        2    10.0 %    50.0 %   +20.0 %          50 %

  vram_gb, GB of GPU memory
  regime              chips     rows    median       p90      bias   inside 80 %
  resident                1        1    25.0 %    25.0 %   -25.0 %             -
  all                     1        1    25.0 %    25.0 %   -25.0 %             -

  error = forecast / measured - 1; chips weigh alike, however many rows they have

  farthest off, as a factor
  id         rig                      model                    metric    measured forecast    error
  A2/tg_tps  A2                       a-model Q4_K_M           tg_tps        20.0     30.0    +50 %
  A1/vram_gb A1                       a-model Q4_K_M           vram_gb       8.00     6.00    -25 %
  A1/tg_tps  A1                       a-model Q4_K_M           tg_tps         100     90.0    -10 %

  skipped 3
       2  no CPU named
       1  too old
)");
}

TEST_CASE("Text stays within its width and shows ten rows, whatever names hold", "[validation]") {
  Validation v = small();
  for (int i = 0; i < 40; ++i) {
    ValidationRow r = row("chip", 1e9 * (i + 1), 1e-3);
    r.id = "a/very/long/path/of/runs-größe.jsonl:" + std::to_string(1000 + i);
    r.rig = "a rig with \x1b[31m" + std::string(200, 'x');
    r.what = std::string(200, 'm');
    v.rows.push_back(r);
    v.skipped.push_back({"id", "reason " + std::to_string(i)});
  }
  v.summary = summarize(v.rows);
  for (const int width : {60, 100, 200}) {
    std::istringstream lines(to_text(v, {false, width}));
    int worst = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto columns =
          std::count_if(line.begin(), line.end(), [](char c) { return (c & '\xC0') != '\x80'; });
      INFO(line);
      CHECK(columns <= width);
      worst += contains(line, "…") && contains(line, ":10");
    }
    CHECK(worst == 10);
  }
  CHECK_FALSE(contains(to_text(v, {false, 100}), "\x1b"));
  CHECK(contains(to_text(v, {true, 100}), "\x1b[1m"));
}

TEST_CASE("A validation without rows still says why", "[validation]") {
  Validation v;
  v.against = "runs.csv";
  v.skipped = {{"X1", "too old"}};
  const std::string text = to_text(v, {false, 100});
  CHECK(contains(text, "0 of 1 run forecast"));
  CHECK(contains(text, "too old"));
  CHECK_FALSE(contains(text, "farthest"));
  CHECK(Json::parse(to_json(v)).at("rows") == Json::array());
}
