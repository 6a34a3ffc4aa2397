#include "report/html/timeline.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/json_values.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kMaxSpans = 400;

struct Span {
  double from, to;
  std::string_view what;
};
struct Lane {
  std::string name;
  std::vector<Span> spans;
  double busy = 0;  // seconds in which any of all spans is under way
};

// Operations of a layer are one thing to see: computing.
std::string_view what(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::kAttention:
    case ActivityKind::kCacheAttention:
    case ActivityKind::kFfn:
    case ActivityKind::kExperts:
    case ActivityKind::kHead:
    case ActivityKind::kEmbedding:
    case ActivityKind::kSample: return "compute";
    default: return name(kind);
  }
}

// Of spans in the order of their beginnings, which may overlap.
double busy_time(const std::vector<Span>& spans) {
  double busy = 0, until = 0;
  for (const Span& s : spans) {
    busy += std::max(0.0, s.to - std::max(s.from, until));
    until = std::max(until, s.to);
  }
  return busy;
}

std::vector<Lane> lanes_of(const std::vector<TraceEvent>& events) {
  std::vector<Lane> lanes;
  for (const TraceEvent& e : events) {
    if (!(e.finish_s > e.start_s)) continue;
    auto lane = std::ranges::find(lanes, e.track, &Lane::name);
    if (lane == lanes.end()) lane = lanes.insert(lane, Lane{e.track, {}, 0});
    lane->spans.push_back({e.start_s, e.finish_s, what(e.kind)});
  }
  for (Lane& lane : lanes) {
    std::ranges::stable_sort(lane.spans, {}, &Span::from);
    lane.busy = busy_time(lane.spans);
  }
  return lanes;
}

// Spans of the same kind with at most `gap` seconds between them become one.
std::vector<Lane> merged(const std::vector<Lane>& lanes, double gap) {
  std::vector<Lane> out;
  for (const Lane& lane : lanes) {
    Lane one{lane.name, {}, lane.busy};
    for (const Span& span : lane.spans) {
      Span* last = one.spans.empty() ? nullptr : &one.spans.back();
      if (last && last->what == span.what && span.from - last->to <= gap)
        last->to = std::max(last->to, span.to);
      else
        one.spans.push_back(span);
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::size_t spans_in(const std::vector<Lane>& lanes) {
  std::size_t count = 0;
  for (const Lane& lane : lanes) count += lane.spans.size();
  return count;
}

}  // namespace

std::vector<TraceEvent> decode_step_of(const std::vector<TraceEvent>& events) {
  std::vector<TraceEvent> out;
  for (const TraceEvent& e : events)
    if (e.phase == Phase::kDecode && (out.empty() || e.token == out.front().token))
      out.push_back(e);
  double begin = out.empty() ? 0 : out.front().start_s;
  for (const TraceEvent& e : out) begin = std::min(begin, e.start_s);
  for (TraceEvent& e : out) {
    e.start_s -= begin;
    e.finish_s -= begin;
  }
  return out;
}

std::string timeline_json(const std::vector<TraceEvent>& events, std::string_view start) {
  const std::vector<Lane> all = lanes_of(events);
  double end = 0;
  for (const TraceEvent& e : events) end = std::max(end, e.finish_s);
  if (all.empty() || !(end > 0)) return {};
  double gap = end / 2000;  // less than a pixel
  std::vector<Lane> lanes = merged(all, gap);
  while (spans_in(lanes) > kMaxSpans && gap < end) lanes = merged(all, gap *= 2);
  // Kinds that alternate all the time cannot be joined: what is longest is shown.
  for (Lane& lane : lanes) {
    const std::size_t most = std::max<std::size_t>(1, kMaxSpans / lanes.size());
    if (spans_in(lanes) <= kMaxSpans || lane.spans.size() <= most) continue;
    std::ranges::stable_sort(lane.spans, std::greater<>(),
                             [](const Span& s) { return s.to - s.from; });
    lane.spans.resize(most);
    std::ranges::stable_sort(lane.spans, {}, &Span::from);
  }
  using Json = nlohmann::ordered_json;
  const auto micro = [](double s) { return json_number(std::round(s * 1e6) / 1e6); };
  const auto span = [&](const Span& s) {
    return Json::array({micro(s.from), micro(s.to), std::string(s.what)});
  };
  const auto lane = [&](const Lane& l) {
    return Json{{"name", l.name}, {"busy_s", micro(l.busy)}, {"spans", json_list(l.spans, span)}};
  };
  return Json{
      {"start", std::string(start)}, {"end_s", micro(end)}, {"lanes", json_list(lanes, lane)}}
      .dump();
}

}  // namespace rigcast
