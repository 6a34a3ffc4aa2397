#pragma once
// Keys and values of every layer in blocks of tokens, taken from memory as the context grows.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/model/kv_cache.hpp"
#include "core/model/model_spec.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/memory/large_pages.hpp"

namespace rigcast::engine {

/// Memory for that many bytes, given back with its last owner. Throws std::bad_alloc.
using MakeMemory = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
/// On large pages.
std::shared_ptr<std::byte> make_large_pages(std::size_t bytes);

/// Of a model: 0, 1, ...
std::vector<int> all_layers(const ModelSpec& spec);

class KvCache {
 public:
  /// Types as check_kv_types allows. block_tokens >= 1.
  KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens);
  /// Of some layers alone, in ascending order: no other is asked for. Memory is made by `make` for
  /// `piece_blocks` blocks at once, in which a layer's blocks are neighbours.
  KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens,
          const std::vector<int>& layers, MakeMemory make, int piece_blocks = 1);

  /// Makes room for positions below `tokens`. Throws what `make` throws; then nothing has changed.
  void reserve(TokenCount tokens);
  /// Frees the blocks past those that hold `tokens`.
  void truncate(TokenCount tokens);

  /// One token's keys and values of all KV heads, [kv_heads][head_dim] each, in the cache's types.
  /// The position has room. Different positions may be stored at the same time.
  void store(int layer, TokenCount position, const float* k, const float* v);

  /// Tokens [begin, end) of one head as runs of neighbouring rows.
  void runs(int layer, int head, TokenCount begin, TokenCount end,
            std::vector<cpu::KvRun>& out) const;

  bool keeps(int layer) const { return place_of_[std::size_t(layer)] >= 0; }
  /// A layer's part of a block, [kv head][K|V][token][head_dim]: layer_bytes() in a row.
  std::byte* block(int layer, TokenCount index) const { return at(layer, index); }
  /// Blocks from this one on whose parts of a layer are neighbours.
  TokenCount blocks_in_a_row(TokenCount index) const {
    return piece_blocks_ - index % piece_blocks_;
  }
  std::int64_t layer_bytes() const { return block_tokens_ * token_bytes(); }

  KvTypes types() const { return types_; }
  TokenCount block_tokens() const { return block_tokens_; }
  /// Allocated.
  std::int64_t bytes() const;
  /// Of one token in one layer.
  std::int64_t token_bytes() const { return kv_heads_ * (k_row_ + v_row_); }

 private:
  using Piece = std::shared_ptr<std::byte>;  // [layer][block][kv head][K|V][token][head_dim]

  std::size_t piece_bytes() const { return std::size_t(piece_blocks_ * layers_ * layer_bytes()); }
  std::byte* at(int layer, TokenCount block) const {
    const std::int64_t place =
        place_of_[std::size_t(layer)] * piece_blocks_ + block % piece_blocks_;
    return pieces_[std::size_t(block / piece_blocks_)].get() + place * layer_bytes();
  }
  std::size_t pieces_for(TokenCount tokens) const {
    const TokenCount blocks = (tokens + block_tokens_ - 1) / block_tokens_;
    return std::size_t((blocks + piece_blocks_ - 1) / piece_blocks_);
  }
  std::int64_t k_offset(int head, TokenCount token) const;
  std::int64_t v_offset(int head, TokenCount token) const;

  KvTypes types_;
  TokenCount block_tokens_;
  int layers_, kv_heads_, head_dim_;
  std::int64_t k_row_, v_row_;  // bytes of one head's row
  std::vector<int> place_of_;   // of a layer in a block; -1: none
  MakeMemory make_;
  TokenCount piece_blocks_;
  std::vector<Piece> pieces_;
};

}  // namespace rigcast::engine
