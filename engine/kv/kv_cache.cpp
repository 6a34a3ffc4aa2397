#include "engine/kv/kv_cache.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/dequantize.hpp"

namespace rigcast::engine {
namespace {

void put(QuantFormat type, std::span<const float> row, std::byte* to) {
  type == QuantFormat::kF16 ? cpu::to_half(row, to) : ref::quantize(type, row, to);
}

}  // namespace

std::vector<int> all_layers(const ModelSpec& spec) {
  std::vector<int> layers(std::size_t(spec.layers));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

std::shared_ptr<std::byte> make_large_pages(std::size_t bytes) {
  const auto pages = std::make_shared<LargePages>(bytes);
  return {pages, pages->data()};
}

KvCache::KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens)
    : KvCache(spec, types, block_tokens, all_layers(spec), make_large_pages) {}

KvCache::KvCache(const ModelSpec& spec, KvTypes types, TokenCount block_tokens,
                 const std::vector<int>& layers, MakeMemory make, int piece_blocks)
    : types_(types),
      block_tokens_(block_tokens),
      layers_(int(layers.size())),
      kv_heads_(spec.kv_heads),
      head_dim_(int(spec.head_dim)),
      k_row_(std::int64_t(tensor_bytes(types.k, std::uint64_t(spec.head_dim), 1))),
      v_row_(std::int64_t(tensor_bytes(types.v, std::uint64_t(spec.head_dim), 1))),
      place_of_(std::size_t(spec.layers), -1),
      make_(std::move(make)),
      piece_blocks_(piece_blocks) {
  RIGCAST_ASSERT(block_tokens >= 1 && piece_blocks >= 1);
  for (std::size_t i = 0; i < layers.size(); ++i) place_of_[std::size_t(layers[i])] = int(i);
}

void KvCache::reserve(TokenCount tokens) {
  if (layers_ == 0) return;
  const std::size_t before = pieces_.size();
  try {
    while (pieces_.size() < pieces_for(tokens)) pieces_.push_back(make_(piece_bytes()));
  } catch (...) {
    pieces_.resize(before);  // what will not be used is there for others
    throw;
  }
}

void KvCache::truncate(TokenCount tokens) {
  if (pieces_.size() > pieces_for(tokens)) pieces_.resize(pieces_for(tokens));
}

std::int64_t KvCache::k_offset(int head, TokenCount token) const {
  return head * block_tokens_ * (k_row_ + v_row_) + token * k_row_;
}

std::int64_t KvCache::v_offset(int head, TokenCount token) const {
  return head * block_tokens_ * (k_row_ + v_row_) + block_tokens_ * k_row_ + token * v_row_;
}

void KvCache::store(int layer, TokenCount position, const float* k, const float* v) {
  std::byte* block = at(layer, position / block_tokens_);
  const TokenCount token = position % block_tokens_;
  const std::size_t width = std::size_t(head_dim_);
  for (int head = 0; head < kv_heads_; ++head, k += head_dim_, v += head_dim_) {
    put(types_.k, {k, width}, block + k_offset(head, token));
    put(types_.v, {v, width}, block + v_offset(head, token));
  }
}

void KvCache::runs(int layer, int head, TokenCount begin, TokenCount end,
                   std::vector<cpu::KvRun>& out) const {
  out.clear();
  while (begin < end) {
    const std::byte* block = at(layer, begin / block_tokens_);
    const TokenCount token = begin % block_tokens_;
    const TokenCount count = std::min(end - begin, block_tokens_ - token);
    out.push_back({block + k_offset(head, token), block + v_offset(head, token), count});
    begin += count;
  }
}

std::int64_t KvCache::bytes() const { return std::int64_t(pieces_.size() * piece_bytes()); }

}  // namespace rigcast::engine
