#pragma once
// What copies of a KV cache between RAM and GPUs share with the steps that are computed beside
// them.

#include <array>

#include "core/base/units.hpp"
#include "core/hardware/shared_layers.hpp"

namespace rigcast::sim {

/// Of a KV cache, to and from its second tier.
enum class CopyDirection { kToRam, kFromRam };

/// What the directions of the GPUs' links and RAM carry, and what one transfer reaches of it alone.
/// GPUs that share every layer are one, with the links of all.
struct CopyLinks {
  BytesPerSecond h2d, d2h, ram;
  BytesPerSecond to_ram, from_ram;  // of copies of the cache
  BytesPerSecond exchange;          // of all-reduces; 0: they take another way

  bool operator==(const CopyLinks&) const = default;
};

/// A step: how long it takes where nothing slows it, and what it moves meanwhile. Transfers are
/// part of its time, and its work waits for them.
struct StepUse {
  StepUse() = default;
  StepUse(Seconds of) : time(of) {}  // it moves nothing that copies could slow

  Seconds time;
  Bytes exchanged;    // between GPUs, by all of them together
  Bytes streamed;     // weights to the GPU: equivalent bytes at the rate of h2d
  Bytes read;         // by the CPU: equivalent bytes at the rate of RAM
  Bytes paged;        // that come back into RAM which was too small for them
  bool full = false;  // memory and swap together were too small: the system ends the program
  /// Of `time`, what the stages of a pipeline behind the first one take: a stage begins a step when
  /// it has ended the step before, and the stage before it has ended this one.
  std::array<Seconds, kMaxStages - 1> later_stages{};

  StepUse& operator+=(const StepUse& other) {
    time += other.time;
    exchanged += other.exchanged;
    streamed += other.streamed;
    read += other.read;
    paged += other.paged;
    full = full || other.full;
    for (std::size_t i = 0; i < later_stages.size(); ++i) later_stages[i] += other.later_stages[i];
    return *this;
  }
  friend StepUse operator+(StepUse a, const StepUse& b) { return a += b; }
  friend StepUse operator*(StepUse use, double by) {
    use.time = use.time * by;
    use.exchanged = use.exchanged * by;
    use.streamed = use.streamed * by;
    use.read = use.read * by;
    use.paged = use.paged * by;
    for (Seconds& stage : use.later_stages) stage *= by;
    return use;
  }
  friend StepUse operator-(const StepUse& a, const StepUse& b) { return a + b * -1.0; }
};

}  // namespace rigcast::sim
