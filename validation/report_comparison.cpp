#include "validation/report_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rigcast {
namespace {

// Host memory of the process itself, without that of others and without the page cache.
double process_bytes(const Report& report) {
  for (const DeviceMemory& d : report.memory.devices)
    if (d.tier == Tier::kRam) return (d.needed() - report.scenario->rig.ram_reserved.value).value;
  return 0;
}

class Rows {
 public:
  Rows(const std::string& id, const Report& predicted) {
    const Scenario& s = *predicted.scenario;
    shape_.id = id;
    shape_.rig = s.rig.name;
    shape_.chip = s.rig.cpu.name;
    shape_.what = configuration_of(s);
    if (s.load) shape_.load = text(*s.load);
    shape_.regime = regime_of(s, predicted.placement);
    shape_.deep = s.workload.depth + s.workload.prompt_tokens >= 8192;
    shape_.quantized_kv = s.kv.types.k != QuantFormat::kF16;
    shape_.gpu = !s.rig.gpus.empty();
    shape_.pressed = s.memory.has_value();
    may_be_given_ids_ = s.runtime.rules == RuntimeRules::kTransformers ||
                        s.runtime.rules == RuntimeRules::kRigcast;
    shape_.counted =
        std::ranges::find(s.runtime.fitted_on, shape_.what) == s.runtime.fitted_on.end();
  }

  // Adds a figure that both reports have.
  void add(std::string_view metric, double predicted, double measured,
           std::optional<Interval> interval = {}, const std::string& suffix = {}) {
    if (!(predicted > 0) || !(measured > 0)) return;
    ValidationRow row = shape_;
    row.id += suffix;
    row.metric = metric;
    row.predicted = predicted;
    row.measured = measured;
    row.interval = interval;
    rows_.push_back(std::move(row));
  }
  void add_start(std::string_view start, const std::optional<TtftBreakdown>& predicted,
                 const std::optional<TtftBreakdown>& measured, std::optional<Interval> interval) {
    if (!predicted || !measured) return;
    const auto metric = [&](const char* part) { return fmt::format("ttft.{}.{}", start, part); };
    TtftBreakdown due = *predicted;
    if (may_be_given_ids_ && measured->tokenize <= 0_s) due.tokenize = {};
    const double part = due.total() / predicted->total();
    if (interval) interval = Interval{interval->lo * part, interval->hi * part};
    add(metric("total_s"), due.total().value, measured->total().value, interval);
    add(metric("breakdown_s.load"), predicted->load.value, measured->load.value);
    add(metric("breakdown_s.prefill"), predicted->prefill.value, measured->prefill.value);
  }
  void add_activity(const ActivityRow& a) {
    std::string metric = fmt::format("activities.{}.{}", name(a.phase), name(a.kind));
    std::ranges::replace(metric, ' ', '_');
    add(metric, a.predicted_s, a.measured_s);
  }
  // Adds the cliff: its position in the context, which may differ by a block of the cache.
  void add_cliff(TokenCount predicted, TokenCount measured, const Scenario& s) {
    const std::size_t before = rows_.size();
    add("cliffs.0.at_tokens", double(predicted), double(measured));
    if (rows_.size() == before) return;
    rows_.back().scale = double(s.workload.context);
    rows_.back().allowed = double(s.kv.block_tokens);
  }
  std::vector<ValidationRow> take() { return std::move(rows_); }

