#include "sim/serving/tier_copies.hpp"

#include <algorithm>
#include <utility>

namespace rigcast {

TierCopies::TierCopies(const RamTier& tier, RamLoad load, ServingWatch* watch)
    : tier_(tier),
      load_(load),
      watch_(watch),
      queues_{CopyQueue(tier.to_ram, tier.start), CopyQueue(tier.to_gpu, tier.start)} {
  if (tier.contended && load != RamLoad::kBlocking) flows_.emplace(*tier.contended, tier.start);
}

void TierCopies::note(CopyDirection direction, Seconds begin, Seconds end, Bytes bytes) {
  Sum& sum = sums_[std::size_t(direction)];
  sum.busy += end - begin;
  sum.bytes += bytes;
  if (watch_) watch_->copied(direction, begin, end, bytes);
}

Seconds TierCopies::queue(CopyDirection direction, Seconds now, Bytes bytes) {
  const CopyQueue::Span span = queues_[std::size_t(direction)].add(now, bytes);
  note(direction, span.begin, span.end, bytes);
  return span.end;
}

void TierCopies::collect() {
  for (const sim::CopyFlows::Done& done : flows_->take_done()) {
    note(done.direction, done.begin, done.end, done.bytes);
    if (done.direction == CopyDirection::kFromRam && load_ == RamLoad::kAhead)
      loaded_.push_back(done.tag);
  }
}

Seconds TierCopies::copy_and_wait(Seconds now, KvCache::Copies copies) {
  if (copies.to_ram.value > 0) now = queue(CopyDirection::kToRam, now, copies.to_ram);
  if (copies.to_gpu.value > 0) now = queue(CopyDirection::kFromRam, now, copies.to_gpu);
  return now;
}

void TierCopies::load(Seconds now, const std::vector<StepPlan::Load>& loads) {
  layers_ready_ = now;
  for (const auto& [id, tokens] : loads) {
    const Bytes bytes = tier_.bytes_of(tokens);
    const bool is_ahead = load_ == RamLoad::kAhead;
    if (flows_ && is_ahead) {
      flows_->add(CopyDirection::kFromRam, bytes, id);
    } else if (flows_) {
      of_step_ += bytes;
      ++copies_of_step_;
    } else {
      const Seconds there = queue(CopyDirection::kFromRam, now, bytes);
      if (is_ahead)
        loads_.push_back({id, there});
      else
        layers_ready_ = there;
    }
  }
}

void TierCopies::store(Seconds now, Bytes bytes) {
  if (bytes.value <= 0) return;
  if (flows_)
    flows_->add(CopyDirection::kToRam, bytes);
  else
    queue(CopyDirection::kToRam, now, bytes);
}

Seconds TierCopies::step(Seconds now, const sim::StepUse& use) {
  if (flows_) {
    const int copies = std::exchange(copies_of_step_, 0);
    const Bytes bytes = std::exchange(of_step_, Bytes{});
    const Seconds took = copies > 0
                             ? flows_->step_behind_copies(now, use, tier_.layers, bytes, copies)
                             : flows_->step(now, use, tier_.layers);
    collect();
    return took;
  }
  // A layer is computed when it is there: the longer of copying and computing, and one layer of the
  // other.
  const Seconds copying = std::exchange(layers_ready_, Seconds{}) - now;
  if (!(copying > Seconds{})) return use.time;
  return std::max(copying, use.time) + std::min(copying, use.time) / double(tier_.layers);
}

std::optional<Seconds> TierCopies::next_loaded() const {
  return loads_.empty() ? std::nullopt : std::optional(loads_.front().ends);
}

std::optional<Seconds> TierCopies::next_event(Seconds now, std::optional<Seconds> arrival) {
  if (flows_ && (arrival || flows_->has(CopyDirection::kFromRam))) {
    const Seconds until = now + flows_->wait(now, arrival);
    collect();
    return arrival && loaded_.empty() ? arrival : until;
  }
  const auto loaded = next_loaded();
  return loaded && (!arrival || *loaded < *arrival) ? loaded : arrival;
}

std::vector<RequestId> TierCopies::take_loaded(Seconds now) {
  std::vector<RequestId> out = std::exchange(loaded_, {});
  for (; !loads_.empty() && !(loads_.front().ends > now); loads_.pop_front())
    out.push_back(loads_.front().request);
  return out;
}

void TierCopies::finish(Seconds now) {
  if (!flows_) return;
  flows_->finish(now);
  collect();
}

}  // namespace rigcast
