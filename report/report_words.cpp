#include "report/report_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/hardware/rig_text.hpp"
#include "core/text/unit_text.hpp"
#include "report/pressure/hours_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast {
std::string without_makers(std::string_view parts) {
  std::string text(parts);
  for (const std::string_view maker : {"NVIDIA GeForce ", "NVIDIA ", "AMD ", "Intel "})
    for (auto at = text.find(maker); at != std::string::npos; at = text.find(maker, at))
      text.erase(at, maker.size());
  return printable(text);
}

std::string rig_name(const Rig& rig) {
  if (rig.gpus.empty()) return without_makers(rig.cpu.name);
  const std::string gpus =
      without_makers(fmt::format("{}", fmt::join(counted_names(rig.gpus), " + ")));
  return rig.engines > 1 ? fmt::format("{} engines of {}", rig.engines, gpus) : gpus;
}

std::string title_text(const Report& r) {
  const Scenario& s = *r.scenario;
  if (r.measured)
    return fmt::format("{} {} on {}, measured", printable(s.model.name), printable(s.quant),
                       rig_name(s.rig));
  std::string title = fmt::format("{} {} on {}, {}", printable(s.model.name), printable(s.quant),
                                  rig_name(s.rig), printable(s.runtime.name));
  if (!s.runtime.era.empty()) title += fmt::format(" ({})", printable(s.runtime.era));
  if (r.origin == Origin::kMeasured) title += ", measured";
  return title;
}

namespace {

std::string paged_text(const Report& r) {
  const TokenCount resident = r.memory.resident_tokens.value_or(0);
  if (resident >= r.scenario->workload.context) return "fits in VRAM, all of its context";
  return fmt::format("VRAM holds {} tokens of KV, the rest is in RAM", text_count(resident));
}

// Where the request, the context or the hours are short of memory; empty: nowhere. With [memory]
// the kernel's view counts: the program itself is pages that may leave, too.
std::string short_text(const Report& r) {
  if (r.serving || !r.paging) return "";
  const Workload& w = r.scenario->workload;
  const auto& from = r.paging->from_tokens;
  const bool all_short =
      from ? *from <= w.depth + w.prompt_tokens + 1 : r.paging->disk + r.paging->swap > Bytes{};
  if (all_short) return "runs, short of memory: pages leave and come back";
  if (from) return fmt::format("fits up to {} tokens, then short of memory", text_count(*from - 1));
  if (!r.hours || !r.hours->first_page) return "";
  const Seconds at = *r.hours->first_page;
  return "short of memory from " + (at.value > 0 ? hours_text(at) + " on" : "the beginning");
}

}  // namespace

std::string fit_text(const Report& r) {
  const Scenario& s = *r.scenario;
  if (r.measured) {
    const std::string runs =
        fmt::format("{} {}", r.measured->runs, r.measured->runs == 1 ? "run" : "runs");
    const bool no_thread_counts = r.placement.gpu_layers > s.model.layers;
    if (no_thread_counts && shared_text(r).empty()) return runs;
    return fmt::format("{}, {} threads", runs, s.settings.threads);
  }
  if (std::string text = short_text(r); !text.empty()) return text;
  if (r.memory.outside_ram.value > 0 && !r.paging)
    return fmt::format("runs from the disk: RAM lacks {}", text_gib(r.memory.outside_ram));
  const int layers = s.model.layers;
  if (!s.rig.gpus.empty() && r.placement.gpu_layers <= layers)
    return fmt::format(
        "{} of {} layers on the GPU{}{}{}", layers_without_head(s, r.placement.gpu_layers), layers,
        s.rig.gpus.size() > 1 ? "s" : "",
        layers_without_head(s, r.placement.gpu_layers) == layers ? ", head on the CPU" : "",
        r.placement.cpu_moe_layers == layers ? ", all experts in RAM" : "");
  std::string up_to;
  if (r.max_context > 0) up_to = fmt::format(" up to {} tokens", text_count(r.max_context));
  if (s.rig.gpus.empty()) return "fits in RAM" + up_to;
  if (s.rig.unified()) return "fits in unified memory" + up_to;
  if (r.placement.cpu_moe_layers > 0)
    return fmt::format("fits{}, experts of {} layers in RAM", up_to, r.placement.cpu_moe_layers);
  if (s.placement.cpu_ffn_layers > 0)
    return fmt::format("fits{}, FFNs of {} layers in RAM", up_to, s.placement.cpu_ffn_layers);
  switch (s.kv.policy) {
    case KvPolicy::kVram: return "fits in VRAM" + up_to;
    case KvPolicy::kRam:
    case KvPolicy::kStream: return "fits" + up_to + ", KV in RAM";
    case KvPolicy::kPaged:
    case KvPolicy::kCombined: return paged_text(r);
    case KvPolicy::kSpill: return "fits" + up_to + ", spilling to RAM";
  }
  return "";
}

