#include "cli/html/report_answer.hpp"

#include <nlohmann/json.hpp>

#include "report/report_csv.hpp"
#include "report/report_json.hpp"
#include "report/report_text.hpp"
#include "report/report_words.hpp"

namespace rigcast::cli {

Answer answer_of(const Report& report) {
  const auto render = [&report](const OutputOptions& output) -> std::string {
    switch (output.format) {
      case Format::kText: return to_text(report, screen_style(output));
      case Format::kJson: return to_json(report);
      case Format::kCsv: return to_csv(report);
    }
    return {};
  };
  return {title_text(report), render};
}

void tell_timelines(Answer& answer) {
  answer.render = [render = answer.render,
                   timelines = answer.timelines](const OutputOptions& output) {
    const std::string text = render(output);
    if (output.format != Format::kJson) return text;
    auto json = nlohmann::ordered_json::parse(text);
    auto& list = json["timelines"] = nlohmann::ordered_json::array();
    for (const std::string& one : timelines) list.push_back(nlohmann::ordered_json::parse(one));
    return json.dump(2) + "\n";
  };
}

}  // namespace rigcast::cli
