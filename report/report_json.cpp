#include "report/report_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/model/kv_bytes.hpp"
#include "core/text/unit_text.hpp"
#include "report/json_values.hpp"
#include "report/serving_json.hpp"

namespace rigcast {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return json_number(value); }
Json number(Seconds time) { return number(time.value); }

Json whole_bytes(double bytes) {
  return std::fabs(bytes) < 9e18 ? Json(std::int64_t(std::llround(bytes))) : Json();
}
Json whole_bytes(Bytes bytes) { return whole_bytes(bytes.value); }

Json text(std::string_view s) { return Json(std::string(s)); }

template <class T, class F>
Json maybe(const std::optional<T>& value, F each) {
  return value ? each(*value) : Json();
}

// "2xddr4-2666:32GiB", as a scenario takes it; a unified chip's pool by its size alone.
std::string ram_text(const Rig& rig) {
  std::string size = exact_text(rig.ram.capacity.value);
  std::erase(size, ' ');
  return rig.unified() ? size : fmt::format("{}:{}", rig.ram.id, size);
}

Json rig_json(const Rig& rig) {
  Json gpus_usable = Json::array();
  for (std::size_t g = 0; g < rig.gpus.size(); ++g)
    gpus_usable.push_back(whole_bytes(rig.usable_vram(g)));
  return {
      {"name", rig.name},
      {"gpu", json_list(rig.gpus, [](const GpuPart& g) { return g.id; })},
      {"gpu_names", json_list(rig.gpus, [](const GpuPart& g) { return g.name; })},
      {"gpu_memory_bytes",
       json_list(rig.gpus, [](const GpuPart& g) { return whole_bytes(g.memory.value); })},
      {"gpu_usable_bytes", gpus_usable},
      {"cpu", rig.cpu.id},
      {"cpu_name", rig.cpu.name},
      {"ram", ram_text(rig)},
      {"ram_name", rig.ram.name},
      {"ram_capacity_bytes", whole_bytes(rig.ram.capacity.value)},
      {"ssd", rig.ssd.id},
      {"ssd_name", rig.ssd.name},
      {"pcie", json_list(rig.links, [](const HostLink& l) { return rigcast::text(l.pcie); })},
      {"os", text(name(rig.os))},
      {"vram_reserved", exact_text(rig.vram_reserved.value)},
      {"vram_reserved_bytes", whole_bytes(rig.vram_reserved.value)},
      {"gpu_context_bytes", whole_bytes(rig.gpu_context.value)},
      {"ram_reserved_bytes", whole_bytes(rig.ram_reserved.value)},
  };
}

Json model_json(const Scenario& s) {
  return {
      {"name", s.model.id},
      {"full_name", s.model.name},
      {"quant", s.quant},
      {"architecture", s.model.architecture},
      {"layers", s.model.layers},
      {"context", s.model.context},
      {"parameters", s.tensors.elements()},
      {"tensor_bytes", s.tensors.bytes()},
      {"kv_bytes_per_token", number(kv_bytes_per_token(s.model, s.kv.types))},
  };
}

Json placement_json(const Scenario& s, const Placement& placement) {
  Json json = {
      {"gpu_layers", placement.gpu_layers},
      {"gpu_layers_auto", !s.placement.gpu_layers.has_value()},
      {"tensor_split", json_list(s.placement.tensor_split, [](double x) { return number(x); })},
      {"split_mode", s.placement.split_mode},
      {"cpu_moe_layers", placement.cpu_moe_layers},
      {"cpu_ffn_layers", s.placement.cpu_ffn_layers},
      {"decode_device", text(name(s.placement.decode_device))},
  };
  const GpuGroups& groups = s.placement.groups;
  if (groups.pipeline * groups.data > 1 || groups.whole_experts) {
    json["tensor_parallel"] = groups.tensor;
    json["pipeline_parallel"] = groups.pipeline;
    json["data_parallel"] = groups.data;
    json["expert_parallel"] = groups.whole_experts;
  }
  return json;
}

