#pragma once
// Which of an executor's states of recurrent layers are whose.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::engine {

class StateSlots {
 public:
  explicit StateSlots(int count) : taken_(std::size_t(count), false) {}

  /// Gives the first that nobody has to an owner without one. There are as many as sequences run.
  void take(int& owner) {
    if (owner >= 0) return;
    const auto free = std::ranges::find(taken_, false);
    RIGCAST_ASSERT(free != taken_.end());
    *free = true;
    owner = int(free - taken_.begin());
  }
  void release(int& owner) {
    if (owner >= 0) taken_[std::size_t(owner)] = false;
    owner = -1;
  }

 private:
  std::vector<bool> taken_;
};

}  // namespace rigcast::engine
