#include "sim/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/hardware/gpu_architecture.hpp"
#include "core/runtime/format_group.hpp"
#include "core/scenario/regime.hpp"
#include "core/text/unit_text.hpp"
#include "perfmodel/context/companions.hpp"
#include "perfmodel/context/correction.hpp"
#include "perfmodel/context/memory_nodes.hpp"
#include "perfmodel/context/profile_interval.hpp"
#include "perfmodel/inputs.hpp"
#include "perfmodel/max_context.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/request_batches.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/resource_use.hpp"
#include "sim/cliffs.hpp"
#include "sim/hours.hpp"
#include "sim/load.hpp"
#include "sim/prefill.hpp"

namespace rigcast::sim {
namespace {

constexpr int kGridPoints = 24;
constexpr std::int64_t kTracedUbatches = 16;

Bottleneck bottleneck(const ResourceUse& use, double total_s) {
  const auto it = std::max_element(use.seconds.begin(), use.seconds.end());
  return {Resource(it - use.seconds.begin()), total_s > 0 ? std::min(1.0, *it / total_s) : 0.0};
}

// What a GPU needs beside the newest build of the runtime; empty: nothing.
std::string note_on_backend(Backend backend, const RuntimeProfile& runtime, const GpuPart& gpu) {
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  if (gpu.vendor == "qualcomm" && backend == Backend::kVulkan)
    return fmt::format(
        "{} drives Adreno GPUs by OpenCL, for which there are no figures: this is "
        "forecast by those of Vulkan",
        runtime.name);
  if (runtime.rules == RuntimeRules::kRigcast && backend != Backend::kCuda)
    return fmt::format("the engine of {} has no code for {}: no run of it on such a GPU",
                       runtime.name, name(backend));
  if (backend != Backend::kCuda || !known || known->last_cuda == 0) return "";
  if (runtime.rules == RuntimeRules::kRigcast)
    return fmt::format("the engine of {} has no code for {} GPUs: it needs Turing or later",
                       runtime.name, known->name);
  return fmt::format("CUDA {} and later have no code for {} GPUs: this needs a build with CUDA {}",
                     known->last_cuda + 1, known->name, known->last_cuda);
}

Interval around(double value, double share) { return {value / (1 + share), value * (1 + share)}; }

class Simulation {
 public:
  Simulation(std::shared_ptr<const Scenario> scenario, const SimulateOptions& options)
      : scenario_(std::move(scenario)), s_(*scenario_), options_(options) {
    report_.scenario = scenario_;
    report_.warnings = s_.warnings;
    report_.placement = resolve_placement(s_);
    const Inputs inputs = tally_inputs(s_);
    report_.inputs = inputs.count;
    report_.assumed = inputs.assumed;
  }

  Report run() && {
    report_.memory = plan_memory(s_, report_.placement, s_.workload.last_position() + 1);
    report_.max_context = max_context(s_, report_.placement, s_.model.context);
    check_fit();
    note_on_wired_limit();
    if (!report_.fits) return std::move(report_);
    set_machine(s_.rig);
    warn();
    DecodeModel decode(s_, report_.placement, options_.fidelity);
    if (s_.memory) check_room(decode);
    if (!report_.fits) return std::move(report_);
    prefill();
    starts();
    decoded(decode);
    positions(decode);
    memory_over_time();
    if (s_.memory && !s_.memory->timeline.empty())
      report_.hours = simulate_hours(s_, report_.placement);
    if (options_.cliffs) cliffs(decode);
    intervals();
    if (options_.trace) trace();
    return std::move(report_);
  }

