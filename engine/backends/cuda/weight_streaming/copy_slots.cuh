#pragma once
// Two pieces of the GPU's memory that copies from the host fill in turn, on a stream of their own,
// while what arrived before is used.

#include <array>
#include <cstddef>
#include <span>

#include "core/base/units.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/mark.cuh"
#include "engine/cuda/memory/vram.cuh"

namespace rigcast::engine::cuda {

/// Bytes of pinned memory of the host, and where they go in a slot.
struct CopyRun {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::size_t at = 0;
};

/// All of it is queued, from one thread. It may be recorded into a graph of the computing stream,
/// between begin_recorded() and end_recorded(): then nothing that was queued outside is waited for,
/// and the graph is to be launched between settle_before() and settle_after(). Throws CudaFailure.
class CopySlots {
 public:
  /// `computing` outlives it. Takes both slots as `item`; throws ShortOfMemory.
  CopySlots(Vram& vram, const Stream& computing, std::size_t slot_bytes, const char* item);

  /// Copies once the slot is empty.
  void fill(int slot, std::span<const CopyRun> runs);
  /// The computing stream goes on when the slot is full; gives its memory.
  const std::byte* arrived(int slot);
  /// What the computing stream has queued so far is the last that reads the slot.
  void emptied(int slot);

  void begin_recorded();
  void end_recorded();
  /// The computing stream goes on when all copies that were queued have ended.
  void settle_before();
  /// Copies that are queued from here on begin when the computing stream has come here.
  void settle_after();

  /// Copies these, which fit into a slot, several times. The slots are overwritten.
  BytesPerSecond measure(std::span<const CopyRun> runs);

  const Stream& copying() const { return copying_; }
  std::size_t slot_bytes() const { return slot_bytes_; }

 private:
  // Marks that are set in a recording must not be waited for outside of it.
  struct Marks {
    Mark filled, emptied;
    bool is_filled = false, is_emptied = false;  // in the recording that goes on
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
  Mark fork_, join_, before_;
  bool recording_ = false;
};

}  // namespace rigcast::engine::cuda