std::string shortage_text(const MemoryPlan& memory) {
  const DeviceMemory* worst = memory.shortest();
  if (!worst) return "does not fit";
  return fmt::format("does not fit: short by {} on {}", text_gib(-worst->free()),
                     worst->tier == Tier::kRam ? "the host (RAM)" : printable(worst->device));
}

std::string prompt_text(const Workload& w) {
  const std::string prompt = text_count(w.prompt_tokens) + "-token prompt";
  if (w.depth == 0) return prompt;
  return fmt::format("{} tokens at {}", text_count(w.prompt_tokens), text_count(w.depth));
}

std::string workload_text(const Workload& w) {
  if (!w.fills_context)
    return fmt::format("{}, {} tokens of output, context {}", prompt_text(w),
                       text_count(w.output_tokens), text_count(w.context));
  return fmt::format("turns of {} + {} tokens fill a context of {}; figures half-way, after {}",
                     text_count(w.prompt_tokens), text_count(w.output_tokens),
                     text_count(w.context), text_count(w.depth));
}

std::string load_text(const Report& r) {
  std::string out;
  const auto load = [&](const std::optional<TtftBreakdown>& t, std::string_view from) {
    if (!t || !(t->load.value > 0)) return;
    out += fmt::format("{}{} {}", out.empty() ? "load " : ", ", time_text(t->load), from);
  };
  load(r.warm, "from page cache");
  load(r.cold, "from SSD");
  return out;
}

std::string breakdown_text(const TtftBreakdown& ttft) {
  std::string out;
  const auto add = [&](std::string_view what, Seconds time) {
    if (time.value == 0) return;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, time_text(time));
  };
  add("tokenize", ttft.tokenize);
  add("transfer", ttft.transfer);
  add("prefill", ttft.prefill);
  add("sample", ttft.sample);
  return out;
}

std::string_view short_name(Resource resource) {
  switch (resource) {
    case Resource::kSsd: return "SSD";
    case Resource::kRam: return "RAM";
    case Resource::kCpu: return "CPU";
    case Resource::kH2d:
    case Resource::kD2h: return "PCI-E";
    case Resource::kVram: return "VRAM";
    case Resource::kGpu: return "GPU";
    case Resource::kLaunch: return "launches";
    case Resource::kHandoff: return "handoffs";
    case Resource::kHostWork: return "host";
  }
  return "";
}

std::string bound_text(const Bottleneck& b) {
  return fmt::format("bound by {} {}", name(b.resource), share_text(b.share));
}

std::string place_text(const Cliff& c) {
  if (c.until_tokens)
    return fmt::format("from {} to {} tokens", text_count(c.at_tokens),
                       text_count(*c.until_tokens));
  return fmt::format("{} {} tokens", c.axis == CliffAxis::kContext ? "context beyond" : "at",
                     text_count(c.at_tokens));
}

std::string change_text(const Cliff& c) {
  if (!(c.after_tokens_per_s > 0)) return rate_text(c.before_tokens_per_s) + ", then does not run";
  return fmt::format("{} -> {}", three_digits(c.before_tokens_per_s),
                     rate_text(c.after_tokens_per_s));
}

std::vector<DeviceMemory> memory_rows(const Rig& rig, const MemoryPlan& plan) {
  if (!rig.unified() || plan.devices.size() != 2) return plan.devices;
  const DeviceMemory &gpu = plan.devices.front(), &host = plan.devices.back();
  DeviceMemory pool = host;
  pool.weights += gpu.weights;
  pool.kv += gpu.kv;
  pool.activations += gpu.activations;
  pool.staging += gpu.staging;
  pool.page_cache += gpu.page_cache;
  pool.overhead += gpu.overhead;
  pool.capacity = rig.ram.capacity.value;
  return {pool, gpu};
}

std::string device_label(const Rig& rig, const DeviceMemory& d) {
  if (d.tier == Tier::kRam) return rig.unified() ? "memory" : "RAM";
  if (rig.gpus.size() > 1) return printable(d.device);
  return rig.unified() ? "GPU" : "VRAM";
}

std::string effect_text(const Advice& a, const Report& r) {
  std::string out;
  if (r.fits && std::isfinite(a.gain) && std::fabs(a.gain) >= 0.01) {
    out = a.gain >= 1 ? three_digits(1 + a.gain) + " x as fast, "
                      : share_text(std::fabs(a.gain)) + (a.gain > 0 ? " faster, " : " slower, ");
  }
  out += rate_text(a.tokens_per_s);
  if (r.hours) out += " in all";  // of all sessions of the timeline
  if (!a.loss_nats)
    out += ", loss of quality not known";
  else if (*a.loss_nats > 0)
    out += *a.loss_nats < 0.0005 ? std::string(", loses under 0.001 nats")
                                 : fmt::format(", loses {:.3f} nats", *a.loss_nats);
  if (!a.note.empty()) return out + ", " + printable(a.note);
  return out + ", TTFT " + time_text(a.ttft);
}

