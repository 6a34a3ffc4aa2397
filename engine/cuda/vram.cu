#include <algorithm>
#include <cstdint>
#include <mutex>

#include "core/error.hpp"
#include "core/unit_text.hpp"
#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/vram.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr std::uint64_t kStep = 256;  // what cudaMalloc aligns to
constexpr std::size_t kItemsInText = 3;

std::uint64_t counted(std::size_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

Bytes quantity(std::uint64_t bytes) { return Bytes{double(bytes)}; }

}  // namespace

namespace detail {

struct VramAccounts {
  struct Item {
    std::string name;
    std::uint64_t held = 0;
    std::uint64_t most = 0;
  };

  int device = 0;
  std::uint64_t limit = 0;  // 0: none
  mutable std::mutex mutex;
  std::vector<Item> items;
  std::uint64_t held = 0;
  std::uint64_t most = 0;

  std::size_t item(const std::string& name) {
    const auto at = std::ranges::find(items, name, &Item::name);
    if (at != items.end()) return std::size_t(at - items.begin());
    items.push_back({name});
    return items.size() - 1;
  }
  void add(std::size_t index, std::uint64_t bytes) {
    Item& i = items[index];
    i.held += bytes;
    held += bytes;
    i.most = std::max(i.most, i.held);
    most = std::max(most, held);
  }
  void take_off(std::size_t index, std::uint64_t bytes) {
    items[index].held -= bytes;
    held -= bytes;
  }
  struct Room {
    std::uint64_t free = 0;
    std::uint64_t all = 0;  // of the card
  };
  Room room() const {
    std::size_t free = 0, all = 0;
    RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &all));
    const std::uint64_t allowed = limit > held ? limit - held : 0;
    return {limit > 0 ? std::min<std::uint64_t>(allowed, free) : free, all};
  }
};

}  // namespace detail

namespace {

using detail::VramAccounts;

// "; taken: weights 4.60 GiB, KV cache 1.00 GiB", the largest first.
std::string largest_items(std::vector<VramAccounts::Item> items) {
  std::ranges::stable_sort(items, std::greater<>(), &VramAccounts::Item::held);
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kItemsInText) && items[i].held > 0; ++i)
    text += (i == 0 ? "; taken: " : ", ") + items[i].name + " " + text_gib(quantity(items[i].held));
  return text;
}

ShortOfMemory shortage(const VramAccounts& accounts, std::size_t bytes, const std::string& item,
                       const VramAccounts::Room& room) {
  const bool limited = accounts.limit > 0;
  return ShortOfMemory(
      "GPU memory: " + text_gib(quantity(bytes)) + " asked for the " + item + ", " +
      text_gib(quantity(room.free)) + " free of " + (limited ? "a limit of " : "") +
      text_gib(quantity(limited ? accounts.limit : room.all)) + largest_items(accounts.items));
}

}  // namespace

Vram::Vram(int device, std::optional<Bytes> limit) : accounts_(std::make_shared<VramAccounts>()) {
  accounts_->device = device;
  if (limit) accounts_->limit = std::max<std::uint64_t>(1, std::uint64_t(limit->value));
  try {
    RIGCAST_CUDA_CALL(cudaSetDevice(device));
  } catch (const CudaFailure& failure) {
    throw MachineError("GPU " + std::to_string(device) + " cannot be used: " + failure.what());
  }
}

VramPiece Vram::take(std::size_t bytes, const std::string& item) {
  VramPiece memory;
  if (bytes == 0) return memory;
  VramAccounts& accounts = *accounts_;
  const std::lock_guard lock(accounts.mutex);
  RIGCAST_CUDA_CALL(cudaSetDevice(accounts.device));
  const VramAccounts::Room room = accounts.room();
  const std::uint64_t wanted = counted(bytes);
  if (wanted > room.free) throw shortage(accounts, bytes, item, room);
  const std::size_t index = accounts.item(item);
  try {
    RIGCAST_CUDA_CALL(cudaMalloc(&memory.place_, wanted));
  } catch (const CudaFailure& failure) {
    if (!failure.is_out_of_memory()) throw;
    throw shortage(accounts, bytes, item, room);
  }
  accounts.add(index, wanted);
  memory.bytes_ = bytes;
  memory.item_ = index;
  memory.accounts_ = accounts_;
  return memory;
}

void VramPiece::give_back() noexcept {
  if (!place_) return;
  // An error has no one to go to here; the next call says it again.
  static_cast<void>(cudaFree(std::exchange(place_, nullptr)));
  const std::lock_guard lock(accounts_->mutex);
  accounts_->take_off(item_, counted(std::exchange(bytes_, 0)));
}

std::vector<Vram::Item> Vram::items() const {
  const std::lock_guard lock(accounts_->mutex);
  std::vector<Item> out;
  for (const auto& i : accounts_->items)
    out.push_back({i.name, quantity(i.held), quantity(i.most)});
  return out;
}

Bytes Vram::held() const {
  const std::lock_guard lock(accounts_->mutex);
  return quantity(accounts_->held);
}

Bytes Vram::most_held() const {
  const std::lock_guard lock(accounts_->mutex);
  return quantity(accounts_->most);
}

Bytes Vram::free() const {
  const std::lock_guard lock(accounts_->mutex);
  RIGCAST_CUDA_CALL(cudaSetDevice(accounts_->device));
  return quantity(accounts_->room().free);
}

std::optional<Bytes> Vram::limit() const {
  return accounts_->limit > 0 ? std::optional(quantity(accounts_->limit)) : std::nullopt;
}

int Vram::device() const { return accounts_->device; }

}  // namespace rigcast::engine::cuda
