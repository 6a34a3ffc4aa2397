#include "report/html/page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "report/html/assets.hpp"
#include "report/html/escape.hpp"

namespace rigcast {
namespace {

using Names = std::vector<std::string_view>;

// What draws each schema, in the order in which scripts are read; page.js comes last.
struct View {
  std::string_view schema;
  Names scripts;
};

Names report_panels() {
  return {"charts/curve.js", "charts/lanes.js",    "panels/memory.js",  "panels/time.js",
          "panels/speed.js", "panels/evidence.js", "panels/serving.js", "panels/feel.js",
          "panels/hours.js", "views/report.js"};
}

const std::vector<View>& views() {
  static const std::vector<View> all = [] {
    Names plan = {"table.js", "charts/scatter.js"};
    for (const std::string_view name : report_panels()) plan.push_back(name);
    plan.push_back("views/plan.js");
    const Names comparison = {"table.js",          "charts/curve.js",
                              "charts/scatter.js", "charts/dumbbells.js",
                              "panels/speed.js",   "views/comparison.js"};
    const Names capacity = {"charts/curve.js", "panels/serving.js", "views/capacity.js"};
    const Names validation = {"table.js", "charts/scatter.js", "views/validation.js"};
    const Names sweep = {"table.js", "charts/curve.js", "views/sweep.js"};
    const Names loads = {"table.js", "charts/scatter.js", "views/loads.js"};
    return std::vector<View>{
        {"rigcast.report/1", report_panels()}, {"rigcast.plan/1", plan},
        {"rigcast.comparison/1", comparison},  {"rigcast.capacity/1", capacity},
        {"rigcast.validation/1", validation},  {"rigcast.sweep/1", sweep},
        {"rigcast.capacities/1", loads},       {"rigcast.load_plan/1", loads},
        {"rigcast.load_comparison/1", loads},  {"rigcast.load_comparisons/1", loads},
    };
  }();
  return all;
}

// The first value of the first key "schema"; "": there is none.
std::string_view schema_of(std::string_view json) {
  constexpr std::string_view kKey = "\"schema\":\"";
  const auto at = json.find(kKey);
  if (at == std::string_view::npos) return {};
  const auto begin = at + kKey.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// A hash of hexadecimal digits, as a policy names it.
std::string policy_hash(std::string_view hex) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bits;  // a character for each
  for (const char c : hex)
    for (int bit = 3; bit >= 0; --bit) bits += (digit(c) >> bit) & 1 ? '1' : '0';
  std::string out;
  for (std::size_t i = 0; i < bits.size(); i += 6) {
    int value = 0;
    for (std::size_t bit = i; bit < i + 6; ++bit)
      value = 2 * value + (bit < bits.size() && bits[bit] == '1' ? 1 : 0);
    out += kDigits[value];
  }
  out.append((4 - out.size() % 4) % 4, '=');
  return fmt::format("'sha256-{}'", out);
}

std::string policy(const Asset& style, const std::vector<const Asset*>& scripts) {
  std::string hashes;
  for (const Asset* script : scripts) hashes += " " + policy_hash(script->sha256);
  return fmt::format(
      "default-src 'none'; style-src {}; script-src{}; img-src data:; base-uri 'none'; "
      "form-action 'none'",
      policy_hash(style.sha256), hashes);
}

std::string about_json(const PageContents& page) {
  const auto text = [](const std::string& value) {
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return fmt::format(R"({{"title":{},"command":{},"version":{},"timelines":[{}]}})",
                     text(page.title), text(page.command), text(page.version),
                     fmt::join(page.timelines, ","));
}

std::vector<const Asset*> scripts_of(const View& view) {
  std::vector<const Asset*> out;
  const auto add = [&](std::string_view name) { out.push_back(&asset(name)); };
  for (const char* name : {"vendor/d3.min.js", "text.js", "dom.js", "charts/frame.js"}) add(name);
  for (const std::string_view name : view.scripts) add(name);
  add("page.js");
  return out;
}

}  // namespace

Result<std::string> html_page(const PageContents& page) {
  const std::string answer = embedded_json(page.json);
  const std::string_view schema = schema_of(answer);
  const View* view = nullptr;
  for (const View& v : views())
    if (v.schema == schema) view = &v;
  if (!view)
    return bad_input(fmt::format("--html: no page shows {}", schema), "--format json prints it");
  const Asset& style = asset("style.css");
  const std::vector<const Asset*> scripts = scripts_of(*view);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"rigcast {}\">\n<title>{} · rigcast</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>{}</style>\n</head>\n<body>\n<main>\n"
      "<pre class=\"screen\" id=\"screen\">{}</pre>\n</main>\n"
      "<footer class=\"foot\"><p>Made by rigcast {}. This file holds all that it shows, and "
      "asks for nothing else.</p></footer>\n",
      policy(style, scripts), html_text(page.version), html_text(page.title), style.text,
      html_text(page.text), html_text(page.version));
  out += fmt::format("<script type=\"application/json\" id=\"answer\">{}</script>\n", answer);
  out += fmt::format("<script type=\"application/json\" id=\"about\">{}</script>\n",
                     embedded_json(about_json(page)));
  for (const Asset* script : scripts) out += fmt::format("<script>{}</script>\n", script->text);
  out += "</body>\n</html>\n";
  return out;
}

}  // namespace rigcast
