#include "sim/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/model/quantized_model.hpp"
#include "core/runtime/format_group.hpp"
#include "core/text/unit_text.hpp"
#include "report/pressure/hours_text.hpp"
#include "sim/simulate.hpp"

namespace rigcast::sim {
namespace {

constexpr double kMinReportedGain = 0.03;  // a smaller gain is inside any forecast's noise

// From best to smallest; a step down loses some quality and some bytes.
constexpr std::string_view kQuantLadder[] = {"F16",    "Q8_0",   "Q6_K", "Q5_K_M", "Q4_K_M",
                                             "IQ4_XS", "Q3_K_M", "Q2_K", "IQ2_M",  "IQ2_XXS"};

class Collector {
 public:
  Collector(const Scenario& s, const Report& r) : s_(s), report_(r) {}

  std::vector<Alternative> all() && {
    quants();
    kv_types();
    contexts();
    layers();
    policies();
    runtime();
    parts();
    if (under_pressure()) pressure();
    return std::move(out_);
  }

 private:
  using Settings = std::vector<std::pair<std::string, std::string>>;

  void add(std::string change, std::string flags, Settings set) {
    out_.push_back({std::move(change), std::move(flags), std::move(set)});
  }
  static std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

  void quants() {
    if (is_native_mix(s_.model)) return;  // a requantised mix is hardly smaller, and loses
    const auto at = std::ranges::find(kQuantLadder, std::string_view(s_.quant));
    if (at == std::end(kQuantLadder)) return;
    for (auto q = at + 1; q != std::end(kQuantLadder) && q - at <= 4; ++q)
      add(std::string(*q), fmt::format("--quant {}", *q), {{"model.quant", quoted(*q)}});
  }

  void kv_types() {
    const double width = info(s_.kv.types.k).bits_per_weight();
    for (const char* type : {"q8_0", "q4_0"}) {
      const auto format = kv_type_from(type);
      if (info(*format).bits_per_weight() < width && check_kv_types(s_.model, {*format, *format}))
        add(fmt::format("KV type {}", type), fmt::format("--kv-type {}", type),
            {{"kv.type_k", quoted(type)}, {"kv.type_v", quoted(type)}});
    }
  }

  void contexts() {
    const TokenCount needed = s_.workload.last_position() + 1;
    for (const TokenCount n : {read_cells(needed, 256), s_.workload.context / 2})
      if (n >= needed && n < s_.workload.context)
        add(fmt::format("context {}", text_count(n)), fmt::format("--context {}", n),
            same_request_in(n));
  }

  // A conversation that fills the shorter context would be another one, and a faster one.
  Settings same_request_in(TokenCount context) const {
    const Workload& w = s_.workload;
    Settings out{{"workload.context", fmt::format("{}", context)}};
    if (!w.fills_context) return out;
    for (const auto& [key, tokens] : {std::pair("workload.depth", w.depth),
                                      std::pair("workload.prompt_tokens", w.prompt_tokens),
                                      std::pair("workload.output_tokens", w.output_tokens)})
      out.emplace_back(key, fmt::format("{}", tokens));
    return out;
  }

  void layers() {
    if (s_.rig.gpus.empty() || s_.runtime.rules == RuntimeRules::kPagedServer) return;
    const int most = s_.model.layers + 1;
    const int now = report_.placement.gpu_layers;
    if (s_.placement.gpu_layers)
      add("as many GPU layers as fit", "--gpu-layers auto", {{"placement.gpu_layers", "\"auto\""}});
    for (const int n : {most, now - 2, now + 2})
      if (n >= 0 && n <= most && n != now)
        add(fmt::format("{} layers on the GPU", n == most ? n : layers_without_head(s_, n)),
            fmt::format("--gpu-layers {}", n), {{"placement.gpu_layers", fmt::format("{}", n)}});
    if (!s_.model.moe) return;
    for (const int eighths : {0, 2, 4, 5, 6, 7, 8}) {
      const int n = s_.model.layers * eighths / 8;
      if (n == s_.placement.cpu_moe_layers && now == most) continue;
      add(fmt::format("experts of {} layers in RAM", n),
          fmt::format("--gpu-layers {} --cpu-moe {}", most, n),
          {{"placement.gpu_layers", fmt::format("{}", most)},
           {"placement.cpu_moe_layers", fmt::format("{}", n)}});
    }
  }

  void policies() {
    const bool tiers = !s_.rig.gpus.empty() && !s_.rig.unified();
    for (const KvPolicy policy : s_.runtime.kv_policies) {
      if (policy == s_.kv.policy || policy == KvPolicy::kSpill || !tiers) continue;
      add(fmt::format("KV policy {}", name(policy)), fmt::format("--kv {}", name(policy)),
          {{"kv.policy", quoted(name(policy))}});
    }
    if (!evicts(s_.kv.policy)) return;
    const auto set = [&](const char* change, const char* key, const char* value) {
      add(change, fmt::format("--set {}={}", key, value), {{key, value}});
    };
    if (s_.kv.cold_type != QuantFormat::kQ4_0) set("cold blocks as q4_0", "kv.cold_type", "q4_0");
    if (s_.kv.evict == Eviction::kLru) set("evict the oldest blocks", "kv.evict", "oldest");
    if (!s_.kv.prefetch) set("read cold blocks ahead", "kv.prefetch", "true");
  }

