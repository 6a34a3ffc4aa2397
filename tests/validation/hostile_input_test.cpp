// Texts of 2 MB that are made to take long: each is read, or refused, in seconds, and none exhausts
// the stack.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/text/toml_reader.hpp"
#include "measurements/read_measurements.hpp"
#include "report/report_from_json.hpp"
#include "tests/hostile.hpp"
#include "validation/report_comparison.hpp"
#include "validation/validation_json.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

using Inputs = std::vector<std::pair<const char*, std::string>>;

std::string nested(const std::string& open, const std::string& close) {
  return many(open, kHostileBytes / 2) + many(close, kHostileBytes / 2);
}

Inputs hostile_toml() {
  const std::string long_key(kHostileBytes / 2, 'k');
  const auto half = [](const auto& make) { return counted(make, kHostileBytes / 2); };
  const auto deep = many("[", 200), closing = many("]", 200);
  return {
      {"one letter", many("a")},
      {"blanks", many(" ")},
      {"quotes", many("\"")},
      {"a text without end", "a = \"" + many("b")},
      {"lines of text without end", "a = '''" + many("b\n")},
      {"escapes", "a = \"" + many("\\u0041") + "\""},
      {"digits", "a = " + many("1")},
      {"a fraction", "a = 0." + many("1")},
      {"underscores", "a = 1" + many("_1")},
      {"brackets", "a = " + many("[")},
      {"lists in lists", "a = " + nested("[", "]")},
      {"tables in tables", "a = " + nested("{a=", "}")},
      {"many empty lists", "a = [" + many("[],") + "]"},
      {"many deep lists", "a = [" + many(deep + closing + ",") + "]"},
      {"many inline tables", "a = [" + many("{a=1},") + "]"},
      {"many keys", counted([](const std::string& i) { return "a" + i + "=1\n"; })},
      {"many tables", counted([](const std::string& i) { return "[a" + i + "]\n"; })},
      {"many tables of a list", many("[[a]]\n")},
      {"a list of lists of tables", many("[[a]]\n[[a.b]]\n[[a.b.c]]\n")},
      {"many dotted keys", counted([](const std::string& i) { return "a.b.c.d" + i + "=1\n"; })},
      {"the same key", many("a=1\n")},
      {"a long key", long_key + " = 1"},
      {"keys below a long one",
       "['" + long_key + "']\n" + half([](const std::string& i) { return "a" + i + "=1\n"; })},
      {"tables below a long one",
       "['" + long_key + "']\n" + half([](const std::string& i) { return "a" + i + ".b=1\n"; })},
      {"items below a long key", "['" + long_key + "']\na = [" + many("1,", 1'000'000) + "]"},
      {"dots", many("a.")},
      {"comments", many("#\n")},
      {"zeros", std::string(kHostileBytes, '\0')},
      {"no UTF-8", "a = '" + many("\xff") + "'"},
  };
}

Inputs hostile_tables() {
  const std::string head = "gpu,model,quant,metric,value\n";
  return {
      {"one line of commas", many(",")},
      {"one letter", many("a")},
      {"quotes", many("\"")},
      {"a quoted field without end", "\"" + many("a\n")},
      {"empty lines", many("\n")},
      {"lines of one letter", head + many("a\n")},
      {"many columns", head.substr(0, head.size() - 1) + many(",c", kHostileBytes / 2) + "\n" +
                           many(",", kHostileBytes / 2)},
      {"many rows", head + many("g,m,q,tg_tps,1\n")},
      {"long fields", head + "g," + many("Q4_K ") + ",q,tg_tps,1\n"},
      {"a long number", head + "g,m,q,tg_tps," + many("1")},
      {"quoted quotes", head + "\"" + many("\"\"") + "\",m,q,tg_tps,1"},
  };
}

const std::string kRun = R"({"schema":"rigcast.report/1","origin":"measured",)";

Inputs hostile_json() {
  const std::string row = R"({"model_type":"m 7B Q4_0","n_prompt":1,"n_gen":0,"avg_ts":1})";
  return {
      {"lists in lists", nested("[", "]")},
      {"open lists", many("[")},
      {"objects in objects", many("{\"a\":", kHostileBytes / 2) + "1" + many("}", 330'000)},
      {"a list of lists", "[" + many("[],") + "[]]"},
      {"many runs", "[" + many(row + ",") + row + "]"},
      {"many lines", many(row + "\n")},
      {"many keys",
       "{" + counted([](const std::string& i) { return "\"" + i + "\":1,"; }) + "\"a\":1}"},
      {"the same key", "{" + many("\"a\":1,") + "\"a\":1}"},
      {"a long number", "[" + many("1") + "]"},
      {"a text without end", "[\"" + many("a")},
      {"escapes", "[\"" + many("\\u0041") + "\"]"},
      {"a report of lists in lists", kRun + "\"a\":" + nested("[", "]") + "}"},
      {"positions of lists in lists",
       kRun + R"("decode":{"by_position":[)" + nested("[", "]") + "]}}"},
      {"many positions", kRun + R"("decode":{"by_position":[)" + many("{\"tokens\":1},") + "1]}}"},
      {"many activities", "[" + many(R"({"phase":"decode","kind":"ffn","measured_s":1},)") + "1]"},
  };
}

Report forecast() {
  Report report;
  auto scenario = std::make_shared<Scenario>();
  report.scenario = scenario;
  report.decode_tokens_per_s = 10;
  report.by_position.resize(64);
  for (std::size_t i = 0; i < 64; ++i) report.by_position[i].tokens = TokenCount(i);
  return report;
}

}  // namespace

TEST_CASE("TOML of 2 MB takes seconds, whatever is in it", "[toml][hostile]") {
  for (const auto& [what, text] : hostile_toml()) {
    INFO(what);
    check_quick([&, &text = text] {
      const auto document = TomlDocument::parse(text, "t.toml");
      if (!document) {
        CHECK(document.error().text().size() < 2000);
        return;
      }
      const TomlTable root = document->root();
      root.finish();
      CHECK(document->error().has_value() == !root.keys().empty());
      TomlDocument copy = document->clone();
      copy.merge_defaults(*document);
      CHECK(copy.text().size() < 64 * kHostileBytes);
    });
  }
}

TEST_CASE("Tables of 2 MB take seconds, whatever is in them", "[measured][hostile]") {
  for (const auto& [what, text] : hostile_tables()) {
    INFO(what);
    check_quick([&, &text = text] {
      std::vector<std::string> skipped;
      const auto runs = parse_measurements(text, "t.csv", &skipped);
      CHECK((runs.ok() || !runs.error().message.empty()));
    });
  }
}

TEST_CASE("JSON of 2 MB takes seconds, whatever is in it", "[measured][hostile]") {
  const Report predicted = forecast();
  for (const auto& [what, text] : hostile_json()) {
    INFO(what);
    check_quick([&, &text = text] {
      const auto runs = parse_measurements(text, "t.json");
      CHECK((runs.ok() || !runs.error().message.empty()));
      const auto activities = activities_from_json(text);
      const auto report = report_from_json(text, predicted.scenario);
      if (!report) {
        CHECK(report.error().message.size() < 200);
        return;
      }
      CHECK(text.starts_with(kRun));
      CHECK(positions_of(*report).size() <= kHostileBytes);
      CHECK(compare_reports("t", predicted, *report, activities).size() <= kHostileBytes);
    });
  }
}