Json kv_json(const KvSettings& kv) {
  return {
      {"policy", text(name(kv.policy))},
      {"type_k", kv_type_name(kv.types.k)},
      {"type_v", kv_type_name(kv.types.v)},
      {"threshold", number(kv.threshold)},
      {"hot_tokens", kv.hot_tokens},
      {"block_tokens", kv.block_tokens},
      {"cold_type", kv_type_name(kv.cold_type)},
      {"evict", kv.evict == Eviction::kLru ? "lru" : "oldest"},
      {"prefetch", kv.prefetch},
  };
}

// "2024-07", as a scenario takes it; nothing stands for the profile's own era.
Json build_text(std::optional<double> build_year) {
  return maybe(build_year, [](double year) {
    const int months = int(std::lround(year * 12));
    return Json(fmt::format("{:04}-{:02}", months / 12, months % 12 + 1));
  });
}

Json runtime_json(const Scenario& s) {
  return {
      {"name", s.runtime.id},
      {"full_name", s.runtime.name},
      {"era", s.runtime.era},
      {"threads", s.settings.threads},
      {"batch", s.settings.batch},
      {"ubatch", s.settings.ubatch},
      {"flash_attention", s.settings.flash_attention},
      {"backend", text(name(s.settings.backend))},
      {"build", build_text(s.settings.build_year)},
      {"mmap", s.settings.mmap},
      {"numa", text(name(s.settings.numa))},
      {"cpu_blas", s.settings.cpu_blas},
      {"matrix_units", s.settings.matrix_units},
      {"op_offload", s.settings.op_offload},
      {"headroom_bytes", number(s.settings.headroom.value)},
  };
}

Json workload_json(const Workload& w) {
  return {
      {"depth", w.depth},
      {"prompt_tokens", w.prompt_tokens},
      {"output_tokens", w.output_tokens},
      {"context", w.context},
      {"users", w.users},
      {"start", text(name(w.start))},
  };
}

Json scenario_json(const Report& r) {
  if (!r.scenario) return Json();
  const Scenario& s = *r.scenario;
  return {
      {"rig", rig_json(s.rig)},
      {"model", model_json(s)},
      {"placement", placement_json(s, r.placement)},
      {"kv", kv_json(s.kv)},
      {"runtime", runtime_json(s)},
      {"workload", workload_json(s.workload)},
  };
}

Json bottleneck_json(const Bottleneck& b) {
  return {{"resource", text(json_key(b.resource))}, {"share", number(b.share)}};
}

Json ttft_json(const std::optional<TtftBreakdown>& ttft, const std::optional<Bottleneck>& bound) {
  return maybe(ttft, [&](const TtftBreakdown& t) -> Json {
    return {
        {"total_s", number(t.total())},
        {"bound_by", maybe(bound, bottleneck_json)},
        {"breakdown_s",
         {{"load", number(t.load)},
          {"tokenize", number(t.tokenize)},
          {"transfer", number(t.transfer)},
          {"prefill", number(t.prefill)},
          {"sample", number(t.sample)}}},
    };
  });
}

Json pair(const Interval& i) { return Json::array({number(i.lo), number(i.hi)}); }

// The forecast's interval, about the speed at one position.
Json position_interval(const Report& r, const PositionSpeed& p) {
  const auto& mean = r.tokens_per_s_interval;
  if (!r.fits || r.measured || !mean || !(r.decode_tokens_per_s > 0)) return Json();
  const double at = p.tokens_per_s / r.decode_tokens_per_s;
  return pair({at * mean->lo, at * mean->hi});
}
// Figures of a single request: what does not fit has none, which is no speed of 0, and a load that
// was run has those of its requests alone. Runs from before their report said for how long a
// context have zeros, which are read back as they are.
bool has_request(const Report& r) {
  const bool is_run_of_load = r.measured && r.serving && r.max_context > 0;
  return r.fits && !is_run_of_load;
}
Json of_request(const Report& r, double figure) { return has_request(r) ? number(figure) : Json(); }

Json decode_json(const Report& r) {
  const auto position = [&](const PositionSpeed& p) -> Json {
    return {
        {"tokens", p.tokens},
        {"tokens_per_s", number(p.tokens_per_s)},
        {"tpot_s", number(p.tpot)},
        {"bound_by", text(json_key(p.bound_by))},
        {"spread", maybe(p.spread, pair)},
        {"interval", position_interval(r, p)},
    };
  };
  return {
      {"tokens_per_s", of_request(r, r.decode_tokens_per_s)},
      {"tpot_s",
       {{"mean", of_request(r, r.tpot.mean.value)},
        {"p50", of_request(r, r.tpot.p50.value)},
        {"p90", of_request(r, r.tpot.p90.value)},
        {"p99", of_request(r, r.tpot.p99.value)}}},
      {"by_position", json_list(r.by_position, position)},
  };
}

