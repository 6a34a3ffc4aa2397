#include "measurements/serving/serving_measurement.hpp"

#include <algorithm>
#include <array>

#include "core/files/input_file.hpp"
#include "core/text/csv.hpp"
#include "core/text/freetext.hpp"
#include "measurements/field_row.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kMaxBytes = 100 << 20;
constexpr double kMaxTokens = 1e9, kMaxMs = 1e9, kMaxRate = 1e9;

MeasuredPercentiles percentiles(const FieldRow& r, const std::string& metric) {
  const auto at = [&](const char* which) { return r.number(metric + which, kMaxMs); };
  return {at("_mean_ms"), at("_p50_ms"), at("_p90_ms"), at("_p95_ms"), at("_p99_ms")};
}

// "max_num_seqs 64; max_num_batched_tokens 2048; KV capacity 56880 tokens", or a command:
// "trtllm-serve Qwen/Qwen3-14B --max_num_tokens=16384".
std::optional<int> setting(const std::string& settings, const char* pattern) {
  const auto found = freetext::match(freetext::lower(settings), pattern);
  if (found.empty() || found[1].size() > 9) return std::nullopt;
  return std::stoi(found[1]);
}

// Tokens/s of users who do not think, each of whom has one request under way.
std::optional<double> rate_by_littles_law(const ServingMeasurement& m) {
  if (m.arrival != "closed" || !m.concurrency || !m.ttft.mean || !m.tpot.mean) return std::nullopt;
  const double answer = (*m.ttft.mean + *m.tpot.mean * (m.output_tokens - 1)) / 1000;  // seconds
  if (answer <= 0) return std::nullopt;
  return *m.concurrency * m.output_tokens / answer;
}

ServingMeasurement measurement_of(const FieldRow& r) {
  constexpr int kMaxGpus = 100'000;
  ServingMeasurement m;
  m.line = r.line();
  m.id = r.text("id");
  m.source = r.text("source");
  m.engine = r.text("engine");
  m.model = r.text("model");
  m.quant = r.text("quant");
  m.gpu = r.text("gpu");
  m.link = r.text("link");
  m.power_limit = r.number("power_limit_w", 1e5);
  m.gpus = r.integer("gpus", kMaxGpus).value_or(1);
  m.tensor_parallel = r.integer("tp", kMaxGpus).value_or(1);
  m.pipeline_parallel = r.integer("pp", kMaxGpus).value_or(1);
  m.data_parallel = r.integer("dp", kMaxGpus).value_or(1);
  m.expert_parallel = std::max(1, r.integer("ep", kMaxGpus).value_or(1));
  m.arrival = r.text("arrival");
  m.concurrency = r.integer("concurrency", 1'000'000);
  m.rate = r.number("request_rate", kMaxRate);
  m.prompt_tokens = r.number("prompt_tokens", kMaxTokens).value_or(0);
  m.output_tokens = r.number("output_tokens", kMaxTokens).value_or(0);
  m.varied_lengths = freetext::contains(freetext::lower(r.text("dataset")), "sharegpt");
  m.requests = r.integer("requests", 10'000'000);
  m.speculative = r.has("spec_decode");
  const std::string settings = r.text("settings");
  m.cache_tokens = setting(settings, R"(kv capacity (\d+) tokens)");
  m.max_sequences = setting(settings, R"(max[-_]num[-_]seqs[ =](\d+))");
  m.max_step_tokens = setting(settings, R"(max[-_]num[-_](?:batched[-_])?tokens[ =](\d+))");
  const auto share =
      freetext::match(freetext::lower(settings), R"(gpu[-_]memory[-_]utilization[ =](0\.\d{1,4}))");
  if (!share.empty()) m.memory_share = std::stod(share[1]);
  m.chunked = freetext::contains(freetext::lower(settings), "--enable_chunked_prefill");
  // vLLM divides the experts over all GPUs that share a layer.
  if (m.engine == "vllm" && freetext::contains(settings, "--enable-expert-parallel"))
    m.expert_parallel = m.tensor_parallel * m.data_parallel;
  m.copies = std::max(1, setting(settings, R"(instances (\d+))").value_or(1));
  m.slots = setting(settings, R"(slots (\d+))");
  m.batch = setting(settings, R"(n_batch (\d+))");
  m.ubatch = setting(settings, R"(n_ubatch (\d+))");
  m.shared_prompt = setting(settings, R"(is_pp_shared (\d+))") == 1;
  m.flags = r.text("flags");
  m.output_tokens_per_s = r.number("output_tok_s", kMaxRate);
  m.ttft = percentiles(r, "ttft");
  m.tpot = percentiles(r, "tpot");
  m.itl = percentiles(r, "itl");
  // Of requests that are alike:
  if (!m.tpot.p50) m.tpot.p50 = m.itl.p50;
  if (!m.tpot.p50 && !m.varied_lengths) m.tpot.p50 = m.tpot.mean;
  if (!m.output_tokens_per_s) m.output_tokens_per_s = rate_by_littles_law(m);
  if (m.arrival == "lockstep" && m.tpot.mean && *m.tpot.mean > 0)
    m.output_tokens_per_s = m.concurrency.value_or(1) * 1000 / *m.tpot.mean;
  return m;
}

}  // namespace

bool ServingMeasurement::is_doubtful() const {
  constexpr std::array kReasons{"WIP",
                                "EXCERPT",
                                "OLD",
                                "UNKNOWN_CHIP",
                                "LITTLE_LOW",
                                "LITTLE_HIGH",
                                "DECODE_AGG",
                                "MULTI_NODE",
                                "SYNTHETIC_SPEC",
                                "LENGTHS_NOT_STATED",
                                "PREFIX_CACHE_LIKELY",
                                "CONTRADICTED"};
  return std::ranges::any_of(
      kReasons, [&](const char* reason) { return flags.find(reason) != std::string::npos; });
}

bool is_serving_table(std::string_view text) {
  const std::string_view header = text.substr(0, text.find('\n'));
  return header.find("arrival") != std::string_view::npos &&
         header.find("concurrency") != std::string_view::npos &&
         header.find("output_tok_s") != std::string_view::npos;
}

Result<std::vector<ServingMeasurement>> parse_serving_measurements(std::string_view text,
                                                                   const std::string& file) {
  const auto rows = parse_csv(text, file);
  if (!rows) return rows.error();
  const auto records = field_rows(*rows, file);
  if (!records) return records.error();
  std::vector<ServingMeasurement> out;
  for (const FieldRow& record : *records) {
    out.push_back(measurement_of(record));
    if (record.error()) return *record.error();
  }
  return out;
}

Result<std::vector<ServingMeasurement>> read_serving_measurements(
    const std::filesystem::path& file) {
  const auto text = read_input(file, kMaxBytes);
  if (!text) return text.error();
  return parse_serving_measurements(*text, file.string());
}

}  // namespace rigcast
