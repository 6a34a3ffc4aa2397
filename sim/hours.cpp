#include "sim/hours.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "perfmodel/memory.hpp"
#include "perfmodel/page_in.hpp"
#include "perfmodel/pressure/available_memory.hpp"
#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/request_batches.hpp"
#include "perfmodel/step.hpp"
#include "sim/step_graph.hpp"

namespace rigcast::sim {
namespace {

constexpr int kSteps = 3;          // the last one of which is timed: buffers are filled by then
constexpr int kParts = 4;          // of a stretch within which the regime is the same
constexpr Seconds kShortest{1.0};  // between two moments

// What a moment of the timeline needs, without its speed.
struct Moment {
  Seconds at;
  TimelineEntry entry;  // as it is then
  HostPools pools;
  Paging paging;
  MemoryPlan memory;
};

class HoursModel {
 public:
  HoursModel(const Scenario& s, const Placement& p)
      : s_(s), context_(s), step_context_(s), placement_(p), batches_(s, s.workload) {
    for (const TimelineEntry& e : s.memory->timeline)
      context_.slots = std::max(context_.slots, std::size_t(open_sessions(e)));
  }

  Hours run() {
    const std::vector<TimelineEntry>& all = s_.memory->timeline;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) stretch(all[i], all[i + 1]);
    add(moment(all.back(), all.back().at));
    total();
    return std::move(out_);
  }

 private:
  int open_sessions(const TimelineEntry& e) const {
    return std::min(e.sessions, s_.memory->max_sessions);
  }

  // All sessions decode one token each.
  Batch batch_of(const TimelineEntry& e) const {
    const Batch one = batches_.token(std::max<TokenCount>(1, e.session_tokens));
    Batch all = one;
    all.sequences.assign(std::size_t(open_sessions(e)), one.sequences.front());
    return all;
  }

  Moment moment(TimelineEntry entry, Seconds at) const {
    Moment m{at, entry, {}, {}, {}};
    m.pools.room =
        std::min(room_of_ram(step_context_), s_.memory->limit.value_or(s_.rig.ram.capacity.value));
    if (open_sessions(entry) == 0) return m;
    const Batch batch = batch_of(entry);
    MemoryContext then = context_;
    then.others = entry.other;
    m.memory = plan_memory(then, placement_, batch);
    m.pools = host_pools(step_context_, placement_, m.memory, batch, &entry);
    m.paging = reclaim(m.pools, *s_.memory);
    if (m.memory.fits()) return m;
    m.paging.reclaim = Reclaim::kFull;  // VRAM may be what lacks room
    m.paging.lacking = std::max(m.paging.lacking, Bytes{1});
    return m;
  }

  Moment between(const TimelineEntry& a, const TimelineEntry& b, Seconds at) const {
    TimelineEntry e = a;
    const double share = (at - a.at) / (b.at - a.at);
    e.session_tokens = TokenCount(
        std::llround(std::lerp(double(a.session_tokens), double(b.session_tokens), share)));
    return moment(e, at);
  }

  // From one entry until just before the next.
  void stretch(const TimelineEntry& a, const TimelineEntry& b) {
    const auto at = [&](double share) { return between(a, b, a.at + (b.at - a.at) * share); };
    Moment before = at(0);
    add(before);
    for (int i = 1; i <= kParts; ++i) {
      const Moment next = at(double(i) / kParts);
      changes(a, b, before, next);
      add(next);
      before = next;
    }
  }

  // The moments between which the regime changes, of every change.
  void changes(const TimelineEntry& a, const TimelineEntry& b, Moment before, const Moment& end) {
    while (before.paging.reclaim != end.paging.reclaim) {
      Moment after = end;
      while (after.at - before.at > kShortest) {
        Moment middle = between(a, b, (before.at + after.at) / 2);
        (middle.paging.reclaim == before.paging.reclaim ? before : after) = std::move(middle);
      }
      add(before);
      if (after.at >= end.at) return;
      add(after);
      before = std::move(after);
    }
  }

  Step step_of(const Moment& m) const {
    return decode_step(step_context_, placement_, m.memory, batch_of(m.entry), {});
  }

  // Of the last of a few equal steps.
  Seconds period(const Step& step) const {
    StepGraph graph(step_context_, overlaps(step));
    std::vector<NodeId> ends;
    for (int i = 0; i < kSteps; ++i) ends.push_back(graph.append(step, Phase::kDecode, i));
    graph.run();
    return graph.finish(ends[kSteps - 1]) - graph.finish(ends[kSteps - 2]);
  }

  void add(const Moment& m) {
    HourPoint p;
    p.at = m.at;
    p.sessions = open_sessions(m.entry);
    p.session_tokens = m.entry.session_tokens;
    if (p.sessions > 0) {
      p.cache = m.memory.devices.back().kv + m.memory.swapped;
      p.weights = mapped_weights(step_context_, m.memory);
    }
    p.other = m.entry.other + m.entry.files;
    p.room = m.pools.room;
    p.reclaim = name(m.paging.reclaim);
    if (!out_.first_page && m.paging.lacking.value > 0) out_.first_page = m.at;
    if (p.sessions > 0) {
      Step step = step_of(m);
      step.page_in = {};
      const Seconds free = period(step);
      p.unpressed_tokens_per_s = 1 / free.value;
      step.page_in = m.paging;
      if (m.paging.reclaim != Reclaim::kFull) speeds(step, free, m.paging, p);
    }
    out_.points.push_back(std::move(p));
  }

  void speeds(const Step& step, Seconds free, const Paging& paging, HourPoint& p) const {
    const Seconds now = paging.lacking.value > 0 ? period(step) : free;
    const Seconds others = now - page_in_time(step_context_, paging);
    const auto speed_with = [&](const Paging& end) {
      return 1 / std::max(free, others + page_in_time(step_context_, end)).value;
    };
    p.tokens_per_s = 1 / now.value;
    p.least_tokens_per_s = std::min(p.tokens_per_s, speed_with(upper_end(paging)));
    p.most_tokens_per_s = std::max(p.tokens_per_s, speed_with(lower_end(paging)));
    p.disk = paging.files;
    p.swap = paging.swapped;
  }

  void total() {
    for (std::size_t i = 0; i + 1 < out_.points.size(); ++i) {
      const HourPoint &a = out_.points[i], &b = out_.points[i + 1];
      const double half = (b.at - a.at).value / 2;
      // At an entry, the sessions of the one before go on until it.
      const int sessions = a.sessions;
      out_.tokens += half * sessions * (a.tokens_per_s + b.tokens_per_s);
      out_.unpressed_tokens +=
          half * sessions * (a.unpressed_tokens_per_s + b.unpressed_tokens_per_s);
    }
  }

  const Scenario& s_;
  MemoryContext context_;
  const StepContext step_context_;
  const Placement& placement_;
  const RequestBatches batches_;
  Hours out_;
};

}  // namespace

Hours simulate_hours(const Scenario& scenario, const Placement& placement) {
  return HoursModel(scenario, placement).run();
}

}  // namespace rigcast::sim
