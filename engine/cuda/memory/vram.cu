#include "engine/cuda/memory/vram.cuh"

#include <algorithm>
#include <cstdint>

#include "core/text/unit_text.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr std::size_t kStep = 256;  // what cudaMalloc aligns to

std::size_t counted(std::size_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

// A limit of nothing is one.
std::optional<Bytes> at_least_a_byte(std::optional<Bytes> limit) {
  return limit ? std::optional(std::max(*limit, 1_B)) : std::nullopt;
}

}  // namespace

Vram::Vram(int device, std::optional<Bytes> limit)
    : device_(device), account_(at_least_a_byte(limit)) {
  try {
    RIGCAST_CUDA_CALL(cudaSetDevice(device));
  } catch (const CudaFailure& failure) {
    throw MachineError("GPU " + std::to_string(device) + " cannot be used: " + failure.what());
  }
}

Vram::Card Vram::card() const {
  RIGCAST_CUDA_CALL(cudaSetDevice(device_));
  std::size_t free = 0, all = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &all));
  return {Bytes{double(free)}, Bytes{double(all)}};
}

Bytes Vram::free() const {
  const Bytes of_card = card().free;
  return std::min(of_card, account_.free().value_or(of_card));
}

ShortOfVram Vram::shortage(std::size_t bytes, const std::string& item, Bytes free) const {
  const std::optional<Bytes> limited = limit();
  return ShortOfVram("GPU memory: " + text_gib(Bytes{double(bytes)}) + " asked for the " + item +
                     ", " + text_gib(free) + " free of " + (limited ? "a limit of " : "") +
                     text_gib(limited.value_or(card().all)) + account_.largest_text());
}

VramPiece Vram::allocate(std::size_t bytes, const std::string& item) {
  VramPiece memory;
  if (bytes == 0) return memory;
  const std::lock_guard lock(*taking_);
  const std::size_t wanted = counted(bytes);
  const Bytes room = free();
  if (Bytes{double(wanted)} > room) throw shortage(bytes, item, room);
  try {
    RIGCAST_CUDA_CALL(cudaMalloc(&memory.place_, wanted));
  } catch (const CudaFailure& failure) {
    if (!failure.is_out_of_memory()) throw;
    throw shortage(bytes, item, room);
  }
  memory.bytes_ = bytes;
  auto charge = account_.charge(wanted, item);
  RIGCAST_ASSERT(charge);  // nobody else takes, and there was room
  memory.charge_ = *std::move(charge);
  return memory;
}

void VramPiece::free() noexcept {
  // An error has no one to go to here; the next call says it again.
  if (place_) static_cast<void>(cudaFree(std::exchange(place_, nullptr)));
}

}  // namespace rigcast::engine::cuda
