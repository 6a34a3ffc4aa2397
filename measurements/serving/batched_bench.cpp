#include "measurements/serving/batched_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>

#include "core/text/freetext.hpp"
#include "measurements/field_row.hpp"
#include "measurements/serving/result_json.hpp"

namespace rigcast {
namespace {

constexpr int kMaxTokens = 1 << 30, kMaxSequences = 1 << 20;
constexpr double kMaxSeconds = 1e9;

// The table's columns, in their order, by the names that the lines of JSON give them.
constexpr std::array<const char*, 10> kColumns{"pp",       "tg",   "pl",       "n_kv", "t_pp",
                                               "speed_pp", "t_tg", "speed_tg", "t",    "speed"};

bool states_speeds(std::string_view line) {
  return line.starts_with('{') && line.find("\"t_pp\"") != line.npos &&
         line.find("\"speed_tg\"") != line.npos;
}

bool is_header(std::string_view line) {
  return line.find("| ") != std::string_view::npos &&
         line.find(" N_KV |") != std::string_view::npos &&
         line.find(" S_TG t/s |") != std::string_view::npos;
}

// What was measured, of either form.
struct Figures {
  std::function<std::optional<int>(const char*, int)> integer;
  std::function<std::optional<double>(const char*, double)> number;
};

void read_settings(const Figures& f, ServingMeasurement& m) {
  m.batch = f.integer("n_batch", kMaxTokens);
  m.ubatch = f.integer("n_ubatch", kMaxTokens);
  m.shared_prompt = f.integer("is_pp_shared", 1) == 1;
  m.separate_answers = f.integer("is_tg_separate", 1) == 1;
}

// Rates are those of all sequences: a shared prompt is computed once, and counts once.
void read_figures(const Figures& f, ServingMeasurement& m) {
  m.engine = "llama.cpp";
  m.arrival = "lockstep";
  m.prompt_tokens = f.integer("pp", kMaxTokens).value_or(0);
  m.output_tokens = f.integer("tg", kMaxTokens).value_or(0);
  m.concurrency = f.integer("pl", kMaxSequences);
  const double prompts = m.prompt_tokens * (m.shared_prompt ? 1 : m.concurrency.value_or(0));
  const auto prompt_s = f.number("t_pp", kMaxSeconds), answer_s = f.number("t_tg", kMaxSeconds);
  if (prompts > 0 && prompt_s > 0.0) m.prompt_tokens_per_s = prompts / *prompt_s;
  if (answer_s > 0.0)
    m.output_tokens_per_s = m.concurrency.value_or(0) * m.output_tokens / *answer_s;
}

Result<ServingMeasurement> json_run(const ResultText& line) {
  const auto json = parse_result_json(line);
  if (!json) return json.error();
  const ResultObject run(*json, line);
  // -1 is as the program likes.
  const auto setting = [&](const char* key, int most) -> std::optional<int> {
    const auto it = json->find(key);
    if (it != json->end() && it->is_number() && it->get<double>() < 0) return std::nullopt;
    return run.integer(key, most);
  };
  const Figures figures{[&](const char* key, int most) { return run.integer(key, most); },
                        [&](const char* key, double most) { return run.number(key, most); }};
  for (const char* key : {"pp", "tg", "pl", "t_pp", "t_tg"})
    if (!run.has(key)) run.refuse(key, "this run lacks it");
  ServingMeasurement m;
  m.line = line.line;
  read_settings(figures, m);
  m.gpu_layers = setting("n_gpu_layers", 1'000'000);
  m.threads = setting("n_threads", 1'000'000);
  if (const auto attention = setting("flash_attn", 1)) m.flash_attention = *attention == 1;
  read_figures(figures, m);
  if (run.error()) return *run.error();
  return m;
}

// "n_batch = 2048, n_ubatch = 512, flash_attn = 1, ...": above the table.
std::optional<int> stated(const std::string& settings, const std::string& name) {
  const auto at = settings.find(" " + name + " = ");
  if (at == std::string::npos) return std::nullopt;
  const char* begin = settings.data() + at + name.size() + 4;
  int value = 0;
  const auto [end, code] = std::from_chars(begin, settings.data() + settings.size(), value);
  return code == std::errc{} && value >= 0 ? std::optional(value) : std::nullopt;
}

Result<ServingMeasurement> table_run(std::string_view row, const std::string& settings,
                                     const std::string& file, int line) {
  FieldRow fields(file, line);
  std::size_t at = row.find('|'), count = 0;
  for (; count < kColumns.size(); ++count) {
    const auto end = row.find('|', at + 1);
    if (end == std::string_view::npos) break;
    fields.set(kColumns[count], std::string(row.substr(at + 1, end - at - 1)), line, int(at) + 2);
    at = end;
  }
  if (count < kColumns.size())
    return bad_input(fmt::format("this row ends after {} of {} columns", count, kColumns.size()),
                     {}, SourceRef{file, line, 1});
  for (const char* key : {"pp", "tg", "pl", "t_pp", "t_tg"})
    if (!fields.has(key)) fields.refuse(key, "this run lacks it");
  ServingMeasurement m;
  m.line = line;
  read_settings({[&](const char* key, int) { return stated(settings, key); }, {}}, m);
  m.gpu_layers = stated(settings, "n_gpu_layers");
  m.threads = stated(settings, "n_threads");
  if (const auto attention = stated(settings, "flash_attn")) m.flash_attention = *attention == 1;
  read_figures({[&](const char* key, int most) { return fields.integer(key, most); },
                [&](const char* key, double most) { return fields.number(key, most); }},
               m);
  if (fields.error()) return *fields.error();
  return m;
}

}  // namespace

bool is_batched_bench(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (is_header(line) || states_speeds(line)) return true;
    begin = end + 1;
  }
  return false;
}

Result<std::vector<ServingMeasurement>> batched_bench_runs(std::string_view text,
                                                           const std::string& file) {
  std::vector<ServingMeasurement> runs;
  std::string settings;
  bool in_table = false;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find("n_kv_max = ") != line.npos) settings = freetext::clipped(line);
    const bool is_row = in_table && line.starts_with('|');
    in_table = is_header(line) || is_row;
    if (!line.starts_with('{') && (!is_row || line.starts_with("|-"))) continue;
    auto run = is_row ? table_run(line, settings, file, number) : json_run({line, file, number});
    if (!run) return run.error();
    runs.push_back(*std::move(run));
  }
  return runs;
}

}  // namespace rigcast
