#include "load/csv_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/text/csv.hpp"

namespace rigcast {
namespace {

constexpr std::string_view kFormats =
    "expected arrival_s,input_tokens,output_tokens or the columns of Azure's traces or BurstGPT's";

enum class Times { kSeconds, kDates };

struct Format {
  const char *arrival, *input, *output;  // names of columns
  Times times;
  bool has_failures;  // lines without tokens are requests that failed
  bool is_own;        // has sessions and prefixes, and begins at 0
};
constexpr Format kKnown[] = {
    {"arrival_s", "input_tokens", "output_tokens", Times::kSeconds, false, true},
    {"TIMESTAMP", "ContextTokens", "GeneratedTokens", Times::kDates, false, false},
    {"Timestamp", "Request tokens", "Response tokens", Times::kSeconds, true, false}};

std::optional<std::size_t> find_column(const CsvRow& header, std::string_view name) {
  const auto it = std::ranges::find(header, name, &CsvField::text);
  if (it == header.end()) return std::nullopt;
  return std::size_t(it - header.begin());
}

// The whole text as a number; nullopt: it is none.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Seconds since 1970 of "2023-11-16 18:15:46.6805900", or with "+00:00" behind it; nullopt: it is
// none. The zone is the same for all lines of a trace, and left out.
std::optional<double> seconds_of_date(std::string_view text) {
  if (const auto zone = text.find('+'); zone != std::string_view::npos) text = text.substr(0, zone);
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  if (text.size() < kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != kForm[i]) return std::nullopt;
  const auto part = [&](std::size_t at, std::size_t size) {
    return number_of<int>(text.substr(at, size)).value_or(0);
  };
  using namespace std::chrono;
  const year_month_day day{year(part(0, 4)), month(unsigned(part(5, 2))),
                           std::chrono::day(unsigned(part(8, 2)))};
  const int hours = part(11, 2), minutes = part(14, 2), whole = part(17, 2);
  double fraction = 0;
  if (const std::string_view rest = text.substr(kForm.size()); !rest.empty()) {
    const auto number = number_of<double>("0" + std::string(rest));
    if (rest.front() != '.' || !number || !(*number < 1)) return std::nullopt;
    fraction = *number;
  }
  if (!day.ok() || hours > 23 || minutes > 59 || whole > 59) return std::nullopt;
  const auto days = sys_days(day).time_since_epoch().count();
  return double(days) * 86400 + hours * 3600 + minutes * 60 + whole + fraction;
}

class CsvTrace {
 public:
  explicit CsvTrace(const std::string& file) : file_(file) {}

  Result<Trace> read(const std::vector<CsvRow>& rows) {
    std::size_t at = 0;
    const auto is_comment = [](const CsvRow& row) { return row.front().text.starts_with('#'); };
    while (at < rows.size() && is_comment(rows[at])) ++at;
    if (at == rows.size())
      return bad_input("no columns", std::string(kFormats), SourceRef{file_, 1, 1});
    read_header(rows[at]);
    for (++at; at < rows.size() && !error_; ++at)
      if (!is_comment(rows[at])) read_row(rows[at]);
    if (error_) return *error_;
    if (builder_.requests().empty())
      return bad_input("a trace without requests", {}, SourceRef{file_, rows.back()[0].line, 1});
    return std::move(builder_).finish(!format_->is_own);
  }

 private:
  void refuse(const CsvField& at, std::string fault, std::string hint = {}) {
    if (!error_)
      error_ = bad_input(std::move(fault), std::move(hint), SourceRef{file_, at.line, at.column});
  }

  void read_header(const CsvRow& header) {
    columns_ = header.size();
    for (const Format& format : kKnown) {
      const auto arrival = find_column(header, format.arrival);
      const auto input = find_column(header, format.input);
      const auto output = find_column(header, format.output);
      if (!arrival || !input || !output) continue;
      format_ = &format;
      arrival_ = *arrival, input_ = *input, output_ = *output;
      if (format.is_own) read_own_columns(header);
      return;
    }
    refuse(header.front(), "no trace has these columns", std::string(kFormats));
  }

