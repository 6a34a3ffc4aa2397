#pragma once
// The paged KV cache of the CPU: keys and values of every layer in blocks of tokens, which are
// allocated as the context grows. Of latent attention, a token has one row in each layer, in the
// type of keys, which is its key and its value.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/block_table.hpp"
#include "engine/memory/large_pages.hpp"

namespace rigcast::engine {

/// Allocates `bytes` bytes, which are freed with their last owner. Throws std::bad_alloc.
using Allocator = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
/// Allocates memory on huge pages.
std::shared_ptr<std::byte> make_large_pages(std::size_t bytes);

/// All layers of a model that keep keys and values, in ascending order: those that attend, but
/// where they share the cache of an earlier one.
std::vector<int> all_layers(const ModelSpec& spec);

class KvCache {
 public:
  /// A cache of all layers. `types` must pass check_kv_types(); block_tokens >= 1.
  KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens);
  /// A cache of `layers` alone, in ascending order; no other layer may be accessed. `make`
  /// allocates memory for `piece_blocks` blocks at once, in which a layer's blocks are contiguous.
  /// `window_blocks`: layers with a window keep so many blocks, in which later ones take the place
  /// of older ones (window_ring.hpp); 0: all. Where sequences have tables, these layers' blocks are
  /// a pool of so many, of which a table names those of its sequence.
  KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens,
          const std::vector<int>& layers, Allocator make, int piece_blocks = 1,
          TokenCount window_blocks = 0);

  /// Allocates `piece_blocks` blocks at once from now on, and all of those of layers with a window.
  /// The cache has none yet.
  void allocate_at_once(int piece_blocks);

  /// Allocates blocks for positions below `tokens`. Throws what `make` throws; then nothing has
  /// changed.
  void reserve(TokenCount tokens);
  /// Frees the blocks past those that hold `tokens`.
  void truncate(TokenCount tokens);

  /// Stores one token's keys and values of all KV heads, [kv_heads][head_dim] each, in the cache's
  /// types. Its block, found by the sequence's table, must be reserved. Different positions may be
  /// stored concurrently.
  void store(int layer, TokenCount position, const float* k, const float* v, BlockTable table = {});

  /// Tokens [begin, end) of one head of a sequence, as runs of contiguous rows.
  void runs(int layer, int head, TokenCount begin, TokenCount end, std::vector<cpu::KvRun>& out,
            BlockTable table = {}) const;

  /// Layers of the model, kept or not.
  int layers() const { return int(rows_.size()); }
  bool keeps(int layer) const { return rows(layer).begin >= 0; }
  /// True if a later token takes the place of this one in the layer before `end` is reached.
  bool overwrites(int layer, TokenCount token, TokenCount end) const {
    return rows(layer).is_ring &&
           token / block_tokens_ + window_blocks_ <= (end - 1) / block_tokens_;
  }
  /// A layer's part of a block, [kv head][K|V][token][head_dim]: layer_bytes(layer) contiguous
  /// bytes.
  std::byte* block(int layer, TokenCount index) const { return at(layer, index); }
  /// The number of blocks, from this one on, whose parts of a layer are contiguous.
  TokenCount blocks_in_a_row(TokenCount index) const {
    return growing_.piece_blocks - index % growing_.piece_blocks;
  }
  std::int64_t layer_bytes(int layer) const { return block_tokens_ * token_bytes(layer); }
  /// layer_bytes(layer) of a model whose layers all have the same heads; a GPU computes no other
  /// models.
  std::int64_t layer_bytes() const { return block_tokens_ * token_bytes(); }
  /// Bytes of a block in all layers that keep all tokens, and in those that do not.
  std::int64_t block_bytes() const { return block_tokens_ * growing_.token_bytes; }
  std::int64_t window_block_bytes() const { return block_tokens_ * rings_.token_bytes; }
  bool keeps_all_tokens(int layer) const { return keeps(layer) && !rows(layer).is_ring; }
  /// Blocks that layers with a window keep; 0: all.
  TokenCount window_blocks() const { return window_blocks_; }

  KvTypes types() const { return types_; }
  TokenCount block_tokens() const { return block_tokens_; }
  /// Allocated bytes.
  std::int64_t bytes() const;
  /// Bytes of one token in one layer.
  std::int64_t token_bytes(int layer) const { return rows(layer).token_bytes(); }
  /// token_bytes(layer) of a model whose layers all have the same heads.
  std::int64_t token_bytes() const;

 private:
  using Piece = std::shared_ptr<std::byte>;  // [layer][block][kv head][K|V][token][head_dim]

  // How a layer keeps a token.
  struct Rows {
    int kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t k_row = 0, v_row = 0;  // bytes of one head's row
    std::int64_t begin = -1;  // bytes of a token in the layers before, of its part; -1: not kept
    bool is_ring = false;

    std::int64_t token_bytes() const { return kv_heads * (k_row + v_row); }
  };

  // Layers that keep as many tokens.
  struct Part {
    std::int64_t token_bytes = 0;  // in all of them
    TokenCount piece_blocks = 1;
    std::vector<Piece> pieces{};
  };

  const Rows& rows(int layer) const { return rows_[std::size_t(layer)]; }
  std::size_t piece_bytes(const Part& part) const {
    return std::size_t(part.piece_blocks * block_tokens_ * part.token_bytes);
  }
  std::byte* at(int layer, TokenCount block) const {
    const Rows& own = rows(layer);
    if (own.is_ring) block %= window_blocks_;
    const Part& part = own.is_ring ? rings_ : growing_;
    return part.pieces[std::size_t(block / part.piece_blocks)].get() +
           part.piece_blocks * block_tokens_ * own.begin +
           block % part.piece_blocks * layer_bytes(layer);
  }
  TokenCount block_of(int layer, TokenCount token, const BlockTable& table) const {
    const TokenCount index = token / block_tokens_;
    return rows(layer).is_ring ? table.window_at(index) : table.at(index);
  }
  TokenCount of_rings(TokenCount tokens) const {
    return std::min(tokens, window_blocks_ * block_tokens_);
  }
  void reserve(Part& part, TokenCount tokens);
  std::size_t pieces_for(const Part& part, TokenCount tokens) const {
    const TokenCount blocks = (tokens + block_tokens_ - 1) / block_tokens_;
    return std::size_t((blocks + part.piece_blocks - 1) / part.piece_blocks);
  }
  std::int64_t k_offset(const Rows& rows, int head, TokenCount token) const;
  std::int64_t v_offset(const Rows& rows, int head, TokenCount token) const;

  KvTypes types_;
  TokenCount block_tokens_;
  bool latent_;             // rows are keys and values at once
  std::vector<Rows> rows_;  // by layer
  bool alike_ = true;       // a token takes as much in every layer
  Allocator allocator_;
  TokenCount window_blocks_;
  Part growing_, rings_;  // layers of all tokens, and of the last blocks
};

}  // namespace rigcast::engine