  void runtime() {
    for (const int factor : {2, 4}) {
      const int ubatch = s_.settings.ubatch * factor;
      if (s_.workload.prompt_tokens <= s_.settings.ubatch || ubatch > 8192) continue;
      const int batch = std::max(ubatch, s_.settings.batch);
      add(fmt::format("ubatch {}", ubatch), fmt::format("--batch {} --ubatch {}", batch, ubatch),
          {{"runtime.ubatch", fmt::format("{}", ubatch)},
           {"runtime.batch", fmt::format("{}", batch)}});
    }
    if (!s_.settings.flash_attention)
      add("flash attention", "--flash-attn on", {{"runtime.flash_attention", "true"}});
    if (s_.settings.threads < s_.rig.cpu.cores)
      add(fmt::format("{} threads", s_.rig.cpu.cores),
          fmt::format("--threads {}", s_.rig.cpu.cores),
          {{"runtime.threads", fmt::format("{}", s_.rig.cpu.cores)}});
  }

  // Also of a scenario that does not run: what is tried may make it run.
  bool under_pressure() const {
    if (!s_.memory) return false;
    if (!report_.fits) return true;
    const auto& p = report_.paging;
    return (p && p->disk + p->swap > Bytes{0}) || (report_.hours && report_.hours->first_page);
  }

  // What the person who runs the machine may change where RAM does not suffice.
  void pressure() {
    const MemorySettings& m = *s_.memory;
    const auto set = [&](std::string change, const char* key, const std::string& value) {
      add(std::move(change), fmt::format("--set {}={}", key, value), {{key, value}});
    };
    const bool is_own = s_.runtime.rules == RuntimeRules::kRigcast;
    if (m.lock != MemoryLock::kKv && is_own)
      set(m.locks_weights() ? "lock the KV cache alone" : "lock the KV cache", "memory.lock",
          quoted("kv"));
    if (m.lock != MemoryLock::kNone) set("lock nothing", "memory.lock", quoted("none"));
    if (!m.in_order && s_.settings.mmap && is_own)
      set("weights read in order", "memory.in_order", "true");
    if (m.swap.value > 0) {
      set("no swap", "memory.swap", quoted("0 B"));
      if (m.swap_on == SwapDevice::kDisk && m.page_cluster < 5)
        set("page-cluster 5", "memory.page_cluster", "5");
      for (const int swappiness : {10, 0})
        if (m.swappiness > swappiness)
          set(fmt::format("swappiness {}", swappiness), "memory.swappiness",
              fmt::format("{}", swappiness));
      if (m.swap_on != SwapDevice::kZram) set("swap on zram", "memory.swap_on", quoted("zram"));
      if (m.swap_on == SwapDevice::kZram) set("swap on the disk", "memory.swap_on", quoted("disk"));
    }
    more_swap();
    const bool maps = s_.settings.mmap;
    add(maps ? "weights not mapped" : "weights mapped", maps ? "--mmap off" : "--mmap on",
        {{"runtime.mmap", maps ? "false" : "true"}});
    if (m.limit && *m.limit < s_.rig.ram.capacity.value) {
      const Bytes more = std::min(2.0 * *m.limit, s_.rig.ram.capacity.value);
      set(fmt::format("a limit of {}", text_gib(more)), "memory.limit",
          quoted(fmt::format("{:.0f} MiB", std::floor(more / 1_MiB))));
    }
    int most = 0;
    for (const TimelineEntry& e : m.timeline)
      most = std::max(most, std::min(e.sessions, m.max_sessions));
    for (const int part : {2, 4})
      if (most >= 2 * part)
        set(fmt::format("{} sessions at once", most * (part - 1) / part), "memory.max_sessions",
            fmt::format("{}", most * (part - 1) / part));
  }

  // Where what there is does not suffice: as much as RAM, or twice what there is.
  void more_swap() {
    const auto ends = [](const HourPoint& p) { return p.reclaim == "full"; };
    const bool has_end = report_.hours && std::ranges::any_of(report_.hours->points, ends);
    if (report_.fits && !has_end) return;
    const Bytes more = std::max(s_.rig.ram.capacity.value, 2.0 * s_.memory->swap);
    const std::string size = fmt::format("{:.0f} GiB", std::ceil(more / 1_GiB));
    add("swap of " + size, fmt::format("--set memory.swap=\"{}\"", size),
        {{"memory.swap", quoted(size)}});
  }

  void part(std::string_view what, std::string_view flag, std::string_view key,
            std::string_view value) {
    add(fmt::format("{} {}", what, value), fmt::format("{} {}", flag, value),
        {{std::string(key), quoted(value)}});
  }

