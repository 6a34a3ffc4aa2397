#include "sim/decode.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/memory.hpp"
#include "perfmodel/overlap.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"

namespace rigcast::sim {
namespace {

// An exact run is divided into parts so that its graph stays small.
constexpr TokenCount kStretch = 2048;

// True if the cache moves to RAM in whole blocks.
bool leaves_in_blocks(const StepContext& s) {
  const bool streams = s.kv.policy == KvPolicy::kStream;
  return evicts(s.kv.policy) || (streams && runtime_model(s.runtime).streams_in_blocks());
}

}  // namespace

DecodeModel::DecodeModel(const Scenario& scenario, const Placement& placement, Fidelity fidelity)
    : s_(scenario),
      memory_context_(scenario),
      batches_(scenario, scenario.workload),
      p_(placement),
      fidelity_(fidelity),
      memory_(plan_memory(scenario, placement, scenario.workload.context)),
      grouping_(grouping_of(fidelity)),
      overlaps_(overlaps(step(scenario.workload.context))),
      granularity_(std::max(s_.runtime.memory.kv_padding,
                            leaves_in_blocks(s_) ? s_.kv.block_tokens : TokenCount{1})),
      graph_(s_, overlaps_) {
  if (overlaps_)
    prefetch_distance_ =
        std::max(1, prefetch_distance(s_.runtime, step(scenario.workload.context)));
}

Step DecodeModel::step(TokenCount cached) const {
  if (s_.memory) return decode_step(s_, p_, memory_at(cached), batches_.token(cached), grouping_);
  return decode_step(s_, p_, memory_, batches_.token(cached), grouping_);
}

MemoryPlan DecodeModel::memory_at(TokenCount cached) const {
  return plan_memory(memory_context_, p_, cached);
}

ResourceUse DecodeModel::use(TokenCount cached) const { return resource_use(s_, step(cached)); }

// Periods of the tokens [first, last], simulated one after the other.
std::vector<double> DecodeModel::run_window(TokenCount first, TokenCount last) {
  // The tokens before fill the buffers, and copies for the tokens after contend with these.
  const TokenCount before = overlaps_ ? prefetch_distance_ + 1 : 0;
  const TokenCount after = prefetch_distance_;
  graph_.clear();
  std::vector<NodeId> ends;
  for (TokenCount t = first - before; t <= last + after; ++t) {
    const NodeId end = graph_.append(step(std::max<TokenCount>(1, t)), Phase::kDecode, t);
    if (t >= first - 1 && t <= last) ends.push_back(end);
  }
  graph_.run();
  std::vector<double> out;
  double previous = before > 0 ? graph_.finish(ends.front()).value : 0.0;
  for (std::size_t i = before > 0 ? 1 : 0; i < ends.size(); ++i) {
    const double end = graph_.finish(ends[i]).value;
    out.push_back(end - previous);
    previous = end;
  }
  return out;
}

Seconds DecodeModel::period(TokenCount cached) {
  const auto [it, fresh] = samples_.try_emplace(cached, 0.0);
  if (fresh) it->second = run_window(cached, cached).front();
  return {it->second};
}

// Time is constant within a cell or block, so a line through the middles of blocks is unbiased.
TokenCount DecodeModel::snapped(TokenCount cached) const {
  const TokenCount cell = (cached - 1) / granularity_;
  return cell * granularity_ + (granularity_ + 1) / 2;
}

// Positions where the slope changes by construction.
std::vector<TokenCount> DecodeModel::breaks(TokenCount first, TokenCount last) const {
  std::vector<TokenCount> at{first, last};
  const auto add = [&](TokenCount n) {
    if (n > first && n < last) at.push_back(n);
  };
  // Blocks of the prompt's last batch are evicted later than those of a token.
  if (leaves_in_blocks(s_)) add(snapped(first + granularity_));
  if (memory_.resident_tokens) {
    add(snapped(*memory_.resident_tokens));
    add(snapped(*memory_.resident_tokens + 1));
  }
  if (s_.model.window) add(snapped(s_.model.window->tokens));
  const int parts = fidelity_ == Fidelity::kSweep ? 2 : 8;
  for (int i = 1; i < parts; ++i) add(snapped(first + (last - first) * i / parts));
  std::ranges::sort(at);
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

double DecodeModel::curve_point(TokenCount snapped) {
  return curve_[snapped] = period(snapped).value;
}

void DecodeModel::bisect(TokenCount a, TokenCount b, double whole) {
  const TokenCount middle = snapped(a + (b - a) / 2);
  if (middle <= a || middle >= b) return;
  const double fa = curve_point(a);
  const double fb = curve_point(b);
  const double fm = curve_point(middle);
  const double line = fa + (fb - fa) * double(middle - a) / double(b - a);
  // The error of the straight line as an area, compared with the tolerance for the whole interval.
  const double wrong = std::fabs(fm - line) * double(b - a) / 2;
  const double tolerance = (fidelity_ == Fidelity::kSweep ? 6e-4 : 1e-4) * whole;
  if (wrong <= tolerance) return;
  bisect(a, middle, whole);
  bisect(middle, b, whole);
}

void DecodeModel::refine(TokenCount first, TokenCount last) {
  first = snapped(first);
  last = std::max(first, snapped(last));
  const auto at = breaks(first, last);
  const double whole = (curve_point(first) + curve_point(last)) / 2 * double(last - first + 1);
  for (const TokenCount n : at) curve_point(n);
  for (std::size_t i = 0; i + 1 < at.size(); ++i) bisect(at[i], at[i + 1], whole);
}

double DecodeModel::interpolate(TokenCount cached) const {
  auto right = curve_.lower_bound(cached);
  if (right == curve_.end()) return std::prev(right)->second;
  if (right->first == cached || right == curve_.begin()) return right->second;
  const auto left = std::prev(right);
  const double at = double(cached - left->first) / double(right->first - left->first);
  return left->second + (right->second - left->second) * at;
}

std::vector<double> DecodeModel::periods(TokenCount first, TokenCount last) {
  std::vector<double> out;
  if (last < first) return out;
  out.reserve(std::size_t(last - first + 1));
  if (fidelity_ == Fidelity::kExact) {
    for (TokenCount a = first; a <= last; a += kStretch) {
      const auto part = run_window(a, std::min(last, a + kStretch - 1));
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }
  refine(first, last);
  for (TokenCount t = first; t <= last; ++t) out.push_back(interpolate(t));
  return out;
}

}  // namespace rigcast::sim
