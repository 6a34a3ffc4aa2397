#include "engine/backends/cuda/weight_streaming/copy_slots.cuh"

#include <algorithm>
#include <limits>

namespace rigcast::engine::cuda {

CopySlots::CopySlots(Vram& vram, const Stream& computing, std::size_t slot_bytes, const char* item)
    : computing_(computing), slot_bytes_(slot_bytes) {
  for (Slot& slot : slots_) slot.memory = vram.allocate(slot_bytes, item);
}

void CopySlots::fill(int slot, std::span<const CopyRun> runs) {
  Marks& m = marks(slot);
  if (!recording_ || m.is_emptied) m.emptied.make_wait(copying_);
  std::byte* const to = slots_[std::size_t(slot)].memory.as();
  for (const CopyRun& run : runs)
    RIGCAST_CUDA_CALL(
        cudaMemcpyAsync(to + run.at, run.from, run.bytes, cudaMemcpyHostToDevice, copying_.get()));
  m.filled.set(copying_);
  m.is_filled = true;
}

const std::byte* CopySlots::arrived(int slot) {
  Marks& m = marks(slot);
  if (!recording_ || m.is_filled) m.filled.make_wait(computing_);
  return slots_[std::size_t(slot)].memory.as();
}

void CopySlots::emptied(int slot) {
  Marks& m = marks(slot);
  m.emptied.set(computing_);
  m.is_emptied = true;
}

void CopySlots::begin_recorded() {
  recording_ = true;
  for (Slot& slot : slots_) slot.recorded.is_filled = slot.recorded.is_emptied = false;
  fork_.set(computing_);
  fork_.make_wait(copying_);
}

void CopySlots::end_recorded() {
  join_.set(copying_);
  join_.make_wait(computing_);
  recording_ = false;
}

void CopySlots::join_copies() {
  before_.set(copying_);
  before_.make_wait(computing_);
}

void CopySlots::fork_copies() {
  for (int slot : {0, 1}) emptied(slot);
}

BytesPerSecond CopySlots::measure(std::span<const CopyRun> runs) {
  constexpr int kSamples = 4;
  double bytes = 0, best = std::numeric_limits<double>::infinity();
  for (const CopyRun& run : runs) bytes += double(run.bytes);
  for (int take = 0; take < kSamples; ++take) {
    const Event begin, end;
    begin.record(copying_);
    fill(take % 2, runs);
    end.record(copying_);
    end.wait();
    best = std::min(best, Event::seconds_between(begin, end));
  }
  return Bytes{bytes} / Seconds{std::max(best, 1e-9)};
}

}  // namespace rigcast::engine::cuda
