#pragma once
// Double-buffered copies from the host: two slots in the GPU's memory are filled alternately, on a
// stream of their own, while earlier contents are used.

#include <array>
#include <cstddef>
#include <span>

#include "core/base/units.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/cuda/sync_event.cuh"

namespace rigcast::engine::cuda {

/// A run of bytes in pinned host memory, and its offset in a slot.
struct CopyRun {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::size_t at = 0;
};

/// All work is queued, by one thread. It may be captured in a graph of the computing stream,
/// between begin_recorded() and end_recorded(): then it does not wait for work that was queued
/// outside of the graph, and the graph must be launched between join_copies() and fork_copies().
/// Throws CudaFailure.
class CopySlots {
 public:
  /// Allocates both slots as `item`. `computing` outlives this object. Throws ShortOfMemory.
  CopySlots(Vram& vram, const Stream& computing, std::size_t slot_bytes, const char* item);

  /// Copies `runs` as soon as the slot is empty.
  void fill(int slot, std::span<const CopyRun> runs);
  /// Makes the computing stream wait until the slot is full; returns the slot's memory.
  const std::byte* arrived(int slot);
  /// Call when all work that reads the slot is queued on the computing stream.
  void emptied(int slot);

  void begin_recorded();
  void end_recorded();
  /// Makes the computing stream wait for all queued copies.
  void join_copies();
  /// Makes copies that are queued from now on wait for the computing stream's present work.
  void fork_copies();

  /// Measures the rate of copying `runs`, which fit into a slot. The slots are overwritten.
  BytesPerSecond measure(std::span<const CopyRun> runs);

  const Stream& copying() const { return copying_; }
  std::size_t slot_bytes() const { return slot_bytes_; }

 private:
  // Events of one slot. Events that are recorded in a captured graph must not be waited for outside
  // of it.
  struct Marks {
    SyncEvent filled, emptied;
    bool is_filled = false, is_emptied = false;  // in the current capture
  };
  struct Slot {
    VramPiece memory;
    Marks live, recorded;
  };
  Marks& marks(int slot) {
    Slot& s = slots_[std::size_t(slot)];
    return recording_ ? s.recorded : s.live;
  }

  const Stream& computing_;
  std::size_t slot_bytes_;
  Stream copying_;
  std::array<Slot, 2> slots_;
  SyncEvent fork_, join_, before_;
  bool recording_ = false;
};

}  // namespace rigcast::engine::cuda
