#pragma once
// Which states of recurrent layers a failed step has left incomplete: their sequences begin anew.

#include <cstddef>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::engine {

class LostStates {
 public:
  explicit LostStates(int count) : lost_(std::size_t(count), false) {}

  /// A step of these sequences begins, each with its `state` and its `cached` tokens. Throws
  /// MachineError if one of them goes on from a state that was lost.
  template <class Sequences>
  void begin(const Sequences& sequences) {
    for (const auto& s : sequences)
      if (s.cached > 0 && lost_[std::size_t(s.state)])
        throw MachineError("the state of a sequence was lost in a step that failed");
    for (const auto& s : sequences) lost_[std::size_t(s.state)] = true;
  }
  /// A state is copied to another between steps. Throws MachineError if it was lost.
  void copy(int from, int to) {
    if (from < int(lost_.size()) && lost_[std::size_t(from)])
      throw MachineError("the state of a sequence was lost in a step that failed");
    if (to < int(lost_.size())) lost_[std::size_t(to)] = false;
  }
  /// It has ended.
  template <class Sequences>
  void end(const Sequences& sequences) {
    for (const auto& s : sequences) lost_[std::size_t(s.state)] = false;
  }

 private:
  std::vector<bool> lost_;
};

}  // namespace rigcast::engine