Json context_json(const ContextSpeed& c) {
  const auto speed = [&](double x) { return c.fits ? number(x) : Json(); };
  return {
      {"context", c.context},
      {"fits", c.fits},
      {"gpu_layers", c.gpu_layers},
      {"cpu_moe_layers", c.cpu_moe_layers},
      {"first_tokens_per_s", speed(c.first_tokens_per_s)},
      {"last_tokens_per_s", speed(c.last_tokens_per_s)},
  };
}

Json memory_json(const DeviceMemory& d) {
  return {
      {"device", d.device},
      {"tier", text(name(d.tier))},
      {"weights", whole_bytes(d.weights)},
      {"kv", whole_bytes(d.kv)},
      {"activations", whole_bytes(d.activations)},
      {"staging", whole_bytes(d.staging)},
      {"page_cache", whole_bytes(d.page_cache)},
      {"overhead", whole_bytes(d.overhead)},
      {"total", whole_bytes(d.total())},
      {"capacity", whole_bytes(d.capacity)},
  };
}

Json timeline_json(const MemoryPoint& m) {
  return {{"tokens", m.tokens}, {"device", m.device}, {"total", whole_bytes(m.total)}};
}

Json cliff_json(const Cliff& c) {
  return {
      {"axis", c.axis == CliffAxis::kPosition ? "position" : "context"},
      {"at_tokens", c.at_tokens},
      {"before_tokens_per_s", number(c.before_tokens_per_s)},
      {"after_tokens_per_s", number(c.after_tokens_per_s)},
      {"cause", c.cause},
      {"device", c.device},
      {"tier", text(name(c.tier))},
      {"until_tokens", c.until_tokens ? Json(*c.until_tokens) : Json()},
  };
}

Json utilisation_json(const Report& r) {
  Json out = Json::object();
  for (std::size_t i = 0; i < r.utilisation.size(); ++i)
    out[std::string(json_key(Resource(i)))] = of_request(r, r.utilisation[i]);
  return out;
}

// Bytes travel on routes; compute and waiting have none.
Json traffic_json(const Report& r) {
  Json out = Json::object();
  for (const Resource route :
       {Resource::kSsd, Resource::kRam, Resource::kH2d, Resource::kD2h, Resource::kVram})
    out[std::string(json_key(route))] =
        has_request(r) ? whole_bytes(r.traffic_bytes[std::size_t(route)]) : Json();
  return out;
}

Json interval_json(const Report& r) {
  const Json unmeasured = {{"decode", r.unmeasured.decode}, {"prefill", r.unmeasured.prefill}};
  return {
      {"tokens_per_s", maybe(r.tokens_per_s_interval, pair)},
      {"ttft_s", maybe(r.ttft_interval, pair)},
      {"prefill_tokens_per_s", maybe(r.prefill_interval, pair)},
      {"unmeasured", r.origin == Origin::kPredicted ? unmeasured : Json()},
  };
}

Json inputs_json(const Report& r) {
  Json out = Json::object();
  for (std::size_t i = 0; i < r.inputs.size(); ++i)
    out[std::string(name(SourceKind(i)))] = r.inputs[i];
  return out;
}

Json correction_json(const Report& r) {
  const Correction* own = r.scenario ? r.scenario->correction() : nullptr;
  if (!own) return Json();
  const auto speed = [](const Correction::Speed& s) -> Json {
    return {{"factor", number(s.factor.value)},
            {"spread", number(s.spread)},
            {"regimes", s.regimes},
            {"kind", text(name(s.factor.kind))},
            {"source", s.factor.source}};
  };
  return {{"decode", maybe(own->decode, speed)},
          {"prefill", maybe(own->prefill, speed)},
          {"host_decode", maybe(own->host_decode, speed)},
          {"runs", own->runs}};
}

