#include "report/serving_json.hpp"

#include <string>

#include "report/json_values.hpp"

namespace rigcast {
namespace {

using Json = nlohmann::ordered_json;

Json maybe_number(const std::optional<double>& value) {
  return value ? json_number(*value) : Json();
}

Json percentiles_json(const Percentiles& p) {
  return {{"mean", json_number(p.mean)},
          {"p50", json_number(p.p50)},
          {"p90", json_number(p.p90)},
          {"p95", json_number(p.p95)},
          {"p99", maybe_number(p.p99)}};
}

Json ram_json(const ServingFigures::Cache::Ram& r) {
  return {{"capacity_bytes", json_number(r.capacity.value)},
          {"hit_rate", json_number(r.hit_rate)},
          {"to_ram_bytes", json_number(r.to_ram.value)},
          {"to_gpu_bytes", json_number(r.to_gpu.value)},
          {"to_ram_share", maybe_number(r.to_ram_share)},
          {"to_gpu_share", maybe_number(r.to_gpu_share)},
          {"waits", json_number(r.waits)}};
}

Json disk_json(const ServingFigures::Cache::Disk& d) {
  return {{"capacity_bytes", json_number(d.capacity.value)},
          {"hit_rate", json_number(d.hit_rate)},
          {"to_disk_bytes", json_number(d.to_disk.value)},
          {"from_disk_bytes", json_number(d.from_disk.value)}};
}

Json restore_json(const RestoreFigures& r) {
  const auto rate = [](const std::optional<BytesPerSecond>& of) {
    return of ? json_number(of->value) : Json();
  };
  return {{"from_ram_bytes_per_s", rate(r.from_ram)},
          {"from_disk_bytes_per_s", rate(r.from_disk)},
          {"prompt_tokens_per_s", json_number(r.prompt_tokens_per_s)},
          {"computed_anew_tokens", r.computed_anew}};
}

Json cache_json(const ServingFigures::Cache& c) {
  return {{"capacity", c.capacity},
          {"mean", json_number(c.mean)},
          {"peak", json_number(c.peak)},
          {"hit_rate", json_number(c.hit_rate)},
          {"preemptions", c.preemptions},
          {"recomputed_tokens", c.recomputed_tokens},
          {"ram", c.ram ? ram_json(*c.ram) : Json()},
          {"disk", c.disk ? disk_json(*c.disk) : Json()},
          {"restore", c.restore ? restore_json(*c.restore) : Json()}};
}

}  // namespace

Json serving_figures_json(const ServingFigures& f) {
  return {
      {"requests", f.requests},
      {"left_out", f.left_out},
      {"duration_s", json_number(f.duration.value)},
      {"ttft_s", percentiles_json(f.ttft)},
      {"tpot_s", percentiles_json(f.tpot)},
      {"itl_s", percentiles_json(f.itl)},
      {"e2e_s", percentiles_json(f.e2e)},
      {"throughput",
       {{"requests_per_s", json_number(f.requests_per_s)},
        {"output_tokens_per_s", json_number(f.output_tokens_per_s)},
        {"prompt_tokens_per_s", json_number(f.prompt_tokens_per_s)}}},
      {"goodput", maybe_number(f.goodput)},
      {"within_slo", maybe_number(f.share_in_slo)},
      {"queue", json_number(f.waiting)},
      {"running", {{"mean", json_number(f.running)}, {"peak", f.peak_running}}},
      {"kv", cache_json(f.cache)},
      {"busy", json_number(f.busy)},
      {"with_prompts", json_number(f.with_prompts)},
      {"sequences_full", json_number(f.sequences_full)},
      {"cache_full", json_number(f.cache_full)},
      {"step_full", json_number(f.step_full)},
      {"shortened", f.shortened},
      {"refused", f.refused},
      {"bound_by", std::string(name(f.bound_by()))},
      {"state", std::string(name(f.state))},
  };
}

Json serving_json(const ServingReport& serving) {
  Json out = {{"load", serving.load}};
  out.update(serving_figures_json(serving.figures));
  const auto end = [](const std::optional<ServingFigures>& figures) {
    return figures ? serving_figures_json(*figures) : Json();
  };
  out["interval"] = {{"fastest", end(serving.fastest)}, {"slowest", end(serving.slowest)}};
  return out;
}

}  // namespace rigcast
