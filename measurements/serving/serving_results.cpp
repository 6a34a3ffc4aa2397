#include "measurements/serving/serving_results.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "measurements/serving/aiperf_results.hpp"
#include "measurements/serving/batched_bench.hpp"
#include "measurements/serving/client_results.hpp"
#include "measurements/serving/guidellm_results.hpp"
#include "measurements/serving/result_json.hpp"

namespace rigcast {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool has_key(std::string_view text, std::string_view key) {
  return text.find(fmt::format("\"{}\"", key)) != std::string_view::npos;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// The objects of a file: each on a line of its own, or one over all lines. The first line says
// which: where it is whole, lines are.
std::vector<ResultText> objects_of(std::string_view text, const std::string& file) {
  const std::size_t first = std::min(text.find('\n'), text.size());
  const auto last = text.substr(0, first).find_last_not_of(" \t\r");
  if (last == std::string_view::npos || text[last] != '}') return {{text, file, 1}};
  std::vector<ResultText> lines;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    if (const auto line = text.substr(begin, end - begin); !is_blank(line))
      lines.push_back({line, file, number});
    begin = end + 1;
  }
  return lines;
}

std::vector<ServingMeasurement> runs_of(const ResultObject& object, ServingForm form) {
  if (form == ServingForm::kGuideLlm) return guidellm_runs(object);
  if (form == ServingForm::kAiPerf) return {aiperf_run(object)};
  return {form == ServingForm::kVllmBench ? vllm_bench_run(object) : sglang_bench_run(object)};
}

Result<std::vector<ServingMeasurement>> json_runs(std::string_view text, ServingForm form,
                                                  const std::string& file) {
  std::vector<ServingMeasurement> runs;
  for (const ResultText& source : objects_of(text, file)) {
    const auto json = parse_result_json(source);
    if (!json) return json.error();
    if (!json->is_object())
      return bad_input("expected an object", {}, SourceRef{file, source.line, 1});
    const ResultObject object(*json, source);
    for (ServingMeasurement& m : runs_of(object, form)) runs.push_back(std::move(m));
    if (object.error()) return *object.error();
  }
  return runs;
}

}  // namespace

ServingForm serving_form(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (is_batched_bench(text)) return ServingForm::kBatchedBench;
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || text[begin] != '{')
    return is_serving_table(text) ? ServingForm::kTable : ServingForm::kNone;
  if (has_key(text, "avg_ts")) return ServingForm::kNone;  // llama-bench
  if (has_key(text, "benchmarks")) return ServingForm::kGuideLlm;
  if (has_key(text, "total_output_tokens_retokenized")) return ServingForm::kSglangBench;
  if (has_key(text, "endpoint_type") || has_key(text, "tokenizer_id") ||
      has_key(text, "request_throughput")) {
    if (has_key(text, "num_prompts")) return ServingForm::kVllmBench;
  }
  if (has_key(text, "request_latency") || has_key(text, "time_to_first_token") ||
      has_key(text, "error_request_count"))
    return ServingForm::kAiPerf;
  return ServingForm::kNone;
}

Result<std::vector<ServingMeasurement>> parse_serving_results(std::string_view text,
                                                              ServingForm form,
                                                              const std::string& file) {
  if (form == ServingForm::kTable) return parse_serving_measurements(text, file);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  auto runs = form == ServingForm::kBatchedBench ? batched_bench_runs(text, file)
                                                 : json_runs(text, form, file);
  if (!runs) return runs.error();
  if (runs->empty()) return bad_input("there are no runs in this file", {}, SourceRef{file});
  for (ServingMeasurement& m : *runs) {
    m.source = file;
    m.id = file;
    if (form == ServingForm::kGuideLlm)
      m.id += fmt::format("#{}", &m - runs->data() + 1);
    else if (runs->size() > 1)
      m.id += fmt::format(":{}", m.line);
  }
  return runs;
}

}  // namespace rigcast