 private:
  void check_fit() {
    if (const DeviceMemory* lacking = report_.memory.shortest()) {
      report_.fits = false;
      report_.errors.push_back(fmt::format(
          "does not fit: {} {} {} of {}, {} too much", lacking->device,
          lacking->device.ends_with("together") ? "need" : "needs", text_gib(lacking->needed()),
          text_gib(lacking->capacity), text_gib(-lacking->free())));
      if (s_.runtime.rules == RuntimeRules::kPagedServer && s_.scheduler)
        report_.errors.push_back(
            fmt::format("{} leaves weights and cache {:g} of the memory: more with --set "
                        "scheduler.memory_share",
                        s_.runtime.name, s_.scheduler->memory_share));
    }
    const auto resident = report_.memory.resident_tokens;
    if (resident && !report_.memory.blocks_stay && *resident < s_.kv.hot_tokens &&
        s_.workload.last_position() >= s_.kv.hot_tokens) {
      report_.fits = false;
      report_.errors.push_back(
          fmt::format("does not fit: VRAM holds {} tokens of KV below the threshold, the hot "
                      "window is {}",
                      text_count(*resident), text_count(s_.kv.hot_tokens)));
    }
  }

  // Memory and swap together may be too small for what others have beside the model.
  void check_room(const DecodeModel& decode) {
    const Paging last = decode.paging(s_.workload.last_position());
    if (last.reclaim != Reclaim::kFull) return;
    report_.fits = false;
    report_.errors.push_back(fmt::format(
        "does not fit: with {} tokens memory lacks {}, {}: the system would end the program",
        text_count(s_.workload.last_position()), text_gib(last.lacking),
        last.all_in_use
            ? "and a control group without files that may leave is not swapped while all of it "
              "is in use"
            : "of which too little may be swapped"));
  }

  // Where layers were moved off the GPU, or do not fit on it.
  void note_on_wired_limit() {
    const bool is_whole = report_.placement.gpu_layers > s_.model.layers;
    if (report_.fits && (is_whole || s_.placement.gpu_layers)) return;
    if (auto note = wired_limit_note(s_); !note.empty()) add_first(std::move(note));
  }

  void warn() {
    if (const Bytes outside = report_.memory.outside_ram; outside.value > 0 && !s_.memory)
      add_warning(
          fmt::format("RAM cannot hold {} of the weights: every token reads what it needs "
                      "of them from the disk",
                      text_gib(outside)));
    if (auto note = note_on_full_node(s_, report_.memory.devices.back().needed()); !note.empty())
      add_warning(std::move(note));
    if (auto note = note_on_stand_ins(s_.tensors); !note.empty()) add_warning(std::move(note));
    for (const GpuPart& gpu : s_.rig.gpus)
      if (auto note = note_on_backend(s_.settings.backend, s_.runtime, gpu); !note.empty())
        add_first(std::move(note));
    for (const DeviceMemory& d : report_.memory.devices)
      if (d.tier == Tier::kVram && d.weights.value > 0 && d.free() < s_.settings.headroom)
        add_warning(fmt::format(
            "{} has {} free, less than the {} that {} leaves itself (--headroom)", d.device,
            text_gib(d.free()), text_gib(s_.settings.headroom), s_.runtime.name));
    for (const HostLink& link : s_.rig.links) {
      const PcieLink card = s_.rig.gpus[std::size_t(&link - s_.rig.links.data())].pcie;
      if (card.generation == 0 || s_.rig.unified()) continue;
      if (link.pcie.lanes < card.lanes || link.pcie.generation < card.generation)
        add_warning(fmt::format("the slot runs at PCI-E {}, the card can do {}", text(link.pcie),
                                text(card)));
    }
  }

  // For notes without which every figure misleads: the screen shows the first few.
  void add_first(std::string text) {
    auto& all = report_.warnings;
    if (std::ranges::find(all, text) == all.end()) all.insert(all.begin(), std::move(text));
  }

  void add_warning(std::string text) {
    auto& all = report_.warnings;
    if (std::ranges::find(all, text) == all.end()) all.push_back(std::move(text));
  }

  void prefill() {
    prefill_ = forecast_prefill(s_, report_.placement, options_.fidelity);
    const Seconds compute = prefill_.total - prefill_.sample;
    report_.prefill_tokens_per_s = double(s_.workload.prompt_tokens) / compute.value;
    report_.prefill_bound = bottleneck(prefill_.use, prefill_.total.value);
  }

