#pragma once
// Keys and values in the GPU's memory, in blocks of tokens that are taken as the context grows.

#include <vector>

#include "core/kv_cache.hpp"
#include "core/model_spec.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/vram.cuh"
#include "engine/kernels/cuda/cache.cuh"

namespace rigcast::engine::cuda {

class DeviceCache {
 public:
  struct Shape {
    KvTypes types;  // F16, Q8_0, Q4_0
    TokenCount block_tokens = 128;
  };
  /// Of these layers alone. Kernels that read it are on `stream`. Throws MachineError.
  DeviceCache(Vram& vram, const Stream& stream, const ModelSpec& spec, const Shape& shape,
              const std::vector<int>& layers);

  /// Makes room for positions below `tokens`; what is stored stays. Throws MachineError.
  void reserve(TokenCount tokens);

  /// Its addresses do not change while it lives.
  const Cache& view() const { return view_; }
  /// What kernels call a layer of the model: its index among those that are kept.
  int layer(int of_model) const { return place_of_[std::size_t(of_model)]; }
  bool holds_halves() const {
    return types_.k == QuantFormat::kF16 && types_.v == QuantFormat::kF16;
  }
  /// Of blocks that were taken, whether they hold tokens or not.
  Bytes bytes() const { return Bytes{double(blocks_.size()) * double(block_bytes_)}; }
  /// Of one token in one layer.
  std::int64_t token_bytes() const { return view_.kv_heads * (view_.k_row + view_.v_row); }

 private:
  static constexpr std::size_t kMostBlocks = 1 << 16;

  Vram& vram_;
  const Stream& stream_;
  KvTypes types_;
  Cache view_;
  std::vector<int> place_of_;  // -1: not kept
  std::size_t block_bytes_;
  VramPiece list_;
  std::vector<VramPiece> pieces_;  // each of one or more blocks
  std::vector<std::byte*> blocks_;
};

}  // namespace rigcast::engine::cuda
