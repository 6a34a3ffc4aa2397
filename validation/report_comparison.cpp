#include "validation/report_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace rigcast {
namespace {

using Json = nlohmann::json;

// A report as a run wrote it; else null.
Json run_report(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  const auto says = [&](const char* key, const char* value) {
    const auto found = json.find(key);
    return found != json.end() && *found == value;
  };
  const bool known =
      json.is_object() && says("schema", "rigcast.report/1") && says("origin", "measured");
  if (!known) json = Json();
  return json;
}

// Of decode.by_position, as far as it is a list of objects.
std::vector<TokenCount> positions(const Json& report) {
  std::vector<TokenCount> out;
  const Json::json_pointer path("/decode/by_position");
  if (!report.contains(path) || !report.at(path).is_array()) return out;
  for (const Json& p : report.at(path)) {
    const auto tokens = p.is_object() ? p.find("tokens") : p.end();
    out.push_back(p.is_object() && tokens != p.end() && tokens->is_number_integer()
                      ? tokens->get<TokenCount>()
                      : -1);
  }
  return out;
}

// A number above zero under a path such as "/ttft/cold/total_s".
std::optional<double> figure(const Json& json, const std::string& path) {
  const Json::json_pointer pointer(path);
  if (!json.contains(pointer)) return std::nullopt;
  const Json& value = json.at(pointer);
  if (!value.is_number() || !(value.get<double>() > 0)) return std::nullopt;
  return value.get<double>();
}

// "decode.tokens_per_s" of "/decode/tokens_per_s".
std::string metric_of(std::string path) {
  std::ranges::replace(path, '/', '.');
  return path.substr(1);
}

// What the process itself takes of the host's memory: not what others do, nor the page cache.
double process_bytes(const Report& report) {
  for (const DeviceMemory& d : report.memory.devices)
    if (d.tier == Tier::kRam) return (d.needed() - report.scenario->rig.ram_reserved.value).value;
  return 0;
}

class Rows {
 public:
  Rows(const std::string& id, const Report& predicted, const Json& measured)
      : predicted_(predicted), measured_(measured) {
    const Scenario& s = *predicted.scenario;
    shape_.id = id;
    shape_.rig = s.rig.name;
    shape_.chip = s.rig.cpu.name;
    shape_.what = configuration_of(s);
    shape_.regime = regime_of(s, predicted.placement);
    shape_.deep = s.workload.depth + s.workload.prompt_tokens >= 8192;
    shape_.quantized_kv = s.kv.types.k != QuantFormat::kF16;
    shape_.counted =
        std::ranges::find(s.runtime.fitted_on, shape_.what) == s.runtime.fitted_on.end();
  }

  void add(const std::string& path, double predicted, std::optional<Interval> interval = {},
           const std::string& suffix = {}) {
    add_at(path, path, predicted, interval, suffix);
  }
  void add_at(const std::string& path, const std::string& metric, double predicted,
              std::optional<Interval> interval, const std::string& suffix) {
    add_row(metric_of(metric), predicted, figure(measured_, path).value_or(0), interval, suffix);
  }
  void add_row(const std::string& metric, double predicted, double measured,
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
  // Of one memory, by tier, what the engine itself takes; of a run on a GPU.
  void add_tier(const DeviceMemory& predicted, std::size_t device) {
    double measured = 0;
    for (const char* part : {"weights", "kv", "activations", "staging"})
      measured += figure(measured_, fmt::format("/memory/{}/{}", device, part)).value_or(0);
    // Of the host's also what the process takes beside.
    if (predicted.tier == Tier::kRam)
      measured = figure(measured_, fmt::format("/memory/{}/total", device)).value_or(0);
    const double own = predicted.tier == Tier::kRam
                           ? process_bytes(predicted_)
                           : (predicted.needed() - predicted.overhead).value;
    add_row(fmt::format("memory.{}", name(predicted.tier)), own, measured, {});
  }
  void add_start(const std::string& start, const std::optional<TtftBreakdown>& ttft,
                 std::optional<Interval> interval) {
    if (!ttft) return;
    const std::string path = "/ttft/" + start;
    add(path + "/total_s", ttft->total().value, interval);
    add(path + "/breakdown_s/load", ttft->load.value);
    add(path + "/breakdown_s/prefill", ttft->prefill.value);
  }
  void add_activity(const ActivityRow& a) {
    std::string metric = fmt::format("activities.{}.{}", name(a.phase), name(a.kind));
    std::ranges::replace(metric, ' ', '_');
    add_row(metric, a.predicted_s, a.measured_s);
  }
  std::vector<ValidationRow> take() { return std::move(rows_); }

 private:
  const Report& predicted_;
  const Json& measured_;
  ValidationRow shape_;  // what all rows say alike
  std::vector<ValidationRow> rows_;
};

using TimesByKind = std::map<std::pair<Phase, ActivityKind>, double>;

// Those that went through the model: one more is chosen, by the prompt's logits.
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

// What tells configurations of a GPU apart: "16 layers on the GPU, ubatch 2048, KV paged, ...".
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
// where the next one begins, or the run ends.
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
    const double depth =
        c.before_tokens_per_s / speed_at(predicted, end).value_or(c.after_tokens_per_s);
    if (depth > most) most = depth, deepest = c.at_tokens;
    end = c.at_tokens;
  }
  return deepest;
}

}  // namespace

