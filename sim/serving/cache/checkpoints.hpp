#pragma once
// Checkpoints of what requests have beside their blocks, without which blocks are of no use to
// others: states of recurrent layers, or windows. The ones that were taken or used last are there.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>

#include "sim/serving/cache/block_run.hpp"

namespace rigcast {

class Checkpoints {
 public:
  /// 0: none are needed.
  explicit Checkpoints(std::size_t count) : count_(count) {}

  [[nodiscard]] bool are_needed() const { return count_ > 0; }
  /// The most first blocks behind which one is, of those that `is_of(request, blocks)` says are the
  /// beginning of what is looked for; it counts as used. 0: none is.
  template <class IsOf>
  std::uint32_t use(const IsOf& is_of) {
    auto best = keys_.end();
    for (auto key = keys_.begin(); key != keys_.end(); ++key)
      if ((best == keys_.end() || index_of(*key) > index_of(*best)) &&
          is_of(request_of(*key), index_of(*key)))
        best = key;
    if (best == keys_.end()) return 0;
    keys_.splice(keys_.end(), keys_, best);
    return index_of(*best);
  }
  /// One is taken behind so many first blocks of the request. `instead`: one that is given up, if
  /// it is there.
  void take(std::uint64_t key, std::uint64_t instead = 0) {
    const auto known = std::ranges::find(keys_, key);
    if (known != keys_.end()) return keys_.splice(keys_.end(), keys_, known);
    if (const auto old = std::ranges::find(keys_, instead); old != keys_.end()) keys_.erase(old);
    if (keys_.size() == count_) keys_.pop_front();
    keys_.push_back(key);
  }

 private:
  std::size_t count_;
  std::list<std::uint64_t> keys_;  // block_key(request, blocks); the one that was used last is last
};

}  // namespace rigcast