  // The token ids go to the GPU as rows of the embedding; that copy is inside the first ubatch.
  TtftBreakdown breakdown(Seconds load) const {
    TtftBreakdown b;
    b.load = load;
    b.tokenize = s_.runtime.decode.tokenize.value * double(s_.workload.prompt_tokens);
    if (!s_.rig.gpus.empty() && !s_.rig.unified())
      b.transfer = hidden_bytes(s_.model) * double(s_.workload.prompt_tokens) /
                   s_.rig.links.front().h2d.value;
    b.sample = prefill_.sample;
    b.prefill = std::max(Seconds{0}, prefill_.total - b.sample - b.transfer);
    return b;
  }

  // A sweep needs the scenario's own start only. A file that RAM cannot hold is read again from the
  // disk: pages leave the cache before they are read a second time.
  void starts() {
    const Bytes file = file_bytes(s_), held = held_of_file(s_, report_.memory);
    const bool warm = held >= file;
    const auto wanted = [&](Start start) {
      return options_.fidelity != Fidelity::kSweep || s_.workload.start == start;
    };
    report_.resident = breakdown({0});
    if (warm && wanted(Start::kWarm)) from(Start::kWarm, report_.warm, report_.warm_bound);
    if (wanted(Start::kCold) || (!warm && s_.workload.start == Start::kWarm))
      from(Start::kCold, report_.cold, report_.cold_bound);
    if (!warm && s_.workload.start != Start::kResident && !s_.memory)
      add_warning(fmt::format("RAM holds {} of the file's {}: every start reads it from the disk",
                              text_gib(held), text_gib(file)));
  }

  void from(Start start, std::optional<TtftBreakdown>& ttft, std::optional<Bottleneck>& bound) {
    const LoadForecast load = forecast_load(s_, report_.placement, start, options_.fidelity);
    ttft = breakdown(load.total);
    ResourceUse use = load.use;
    use += prefill_.use;
    bound = bottleneck(use, ttft->total().value);
  }

  void decoded(DecodeModel& decode) {
    const TokenCount first = s_.workload.depth + s_.workload.prompt_tokens + 1;
    const TokenCount last = s_.workload.last_position();
    std::vector<double> gaps = decode.periods(first, last);
    // A single output token has no gap between tokens: its speed is that of the token that would
    // follow.
    if (gaps.empty()) gaps.push_back(decode.period(first).value);
    report_.tpot = summarize(gaps);
    TokenTimes times;
    times.at_s.push_back(report_.ttft()->total().value);
    for (const double gap : gaps) times.at_s.push_back(times.at_s.back() + gap);
    report_.decode_tokens_per_s = tokens_per_second(times);

    ResourceUse use;
    double period = 0;
    for (const Stretch& part : stretches(decode, first, std::max(first, last))) {
      const ResourceUse of = decode.use(part.middle());
      for (std::size_t r = 0; r < use.seconds.size(); ++r)
        use.add(Resource(r), of.seconds[r] * part.share, of.bytes[r] * part.share);
      period += decode.period(part.middle()).value * part.share;
    }
    report_.decode_bound = bottleneck(use, period);
    for (std::size_t r = 0; r < use.seconds.size(); ++r) {
      report_.utilisation[r] = period > 0 ? std::min(1.0, use.seconds[r] / period) : 0.0;
      report_.traffic_bytes[r] = prefill_.use.bytes[r] + use.bytes[r] * double(gaps.size());
    }
  }

  // Tokens of the answer for which memory suffices, or for which it does not.
  struct Stretch {
    TokenCount first, last;
    double share;  // of all of the answer's tokens

    TokenCount middle() const { return (first + last) / 2; }
  };

