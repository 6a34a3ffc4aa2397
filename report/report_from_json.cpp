#include "report/report_from_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace rigcast {
namespace {

using Json = nlohmann::json;

// A JSON object whose entries are read by type. `wrong` keeps the path of the first one of another
// type; reading goes on with defaults.
class Fields {
 public:
  Fields(const Json* json, std::string path, std::string& wrong)
      : json_(json && !json->is_null() ? json : nullptr), path_(std::move(path)), wrong_(wrong) {
    if (!json_ || json_->is_object()) return;
    refuse("");
    json_ = nullptr;
  }

  bool is_there() const { return json_ != nullptr; }
  bool has(const char* key) const {
    const Json* value = find(key);
    return value && !value->is_null();
  }
  Fields at(const char* key) const { return {find(key), path_ + key + "/", wrong_}; }

  void refuse(const char* key) const {
    if (wrong_.empty()) wrong_ = path_ + key;
  }

  double number(const char* key) const {
    const Json* value = find(key);
    return value ? number_of(*value, key) : 0;
  }
  std::int64_t integer(const char* key) const {
    const Json* value = find(key);
    if (!value || value->is_null()) return 0;
    if (value->is_number_integer()) return value->get<std::int64_t>();
    refuse(key);
    return 0;
  }
  int count(const char* key) const {
    return int(std::clamp<std::int64_t>(integer(key), 0, std::numeric_limits<int>::max()));
  }
  std::string text(const char* key) const {
    const Json* value = find(key);
    if (!value) return {};
    if (value->is_string()) return value->get<std::string>();
    refuse(key);
    return {};
  }
  bool flag(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (!value) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    refuse(key);
    return fallback;
  }
  // Which of `n` enumerators has the name that stands there.
  template <class E, class F>
  E named(const char* key, int n, F name_of) const {
    const std::string given = text(key);
    for (int i = 0; i < n; ++i)
      if (name_of(E(i)) == given) return E(i);
    refuse(key);
    return E(0);
  }
  std::optional<Interval> interval(const char* key) const {
    const Json* value = find(key);
    if (!value || value->is_null()) return std::nullopt;
    if (value->is_array() && value->size() == 2)
      return Interval{number_of((*value)[0], key), number_of((*value)[1], key)};
    refuse(key);
    return std::nullopt;
  }
  template <class F>
  void each(const char* key, F read) const {
    for (const Json& item : list(key)) {
      if (!wrong_.empty()) return;
      read(Fields(&item, path_ + key + "/", wrong_));
    }
  }
  std::vector<double> numbers(const char* key) const {
    std::vector<double> out;
    for (const Json& item : list(key)) out.push_back(number_of(item, key));
    return out;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> out;
    for (const Json& item : list(key)) {
      if (item.is_string())
        out.push_back(item.get<std::string>());
      else
        refuse(key);
    }
    return out;
  }

 private:
  const Json* find(const char* key) const {
    if (!json_) return nullptr;
    const auto found = json_->find(key);
    return found == json_->end() ? nullptr : &*found;
  }
  double number_of(const Json& value, const char* key) const {
    if (value.is_number()) return value.get<double>();
    if (!value.is_null()) refuse(key);
    return std::numeric_limits<double>::quiet_NaN();
  }
  const Json& list(const char* key) const {
    static const Json kEmpty = Json::array();
    const Json* value = find(key);
    if (!value || value->is_null()) return kEmpty;
    if (value->is_array()) return *value;
    refuse(key);
    return kEmpty;
  }

