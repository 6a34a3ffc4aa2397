#include "cli/ui/page_files.hpp"

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

#include "report/html/assets.hpp"

namespace rigcast::cli {
namespace {

// In the order in which they are read; app.js starts the page.
constexpr std::string_view kScripts[] = {"vendor/d3.min.js",
                                         "text.js",
                                         "dom.js",
                                         "table.js",
                                         "charts/frame.js",
                                         "charts/curve.js",
                                         "charts/lanes.js",
                                         "charts/scatter.js",
                                         "charts/dumbbells.js",
                                         "panels/memory.js",
                                         "panels/time.js",
                                         "panels/speed.js",
                                         "panels/evidence.js",
                                         "panels/serving.js",
                                         "panels/feel.js",
                                         "panels/hours.js",
                                         "views/report.js",
                                         "views/plan.js",
                                         "views/comparison.js",
                                         "views/capacity.js",
                                         "views/validation.js",
                                         "app/address.js",
                                         "app/fields.js",
                                         "app/forms.js",
                                         "app/ask.js",
                                         "app/check.js",
                                         "app/app.js"};

template <std::size_t n>
PageFile joined(std::string path, std::string type, const std::string_view (&names)[n]) {
  PageFile out{std::move(path), std::move(type), {}, {}};
  std::string hashes;
  for (const std::string_view name : names) {
    out.text.append(asset(name).text).append("\n");
    hashes.append(asset(name).sha256);
  }
  out.tag = fmt::format("{:016x}", std::hash<std::string>{}(hashes));
  return out;
}

std::string index_text(const PageFile& style, const PageFile& script) {
  const auto screen = [](std::string_view id, std::string_view name) {
    return fmt::format("<a id=\"to-{0}\" href=\"#{0}\">{1}</a>", id, name);
  };
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>rigcast</title>\n<link rel=\"icon\" href=\"data:,\">\n"
      "<link rel=\"stylesheet\" href=\"{}?v={}\">\n</head>\n<body>\n"
      "<a class=\"skip\" id=\"skip\" href=\"#answer\">Skip to the answer</a>\n"
      "<header class=\"head wide\"><p><strong>rigcast</strong></p>\n"
      "<nav aria-label=\"Screens\">{}{}{}{}{}</nav>\n"
      "<p class=\"end\"><span class=\"quiet\" id=\"took\"></span>\n"
      "<button type=\"button\" id=\"theme\">Light or dark</button>\n"
      "<button type=\"button\" id=\"share\">Share</button></p></header>\n"
      "<main class=\"asking\">\n<section id=\"question\" class=\"card\" aria-label=\"Question\">\n"
      "<details id=\"folded\" open><summary>The question</summary>\n"
      "<form id=\"ask\"></form></details></section>\n"
      "<div id=\"answer\" class=\"grid\" tabindex=\"-1\"></div>\n"
      "<p id=\"told\" class=\"told\" aria-live=\"polite\"></p>\n"
      "<noscript>This page needs JavaScript. In a terminal: rigcast simulate --help</noscript>\n"
      "</main>\n<footer class=\"foot wide\"><p>Served by rigcast {} on this computer; nothing "
      "leaves it.</p></footer>\n<script src=\"{}?v={}\"></script>\n</body>\n</html>\n",
      style.path, style.tag, screen("forecast", "Forecast"), screen("plan", "Plan"),
      screen("compare", "Compare"), screen("users", "Users"), screen("check", "Check"),
      RIGCAST_VERSION, script.path, script.tag);
}

}  // namespace

std::vector<PageFile> page_files() {
  constexpr std::string_view kStyles[] = {"style.css", "app/app.css"};
  PageFile style = joined("/style.css", "text/css; charset=utf-8", kStyles);
  PageFile script = joined("/app.js", "text/javascript; charset=utf-8", kScripts);
  PageFile index{"/", "text/html; charset=utf-8", index_text(style, script), {}};
  index.tag = fmt::format("{:016x}", std::hash<std::string>{}(index.text));
  return {std::move(index), std::move(style), std::move(script)};
}

}  // namespace rigcast::cli