  void parts() {
    if (s_.workload.start == Start::kCold)
      for (const char* ssd : {"samsung-990-pro", "crucial-t705"})
        part("SSD", "--ssd", "rig.ssd", ssd);
    if (s_.rig.unified()) return;
    if (!s_.rig.gpus.empty()) {
      const PcieLink card = s_.rig.gpus.front().pcie;
      const PcieLink slot = s_.rig.links.front().pcie;
      if (card.generation > slot.generation || card.lanes > slot.lanes)
        part("slot PCI-E", "--pcie", "rig.pcie", text(card));
    }
    const std::string size = fmt::format("{:.0f}GiB", s_.rig.ram.capacity.value / 1_GiB);
    const bool ddr5 = s_.rig.ram.id.find("ddr5") != std::string::npos;
    for (const char* kit :
         {ddr5 ? "2xddr5-6400" : "2xddr4-3600", ddr5 ? "4xddr5-5600" : "2xddr5-6000"})
      if (s_.rig.ram.id != kit) part("RAM", "--ram", "rig.ram", fmt::format("{}:{}", kit, size));
    const double twice = 2.0 * (s_.rig.ram.capacity.value / 1_GiB);
    part("RAM size", "--ram-limit", "rig.ram_capacity", fmt::format("{:.0f}GiB", twice));
  }

  const Scenario& s_;
  const Report& report_;
  std::vector<Alternative> out_;
};

// A model is loaded once: only who asks for a cold start waits for it with every request.
Seconds first_token(const Report& r) {
  return (r.scenario->workload.start == Start::kCold ? r.ttft() : r.resident)->total();
}

// Where the hours of a timeline stand. Its rate is that of all sessions together.
std::string effect_on_hours(const Hours& before, const Hours& after) {
  const std::string slowest = "in the slowest hour";
  if (!before.first_page) return slowest;
  if (!after.first_page) return "memory suffices";
  if (*after.first_page <= *before.first_page) return slowest;
  return fmt::format("memory is full from {}, {}", hours_text(*after.first_page), slowest);
}

std::string effect(const Report& before, const Report& after) {
  if (before.hours && after.hours) return effect_on_hours(*before.hours, *after.hours);
  const auto resident = [](const Report& r) {
    return r.memory.resident_tokens.value_or(r.max_context);
  };
  const TokenCount old_limit = resident(before);
  const TokenCount new_limit = resident(after);
  if (!before.fits || new_limit == old_limit || new_limit == 0) return "";
  const TokenCount most = after.scenario->workload.context;
  // A cache that evicts blocks declines from its limit on, any other has a cliff there.
  const bool declines = after.memory.resident_tokens.has_value();
  if (old_limit < most && new_limit >= most) return declines ? "no fall" : "no cliff";
  if (new_limit < most)
    return fmt::format("{} {}", declines ? "falls from" : "cliff moves to", text_count(new_limit));
  return "";
}

// Tokens/s of all sessions of a timeline together, where they are slowest: what makes the good
// hours faster does not help who waits in the bad ones. 0 if one ends the program.
double slowest_rate(const Hours& hours) {
  double slowest = std::numeric_limits<double>::infinity();
  for (const HourPoint& p : hours.points)
    if (p.sessions > 0) slowest = std::min(slowest, p.sessions * p.tokens_per_s);
  return std::isfinite(slowest) ? slowest : 0;
}

}  // namespace

std::vector<Alternative> alternatives(const Scenario& scenario, const Report& report) {
  return Collector(scenario, report).all();
}

Seconds request_time(const Report& r) {
  if (r.hours) return Seconds{double(r.scenario->workload.output_tokens) / slowest_rate(*r.hours)};
  return first_token(r) + r.tpot.mean * double(r.scenario->workload.output_tokens - 1);
}

std::vector<TriedAlternative> try_alternatives(const TomlDocument& document,
                                               const Catalogue& catalogue, const Report& report,
                                               const std::vector<Alternative>& alternatives) {
  std::vector<TriedAlternative> found;
  SimulateOptions sweep;
  sweep.fidelity = Fidelity::kSweep;
  sweep.cliffs = false;
  for (const Alternative& a : alternatives) {
    TomlDocument changed = document.clone();
    for (const auto& [key, value] : a.set) changed.set(key, value, a.flags);
    auto scenario = make_scenario(changed, catalogue);
    if (!scenario) continue;  // the runtime or the model cannot do it
    const Report other = simulate(std::make_shared<const Scenario>(*std::move(scenario)), sweep);
    if (!other.fits) continue;
    Advice advice;
    advice.change = a.change;
    advice.flags = a.flags;
    advice.tokens_per_s = other.hours ? slowest_rate(*other.hours) : other.decode_tokens_per_s;
    if (advice.tokens_per_s <= 0) continue;
    advice.ttft = first_token(other);
    advice.note = effect(report, other);
    if (!note_on_stand_ins(other.scenario->tensors).empty())
      advice.note += advice.note.empty() ? "speed not measured" : ", speed not measured";
    const Seconds request = request_time(other);
    if (report.fits) advice.gain = request_time(report) / request - 1;
    if (!report.fits || advice.gain > kMinReportedGain)
      found.push_back({a, other.scenario, request, std::move(advice)});
  }
  return found;
}

}  // namespace rigcast::sim
