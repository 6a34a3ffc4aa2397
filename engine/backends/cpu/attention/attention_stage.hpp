#pragma once
// One layer's attention: QKV projections, the KV cache, the weighted sum of values, and the output
// matrix.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/cpu/attention/batch_attention.hpp"
#include "engine/backends/cpu/attention/decode_attention.hpp"
#include "engine/backends/cpu/attention/latent_heads.hpp"
#include "engine/backends/cpu/step/cpu_step.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/rope.hpp"

namespace rigcast::engine {

class AttentionStage {
 public:
  AttentionStage(CpuStep& step, const CpuOptions& options);

  /// Begins a step's attention, with room for its RoPE angles. One member calls it, after the step
  /// has begun.
  void begin();
  // Every member of the team calls these, with the same arguments.
  /// Computes the RoPE angles of the step's tokens.
  void compute_angles(Worker& worker);
  /// block = the attention block's output for all tokens of the step, pending; their keys and
  /// values are stored in the cache. Ends without a barrier.
  void compute(Worker& worker, int layer, const NextMatrices& next);
  /// out() = attention over the cache of the projected rows [token][q | k | v], without gates;
  /// their keys and values are stored in the cache first. With latent attention q are queries that
  /// were brought to the cache's rows, k is a row, neither turned nor normed, and v is not read.
  void attend(Worker& worker, int layer, const float* projected);
  /// Partial attention of one token: its projected query over the first `tokens` tokens of `cache`,
  /// within the layer's window. Partials over other parts of the context can be merged with it, and
  /// the sinks, once.
  struct Partial {
    std::vector<float> o;  // [heads][head_dim]: sum of exp(score - m) * value
    // [heads]: the largest score (-infinity without tokens); the sum of exp(score - m).
    std::vector<float> m, l;
  };
  const Partial& attend_partially(Worker& worker, int layer, const float* q, const KvCache& cache,
                                  TokenCount tokens);
  /// Prefetches, while the query has not arrived, what attend_partially() or attend() reads first
  /// of one token's context.
  void prefetch_kv(Worker& worker, int layer, const KvCache& cache, TokenCount tokens);

  /// Stores random keys and values for tokens [first, last) of a sequence, for which the cache has
  /// room, and of which other calls fill the rest up to `end`.
  void fill(TokenCount first, TokenCount last, TokenCount end, BlockTable table = {});

  std::span<const float> out() const { return attn_out_; }
  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }

 private:
  void place_queries(int layer, std::int64_t row);
  void place_latent(int layer, std::int64_t row);
  void turn_and_store_latent(int layer, std::int64_t row);
  void compute_latent(Worker& worker, int layer, const NextMatrices& next);
  void norm_and_rotate(int layer, std::int64_t row, std::span<float> heads,
                       const std::vector<float>& norm) const;
  void split_gate(int layer, std::int64_t row);
  void apply_gate(std::int64_t first, std::span<float> attended) const;
  void scale_query(const Layer& layer, std::int64_t row, std::span<float> q) const;
  void rope_query(int layer, float* q);
  void size(int layer);
  template <class Place>
  void attend_over_cache(Worker& worker, int layer, const Place& place, AroundHeads around);
  void attend_to_input(Worker& worker, int layer);
  // Of a step of one token.
  KvView cached_kv() const { return {cache_, step_.sequences.front().table}; }
  const AttentionShape& shape(int layer) const { return step_.layer(layer).attention; }
  // The layer whose keys and values this one attends to.
  int kv_layer(int layer) const {
    const int other = step_.layer(layer).rule.kv_layer;
    return other < 0 ? layer : other;
  }
  void place_value(const Layer& layer, const float* key, std::span<float> value) const;

  CpuStep& step_;
  KvCache cache_;
  std::vector<Rope> ropes_;  // by AttentionRule::rope
  DecodeAttention one_;
  BatchAttention batch_;
  LatentHeads latent_;
  // Buffers that begin at a cache line, as those of the step.
  cpu::AlignedVector<float> q_, k_, v_, attn_out_;
  // Of layers whose queries have a gate: each head's query and gate; the gates, [token][heads].
  cpu::AlignedVector<float> q_and_gate_, gate_;
  std::vector<cpu::AlignedVector<float>> angles_;  // of every rope: [token][pair][2]
  Partial partial_;
};

}  // namespace rigcast::engine
