// Pages: what of an answer goes into them, and that nothing of it is read as a script or a tag.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "report/html/escape.hpp"
#include "report/html/page.hpp"
#include "report/html/timeline.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kEvil = "</script><!--<script>alert(1)</script><img src=x onerror=alert(1)>";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// As web/page.js gives it back.
Json unpacked(const Json& value) {
  if (value.is_object() && value.contains("$table")) {
    Json out = Json::array();
    for (const Json& row : value.at("rows")) {
      Json object = Json::object();
      for (std::size_t i = 0; i < row.size(); ++i)
        object[value.at("$table").at(i).get<std::string>()] = unpacked(row.at(i));
      out.push_back(object);
    }
    return out;
  }
  Json out = value;
  if (out.is_structured())
    for (Json& item : out) item = unpacked(item);
  return out;
}

PageContents page_of(const std::string& name) {
  const Json json = {{"schema", "rigcast.capacity/1"}, {"model", name}, {"curve", Json::array()}};
  return {name, "rigcast capacity --model " + name, "1.2.3", json.dump(2), "text of " + name, {}};
}

TraceEvent event(const char* track, ActivityKind kind, double from, double to) {
  TraceEvent e;
  e.track = track;
  e.kind = kind;
  e.start_s = from;
  e.finish_s = to;
  return e;
}

}  // namespace

TEST_CASE("JSON in a page has no tag, and comes back as it was", "[html]") {
  const Json rows = {
      {{"a", 0.0}, {"b", "x < y"}}, {{"a", 1e-7}, {"b", kEvil}}, {{"a", 3}, {"b", ""}}};
  const Json json = {{"schema", "s/1"},
                     {"rows", rows},
                     {"two", Json::array({rows[0], rows[1]})},
                     {"mixed", Json::array({rows[0], 1, rows[2]})},
                     {"none", Json::array()}};
  const std::string embedded = embedded_json(json.dump(2));
  CHECK(embedded.find('<') == std::string::npos);
  CHECK(embedded.find('\n') == std::string::npos);
  CHECK(embedded.find("0.0") != std::string::npos);
  CHECK(count(embedded, "$table") == 1);
  CHECK(unpacked(Json::parse(embedded)) == json);
}

TEST_CASE("Objects in another order of keys are no table", "[html]") {
  const std::string text = R"([{"a":1,"b":2},{"b":1,"a":2},{"a":1,"b":2}])";
  CHECK(embedded_json(text) == text);
}

TEST_CASE("A page holds the answer, and its names are text", "[html]") {
  const auto page = html_page(page_of(kEvil));
  REQUIRE(page);
  CHECK(page->rfind("<!doctype html>", 0) == 0);
  CHECK(count(*page, "onerror") == 5);  // title, text, JSON, and both of what is beside it
  CHECK(count(*page, "<img") == 0);
  CHECK(count(*page, "<!--") == 0);
  CHECK(count(*page, "<script") == count(*page, "</script>"));
  // As many hashes as the policy's style and scripts; JSON is not run.
  CHECK(count(*page, "'sha256-") == 1 + count(*page, "<script>"));
  CHECK(count(*page, "default-src 'none'") == 1);
  CHECK(page->find("src=\"") == std::string::npos);
  CHECK(page->find("href=\"http") == std::string::npos);
  CHECK(page->find("text of &lt;/script&gt;") != std::string::npos);
}

TEST_CASE("The same answer is the same page", "[html]") {
  CHECK(*html_page(page_of("a")) == *html_page(page_of("a")));
  CHECK(*html_page(page_of("a")) != *html_page(page_of("b")));
}

TEST_CASE("An answer that no page shows is refused", "[html]") {
  PageContents page = page_of("a");
  page.json = R"({"schema": "rigcast.left-out/1"})";
  const auto refused = html_page(page);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "--html: no page shows rigcast.left-out/1");
}

TEST_CASE("Activities that follow one another are one span of a timeline", "[html]") {
  std::vector<TraceEvent> events = {event("SSD", ActivityKind::kReadFile, 0, 2)};
  for (int layer = 0; layer < 32; ++layer) {
    const double at = 2 + layer / 32.0;
    events.push_back(event("GPU 0", ActivityKind::kAttention, at, at + 1 / 64.0));
    events.push_back(event("GPU 0", ActivityKind::kFfn, at + 1 / 64.0, at + 1 / 32.0));
  }
  const Json timeline = Json::parse(timeline_json(events, "cold"));
  CHECK(timeline.at("start") == "cold");
  CHECK(timeline.at("end_s") == 3.0);
  REQUIRE(timeline.at("lanes").size() == 2);
  CHECK(timeline.at("lanes").at(0).at("spans") == Json::parse(R"([[0.0, 2.0, "read file"]])"));
  CHECK(timeline.at("lanes").at(1).at("spans") == Json::parse(R"([[2.0, 3.0, "compute"]])"));
}

TEST_CASE("A timeline of many activities stays short", "[html]") {
  std::vector<TraceEvent> events;
  for (int i = 0; i < 5000; ++i) {
    const auto kind = i % 2 ? ActivityKind::kFetchKv : ActivityKind::kFetchWeights;
    events.push_back(event("PCI-E to GPU 0", kind, i, i + 0.9));
    events.push_back(event("GPU 0", ActivityKind::kFfn, i + 0.1, i + 0.5));
  }
  const Json timeline = Json::parse(timeline_json(events, "warm"));
  // What is joined or left out to be drawn is no time in which a resource is busy.
  const std::map<std::string, double> busy = {{"PCI-E to GPU 0", 4500}, {"GPU 0", 2000}};
  std::size_t spans = 0;
  for (const Json& lane : timeline.at("lanes")) {
    spans += lane.at("spans").size();
    CHECK(lane.at("busy_s") == Approx(busy.at(lane.at("name").get<std::string>())).epsilon(1e-3));
  }
  CHECK(spans <= 400);
  CHECK(spans >= 2);
  CHECK(timeline_json({}, "warm").empty());
}

TEST_CASE("A step of the decode begins at 0, and has its own events alone", "[html]") {
  std::vector<TraceEvent> events = {event("GPU 0", ActivityKind::kFfn, 0, 5)};
  events.back().phase = Phase::kPrefill;
  for (const TokenCount token : {512, 513}) {
    events.push_back(event("CPU", ActivityKind::kFfn, double(token - 500), double(token) - 499.5));
    events.push_back(
        event("GPU 0", ActivityKind::kHead, double(token - 500) - 0.25, double(token) - 499));
    for (auto one = events.end() - 2; one != events.end(); ++one) one->token = token;
  }
  const auto step = decode_step_of(events);
  REQUIRE(step.size() == 2);
  CHECK(step[0].start_s == 0.25);
  CHECK(step[0].finish_s == 0.75);
  CHECK(step[1].start_s == 0);
  CHECK(step[1].finish_s == 1.25);
  CHECK(decode_step_of({events.front()}).empty());
}