  const Json* json_;  // nullptr: absent, reads as empty
  std::string path_;  // "decode/"
  std::string& wrong_;
};

Seconds seconds(const Fields& f, const char* key) { return Seconds{f.number(key)}; }
Bytes bytes(const Fields& f, const char* key) { return Bytes{f.number(key)}; }
Resource resource(const Fields& f, const char* key) {
  return f.named<Resource>(key, kResourceCount, [](Resource r) { return json_key(r); });
}
Tier tier(const Fields& f) {
  return f.named<Tier>("tier", int(Tier::kRam) + 1, [](Tier t) { return name(t); });
}

std::optional<Bottleneck> bound(const Fields& f) {
  if (!f.is_there()) return std::nullopt;
  return Bottleneck{resource(f, "resource"), f.number("share")};
}

std::optional<TtftBreakdown> ttft(const Fields& f) {
  if (!f.is_there()) return std::nullopt;
  const Fields b = f.at("breakdown_s");
  return TtftBreakdown{seconds(b, "load"), seconds(b, "tokenize"), seconds(b, "transfer"),
                       seconds(b, "prefill"), seconds(b, "sample")};
}

void read_decode(const Fields& f, Report& out) {
  out.decode_tokens_per_s = f.number("tokens_per_s");
  const Fields tpot = f.at("tpot_s");
  out.tpot = {seconds(tpot, "mean"), seconds(tpot, "p50"), seconds(tpot, "p90"),
              seconds(tpot, "p99")};
  f.each("by_position", [&](const Fields& p) {
    out.by_position.push_back({p.integer("tokens"), p.number("tokens_per_s"), seconds(p, "tpot_s"),
                               resource(p, "bound_by"), p.interval("spread")});
  });
}

DeviceMemory device_memory(const Fields& f) {
  DeviceMemory d;
  d.device = f.text("device");
  d.tier = tier(f);
  d.weights = bytes(f, "weights");
  d.kv = bytes(f, "kv");
  d.activations = bytes(f, "activations");
  d.staging = bytes(f, "staging");
  d.page_cache = bytes(f, "page_cache");
  d.overhead = bytes(f, "overhead");
  d.capacity = bytes(f, "capacity");
  return d;
}

Cliff cliff(const Fields& f) {
  Cliff c;
  c.axis = f.named<CliffAxis>("axis", 2, [](CliffAxis a) {
    return std::string_view(a == CliffAxis::kPosition ? "position" : "context");
  });
  c.at_tokens = f.integer("at_tokens");
  c.before_tokens_per_s = f.number("before_tokens_per_s");
  c.after_tokens_per_s = f.number("after_tokens_per_s");
  c.cause = f.text("cause");
  c.device = f.text("device");
  c.tier = tier(f);
  if (f.has("until_tokens")) c.until_tokens = f.integer("until_tokens");
  return c;
}

void read_contexts(const Fields& f, Report& out) {
  out.max_context = f.integer("longest_context");
  f.each("by_context", [&](const Fields& c) {
    out.by_context.push_back({c.integer("context"), c.flag("fits", false), c.count("gpu_layers"),
                              c.count("cpu_moe_layers"), c.number("first_tokens_per_s"),
                              c.number("last_tokens_per_s")});
  });
}

HourPoint hour(const Fields& p) {
  HourPoint out;
  out.at = Seconds{p.number("at_s")};
  out.sessions = p.count("sessions");
  out.session_tokens = p.integer("session_tokens");
  out.cache = bytes(p, "cache");
  out.weights = bytes(p, "weights");
  out.other = bytes(p, "other");
  out.room = bytes(p, "room");
  out.reclaim = p.text("reclaim");
  out.tokens_per_s = p.number("tokens_per_s");
  const Interval all = p.interval("interval").value_or(Interval{});
  out.least_tokens_per_s = all.lo;
  out.most_tokens_per_s = all.hi;
  out.unpressed_tokens_per_s = p.number("unpressed_tokens_per_s");
  out.disk = bytes(p, "disk_bytes_per_step");
  out.swap = bytes(p, "swap_bytes_per_step");
  return out;
}

Hours hours(const Fields& h) {
  Hours out;
  if (h.has("first_page_s")) out.first_page = Seconds{h.number("first_page_s")};
  out.tokens = h.number("tokens");
  out.unpressed_tokens = h.number("unpressed_tokens");
  h.each("points", [&](const Fields& p) { out.points.push_back(hour(p)); });
  return out;
}

void read_memory(const Fields& f, Report& out) {
  out.memory.outside_ram = bytes(f, "outside_ram_bytes");
  f.each("memory", [&](const Fields& d) { out.memory.devices.push_back(device_memory(d)); });
  f.each("timeline", [&](const Fields& m) {
    out.timeline.push_back({m.integer("tokens"), m.text("device"), bytes(m, "total")});
  });
  f.each("cliffs", [&](const Fields& c) { out.cliffs.push_back(cliff(c)); });
  if (const Fields h = f.at("hours"); h.is_there()) out.hours = hours(h);
  if (const Fields p = f.at("paging"); p.is_there())
    out.paging =
        TokenPaging{p.has("reclaim") ? p.text("reclaim") : "",
                    bytes(p, "disk_bytes_per_token"),
                    bytes(p, "swap_bytes_per_token"),
                    p.interval("disk_interval"),
                    p.interval("swap_interval"),
                    p.has("from_tokens") ? std::optional(p.integer("from_tokens")) : std::nullopt};
}

void read_use(const Fields& f, Report& out) {
  out.prefill_bound = bound(f.at("bottleneck").at("prefill")).value_or(Bottleneck{});
  out.decode_bound = bound(f.at("bottleneck").at("decode")).value_or(Bottleneck{});
  out.warm_bound = bound(f.at("ttft").at("warm").at("bound_by"));
  out.cold_bound = bound(f.at("ttft").at("cold").at("bound_by"));
  const Fields use = f.at("utilisation"), traffic = f.at("traffic_bytes"), inputs = f.at("inputs");
  for (std::size_t i = 0; i < out.utilisation.size(); ++i) {
    const std::string key(json_key(Resource(i)));
    out.utilisation[i] = use.number(key.c_str());
    out.traffic_bytes[i] = traffic.number(key.c_str());
  }
  for (std::size_t i = 0; i < out.inputs.size(); ++i)
    out.inputs[i] = inputs.count(std::string(name(SourceKind(i))).c_str());
}

std::optional<MeasuredFigures> measured(const Fields& f) {
  if (!f.is_there()) return std::nullopt;
  MeasuredFigures m;
  m.runs = f.count("runs");
  m.read = BytesPerSecond{f.number("read_bytes_per_s")};
  const double ceiling = f.number("ceiling_bytes_per_s");
  m.ceiling = BytesPerSecond{ceiling > 0 ? ceiling : 0};
  m.token_s = f.numbers("token_s");
  return m;
}

Percentiles percentiles(const Fields& f) {
  Percentiles p{f.number("mean"), f.number("p50"), f.number("p90"), f.number("p95"), {}};
  if (f.has("p99")) p.p99 = f.number("p99");
  return p;
}

RestoreFigures restore_figures(const Fields& f) {
  RestoreFigures out;
  const auto rate = [&](const char* key) {
    return f.has(key) ? std::optional(BytesPerSecond{f.number(key)}) : std::nullopt;
  };
  out.from_ram = rate("from_ram_bytes_per_s");
  out.from_disk = rate("from_disk_bytes_per_s");
  out.prompt_tokens_per_s = f.number("prompt_tokens_per_s");
  out.computed_anew = f.integer("computed_anew_tokens");
  return out;
}

ServingFigures::Cache serving_cache(const Fields& f) {
  ServingFigures::Cache c;
  c.capacity = f.integer("capacity");
  c.mean = f.number("mean");
  c.peak = f.number("peak");
  c.hit_rate = f.number("hit_rate");
  c.preemptions = f.integer("preemptions");
  c.recomputed_tokens = f.integer("recomputed_tokens");
  const Fields r = f.at("ram");
  if (r.is_there())
    c.ram = {.capacity = Bytes{r.number("capacity_bytes")},
             .hit_rate = r.number("hit_rate"),
             .to_ram = Bytes{r.number("to_ram_bytes")},
             .to_gpu = Bytes{r.number("to_gpu_bytes")},
             .to_ram_share = {},
             .to_gpu_share = {},
             .waits = r.number("waits")};
  if (r.has("to_ram_share")) c.ram->to_ram_share = r.number("to_ram_share");
  if (r.has("to_gpu_share")) c.ram->to_gpu_share = r.number("to_gpu_share");
  if (const Fields d = f.at("disk"); d.is_there())
    c.disk = {Bytes{d.number("capacity_bytes")}, d.number("hit_rate"),
              Bytes{d.number("to_disk_bytes")}, Bytes{d.number("from_disk_bytes")}};
  if (const Fields restore = f.at("restore"); restore.is_there())
    c.restore = restore_figures(restore);
  return c;
}

ServingFigures serving_figures(const Fields& f) {
  ServingFigures out;
  out.requests = std::size_t(f.count("requests"));
  out.left_out = std::size_t(f.count("left_out"));
  out.duration = seconds(f, "duration_s");
  out.ttft = percentiles(f.at("ttft_s"));
  out.tpot = percentiles(f.at("tpot_s"));
  out.itl = percentiles(f.at("itl_s"));
  out.e2e = percentiles(f.at("e2e_s"));
  const Fields rates = f.at("throughput");
  out.requests_per_s = rates.number("requests_per_s");
  out.output_tokens_per_s = rates.number("output_tokens_per_s");
  out.prompt_tokens_per_s = rates.number("prompt_tokens_per_s");
  if (f.has("goodput")) out.goodput = f.number("goodput");
  if (f.has("within_slo")) out.share_in_slo = f.number("within_slo");
  out.waiting = f.number("queue");
  out.running = f.at("running").number("mean");
  out.peak_running = std::size_t(f.at("running").count("peak"));
  out.cache = serving_cache(f.at("kv"));
  out.busy = f.number("busy");
  out.with_prompts = f.number("with_prompts");
  out.sequences_full = f.number("sequences_full");
  out.cache_full = f.number("cache_full");
  out.step_full = f.number("step_full");
  out.shortened = std::size_t(f.count("shortened"));
  out.refused = std::size_t(f.count("refused"));
  out.state = f.named<ServingState>("state", 4, [](ServingState s) { return name(s); });
  return out;
}

std::optional<ServingReport> serving(const Fields& f) {
  if (!f.is_there()) return std::nullopt;
  ServingReport out{f.text("load"), serving_figures(f), {}, {}};
  const Fields ends = f.at("interval");
  if (ends.has("fastest")) out.fastest = serving_figures(ends.at("fastest"));
  if (ends.has("slowest")) out.slowest = serving_figures(ends.at("slowest"));
  return out;
}

Placement placement(const Fields& scenario, const Scenario* of) {
  const Fields stated = scenario.at("placement");
  const int layers = stated.count("gpu_layers"), experts = stated.count("cpu_moe_layers");
  if (of && !of->rig.gpus.empty())
    return place(*of, std::min(layers, of->model.layers + 1), std::min(experts, of->model.layers));
  Placement out;
  out.gpu_layers = layers;
  return out;
}

void read_all(const Fields& f, Report& out) {
  if (f.text("schema") != "rigcast.report/1") f.refuse("schema");
  out.origin = f.named<Origin>("origin", 2, [](Origin o) {
    return std::string_view(o == Origin::kPredicted ? "predicted" : "measured");
  });
  out.placement = placement(f.at("scenario"), out.scenario.get());
  const Fields starts = f.at("ttft"), interval = f.at("interval");
  out.resident = ttft(starts.at("resident"));
  out.warm = ttft(starts.at("warm"));
  out.cold = ttft(starts.at("cold"));
  out.prefill_tokens_per_s = f.number("prefill_tokens_per_s");
  read_decode(f.at("decode"), out);
  read_contexts(f, out);
  read_memory(f, out);
  read_use(f, out);
  out.tokens_per_s_interval = interval.interval("tokens_per_s");
  out.ttft_interval = interval.interval("ttft_s");
  out.prefill_interval = interval.interval("prefill_tokens_per_s");
  const Fields unmeasured = interval.at("unmeasured");
  out.unmeasured = {unmeasured.texts("decode"), unmeasured.texts("prefill")};
  out.measured = measured(f.at("measured"));
  out.serving = serving(f.at("serving"));
  f.each("advice", [&](const Fields& a) {
    Advice advice;
    advice.change = a.text("change");
    advice.flags = a.text("flags");
    advice.tokens_per_s = a.number("tokens_per_s");
    advice.ttft = seconds(a, "ttft_s");
    advice.gain = a.number("gain");
    advice.loss_nats.reset();
    if (a.has("loss_nats")) advice.loss_nats = a.number("loss_nats");
    out.advice.push_back(std::move(advice));
  });
  out.fits = f.flag("fits", true);
  out.assumed = f.texts("inputs_assumed");
  out.errors = f.texts("errors");
  out.warnings = f.texts("warnings");
}

}  // namespace

Result<Report> report_from_json(std::string_view text, std::shared_ptr<const Scenario> scenario) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad_input("not the JSON of a report");
  Report report;
  report.scenario = std::move(scenario);
  std::string wrong;
  read_all(Fields(&json, "", wrong), report);
  if (!wrong.empty())
    return bad_input(
        fmt::format("not the JSON of a report: {} is not as docs/report.md has it", wrong));
  return report;
}

}  // namespace rigcast
