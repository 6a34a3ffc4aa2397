#include "sim/serving/tier_copies.hpp"

#include <algorithm>
#include <utility>

namespace rigcast {

TierCopies::TierCopies(const RamTier& tier, RamLoad load, ServingWatch* watch)
    : tier_(tier),
      load_(load),
      watch_(watch),
      queues_{CopyQueue(tier.to_ram, tier.start), CopyQueue(tier.to_gpu, tier.start)},
      disk_(tier.from_disk, Seconds{}) {
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
    if (done.direction != CopyDirection::kFromRam || load_ != RamLoad::kAhead) continue;
    const auto disk = disk_ends_.extract(RequestId(done.tag));
    if (disk && disk.mapped() > done.end)
      ends(disk.key(), disk.mapped());
    else
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
  for (const StepPlan::Load& load : loads) {
    const Bytes bytes = tier_.bytes_of(load.tokens);
    if (load_ == RamLoad::kAhead) {
      load_ahead(now, load);
    } else if (flows_) {
      of_step_ += bytes;
      ++copies_of_step_;
    } else {
      layers_ready_ = queue(CopyDirection::kFromRam, now, bytes);
    }
  }
}

// Both tiers copy at once, and the request waits for both.
void TierCopies::load_ahead(Seconds now, const StepPlan::Load& load) {
  std::optional<Seconds> there;
  if (load.of_disk > 0) there = disk_.add(now, tier_.bytes_of(load.of_disk)).end;
  if (load.tokens > 0 && flows_) {
    if (there) disk_ends_[load.request] = *there;
    return flows_->add(CopyDirection::kFromRam, tier_.bytes_of(load.tokens), load.request);
  }
  if (load.tokens > 0) {
    const Seconds from_ram = queue(CopyDirection::kFromRam, now, tier_.bytes_of(load.tokens));
    there = std::max(there.value_or(from_ram), from_ram);
  }
  ends(load.request, *there);
}

void TierCopies::ends(RequestId request, Seconds at) {
  const auto later = std::ranges::upper_bound(loads_, at, {}, &Load::ends);
  loads_.insert(later, {request, at});
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
  const auto loaded = next_loaded();
  const auto known = loaded && (!arrival || *loaded < *arrival) ? loaded : arrival;
  if (flows_ && (known || flows_->has(CopyDirection::kFromRam))) {
    const Seconds until = now + flows_->wait(now, known);
    collect();
    return known && loaded_.empty() ? known : until;
  }
  return known;
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
