#pragma once
// Attention of one token over the cache: heads and partitions are shared by all threads, then
// merged.

#include <span>
#include <vector>

#include "core/model_spec.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/runtime/team.hpp"

namespace rigcast::engine {

class DecodeAttention {
 public:
  DecodeAttention(const ModelSpec& spec, int threads);

  /// Every member of the team calls this. The query sees tokens [from, to) of the cache; q and out
  /// are [heads][head_dim]. The same bits for any number of threads.
  void run(Worker& worker, const KvCache& cache, int layer, TokenCount from, TokenCount to,
           const float* q, float* out);
  /// Of [heads]: the largest score of the last run and the sum of the exponentials less it. By one
  /// thread.
  void sums(std::span<float> most, std::span<float> sum) const;

 private:
  struct Thread {
    cpu::AttentionScratch attention;
    std::vector<cpu::KvRun> runs;
    std::vector<TokenCount> from, to;
  };

  int kv_heads_, group_, dim_;
  std::vector<float> o_, m_, l_;  // partials: [partition][kv head][query]
  TokenCount count_ = 0;          // partitions
  std::vector<Thread> threads_;
};

}  // namespace rigcast::engine
