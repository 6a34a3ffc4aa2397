#pragma once
// The timeline of a load: a track for each slot (of caches in blocks: for each sequence that runs,
// the first one that is free), one for each direction of copies to and from RAM, waits, and
// counters.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/trace_stream.hpp"
#include "sim/serving/watch/serving_watch.hpp"

namespace rigcast {

class LoadTrace : public ServingWatch {
 public:
  /// Events of the timeline, of about 120 bytes each; it ends where there are more.
  static constexpr std::uint64_t kMaxEvents = 2'000'000;

  /// `units`: blocks or slots of the whole cache. The stream must outlive it.
  LoadTrace(TraceStream& out, std::size_t units, std::uint64_t max_events = kMaxEvents);

  void arrived(RequestId request, Seconds at) override;
  void loads(RequestId request, Seconds at) override;
  void scheduled(RequestId request, Seconds at, std::optional<std::size_t> slot) override;
  void computed(const ComputedPart& part) override;
  void preempted(RequestId request, Seconds at) override;
  void ended(RequestId request, Seconds at) override;
  void copied(CopyDirection direction, Seconds begin, Seconds end, Bytes bytes) override;
  void levels(Seconds at, std::size_t running, std::size_t waiting, std::size_t used) override;

  /// Writes what has begun. To be called when the load has been served, and nothing after it.
  void finish();
  /// What the timeline leaves out; empty: nothing.
  [[nodiscard]] std::string left_out() const;

 private:
  // What a sequence does, which goes on while steps follow one another.
  struct Lane {
    std::optional<ComputedPart> open;
    std::int64_t steps = 0;
  };
  struct Copies {
    Seconds begin, end;
    Bytes bytes;
    std::int64_t count = 0;  // 0: none
  };
  struct Wait {
    const char* name;
    Seconds since;
  };
  struct Levels {
    std::size_t running = 0, waiting = 0, used = 0;
  };

  bool is_full(Seconds at);
  void close(std::size_t lane);
  void close(CopyDirection direction);
  void end_wait(RequestId request, Seconds at);
  void leave(RequestId request);
  std::size_t free_lane();

  TraceStream& out_;
  const std::size_t units_;
  const std::uint64_t max_events_;
  std::optional<Seconds> full_at_;  // when there were as many events
  std::vector<Lane> lanes_;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> free_lanes_;
  std::unordered_map<RequestId, std::size_t> lane_of_;  // of those that run
  bool has_slots_ = false;
  std::unordered_map<RequestId, Wait> waits_;
  std::array<Copies, 2> copies_;  // by direction
  std::array<bool, 2> is_named_{};
  std::optional<Levels> levels_;  // as they were written last
};

}  // namespace rigcast