  void read_own_columns(const CsvRow& header) {
    session_ = find_column(header, "session");
    prefix_of_ = find_column(header, "prefix_of");
    prefix_tokens_ = find_column(header, "prefix_tokens");
    std::vector<std::size_t> known = {arrival_, input_, output_};
    for (const auto& column : {session_, prefix_of_, prefix_tokens_})
      if (column) known.push_back(*column);
    for (std::size_t i = 0; i < header.size(); ++i)
      if (std::ranges::find(known, i) == known.end())
        refuse(header[i], fmt::format("unknown or repeated column \"{}\"", header[i].text),
               "known are arrival_s, input_tokens, output_tokens, session, prefix_of and "
               "prefix_tokens");
    if (prefix_of_.has_value() != prefix_tokens_.has_value())
      refuse(header.front(), "prefix_of and prefix_tokens say one thing together");
  }

  // 0 where it is none, which is refused.
  std::int64_t integer(const CsvField& field) {
    const auto value = number_of<std::int64_t>(field.text);
    if (!value)
      refuse(field, fmt::format("\"{}\" is no whole number", field.text),
             "tokens, for example 512");
    return value.value_or(0);
  }

  double time(const CsvField& field) {
    const bool is_date = format_->times == Times::kDates;
    const auto value = is_date ? seconds_of_date(field.text) : number_of<double>(field.text);
    if (!value)
      refuse(field, fmt::format("\"{}\" is no {}", field.text, is_date ? "date" : "time"),
             is_date ? "for example 2023-11-16 18:15:46.6805900" : "seconds, for example 12.5");
    return value.value_or(0);
  }

  void read_row(const CsvRow& row) {
    if (row.size() != columns_)
      return refuse(row.front(), fmt::format("{} fields under {} columns", row.size(), columns_));
    const double arrival = time(row[arrival_]);
    const std::int64_t input = integer(row[input_]), output = integer(row[output_]);
    if (error_) return;
    if (format_->has_failures && (input == 0 || output == 0)) return builder_.add_failed();
    if (const auto fault = builder_.add(arrival, input, output))
      return refuse(row.front(), *fault,
                    "times do not fall, and every request has a prompt and an answer");
    if (session_) continue_session(row[*session_].text);
    if (prefix_of_) continue_prefix(row[*prefix_of_], row[*prefix_tokens_]);
  }

  // The prompt of a later turn begins with the prompt and the answer of the turn before it.
  void continue_session(const std::string& session) {
    if (session.empty()) return;
    const std::size_t id = builder_.requests().size() - 1;
    const auto [last, is_new] = last_of_session_.try_emplace(session, id);
    if (is_new) return;
    const ServedRequest& before = builder_.requests()[last->second];
    builder_.share(last->second, before.prompt + before.output);
    last->second = id;
  }

  // Requests count from 1, without comments.
  void continue_prefix(const CsvField& of, const CsvField& tokens) {
    if (of.text.empty() && tokens.text.empty()) return;
    const std::int64_t earlier = integer(of), shared = integer(tokens);
    if (error_) return;
    if (earlier < 1 || earlier >= std::int64_t(builder_.requests().size()))
      return refuse(of, fmt::format("request {} is not before this one", earlier),
                    "the first request of the trace has the number 1");
    if (shared < 0) return refuse(tokens, fmt::format("{} tokens", shared));
    builder_.share(std::size_t(earlier - 1), shared);
  }

  const std::string& file_;
  const Format* format_ = nullptr;
  std::size_t columns_ = 0, arrival_ = 0, input_ = 0, output_ = 0;
  std::optional<std::size_t> session_, prefix_of_, prefix_tokens_;
  std::unordered_map<std::string, std::size_t> last_of_session_;
  TraceBuilder builder_;
  std::optional<Error> error_;
};

}  // namespace

Result<Trace> parse_csv_trace(std::string_view text, const std::string& file) {
  const auto rows = parse_csv(text, file);
  if (!rows) return rows.error();
  return CsvTrace(file).read(*rows);
}

}  // namespace rigcast
