#pragma once
// Keys and values where a GPU attends to them, in blocks of tokens that are taken as the context
// grows. The oldest may leave the GPU's memory.

#include <memory>
#include <optional>
#include <vector>

#include "core/model/kv_cache.hpp"
#include "core/model/model_spec.hpp"
#include "engine/backends/cuda/kv/cold_blocks.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/mark.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kv/kv_eviction.hpp"

namespace rigcast::engine::cuda {

struct CacheShape {
  KvTypes types;  // F16, Q8_0, Q4_0
  TokenCount block_tokens = 128;
  std::optional<KvEviction> eviction{};  // absent: all tokens stay in the GPU's memory
  KvTypes cold_types{};                  // of the others; those of the GPU unless these are halves
  MakeMemory cold_memory{};              // of the host, that GPUs copy from and to
};

class DeviceCache {
 public:
  /// Of these layers alone. Kernels that read it are on `stream`. Throws MachineError.
  DeviceCache(Vram& vram, const Stream& stream, const ModelSpec& spec, const CacheShape& shape,
              const std::vector<int>& layers);

  /// Makes room for positions below `tokens`, of which `cached` are written, or will be by what is
  /// queued; what is stored stays. Not while a step is being queued. Where the GPU's memory is
  /// short, older blocks leave it, if any may. Throws ShortOfMemory, std::bad_alloc.
  void reserve(TokenCount tokens, TokenCount cached);
  /// Positions from `tokens` on are not needed any more.
  void truncate(TokenCount tokens);

  /// How a block lies; without the blocks.
  const Cache& block_layout() const { return view_; }
  /// As kernels see a layer of the model; its addresses do not change while it lives.
  Cache view(int layer_of_model) const;
  /// What kernels call a layer of the model: its index among those that are kept; -1: it is not.
  int layer(int of_model) const { return place_of_[std::size_t(of_model)]; }
  /// On the GPU: a layer of the model in a block that has room. Stays there while this lives.
  std::byte* block(int of_model, TokenCount index) const {
    return blocks_[std::size_t(index)] + layer(of_model) * view_.layer_bytes();
  }
  bool holds_halves() const {
    return shape_.types.k == QuantFormat::kF16 && shape_.types.v == QuantFormat::kF16;
  }
  TokenCount block_tokens() const { return view_.block_tokens; }
  /// Bytes of one token in one layer.
  std::int64_t token_bytes() const { return view_.kv_heads * (view_.k_row + view_.v_row); }

  /// Those that have left; nullptr: none ever does.
  ColdBlocks* cold() const { return cold_.get(); }
  /// Changes whenever what was recorded of a step no longer holds.
  int generation() const { return generation_; }

 private:
  TokenCount blocks_for(TokenCount tokens) const {
    return (tokens + view_.block_tokens - 1) / view_.block_tokens;
  }
  void decide_hot_blocks();
  void move_out(TokenCount blocks, TokenCount cached);
  void settle_moved();
  void take_blocks(TokenCount count, TokenCount cached);
  void make_room(TokenCount cached);
  std::byte* take_free();
  void send_lists();

  Vram& vram_;
  const Stream& stream_;
  CacheShape shape_;
  Cache view_;
  int layers_;
  std::vector<int> place_of_;
  std::size_t block_bytes_;
  VramPiece list_;                  // [layer][block] where blocks leave, else [block]
  std::vector<VramPiece> pieces_;   // each of one or more blocks
  std::vector<std::byte*> blocks_;  // by their place in the context; nullptr: cold
  std::vector<std::byte*> free_;    // that hold nothing
  std::unique_ptr<ColdBlocks> cold_;
  std::optional<TokenCount> hot_blocks_;  // that stay; decided when the cache is first used
  int generation_ = 0;
  // A GPU that reads the host's memory by itself may still copy what was sent: it is kept until it
  // has arrived.
  struct SentLists {
    std::vector<std::vector<std::byte*>> lists;
    Mark arrived;
  };
  SentLists sent_, sent_before_;
};

}  // namespace rigcast::engine::cuda