Json measured_json(const MeasuredFigures& m) {
  constexpr double kSteps = 1e8;  // in a second
  return {{"runs", m.runs},
          {"read_bytes_per_s", number(m.read.value)},
          {"ceiling_bytes_per_s", m.ceiling.value > 0 ? number(m.ceiling.value) : Json()},
          {"token_s",
           json_list(m.token_s, [](double s) { return number(std::round(s * kSteps) / kSteps); })}};
}

Json advice_json(const Advice& a) {
  return {
      {"change", a.change},       {"tokens_per_s", number(a.tokens_per_s)},
      {"ttft_s", number(a.ttft)}, {"gain", number(a.gain)},
      {"flags", a.flags},         {"loss_nats", a.loss_nats ? number(*a.loss_nats) : Json()},
  };
}

Json hour_json(const HourPoint& p) {
  return {{"at_s", p.at.value},
          {"sessions", p.sessions},
          {"session_tokens", p.session_tokens},
          {"cache", whole_bytes(p.cache)},
          {"weights", whole_bytes(p.weights)},
          {"other", whole_bytes(p.other)},
          {"room", whole_bytes(p.room)},
          {"reclaim", p.reclaim},
          {"tokens_per_s", number(p.tokens_per_s)},
          {"interval", pair({p.least_tokens_per_s, p.most_tokens_per_s})},
          {"unpressed_tokens_per_s", number(p.unpressed_tokens_per_s)},
          {"disk_bytes_per_step", whole_bytes(p.disk)},
          {"swap_bytes_per_step", whole_bytes(p.swap)}};
}

Json hours_json(const Hours& h) {
  return {{"first_page_s", h.first_page ? Json(h.first_page->value) : Json()},
          {"tokens", number(h.tokens)},
          {"unpressed_tokens", number(h.unpressed_tokens)},
          {"points", json_list(h.points, hour_json)}};
}

Json paging_json(const TokenPaging& p) {
  return {{"reclaim", p.reclaim.empty() ? Json() : Json(p.reclaim)},
          {"disk_bytes_per_token", whole_bytes(p.disk)},
          {"swap_bytes_per_token", whole_bytes(p.swap)},
          {"disk_interval", maybe(p.disk_interval, pair)},
          {"swap_interval", maybe(p.swap_interval, pair)},
          {"from_tokens", p.from_tokens ? Json(*p.from_tokens) : Json()}};
}

}  // namespace

std::string to_json(const Report& r) {
  Json json = {
      {"schema", "rigcast.report/1"},
      {"origin", r.origin == Origin::kMeasured ? "measured" : "predicted"},
      {"scenario", scenario_json(r)},
      {"ttft",
       {{"resident",
         ttft_json(r.resident, has_request(r) ? std::optional(r.prefill_bound) : std::nullopt)},
        {"warm", ttft_json(r.warm, r.warm_bound)},
        {"cold", ttft_json(r.cold, r.cold_bound)}}},
      {"longest_context", r.max_context},
      {"by_context", json_list(r.by_context, context_json)},
      {"outside_ram_bytes", whole_bytes(r.memory.outside_ram)},
      {"prefill_tokens_per_s", of_request(r, r.prefill_tokens_per_s)},
      {"decode", decode_json(r)},
      {"memory", json_list(r.memory.devices, memory_json)},
      {"timeline", json_list(r.timeline, timeline_json)},
      {"cliffs", json_list(r.cliffs, cliff_json)},
      {"bottleneck",
       {{"prefill", has_request(r) ? bottleneck_json(r.prefill_bound) : Json()},
        {"decode", has_request(r) ? bottleneck_json(r.decode_bound) : Json()}}},
      {"utilisation", utilisation_json(r)},
      {"traffic_bytes", traffic_json(r)},
      {"interval", interval_json(r)},
      {"inputs", inputs_json(r)},
      {"inputs_assumed", r.assumed},
      {"correction", correction_json(r)},
      {"serving", maybe(r.serving, serving_json)},
      {"measured", maybe(r.measured, measured_json)},
      {"advice", json_list(r.advice, advice_json)},
      {"fits", r.fits},
      {"errors", r.errors},
      {"warnings", r.warnings},
  };
  if (r.paging) json["paging"] = paging_json(*r.paging);
  if (r.hours) json["hours"] = hours_json(*r.hours);
  // A file's name may hold bytes that are no UTF-8: better a mark in the text than no report.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rigcast
