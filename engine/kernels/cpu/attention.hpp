#pragma once
// Attention of a few queries over one partition of the cache, with partial results by which
// partitions are merged: (m, l, o), where m is the largest score, l the sum of exp(score - m) and o
// the sum of exp(score - m) * v. All queries of a KV head's group share one read of its rows.

#include <cstdint>
#include <limits>
#include <span>

#include "core/base/units.hpp"
#include "core/model/kv_bytes.hpp"
#include "engine/kernels/cpu/aligned.hpp"

namespace rigcast::engine::cpu {

/// Tokens of a partition. Results depend on it, so it is fixed, whatever the size of the cache's
/// blocks.
inline constexpr TokenCount kPartition = 128;

/// Contiguous rows of one KV head: the keys and values of `tokens` tokens.
struct KvRun {
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  TokenCount tokens = 0;
};

/// Query r sees tokens [from[r], to[r]) of the context.
struct Queries {
  const float* q = nullptr;  // [rows][head_dim]
  int rows = 0;
  const TokenCount* from = nullptr;
  const TokenCount* to = nullptr;
};

struct Partials {
  float* o = nullptr;  // [rows][head_dim]
  float* m = nullptr;  // [rows]; -infinity where a query sees nothing of the partition
  float* l = nullptr;  // [rows]
};

/// The score of a sink that adds nothing.
inline constexpr float kNoSink = -std::numeric_limits<float>::infinity();

/// What becomes of query . key: it is multiplied by `scale`, then softcap * tanh(score / softcap);
/// a cap of 0: not that. Sinks, one a head, are scores of no value: they join where partials are
/// merged into an output, once.
struct Scores {
  float scale = 1.0f;
  float softcap = 0;
  std::span<const float> sinks{};  // by head; empty: none

  float sink(std::int64_t head) const { return sinks.empty() ? kNoSink : sinks[std::size_t(head)]; }
};

struct AttentionScratch {
  AlignedVector<float> q, rows, scores, o;
};

/// Computes the partial results of a partition. `runs` hold the tokens [begin, begin + sum of their
/// tokens), at most kPartition. Cache types: F32, F16, Q8_0 and Q4_0; head_dim is a multiple of the
/// type's block.
void attend(std::span<const KvRun> runs, TokenCount begin, KvTypes types, int head_dim,
            const Queries& queries, const Scores& scores, const Partials& out,
            AttentionScratch& scratch);

/// Merges `count` partials of one query, `stride` apart (o by stride * head_dim), into one; its o /
/// l is the attention output.
void merge_partials(const Partials& partials, int count, std::int64_t stride, int head_dim,
                    const Partials& out);
/// out [head_dim] = the attention output, merged from `count` partials and the head's sink.
void merge_to_output(const Partials& partials, int count, std::int64_t stride, int head_dim,
                     float* out, float sink = kNoSink);

}  // namespace rigcast::engine::cpu
