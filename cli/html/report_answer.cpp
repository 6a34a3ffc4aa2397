#include "cli/html/report_answer.hpp"

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

}  // namespace rigcast::cli