 private:
  ValidationRow shape_;  // what all rows say alike
  // scripts/run_transformers.py makes ids, and so do runs of the engine without a text, so that
  // nothing is tokenized.
  bool may_be_given_ids_ = false;
  std::vector<ValidationRow> rows_;
};

using TimesByKind = std::map<std::pair<Phase, ActivityKind>, double>;

// Tokens that the model computed: one more is sampled from the prompt's logits.
std::set<TokenCount> decoded_tokens(std::span<const TraceEvent> events) {
  std::set<TokenCount> out;
  for (const TraceEvent& e : events)
    if (e.phase == Phase::kDecode && e.kind != ActivityKind::kSample) out.insert(e.token);
  return out;
}

// Seconds, of decode the mean of `tokens`.
TimesByKind times_by_kind(std::span<const TraceEvent> events, const std::set<TokenCount>& tokens) {
  TimesByKind out;
  for (const TraceEvent& e : events) {
    const bool decode = e.phase == Phase::kDecode;
    if (decode && !tokens.contains(e.token)) continue;
    out[{e.phase, e.kind}] += (e.finish_s - e.start_s) / (decode ? double(tokens.size()) : 1.0);
  }
  return out;
}

std::vector<ActivityRow> joined(const TimesByKind& predicted, const TimesByKind& measured) {
  std::map<std::pair<Phase, ActivityKind>, ActivityRow> rows;
  const auto row = [&](const auto& key) -> ActivityRow& {
    return rows.try_emplace(key, ActivityRow{key.first, key.second}).first->second;
  };
  for (const auto& [key, seconds] : predicted) row(key).predicted_s = seconds;
  for (const auto& [key, seconds] : measured) row(key).measured_s = seconds;
  std::vector<ActivityRow> out;
  for (const auto& [key, value] : rows) out.push_back(value);
  return out;
}

// Text that distinguishes configurations of a GPU: "16 layers on the GPU, ubatch 2048, KV paged,
// ...".
std::string with_gpu(const Scenario& s) {
  const PlacementSettings& p = s.placement;
  std::string text = p.gpu_layers && *p.gpu_layers <= s.model.layers
                         ? fmt::format("{} layers on the GPU", *p.gpu_layers)
                         : "on the GPU";
  if (p.cpu_moe_layers > 0) text += fmt::format(", experts of {} in RAM", p.cpu_moe_layers);
  if (p.decode_device != DecodeDevice::kPlacement)
    text += fmt::format(", decode on {}", name(p.decode_device));
  text += fmt::format(", ubatch {}", s.settings.ubatch);
  if (s.kv.policy == KvPolicy::kVram) return text;
  text += fmt::format(", KV {}", name(s.kv.policy));
  if (s.kv.policy == KvPolicy::kRam) return text;
  text += fmt::format(", cold {}", info(s.kv.cold_type).name);
  if (s.kv.policy == KvPolicy::kStream) return text;
  return text + fmt::format(", hot {}, VRAM {:.0f} MiB", s.kv.hot_tokens,
                            s.rig.gpus.front().memory.value.value / 0x1p20);
}

// Speed with so many tokens in the cache, as far as the forecast was asked for positions.
std::optional<double> speed_at(const Report& predicted, TokenCount tokens) {
  std::optional<double> speed;
  for (const PositionSpeed& p : predicted.by_position)
    if (p.tokens <= tokens) speed = p.tokens_per_s;
  return speed;
}

// The deepest fall within a run that is forecast, if there is one, for a run tells one: down to
// where the next one begins, or the run ends. A step and the decline that follows it are one.
std::optional<TokenCount> cliff_within(const Report& predicted) {
  const Workload& w = predicted.scenario->workload;
  TokenCount end = w.last_position();
  std::optional<TokenCount> deepest;
  double most = 0;
  for (auto cliff = predicted.cliffs.rbegin(); cliff != predicted.cliffs.rend(); ++cliff) {
    const Cliff& c = *cliff;
    if (c.axis != CliffAxis::kPosition || c.at_tokens <= w.depth + w.prompt_tokens ||
        c.at_tokens > end)
      continue;
    const auto before = std::next(cliff);
    if (before != predicted.cliffs.rend() && !before->until_tokens &&
        before->after_tokens_per_s == c.before_tokens_per_s)
      continue;
    const double depth =
        c.before_tokens_per_s / speed_at(predicted, end).value_or(c.after_tokens_per_s);
    if (depth > most) most = depth, deepest = c.at_tokens;
    end = c.at_tokens;
  }
  return deepest;
}

}  // namespace

namespace {

// "prompt 512, depth 0", or a load: "8 users, closed: 128 in, 128 out".
std::string asked_of(const Scenario& s) {
  if (!s.load)
    return fmt::format("prompt {}, depth {}", s.workload.prompt_tokens, s.workload.depth);
  const Load& load = *s.load;
  const std::string how_much = load.is_open() ? fmt::format("{:g} requests/s", load.rate)
                                              : fmt::format("{} users", load.users);
  return how_much + ", " + text(load);
}

}  // namespace

std::string configuration_of(const Scenario& s) {
  const std::string text =
      fmt::format("{} {}, {}, {}/{}, {} threads", s.model.id, s.quant, asked_of(s),
                  info(s.kv.types.k).name, info(s.kv.types.v).name, s.settings.threads);
  return s.rig.gpus.empty() ? text : text + ", " + with_gpu(s);
}

namespace {

void add_starts(Rows& rows, const Report& predicted, const Report& measured) {
  const auto interval_of = [&](Start start) {
    return predicted.scenario->workload.start == start ? predicted.ttft_interval : std::nullopt;
  };
  rows.add_start("resident", predicted.resident, measured.resident, interval_of(Start::kResident));
  rows.add_start("warm", predicted.warm, measured.warm, interval_of(Start::kWarm));
  rows.add_start("cold", predicted.cold, measured.cold, interval_of(Start::kCold));
}

void add_positions(Rows& rows, const Report& predicted, const Report& measured) {
  for (const PositionSpeed& m : measured.by_position)
    for (const PositionSpeed& p : predicted.by_position)
      if (p.tokens == m.tokens)
        rows.add("decode.by_position.tokens_per_s", p.tokens_per_s, m.tokens_per_s, {},
                 fmt::format(" at {}", p.tokens));
}

// The runtime's own memory; for the host, where our engine tells it, with the rest of the process.
void add_memory(Rows& rows, const Report& predicted, const Report& measured) {
  const auto& devices = predicted.memory.devices;
  if (devices.size() > 2 || measured.memory.devices.size() != devices.size()) return;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const DeviceMemory &forecast = devices[d], &run = measured.memory.devices[d];
    const bool is_host = devices.size() == 1 || forecast.tier == Tier::kRam;
    const RuntimeProfile& runtime = predicted.scenario->runtime;
    const bool with_process = is_host && runtime.rules == RuntimeRules::kRigcast;
    const auto own = [](const DeviceMemory& m) {
      return m.weights + m.kv + m.activations + m.staging;
    };
    const Bytes of_process = is_host ? runtime.memory.process : Bytes{};
    rows.add(devices.size() == 1 ? "memory.0.total" : fmt::format("memory.{}", name(forecast.tier)),
             with_process ? process_bytes(predicted) : (own(forecast) - of_process).value,
             with_process ? run.total().value : own(run).value);
  }
}

