#include "calibration/left_out_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "core/files/input_file.hpp"
#include "core/text/csv.hpp"
#include "core/text/csv_quote.hpp"

namespace rigcast::calibration {
namespace {

constexpr std::size_t kMaxBytes = 100 << 20;

constexpr std::string_view kHeader =
    "id,chip,rig,model,quant,regime,deep,quantized_kv,ram_known,metric,measured,fitted,left_out,"
    "family,family_left_out,source,year";
constexpr std::size_t kColumns = 17;

std::optional<bool> flag_from(std::string_view text) {
  if (text == "0" || text == "1") return text == "1";
  return std::nullopt;
}

std::optional<SpeedMetric> speed_metric_from(std::string_view text) {
  for (const SpeedMetric metric : {SpeedMetric::kDecode, SpeedMetric::kPrefill})
    if (text == name(metric)) return metric;
  return std::nullopt;
}

std::optional<int> year_from(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const bool is_year = parsed.ec == std::errc() && parsed.ptr == end && value >= 0 && value < 2200;
  return is_year ? std::optional(value) : std::nullopt;
}

std::optional<double> speed_from(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const bool is_speed =
      parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(value) && value > 0;
  return is_speed ? std::optional(value) : std::nullopt;
}

std::string header_of(const CsvRow& row) {
  std::string text;
  for (const CsvField& field : row) text += (text.empty() ? "" : ",") + field.text;
  return text;
}

// nullopt: a field is no value of its column.
std::optional<LeftOutRow> row_from(const CsvRow& fields) {
  if (fields.size() != kColumns) return std::nullopt;
  const auto text = [&](std::size_t column) -> const std::string& { return fields[column].text; };
  const auto regime = regime_from(text(5));
  const auto deep = flag_from(text(6)), quantized = flag_from(text(7)), ram = flag_from(text(8));
  const auto metric = speed_metric_from(text(9));
  const auto measured = speed_from(text(10)), fitted = speed_from(text(11)),
             left_out = speed_from(text(12)), family_left_out = speed_from(text(14));
  const auto year = year_from(text(16));
  if (!year || !regime || !deep || !quantized || !ram || !metric || !measured || !fitted ||
      !left_out || !family_left_out)
    return std::nullopt;
  return LeftOutRow{text(0),
                    text(1),
                    text(2),
                    text(3),
                    text(4),
                    *regime,
                    *deep,
                    *quantized,
                    *ram,
                    *metric,
                    *measured,
                    std::log(*fitted / *measured),
                    std::log(*left_out / *measured),
                    text(13),
                    std::log(*family_left_out / *measured),
                    text(15),
                    *year};
}

}  // namespace

double LeftOutRow::fitted_speed() const { return measured * std::exp(fitted); }

double LeftOutRow::left_out_speed() const { return measured * std::exp(left_out); }

double LeftOutRow::family_left_out_speed() const { return measured * std::exp(family_left_out); }

std::vector<LeftOutRow> by_family(std::span<const LeftOutRow> rows) {
  std::vector<LeftOutRow> out(rows.begin(), rows.end());
  for (LeftOutRow& row : out) {
    row.chip = row.family;
    row.left_out = row.family_left_out;
  }
  return out;
}

std::vector<LeftOutRow> left_out_rows(const std::vector<Sample>& samples, const LeftOut& errors) {
  std::vector<LeftOutRow> out;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const ResolvedRun& run = samples[i].run();
    if (run.dense) continue;
    out.push_back({run.measured.id, run.chip, run.rig, run.scenario->model.id, run.scenario->quant,
                   run.regime, run.deep, run.quantized_kv, run.ram_known,
                   *speed_metric(run.measured.metric), run.measured.value, errors.fitted[i],
                   errors.left_out[i], fmt::format("{}", fmt::join(run.families, "+")),
                   errors.family_left_out[i], run.measured.source,
                   int(run.scenario->settings.build_year.value_or(0))});
  }
  return out;
}

std::string to_csv(std::span<const LeftOutRow> rows) {
  std::string out = fmt::format("{}\n", kHeader);
  for (const LeftOutRow& row : rows)
    out += fmt::format(
        "{},{},{},{},{},{},{:d},{:d},{:d},{},{},{:.6g},{:.6g},{},"
        "{:.6g},{},{}\n",
        csv_quote(row.id), csv_quote(row.chip), csv_quote(row.rig), csv_quote(row.model),
        csv_quote(row.quant), name(row.regime), row.deep, row.quantized_kv, row.ram_known,
        name(row.metric), row.measured, row.fitted_speed(), row.left_out_speed(),
        csv_quote(row.family), row.family_left_out_speed(), csv_quote(row.source), row.year);
  return out;
}

Result<std::vector<LeftOutRow>> read_left_out(const std::filesystem::path& file) {
  const auto text = read_input(file, kMaxBytes);
  if (!text) return text.error();
  const auto table = parse_csv(*text, file.string());
  if (!table) return table.error();
  if (table->empty() || header_of(table->front()) != kHeader)
    return bad_input("this is no table of left-out rows", fmt::format("its header is {}", kHeader),
                     SourceRef{file.string(), 1, 1});
  std::vector<LeftOutRow> rows;
  for (std::size_t i = 1; i < table->size(); ++i) {
    auto row = row_from((*table)[i]);
    if (!row)
      return bad_input("this is no row of left-out forecasts", "run `rigcast calibrate` anew",
                       SourceRef{file.string(), (*table)[i].front().line, 1});
    rows.push_back(*std::move(row));
  }
  return rows;
}

}  // namespace rigcast::calibration
