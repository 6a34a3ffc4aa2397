#include "sim/serving/watch/load_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rigcast {
namespace {

// The directions of copies come first, as there are two at most.
constexpr int kFirstLane = 3;
int track_of(CopyDirection direction) { return direction == CopyDirection::kToRam ? 1 : 2; }
std::size_t index(CopyDirection direction) { return std::size_t(track_of(direction)) - 1; }

const char* name(CopyDirection direction) {
  return direction == CopyDirection::kToRam ? "copies to RAM" : "copies from RAM";
}

}  // namespace

LoadTrace::LoadTrace(TraceStream& out, std::size_t units, std::uint64_t max_events)
    : out_(out), units_(std::max<std::size_t>(units, 1)), max_events_(max_events) {}

bool LoadTrace::is_full(Seconds at) {
  if (!full_at_ && out_.events() >= max_events_) full_at_ = at;
  return full_at_.has_value();
}

std::string LoadTrace::left_out() const {
  if (!full_at_) return {};
  return fmt::format(
      "the trace has the first {:.1f} s of the load, as it is full with {} events: fewer requests "
      "(load.requests) fit",
      full_at_->value, max_events_);
}

void LoadTrace::arrived(RequestId request, Seconds at) { waits_[request] = {"waits", at}; }

void LoadTrace::loads(RequestId request, Seconds at) {
  end_wait(request, at);
  waits_[request] = {"copied from RAM", at};
}

void LoadTrace::end_wait(RequestId request, Seconds at) {
  const auto wait = waits_.find(request);
  if (wait == waits_.end()) return;
  if (at > wait->second.since && !is_full(at))
    out_.wait(wait->second.name, request, wait->second.since, at);
  waits_.erase(wait);
}

std::size_t LoadTrace::free_lane() {
  if (free_lanes_.empty()) return lanes_.size();
  const std::size_t lane = free_lanes_.top();
  free_lanes_.pop();
  return lane;
}

void LoadTrace::scheduled(RequestId request, Seconds at, std::optional<std::size_t> slot) {
  end_wait(request, at);
  has_slots_ = slot.has_value();
  const std::size_t lane = slot ? *slot : free_lane();
  while (lanes_.size() <= lane) {
    out_.name_track(kFirstLane + int(lanes_.size()),
                    fmt::format("{} {}", slot ? "slot" : "sequence", lanes_.size()));
    lanes_.emplace_back();
  }
  lane_of_[request] = lane;
}

void LoadTrace::computed(const ComputedPart& part) {
  const auto found = lane_of_.find(part.request);
  if (found == lane_of_.end()) return;
  Lane& lane = lanes_[found->second];
  // Tokens of an answer that follow one another are one span, each piece of a prompt is its own.
  if (lane.open && lane.open->is_answer && part.is_answer && lane.open->end == part.begin) {
    lane.open->end = part.end;
    lane.open->tokens += part.tokens;
    ++lane.steps;
    return;
  }
  close(found->second);
  lane.open = part;
  lane.steps = 1;
}

void LoadTrace::close(std::size_t lane) {
  const auto part = std::exchange(lanes_[lane].open, std::nullopt);
  if (!part || is_full(part->begin)) return;
  out_.span(kFirstLane + int(lane), part->is_answer ? "answer" : "prompt", part->begin, part->end,
            {{"request", double(part->request) + 1},
             {"tokens", double(part->tokens)},
             {"steps", double(lanes_[lane].steps)}});
}

void LoadTrace::leave(RequestId request) {
  const auto found = lane_of_.find(request);
  if (found == lane_of_.end()) return;
  close(found->second);
  if (!has_slots_) free_lanes_.push(found->second);
  lane_of_.erase(found);
}

void LoadTrace::preempted(RequestId request, Seconds at) {
  leave(request);
  waits_[request] = {"preempted", at};
}

void LoadTrace::ended(RequestId request, Seconds) { leave(request); }

void LoadTrace::copied(CopyDirection direction, Seconds begin, Seconds end, Bytes bytes) {
  Copies& open = copies_[index(direction)];
  if (!std::exchange(is_named_[index(direction)], true))
    out_.name_track(track_of(direction), name(direction));
  if (open.count > 0 && begin > open.end) close(direction);
  if (open.count == 0) open.begin = begin;
  open.end = end;
  open.bytes += bytes;
  ++open.count;
}

void LoadTrace::close(CopyDirection direction) {
  Copies& open = copies_[index(direction)];
  const Copies done = std::exchange(open, {});
  if (done.count == 0 || is_full(done.begin)) return;
  out_.span(track_of(direction), name(direction), done.begin, done.end,
            {{"bytes", done.bytes.value}, {"copies", double(done.count)}});
}

void LoadTrace::levels(Seconds at, std::size_t running, std::size_t waiting, std::size_t used) {
  constexpr std::size_t kSteps = 200;  // of the cache's use, that are told apart
  const auto step = [&](std::size_t of) { return of * kSteps / units_; };
  if (levels_ && levels_->running == running && levels_->waiting == waiting &&
      step(levels_->used) == step(used))
    return;
  if (is_full(at)) return;
  if (!levels_ || levels_->running != running || levels_->waiting != waiting)
    out_.counter("requests", at, {{"running", double(running)}, {"waiting", double(waiting)}});
  if (!levels_ || step(levels_->used) != step(used))
    out_.counter("KV cache in use %", at, {{"used", 100 * double(used) / double(units_)}});
  levels_ = {running, waiting, used};
}

void LoadTrace::finish() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) close(lane);
  close(CopyDirection::kToRam);
  close(CopyDirection::kFromRam);
}

}  // namespace rigcast
