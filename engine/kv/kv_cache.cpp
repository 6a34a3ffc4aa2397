#include "engine/kv/kv_cache.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/quantize.hpp"

namespace rigcast::engine {
namespace {

void put(QuantFormat type, std::span<const float> row, std::byte* to) {
  type == QuantFormat::kF16 ? cpu::to_fp16(row, to) : ref::quantize(type, row, to);
}

}  // namespace

std::vector<int> all_layers(const ModelSpec& spec) {
  std::vector<int> layers;
  for (int layer = 0; layer < spec.layers; ++layer)
    if (spec.has_attention(layer)) layers.push_back(layer);
  return layers;
}

std::shared_ptr<std::byte> make_large_pages(std::size_t bytes) {
  const auto pages = std::make_shared<LargePages>(bytes);
  return {pages, pages->data()};
}

KvCache::KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens)
    : KvCache(spec, types, block_tokens, all_layers(spec), make_large_pages) {}

KvCache::KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens,
                 const std::vector<int>& layers, Allocator make, int piece_blocks)
    : types_(types),
      block_tokens_(block_tokens),
      rows_(std::size_t(spec.layers)),
      allocator_(std::move(make)),
      piece_blocks_(piece_blocks) {
  RIGCAST_ASSERT(block_tokens >= 1 && piece_blocks >= 1);
  for (int layer = 0; layer < spec.layers; ++layer) {
    Rows& rows = rows_[std::size_t(layer)];
    rows.kv_heads = spec.kv_heads_of(layer);
    rows.head_dim = spec.head_dim_of(layer);
    rows.k_row = std::int64_t(tensor_bytes(types.k, std::uint64_t(rows.head_dim), 1));
    rows.v_row = std::int64_t(tensor_bytes(types.v, std::uint64_t(rows.head_dim), 1));
    alike_ = alike_ && rows.token_bytes() == token_bytes(0);
  }
  for (const int layer : layers) {
    rows_[std::size_t(layer)].begin = all_token_bytes_;
    all_token_bytes_ += token_bytes(layer);
  }
}

std::int64_t KvCache::token_bytes() const {
  RIGCAST_ASSERT(alike_);
  return token_bytes(0);
}

void KvCache::allocate_at_once(int piece_blocks) {
  RIGCAST_ASSERT(piece_blocks >= 1 && pieces_.empty());
  piece_blocks_ = piece_blocks;
}

void KvCache::reserve(TokenCount tokens) {
  if (all_token_bytes_ == 0) return;
  const std::size_t before = pieces_.size();
  try {
    while (pieces_.size() < pieces_for(tokens)) pieces_.push_back(allocator_(piece_bytes()));
  } catch (...) {
    pieces_.resize(before);  // unused blocks are freed for others
    throw;
  }
}

void KvCache::truncate(TokenCount tokens) {
  if (pieces_.size() > pieces_for(tokens)) pieces_.resize(pieces_for(tokens));
}

std::int64_t KvCache::k_offset(const Rows& rows, int head, TokenCount token) const {
  return head * block_tokens_ * (rows.k_row + rows.v_row) + token * rows.k_row;
}

std::int64_t KvCache::v_offset(const Rows& rows, int head, TokenCount token) const {
  return k_offset(rows, head, 0) + block_tokens_ * rows.k_row + token * rows.v_row;
}

void KvCache::store(int layer, TokenCount position, const float* k, const float* v,
                    BlockTable table) {
  std::byte* block = at(layer, table.at(position / block_tokens_));
  const TokenCount token = position % block_tokens_;
  const Rows& r = rows(layer);
  const std::size_t width = std::size_t(r.head_dim);
  for (int head = 0; head < r.kv_heads; ++head, k += width, v += width) {
    put(types_.k, {k, width}, block + k_offset(r, head, token));
    put(types_.v, {v, width}, block + v_offset(r, head, token));
  }
}

void KvCache::runs(int layer, int head, TokenCount begin, TokenCount end,
                   std::vector<cpu::KvRun>& out, BlockTable table) const {
  out.clear();
  const Rows& r = rows(layer);
  while (begin < end) {
    const std::byte* block = at(layer, table.at(begin / block_tokens_));
    const TokenCount token = begin % block_tokens_;
    const TokenCount count = std::min(end - begin, block_tokens_ - token);
    out.push_back({block + k_offset(r, head, token), block + v_offset(r, head, token), count});
    begin += count;
  }
}

std::int64_t KvCache::bytes() const { return std::int64_t(pieces_.size() * piece_bytes()); }

}  // namespace rigcast::engine