void add_percentiles(Rows& rows, const char* metric, const Percentiles& p, const Percentiles& m) {
  const auto add = [&](const char* which, double predicted, double measured) {
    rows.add(fmt::format("serving.{}.{}", metric, which), predicted, measured);
  };
  add("p50", p.p50, m.p50);
  add("p95", p.p95, m.p95);
  if (p.p99 && m.p99) add("p99", *p.p99, *m.p99);
}

// A megabyte a token is what the kernel reads of other files meanwhile: neither side is said to
// have read less, and where neither has read more from the disk, they agree.
void add_paging(Rows& rows, const TokenPaging& p, const TokenPaging& m) {
  constexpr double kMin = 1 << 20;
  const auto add = [&](const char* metric, Bytes predicted, Bytes measured,
                       std::optional<Interval> interval) {
    rows.add(metric, std::max(kMin, predicted.value), std::max(kMin, measured.value), interval);
  };
  add("paging.disk_bytes_per_token", p.disk, m.disk, p.disk_interval);
  if (p.swap.value > kMin || m.swap.value > kMin)
    add("paging.swap_bytes_per_token", p.swap, m.swap, p.swap_interval);
}

// Of a load that is forecast to be overloaded, waits grow as long as it goes on.
void add_serving(Rows& rows, const ServingFigures& p, const ServingFigures& m) {
  if (p.state != ServingState::kOverloaded) {
    add_percentiles(rows, "ttft_s", p.ttft, m.ttft);
    add_percentiles(rows, "e2e_s", p.e2e, m.e2e);
  }
  add_percentiles(rows, "tpot_s", p.tpot, m.tpot);
  add_percentiles(rows, "itl_s", p.itl, m.itl);
  rows.add("serving.requests_per_s", p.requests_per_s, m.requests_per_s);
  rows.add("serving.output_tokens_per_s", p.output_tokens_per_s, m.output_tokens_per_s);
  rows.add("serving.running", p.running, m.running);
  rows.add("serving.kv.mean", p.cache.mean, m.cache.mean);
  rows.add("serving.kv.hit_rate", p.cache.hit_rate, m.cache.hit_rate);
  rows.add("serving.kv.preemptions", double(p.cache.preemptions), double(m.cache.preemptions));
}

}  // namespace

std::vector<ValidationRow> compare_reports(const std::string& id, const Report& predicted,
                                           const Report& measured,
                                           std::span<const ActivityRow> activities) {
  Rows rows(id, predicted);
  if (predicted.serving && measured.serving)
    add_serving(rows, predicted.serving->figures, measured.serving->figures);
  rows.add("decode.tokens_per_s", predicted.decode_tokens_per_s, measured.decode_tokens_per_s,
           predicted.tokens_per_s_interval);
  rows.add("prefill_tokens_per_s", predicted.prefill_tokens_per_s, measured.prefill_tokens_per_s,
           predicted.prefill_interval);
  add_starts(rows, predicted, measured);
  add_positions(rows, predicted, measured);
  if (const auto cliff = cliff_within(predicted); cliff && !measured.cliffs.empty())
    rows.add_cliff(*cliff, measured.cliffs.front().at_tokens, *predicted.scenario);
  add_memory(rows, predicted, measured);
  if (predicted.paging && measured.paging) add_paging(rows, *predicted.paging, *measured.paging);
  for (const Resource route : {Resource::kRam, Resource::kVram, Resource::kH2d, Resource::kD2h})
    rows.add(fmt::format("traffic_bytes.{}", json_key(route)),
             predicted.traffic_bytes[std::size_t(route)],
             measured.traffic_bytes[std::size_t(route)]);
  for (const ActivityRow& a : activities) rows.add_activity(a);
  return rows.take();
}

std::vector<ActivityRow> activities_of(std::span<const TraceEvent> measured) {
  return joined({}, times_by_kind(measured, decoded_tokens(measured)));
}

std::vector<ActivityRow> compare_activities(std::span<const TraceEvent> predicted,
                                            std::span<const ActivityRow> measured) {
  TimesByKind times;
  for (const ActivityRow& a : measured) times[{a.phase, a.kind}] = a.measured_s;
  return joined(times_by_kind(predicted, decoded_tokens(predicted)), times);
}

std::vector<TokenCount> positions_of(const Report& measured) {
  std::vector<TokenCount> out;
  for (const PositionSpeed& p : measured.by_position)
    if (p.tokens >= 0) out.push_back(p.tokens);
  return out;
}

}  // namespace rigcast