std::string configuration_of(const Scenario& s) {
  std::string text =
      fmt::format("{} {}, prompt {}, depth {}, {}/{}, {} threads", s.model.id, s.quant,
                  s.workload.prompt_tokens, s.workload.depth, info(s.kv.types.k).name,
                  info(s.kv.types.v).name, s.settings.threads);
  return s.rig.gpus.empty() ? text : text + ", " + with_gpu(s);
}

Result<std::vector<ValidationRow>> compare_reports(const std::string& id, const Report& predicted,
                                                   std::string_view measured,
                                                   std::span<const ActivityRow> activities) {
  const Json json = run_report(measured);
  if (json.is_null()) return Error{ErrorKind::kBadInput, id + ": not the JSON report of a run"};
  Rows rows(id, predicted, json);
  rows.add("/decode/tokens_per_s", predicted.decode_tokens_per_s, predicted.tokens_per_s_interval);
  rows.add("/prefill_tokens_per_s", predicted.prefill_tokens_per_s, predicted.prefill_interval);
  const auto of = [&](Start start) {
    return predicted.scenario->workload.start == start ? predicted.ttft_interval : std::nullopt;
  };
  rows.add_start("resident", predicted.resident, of(Start::kResident));
  rows.add_start("warm", predicted.warm, of(Start::kWarm));
  rows.add_start("cold", predicted.cold, of(Start::kCold));
  const std::vector<TokenCount> at = positions(json);
  for (std::size_t i = 0; i < at.size(); ++i)
    for (const PositionSpeed& p : predicted.by_position)
      if (p.tokens == at[i])
        rows.add_at(fmt::format("/decode/by_position/{}/tokens_per_s", i),
                    "/decode/by_position/tokens_per_s", p.tokens_per_s, {},
                    fmt::format(" at {}", p.tokens));
  if (const auto cliff = cliff_within(predicted)) rows.add("/cliffs/0/at_tokens", double(*cliff));
  const auto& devices = predicted.memory.devices;
  if (devices.size() == 1) rows.add("/memory/0/total", process_bytes(predicted));
  if (devices.size() == 2)
    for (std::size_t d = 0; d < devices.size(); ++d) rows.add_tier(devices[d], d);
  for (const Resource route : {Resource::kRam, Resource::kVram, Resource::kH2d, Resource::kD2h})
    rows.add(fmt::format("/traffic_bytes/{}", json_key(route)),
             predicted.traffic_bytes[std::size_t(route)]);
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

std::vector<TokenCount> positions_of(std::string_view measured) {
  std::vector<TokenCount> out = positions(run_report(measured));
  std::erase_if(out, [](TokenCount tokens) { return tokens < 0; });
  return out;
}

}  // namespace rigcast
