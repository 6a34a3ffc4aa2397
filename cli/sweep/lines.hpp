#pragma once
// What a sweep prints of the results of its scenarios. A row has the swept keys, with the words of
// the command, and then the columns.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/shared/output.hpp"
#include "core/base/error.hpp"

namespace rigcast::cli {

using SweepRow = nlohmann::ordered_json;

/// A line of CSV, or one object, whose values have the types that they have in a scenario.
std::string line_of(SweepRow row, Format format);
std::string header_of(const SweepRow& row);

/// The rows of lines that are dumped objects.
std::vector<SweepRow> rows_of(const std::string& lines);
/// The rows of CSV that line_of() and header_of() have written. Errors: other CSV.
Result<std::vector<SweepRow>> rows_of_csv(const std::string& csv,
                                          const std::vector<std::string>& keys);
/// "rigcast.sweep/1" of docs/report.md, for a page.
std::string sweep_json(const std::vector<std::string>& keys, const std::vector<SweepRow>& rows);
/// The first rows as CSV, and how many more there are.
std::string sweep_text(const std::vector<SweepRow>& rows);

}  // namespace rigcast::cli