std::string read_text(const MeasuredFigures& m) {
  const auto rate = [](BytesPerSecond r) {
    return fmt::format("{} GB/s", three_digits(r.value / 1e9));
  };
  std::string out = fmt::format("{} of weights and cache while decoding", rate(m.read));
  if (m.ceiling.value > 0)
    out += fmt::format(", {} of the {} that this machine's memory gives",
                       share_text(m.read / m.ceiling), rate(m.ceiling));
  return out;
}

std::string shared_text(const Report& r) {
  const std::vector<LayerPlacement>& layers = r.placement.layers;
  const ModelSpec& model = r.scenario->model;
  if (r.scenario->rig.gpus.empty() || layers.empty()) return "";
  const auto count = [&](auto is) { return std::ranges::count_if(layers, is); };
  const auto on_gpu = count([](const LayerPlacement& l) { return l.weights != kHost; });
  const auto decoded = count([](const LayerPlacement& l) { return l.decode_on != kHost; });
  const auto streamed =
      count([](const LayerPlacement& l) { return l.weights == kHost && l.decode_on != kHost; });
  const auto caches = count(
      [](const LayerPlacement& l) { return l.decode_on != kHost && l.decode_cache_on == kHost; });
  int experts = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (model.is_moe_layer(int(i)) && layers[i].weights != kHost && layers[i].experts == kHost)
      ++experts;
  const bool cpu_decode = decoded == 0 && on_gpu > 0, head = r.placement.head_on != kHost;
  if (decoded == std::ssize(layers) && head && experts + caches + streamed == 0) return "";
  std::string out = fmt::format("{}{} of {} layers{} on GPU 0", cpu_decode ? "prompts: " : "",
                                on_gpu, layers.size(), head ? " and the head" : "");
  if (streamed > 0) out += fmt::format(", {} streamed to it", streamed);
  if (cpu_decode) out += "; decode: all on the CPU";
  if (!cpu_decode && !head) out += ", head on the CPU";
  if (experts > 0) out += fmt::format(", experts of {} layers in RAM", experts);
  if (caches > 0) out += ", KV in RAM";
  return out;
}

std::string moved_text(const Report& r) {
  std::string out;
  const auto add = [&](Resource resource, std::string_view before, std::string_view after) {
    const double bytes = r.traffic_bytes[std::size_t(resource)];
    if (bytes > 0)
      out += fmt::format("{}{}{}{}", out.empty() ? "" : ", ", before, text_gb(Bytes{bytes}), after);
  };
  add(Resource::kRam, "RAM ", "");
  add(Resource::kVram, "VRAM ", "");
  add(Resource::kH2d, "", " to the GPU");
  add(Resource::kD2h, "", " to the host");
  return out;
}

std::string paging_text(const Report& r) {
  if (!r.paging || (r.paging->disk.value <= 0 && r.paging->swap.value <= 0)) return "";
  const TokenPaging& p = *r.paging;
  std::string out;
  const auto add = [&](Bytes bytes, const std::optional<Interval>& interval, const char* from) {
    if (bytes.value <= 0 && !(interval && interval->hi > 0)) return;
    if (!out.empty()) out += " and ";
    out += bytes.value > 0 ? text_gb(bytes) : "nothing";
    if (interval)
      out += fmt::format(" ({} to {})", text_gb(Bytes{interval->lo}), text_gb(Bytes{interval->hi}));
    out += fmt::format(" from {}", from);
  };
  add(p.disk, p.disk_interval, "the disk");
  add(p.swap, p.swap_interval, "swap");
  out += " for each token, again and again";
  const Workload& w = r.scenario->workload;
  if (p.from_tokens && *p.from_tokens > w.depth + w.prompt_tokens + 1)
    out += fmt::format(", from {} tokens on", text_count(*p.from_tokens));
  return out;
}

std::string inputs_text(const Report& r) {
  std::string out;
  for (const SourceKind kind : {SourceKind::kMeasured, SourceKind::kSpec, SourceKind::kFitted,
                                SourceKind::kPublished, SourceKind::kAssumed}) {
    const int n = r.inputs[std::size_t(kind)];
    if (n > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, name(kind));
    const Correction* own = r.scenario ? r.scenario->correction() : nullptr;
    if (n > 0 && kind == SourceKind::kMeasured && own) out += " (speed correction)";
  }
  if (out.empty()) return out;
  for (std::size_t i = 0; i < std::min<std::size_t>(r.assumed.size(), 2); ++i)
    out += (i == 0 ? ": " : ", ") + printable(r.assumed[i]);
  if (r.assumed.size() > 2) out += ", ...";
  return out;
}

}  // namespace rigcast
