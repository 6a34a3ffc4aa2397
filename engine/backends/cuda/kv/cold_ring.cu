#include "engine/backends/cuda/kv/cold_ring.cuh"

#include <vector>

#include "core/base/error.hpp"
#include "engine/kernels/cuda/kv/gather_blocks.cuh"

namespace rigcast::engine::cuda {
namespace {

// From this size on, a run of blocks is copied sooner by a copy of its own than by the kernel that
// gathers blocks: on an H200 a copy takes 3 us to start and then moves 55 GB/s, the kernel 51.
constexpr std::size_t kLongRunBytes = 2 << 20;

// True if kernels read registered memory of the host at the host's own address.
bool reads_registered_memory() {
  int device = 0, does = 0;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  RIGCAST_CUDA_CALL(
      cudaDeviceGetAttribute(&does, cudaDevAttrCanUseHostPointerForRegisteredMem, device));
  return does != 0;
}

}  // namespace

ColdRing::ColdRing(Vram& vram, const Stream& computing, const Cache& like, std::vector<int> layers,
                   int slots)
    : computing_(computing),
      layout_(like),
      layers_(std::move(layers)),
      slots_(slots),
      memory_(
          vram.allocate((2 * std::size_t(slots) + layers_.size()) * std::size_t(like.layer_bytes()),
                        "KV on its way")),
      list_(std::size_t(slots) * sizeof(BlockFetch), "list of KV on its way"),
      reads_host_(like.layer_bytes() % 16 == 0 && reads_registered_memory()) {
  RIGCAST_ASSERT(slots >= 1 && !layers_.empty());
  // Rows are read in units of 16 bytes, also beyond the last row. Those bytes are not used, but
  // must be initialized.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), computing.get()));
}

void ColdRing::plan(Plan plan) {
  plan_ = std::move(plan);
  gathered_ = 0;
  if (!reads_host_) return;
  const std::size_t block_bytes = layers_.size() * std::size_t(layout_.layer_bytes());
  auto* const list = list_.as<BlockFetch>();
  std::erase_if(plan_.fetches, [&](const Fetch& f) {
    if (std::size_t(f.blocks) * std::size_t(layout_.layer_bytes()) >= kLongRunBytes) return false;
    for (int i = 0; i < f.blocks; ++i)
      list[gathered_++] = {f.from + std::size_t(i) * block_bytes, place(f.slot + i)};
    return true;
  });
}

// Long runs of blocks are copied, and other blocks are gathered. Rows of the host's memory are
// blocks, and rows of the ring are pairs of parts.
void ColdRing::fetch(int layer) {
  const auto bytes = std::size_t(layout_.layer_bytes());
  const std::size_t block_bytes = layers_.size() * bytes;
  if (marks_) marks_->begin_copy(ActivityKind::kFetchKv, layers_[std::size_t(layer)], in_);
  gather_blocks(in_, list_.on_device<BlockFetch>(), gathered_, part(layer), std::ptrdiff_t(bytes));
  double all = double(gathered_) * double(bytes);
  for (const Fetch& f : plan_.fetches) {
    RIGCAST_CUDA_CALL(cudaMemcpy2DAsync(place(f.slot) + part(layer), 2 * bytes,
                                        f.from + part(layer), block_bytes, bytes,
                                        std::size_t(f.blocks), cudaMemcpyHostToDevice, in_.get()));
    all += double(f.blocks) * double(bytes);
  }
  if (marks_) marks_->end_copy(in_, all);
  bytes_.to_gpu += all;
  fetched_[layer % 2].set(in_);
}

// A head's keys are contiguous, and so are its values.
void ColdRing::store(int layer, const Store& s) {
  const auto copy = [&](std::int64_t at, int row_bytes) {
    const std::int64_t offset = at + std::int64_t(s.first) * row_bytes;
    const auto pitch = std::size_t(layout_.head_bytes());
    const std::size_t width = std::size_t(s.count) * std::size_t(row_bytes);
    RIGCAST_CUDA_CALL(cudaMemcpy2DAsync(s.to + offset, pitch, place(s.slot) + offset, pitch, width,
                                        std::size_t(layout_.kv_heads), cudaMemcpyDeviceToHost,
                                        out_.get()));
    bytes_.to_host += double(width) * layout_.kv_heads;
  };
  copy(layout_.keys_at(layer, 0), layout_.k_row);
  copy(layout_.values_at(layer, 0), layout_.v_row);
}

void ColdRing::begin_step(CopyTracer* marks) {
  if (!is_used()) return;
  marks_ = marks;
  begun_.set(computing_);  // the step before, which may still use places of its last two layers
  begun_.make_wait(in_);
  for (int layer = 0; layer < layers() && layer < 2; ++layer) fetch(layer);
}

bool ColdRing::await(int layer) {
  if (!is_used()) return false;
  fetched_[layer % 2].make_wait(computing_);
  return true;
}

void ColdRing::done(int layer) {
  if (!is_used()) return;
  const SyncEvent& used = used_[layer % 2];
  const SyncEvent& stored = stored_[layer % 2];
  used.set(computing_);
  used.make_wait(out_);
  for (const Store& s : plan_.stores) store(layer, s);
  stored.set(out_);
  if (layer + 2 >= layers()) return;
  stored.make_wait(in_);
  fetch(layer + 2);
}

void ColdRing::end_step() {
  if (!is_used()) return;
  ended_.set(out_);
  ended_.make_wait(computing_);
  marks_ = nullptr;
}

}  // namespace rigcast::engine::cuda
