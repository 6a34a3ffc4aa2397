#include "cli/shared/report_output.hpp"

#include "report/report_csv.hpp"
#include "report/report_json.hpp"
#include "report/report_text.hpp"

namespace rigcast::cli {

std::string render(const Report& report, const OutputOptions& output) {
  switch (output.format) {
    case Format::kText: return to_text(report, {wants_colour(output), 100});
    case Format::kJson: return to_json(report);
    case Format::kCsv: return to_csv(report);
  }
  return {};
}

}  // namespace rigcast::cli
