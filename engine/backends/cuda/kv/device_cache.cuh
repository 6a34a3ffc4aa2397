#pragma once
// The KV cache in a GPU's memory, in blocks of tokens that are allocated as the context grows. The
// oldest blocks may be evicted.

#include <memory>
#include <optional>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "engine/backends/cuda/kv/cold_blocks.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/cuda/sync_event.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kv/kv_eviction.hpp"

namespace rigcast::engine::cuda {

struct CacheShape {
  KvTypes types;  // F16, Q8_0, Q4_0
  TokenCount block_tokens = 128;
  std::optional<KvEviction> eviction{};  // absent: all tokens stay in the GPU's memory
  // Types of cold blocks; they may differ from the GPU's only if these are FP16.
  KvTypes cold_types{};
  Allocator cold_memory{};  // pinned host memory for cold blocks
  /// Blocks that layers with a window keep (window_ring.hpp); 0: all. Not with eviction.
  TokenCount window_blocks = 0;
};

class DeviceCache {
 public:
  /// Makes a cache of these layers. Kernels that read it are queued on `stream`. Throws
  /// MachineError.
  DeviceCache(Vram& vram, const Stream& stream, const ModelSpec& spec, const CacheShape& shape,
              const std::vector<int>& layers);

  /// Decides once how many blocks stay in the GPU's memory, when weights and buffers are allocated:
  /// `reserved_bytes` are left for later allocations. Call it before reserve() if there is an
  /// eviction().
  void choose_hot_blocks(double reserved_bytes);
  /// The next choose_hot_blocks() decides again, since there is more or less memory.
  void forget_hot_blocks() { hot_blocks_.reset(); }
  /// How blocks are evicted; nullptr: none is.
  const KvEviction* eviction() const { return cold_ ? &*shape_.eviction : nullptr; }

  /// Makes room for positions below `tokens`, of which `cached` are stored, or will be by queued
  /// work. Stored tokens stay. Not allowed while a step is being queued. If the GPU's memory is
  /// short, older blocks are evicted, if that is allowed. Throws ShortOfMemory, std::bad_alloc.
  void reserve(TokenCount tokens, TokenCount cached);
  /// Discards positions from `tokens` on.
  void truncate(TokenCount tokens);
  /// Lists blocks that somebody else owns as those of the context, instead of own ones: the cache
  /// of one sequence of a pool. Not with eviction(), nor together with reserve(). `windows`: of
  /// layers with a window, if these are apart.
  void list_blocks(std::vector<std::byte*> blocks, std::vector<std::byte*> windows = {});
  /// From now on layers with a window have blocks of their own, which somebody else owns: for
  /// list_blocks(). Nothing is cached, nor was captured. Throws ShortOfMemory.
  void keep_windows_apart(const ModelSpec& spec, TokenCount blocks);

  /// The layout of a block of layers that are alike (asserted), without addresses.
  const Cache& block_layout() const;
  /// The layout of a model's layer, which is its number 0, without addresses.
  const Cache& layout(int layer_of_model) const { return layouts_[std::size_t(layer_of_model)]; }
  /// False: layers of the cache have heads of their own.
  bool is_uniform() const { return is_uniform_; }
  /// Bytes of a block that holds all tokens of its layers.
  std::size_t block_bytes() const { return block_bytes_; }
  /// Bytes of a block of layers whose blocks are apart.
  std::size_t window_block_bytes() const { return ring_block_bytes_; }
  bool has_own_blocks(int layer_of_model) const { return is_ring_[std::size_t(layer_of_model)]; }
  /// The view of a model's layer for kernels, which is its number 0; its addresses are constant
  /// while the cache lives.
  Cache view(int layer_of_model) const;
  /// The index of a model's layer among those whose blocks it shares; -1: the cache has none of it.
  int layer(int of_model) const { return place_of_[std::size_t(of_model)]; }
  /// The GPU address of a model's layer in a block that is on the GPU; constant while the cache
  /// lives.
  std::byte* block(int of_model, TokenCount index) const {
    return blocks_[std::size_t(index)] + layout(of_model).first;
  }
  /// Blocks that layers with a window keep; 0: all.
  TokenCount window_blocks() const { return shape_.window_blocks; }
  bool holds_fp16() const {
    return shape_.types.k == QuantFormat::kF16 && shape_.types.v == QuantFormat::kF16;
  }
  TokenCount block_tokens() const { return view_.block_tokens; }
  /// The tokens for which there is memory.
  TokenCount room() const { return TokenCount(blocks_.size()) * block_tokens(); }
  /// Bytes of one token in a model's layer.
  std::int64_t token_bytes(int layer_of_model) const {
    const Cache& c = layout(layer_of_model);
    return c.kv_heads * (c.k_row + c.v_row);
  }

  /// The evicted blocks; nullptr: blocks are never evicted.
  ColdBlocks* cold() const { return cold_.get(); }
  /// A counter that changes when graphs captured of a step become invalid.
  int generation() const { return generation_; }

 private:
  TokenCount blocks_for(TokenCount tokens) const {
    return (tokens + view_.block_tokens - 1) / view_.block_tokens;
  }
  void lay_out(const ModelSpec& spec, const std::vector<int>& layers);
  void move_out(TokenCount blocks, TokenCount cached);
  void finish_evictions();
  void allocate_blocks(TokenCount count, TokenCount cached);
  void allocate_rings(TokenCount blocks);
  VramPiece allocate(std::size_t bytes);
  void make_room(TokenCount cached);
  std::byte* pop_free_block();
  void send_lists();

  Vram& vram_;
  const Stream& stream_;
  CacheShape shape_;
  Cache view_;                  // of layers that are alike
  std::vector<Cache> layouts_;  // by layer of the model
  bool is_uniform_ = true;
  int layers_ = 0, ring_layers_ = 0;  // that keep all tokens, and the last blocks
  std::vector<int> place_of_;
  std::vector<bool> is_ring_;
  std::size_t block_bytes_ = 0, ring_block_bytes_ = 0;
  // Block addresses: [layer][block] if blocks may be evicted, otherwise [block], and once more for
  // layers that are rings, in which addresses repeat.
  VramPiece list_;
  std::vector<VramPiece> ring_pieces_;
  std::vector<std::byte*> ring_blocks_;  // by place in the ring; apart: by position
  std::vector<VramPiece> pieces_;        // memory of one or more blocks each
  std::vector<std::byte*> blocks_;       // by position in the context; nullptr: cold
  std::vector<std::byte*> free_;         // unused blocks
  std::unique_ptr<ColdBlocks> cold_;
  std::optional<TokenCount> hot_blocks_;  // number that stays; decided when the cache is first used
  int generation_ = 0;
  // Lists are kept until their copy has ended, because a GPU may read the host's memory
  // asynchronously.
  struct UploadedLists {
    std::vector<std::vector<std::byte*>> lists;
    SyncEvent arrived;
  };
  UploadedLists sent_, previously_sent_;
};

}  // namespace rigcast::engine::cuda
