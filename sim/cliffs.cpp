#include "sim/cliffs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "core/base/knee.hpp"
#include "core/text/unit_text.hpp"
#include "perfmodel/max_context.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/resource_use.hpp"

namespace rigcast::sim {
namespace {

// A fall begins where time grows this much faster than before, and continues while it grows this
// much faster.
constexpr double kFalls = 3.0;
constexpr double kStillFalls = 1.5;
// A step is over within so many blocks: one is on its way out while the next one fills.
constexpr TokenCount kStepBlocks = 2;
// The smallest slope of a trend, over the whole range and as a share of a token's time.
constexpr double kFlat = 0.02;

struct Trend {
  TokenCount from;
  double period;
  double slope;

  double at(TokenCount n) const { return period + slope * double(n - from); }
  bool departs_at(TokenCount n, double value) const { return value > at(n) * (1 + kOffTrend); }
};

// The plan's last device is the host.
const DeviceMemory& fullest_gpu(const MemoryPlan& memory) {
  return *std::min_element(
      memory.devices.begin(), memory.devices.end() - 1,
      [](const DeviceMemory& a, const DeviceMemory& b) { return a.free() < b.free(); });
}

Resource busiest(const ResourceUse& use) {
  return Resource(std::max_element(use.seconds.begin(), use.seconds.end()) - use.seconds.begin());
}

// What leaves RAM where it is full. `before`: whether it has been full already.
std::string cause_of(Reclaim reclaim, bool before) {
  if (before && reclaim != Reclaim::kFiles)
    return "RAM full: more of a longer cache comes back from swap for every token";
  switch (reclaim) {
    case Reclaim::kFiles: return "RAM full: weights are read from the disk again for every token";
    case Reclaim::kSwap: return "RAM full: what is swapped comes back for every token";
    case Reclaim::kBoth:
      return "RAM full: weights are read from the disk again for every token, and some of the "
             "cache from swap";
    case Reclaim::kNone:
    case Reclaim::kFull: break;
  }
  return "RAM full: the system would end the program";
}

void explain(const StepContext& s, const DecodeModel& model, Cliff& cliff, TokenCount after) {
  if (const Paging paging = model.paging(after); paging.lacking.value > 0) {
    cliff.device = "host";
    cliff.tier = Tier::kRam;
    cliff.cause = cause_of(paging.reclaim, model.paging(cliff.at_tokens).lacking.value > 0);
    return;
  }
  const TokenCount cold = cold_tokens(s, model.memory(), {after - 1, 1});
  const Resource bound = busiest(model.use(after));
  if (cold > 0) {
    cliff.device = fullest_gpu(model.memory()).device;
    cliff.tier = Tier::kVram;
    const bool lru = s.kv.evict == Eviction::kLru;
    cliff.cause = fmt::format(
        "VRAM {:.0f} % full: {} in RAM and read back over PCI-E for every token",
        s.kv.threshold * 100, lru ? "LRU keeps no block, all are" : "the oldest KV blocks are");
    return;
  }
  cliff.device = s.rig.gpus.empty() ? "host" : "GPU 0";
  const bool on_host = bound == Resource::kRam || bound == Resource::kCpu || s.rig.gpus.empty();
  cliff.tier = on_host ? Tier::kRam : Tier::kVram;
  cliff.cause = fmt::format("from here bound by {}", name(bound));
}

// True if time leaves the trend by kMinFall from `begin` to `step_end`, and grows at least kFalls
// times as fast there as from `step_end` to `end`: a step is steeper than what is on both sides.
bool is_step(const Trend& trend, TokenCount begin, TokenCount step_end, TokenCount end,
             const std::function<double(TokenCount)>& time) {
  if (step_end <= begin) return true;  // within one block
  const double down = time(step_end);
  if (down < trend.at(step_end) * (1 + kMinFall)) return false;
  if (step_end >= end) return true;
  const double slope = (down - time(begin)) / double(step_end - begin);
  return slope >= kFalls * (time(end) - down) / double(end - step_end);
}

// The last position of (good, bad] that is still on the trend: time is constant within a block.
TokenCount bisect_departure(DecodeModel& model, const Trend& trend, TokenCount good,
                            TokenCount bad) {
  while (bad - good > model.granularity()) {
    const TokenCount middle = good + (bad - good) / 2;
    if (trend.departs_at(middle, model.period(middle).value))
      bad = middle;
    else
      good = middle;
  }
  return read_cells(good, model.granularity());
}

// The fall from the last position on the trend to `end`: a decline, which a step may begin.
std::vector<Cliff> falls(const StepContext& s, DecodeModel& model, const Trend& trend,
                         TokenCount end) {
  const auto time = [&](TokenCount n) { return model.period(n).value; };
  const auto fall = [&](TokenCount from, TokenCount to) {
    Cliff cliff;
    cliff.at_tokens = from;
    cliff.until_tokens = to;
    cliff.before_tokens_per_s = 1.0 / time(from);
    cliff.after_tokens_per_s = 1.0 / time(to);
    explain(s, model, cliff, to);
    return cliff;
  };
  const TokenCount begin = bisect_departure(model, trend, trend.from, end);
  const TokenCount step_end = std::min(begin + kStepBlocks * model.granularity(), end);
  if (!is_step(trend, begin, step_end, end, time)) return {fall(begin, end)};
  std::vector<Cliff> out{fall(begin, step_end)};
  out.back().until_tokens.reset();
  const Trend lower{step_end, time(step_end), trend.slope};
  if (time(end) > lower.at(end) * (1 + kMinFall)) out.push_back(fall(step_end, end));
  return out;
}

}  // namespace

std::vector<Cliff> position_cliffs(const StepContext& s, DecodeModel& model, TokenCount first,
                                   TokenCount last) {
  model.refine(first, last);
  std::vector<std::pair<TokenCount, double>> points;
  for (const auto& [n, period] : model.curve())
    if (n >= first && n <= last) points.emplace_back(n, period);
  std::vector<Cliff> cliffs;
  if (points.size() < 3) return cliffs;
  const double flat = kFlat * points.front().second / double(last - first + 1);
  const auto slope_at = [&](std::size_t i) {
    return std::max(flat, (points[i + 1].second - points[i].second) /
                              double(points[i + 1].first - points[i].first));
  };
  for (std::size_t i = 1; i + 1 < points.size();) {
    const Trend trend{points[i].first, points[i].second, slope_at(i - 1)};
    if (slope_at(i) < kFalls * trend.slope) {
      ++i;
      continue;
    }
    // The fall lasts while time grows faster than before it; then a new trend begins.
    std::size_t end = i + 1;
    while (end + 1 < points.size() && slope_at(end) > kStillFalls * trend.slope) ++end;
    if (points[end].second > trend.at(points[end].first) * (1 + kMinFall)) {
      std::ranges::move(falls(s, model, trend, points[end].first), std::back_inserter(cliffs));
    }
    i = end + 1;
  }
  return cliffs;
}

std::vector<Cliff> context_cliffs(const Scenario& given, const Placement& placement,
                                  TokenCount longest) {
  const bool by_context = given.kv.policy == KvPolicy::kVram || given.kv.policy == KvPolicy::kRam;
  if (!by_context || longest == 0 || longest >= given.model.context) return {};
  Scenario s = given;
  if (s.placement.gpu_layers) {  // stated layers stay until memory is full
    s.settings.headroom = {};
    longest = max_context(s, placement, s.model.context);
    if (longest >= given.model.context) return {};
  }
  s.workload.context = longest;
  Cliff cliff;
  cliff.axis = CliffAxis::kContext;
  cliff.at_tokens = longest;
  cliff.before_tokens_per_s =
      1.0 / DecodeModel(s, placement, Fidelity::kSweep).period(longest).value;
  s.workload.context = longest + s.runtime.memory.kv_padding;
  const MemoryPlan beyond = plan_memory(s, placement, s.workload.context);
  const DeviceMemory* lacking = beyond.shortest();
  const DeviceMemory& full = lacking ? *lacking : fullest_gpu(beyond);
  cliff.device = full.device;
  cliff.tier = full.tier;
  cliff.cause = fmt::format("{} full{} when the context limit is set beyond this",
                            full.tier == Tier::kVram ? "VRAM" : "RAM",
                            lacking ? "" : " but for the headroom");
  if (!s.placement.gpu_layers) {
    const Placement next = resolve_placement(s);
    if (plan_memory(s, next, s.workload.context).fits()) {
      cliff.after_tokens_per_s = 1.0 / DecodeModel(s, next, Fidelity::kSweep).period(longest).value;
      cliff.cause += layers_without_head(s, next.gpu_layers) == s.model.layers
                         ? std::string(": the output head moves to the CPU")
                         : fmt::format(": {} of {} layers stay on the GPU",
                                       layers_without_head(s, next.gpu_layers), s.model.layers);
    }
  }
  const bool falls = cliff.after_tokens_per_s * (1 + kMinFall) < cliff.before_tokens_per_s;
  return falls ? std::vector{cliff} : std::vector<Cliff>{};
}

}  // namespace rigcast::sim