  // The parts of [first, last]. Of a part that is short of memory, a token in its middle says what
  // comes back.
  std::vector<Stretch> stretches(const DecodeModel& decode, TokenCount first, TokenCount last) {
    const auto from = s_.memory ? first_short(decode, first, last) : std::nullopt;
    std::vector<Stretch> out;
    const auto add = [&](TokenCount a, TokenCount b) {
      if (a <= b) out.push_back({a, b, double(b - a + 1) / double(last - first + 1)});
    };
    add(first, from ? *from - 1 : last);
    if (from) add(*from, last);
    if (!s_.memory) return out;
    short_share_ = from ? out.back().share : 0;
    paging(decode.paging(out.back().middle()));
    const auto in_context = first_short(decode, 1, s_.workload.context);
    if (in_context && decode.paging(*in_context).reclaim != Reclaim::kFull)
      report_.paging->from_tokens = in_context;
    return out;
  }

  // The first position of [first, last] where a page leaves: what a cache takes only grows with it.
  static std::optional<TokenCount> first_short(const DecodeModel& decode, TokenCount first,
                                               TokenCount last) {
    const auto lacks = [&](TokenCount n) { return decode.paging(n).lacking.value > 0; };
    if (!lacks(last)) return std::nullopt;
    if (lacks(first)) return first;
    while (last - first > 1) {
      const TokenCount middle = first + (last - first) / 2;
      (lacks(middle) ? last : first) = middle;
    }
    return last;
  }

  void paging(const Paging& p) {
    TokenPaging out{std::string(name(p.reclaim)), p.files, p.swapped, {}, {}, {}};
    const Bytes most = std::max(p.files, p.files_most);
    if (p.files_least < most) out.disk_interval = Interval{p.files_least.value, most.value};
    if (p.swapped_most.value > 0)
      out.swap_interval = Interval{p.swapped_least.value, p.swapped_most.value};
    report_.paging = out;
    paging_ = p;
  }

  void positions(DecodeModel& decode) {
    std::vector<TokenCount> at = options_.positions;
    // For a grid over the whole context, interpolation between samples is accurate enough.
    const bool grid = at.empty() && options_.cliffs && options_.fidelity != Fidelity::kExact;
    if (grid) decode.refine(1, s_.workload.context);
    if (at.empty() && options_.cliffs)
      for (int i = 0; i <= kGridPoints; ++i) at.push_back(s_.workload.context * i / kGridPoints);
    for (const TokenCount tokens : at) {
      const TokenCount cached = std::clamp<TokenCount>(tokens, 1, s_.workload.context);
      if (s_.memory && decode.paging(cached).reclaim == Reclaim::kFull) {
        report_.by_position.push_back({tokens, 0, {}, Resource::kRam});
        continue;
      }
      const Seconds period = grid ? Seconds{decode.interpolate(cached)} : decode.period(cached);
      const Bottleneck bound = bottleneck(decode.use(cached), period.value);
      report_.by_position.push_back({tokens, 1.0 / period.value, period, bound.resource});
    }
  }

  void memory_over_time() {
    const auto add = [&](TokenCount tokens) {
      const MemoryPlan plan = plan_memory(s_, report_.placement, std::max<TokenCount>(1, tokens));
      for (const DeviceMemory& d : plan.devices)
        report_.timeline.push_back({tokens, d.device, d.total()});
    };
    for (const PositionSpeed& p : report_.by_position) add(p.tokens);
  }

  void cliffs(DecodeModel& decode) {
    report_.cliffs = position_cliffs(s_, decode, 1, s_.workload.context);
    auto later = context_cliffs(s_, report_.placement, report_.max_context);
    report_.cliffs.insert(report_.cliffs.end(), later.begin(), later.end());
  }

  // The interval around a forecast: from the rig's own runs where it is narrower than the
  // profile's.
  Interval around_forecast(double value, SpeedMetric metric) const {
    const Regime regime = regime_of(s_, report_.placement);
    if (const auto own = narrower_spread(s_, metric, regime))
      return {value * std::exp(-*own), value * std::exp(*own)};
    const ProfileInterval of = profile_interval(s_, metric, regime);
    return {value * of.low, value * of.high};
  }

  // An interval of the rig's own runs does not rest on the profile's rows.
  std::vector<std::string> unmeasured(SpeedMetric metric, Regime regime) const {
    if (narrower_spread(s_, metric, regime)) return {};
    return unmeasured_families(s_, metric, regime);
  }

