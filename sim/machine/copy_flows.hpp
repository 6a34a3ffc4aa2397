#pragma once
// Copies of a KV cache between RAM and GPUs, and the steps beside them, as flows in SimGrid: those
// that cross one link, or RAM, at once get equal shares of it. Copies of one direction follow one
// another.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/units.hpp"
#include "sim/machine/copy_links.hpp"

namespace rigcast::sim {

class CopyFlows {
 public:
  /// A copy that has ended.
  struct Done {
    CopyDirection direction;
    std::uint32_t tag;  // as it was added
    Seconds begin, end;
    Bytes bytes;
  };

  /// `start`: time of every copy before its first byte moves. One at a time may be used.
  CopyFlows(const CopyLinks& links, Seconds start);
  ~CopyFlows();
  CopyFlows(const CopyFlows&) = delete;
  CopyFlows& operator=(const CopyFlows&) = delete;

  /// A copy that may begin when those before it of its direction have ended.
  void add(CopyDirection direction, Bytes bytes, std::uint32_t tag = 0);
  /// True if no copy is under way, or waits.
  [[nodiscard]] bool is_idle() const;
  /// True if one of this direction is under way, or waits.
  [[nodiscard]] bool has(CopyDirection direction) const;

  /// Time passes from `now` on, in which copies go on; all return how long. The clock of the caller
  /// never goes back, and what was added begins no sooner than it is.
  /// A step of `layers` equal layers, of which several may be one, in their order: of each first
  /// what nothing slows, then what it exchanges, what is streamed, and what the CPU reads.
  Seconds step(Seconds now, const StepUse& use, int layers);
  /// The same, each layer of which begins when its part of what the step waits for has come from
  /// RAM: `copies` together, as one that has the tag 0. Requires that none is on its way from
  /// there.
  Seconds step_behind_copies(Seconds now, const StepUse& use, int layers, Bytes bytes, int copies);
  /// No step: until a time, or until a copy from RAM has ended, whatever is first.
  Seconds wait(Seconds now, std::optional<Seconds> until);
  /// No step: until all have ended.
  Seconds finish(Seconds now);

  /// Copies that have ended since this was last called, in the order of their ends.
  std::vector<Done> take_done();

 private:
  friend class FlowRunner;
  struct Copy {
    Bytes bytes;  // all of them
    std::uint32_t tag = 0;
    int parts = 1;  // in which it comes, one after the other
    Seconds start;  // of all parts
    int part = 0;   // that is under way
    Seconds wait;   // before its first byte, which is left
    Bytes left;     // of it
    std::optional<Seconds> begin;
  };
  static void begin_part(Copy& copy);
  std::deque<Copy>& queue(CopyDirection direction) { return queues_[std::size_t(direction)]; }

  const CopyLinks links_;
  const Seconds start_;
  std::array<std::deque<Copy>, 2> queues_;  // by direction; the first one is under way
  std::vector<Done> done_;
};

}  // namespace rigcast::sim
