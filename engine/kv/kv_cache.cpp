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
    if (spec.has_attention(layer) && spec.has_kv(layer)) layers.push_back(layer);
  return layers;
}

std::shared_ptr<std::byte> make_large_pages(std::size_t bytes) {
  const auto pages = std::make_shared<LargePages>(bytes);
  return {pages, pages->data()};
}

KvCache::KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens)
    : KvCache(spec, types, block_tokens, all_layers(spec), make_large_pages) {}

KvCache::KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens,
                 const std::vector<int>& layers, Allocator make, int piece_blocks,
                 TokenCount window_blocks)
    : types_(types),
      block_tokens_(block_tokens),
      latent_(spec.mla.has_value()),
      rows_(std::size_t(spec.layers)),
      allocator_(std::move(make)),
      window_blocks_(window_blocks) {
  RIGCAST_ASSERT(block_tokens >= 1 && piece_blocks >= 1);
  growing_.piece_blocks = rings_.piece_blocks = piece_blocks;
  if (latent_) types_.v = types_.k;
  for (int layer = 0; layer < spec.layers; ++layer) {
    Rows& rows = rows_[std::size_t(layer)];
    rows.kv_heads = latent_ ? 1 : spec.kv_heads_of(layer);
    rows.head_dim =
        latent_ ? spec.mla->kv_lora_rank + spec.mla->qk_rope_dim : spec.head_dim_of(layer);
    rows.k_row = std::int64_t(tensor_bytes(types.k, std::uint64_t(rows.head_dim), 1));
    if (!latent_) rows.v_row = std::int64_t(tensor_bytes(types.v, std::uint64_t(rows.head_dim), 1));
    alike_ = alike_ && rows.token_bytes() == token_bytes(0);
  }
  for (const int layer : layers) {
    Rows& rows = rows_[std::size_t(layer)];
    rows.is_ring = window_blocks > 0 && !spec.sees_all_tokens(layer);
    Part& part = rows.is_ring ? rings_ : growing_;
    rows.begin = part.token_bytes;
    part.token_bytes += rows.token_bytes();
  }
}

std::int64_t KvCache::token_bytes() const {
  RIGCAST_ASSERT(alike_);
  return token_bytes(0);
}

void KvCache::allocate_at_once(int piece_blocks) {
  RIGCAST_ASSERT(piece_blocks >= 1 && growing_.pieces.empty() && rings_.pieces.empty());
  growing_.piece_blocks = piece_blocks;
  rings_.piece_blocks = std::max<TokenCount>(1, window_blocks_);
}

void KvCache::reserve(Part& part, TokenCount tokens) {
  if (part.token_bytes == 0) return;
  while (part.pieces.size() < pieces_for(part, tokens))
    part.pieces.push_back(allocator_(piece_bytes(part)));
}

void KvCache::reserve(TokenCount tokens) {
  const std::size_t before = growing_.pieces.size(), of_rings_before = rings_.pieces.size();
  try {
    reserve(growing_, tokens);
    reserve(rings_, of_rings(tokens));
  } catch (...) {
    growing_.pieces.resize(before);  // unused blocks are freed for others
    rings_.pieces.resize(of_rings_before);
    throw;
  }
}

void KvCache::truncate(TokenCount tokens) {
  const auto cut = [&](Part& part, TokenCount kept) {
    const std::size_t pieces = pieces_for(part, kept);
    if (part.pieces.size() > pieces) part.pieces.resize(pieces);
  };
  cut(growing_, tokens);
  cut(rings_, of_rings(tokens));
}

std::int64_t KvCache::k_offset(const Rows& rows, int head, TokenCount token) const {
  return head * block_tokens_ * (rows.k_row + rows.v_row) + token * rows.k_row;
}

std::int64_t KvCache::v_offset(const Rows& rows, int head, TokenCount token) const {
  return k_offset(rows, head, 0) + block_tokens_ * rows.k_row + token * rows.v_row;
}

void KvCache::store(int layer, TokenCount position, const float* k, const float* v,
                    BlockTable table) {
  std::byte* block = at(layer, block_of(layer, position, table));
  const TokenCount token = position % block_tokens_;
  const Rows& r = rows(layer);
  const std::size_t width = std::size_t(r.head_dim);
  for (int head = 0; head < r.kv_heads; ++head, k += width, v += width) {
    put(types_.k, {k, width}, block + k_offset(r, head, token));
    if (!latent_) put(types_.v, {v, width}, block + v_offset(r, head, token));
  }
}

void KvCache::runs(int layer, int head, TokenCount begin, TokenCount end,
                   std::vector<cpu::KvRun>& out, BlockTable table) const {
  out.clear();
  const Rows& r = rows(layer);
  while (begin < end) {
    const std::byte* block = at(layer, block_of(layer, begin, table));
    const TokenCount token = begin % block_tokens_;
    const TokenCount count = std::min(end - begin, block_tokens_ - token);
    const std::byte* const k = block + k_offset(r, head, token);
    out.push_back({k, latent_ ? k : block + v_offset(r, head, token), count});
    begin += count;
  }
}

std::int64_t KvCache::bytes() const {
  std::int64_t bytes = 0;
  for (const Part* part : {&growing_, &rings_})
    bytes += std::int64_t(part->pieces.size() * piece_bytes(*part));
  return bytes;
}

}  // namespace rigcast::engine