  void tell_unmeasured() {
    const Regime regime = regime_of(s_, report_.placement);
    report_.unmeasured = {unmeasured(SpeedMetric::kDecode, regime),
                          unmeasured(SpeedMetric::kPrefill, regime)};
    std::string text =
        unmeasured_text(s_, report_.unmeasured.decode, report_.unmeasured.prefill, regime);
    if (!text.empty()) add_first(std::move(text));
  }

  void intervals() {
    report_.tokens_per_s_interval =
        around_forecast(report_.decode_tokens_per_s, SpeedMetric::kDecode);
    report_.tokens_per_s_interval->lo *= share_of_stand_ins(s_.tensors);
    widen_by_paging(*report_.tokens_per_s_interval);
    report_.prefill_interval = around_forecast(report_.prefill_tokens_per_s, SpeedMetric::kPrefill);
    const TtftBreakdown& b = *report_.ttft();
    const double compute = (b.total() - b.load).value;
    // The upper end of a speed is the lower end of a time.
    const Interval speed = around_forecast(1.0, SpeedMetric::kPrefill);
    const Interval rest{compute / speed.hi, compute / std::max(speed.lo, 1e-9)};
    const Interval load = around(b.load.value, s_.runtime.uncertainty.load.value);
    report_.ttft_interval = Interval{rest.lo + load.lo, rest.hi + load.hi};
    tell_unmeasured();
  }

  // The least and the most that tokens may read again, beside all else of their time.
  void widen_by_paging(Interval& speed) const {
    const double now = 1 / report_.decode_tokens_per_s;
    const double paging = page_in_time(s_, paging_).value;
    const auto with = [&](const Paging& end) {
      return std::max(now + short_share_ * (page_in_time(s_, end).value - paging), 1e-9);
    };
    speed.lo *= now / with(upper_end(paging_));
    speed.hi *= now / with(lower_end(paging_));
  }

  void trace() {
    std::vector<TraceEvent>& out = *options_.trace;
    const double load =
        forecast_load(s_, report_.placement, s_.workload.start, options_.fidelity, &out)
            .total.value;
    const MemoryPlan memory = plan_memory(s_, report_.placement, s_.workload.context);
    const RequestBatches batches(s_, s_.workload);
    const std::int64_t prefills = std::min(batches.ubatch_count(), kTracedUbatches);
    std::vector<Step> steps;
    for (std::int64_t i = 0; i < prefills; ++i)
      steps.push_back(
          prefill_step(s_, report_.placement, memory, batches.ubatch(i), batches.is_last(i)));
    // The prompt's step gives the first output token. The step of that token, which gives the
    // second, is at the position behind the prompt.
    const TokenCount first = s_.workload.depth + s_.workload.prompt_tokens;
    const TokenCount tokens = std::min(kTracedTokens, s_.workload.output_tokens - 1);
    for (TokenCount t = 0; t < tokens; ++t)
      steps.push_back(decode_step(s_, report_.placement, memory, batches.token(first + t + 1)));
    StepGraph graph(s_, std::ranges::any_of(steps, overlaps));
    graph.record(true);
    for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(steps.size()); ++i) {
      const bool is_prefill = i < prefills;
      const TokenCount token = is_prefill ? batches.ubatch(i).cached() : first + (i - prefills);
      graph.append(steps[std::size_t(i)], is_prefill ? Phase::kPrefill : Phase::kDecode, token);
    }
    graph.run();
    const auto events = graph.events(load);
    out.insert(out.end(), events.begin(), events.end());
  }

  std::shared_ptr<const Scenario> scenario_;
  const Scenario& s_;
  const SimulateOptions& options_;
  Report report_;
  PrefillForecast prefill_;
  Paging paging_;           // of a token in the middle of the answer's part that is short of memory
  double short_share_ = 0;  // that part of the answer's tokens
};

}  // namespace

Report simulate(std::shared_ptr<const Scenario> scenario, const SimulateOptions& options) {
  return Simulation(std::move(scenario), options).run();
}

}  // namespace rigcast::sim
