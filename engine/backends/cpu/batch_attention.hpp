#pragma once
// Attention of a step's rows over the cache: chunks of prompts, and tokens of many sequences. Tasks
// of heads and partitions are spread over all threads.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/cpu/step/cpu_step.hpp"
#include "engine/kernels/cpu/aligned.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

/// Results are bit-identical for any number of threads, and a row's do not depend on other rows: it
/// attends to partitions of its own sequence, which are merged in their order.
class BatchAttention {
 public:
  explicit BatchAttention(int threads) : threads_(std::size_t(threads)) {}

  // One member calls these.
  /// Begins a step of these sequences, which stay where they are until it ends.
  void begin(std::span<const StepSequence> sequences);
  /// Cuts the rows' attention in layers of this shape into tasks, unless the last call did.
  void plan(const AttentionShape& shape);
  /// out [row][heads][head_dim] = the attention output of q, over the sequences that were planned.
  /// Every member of the team calls it; it ends without a barrier.
  void run(Worker& worker, const KvCache& cache, int layer, const cpu::Scores& scores,
           const float* q, float* out);

 private:
  // Rows [first, last) of a step, all of one sequence, for one KV head.
  struct Task {
    const StepSequence* sequence = nullptr;
    int kv_head = 0;
    std::int64_t first = 0, last = 0;
    // A single row is cut into partitions, whose partials are merged later: this one's, and where
    // its partials begin. Several rows are attended to whole by one thread: -1.
    TokenCount partition = -1;
    std::int64_t partials = 0;
  };
  // A layer's cache, and what becomes of its scores.
  struct LayerKv {
    const KvCache& cache;
    int layer;
    cpu::Scores scores;
  };
  // A row that is cut into partitions.
  struct CutRow {
    std::int64_t row = 0, partials = 0;
    int partitions = 0;
  };
  struct Thread {
    cpu::AttentionScratch attention;
    std::vector<cpu::KvRun> runs;
    std::vector<float> rows, o, m, l;
    std::vector<TokenCount> from, to;
  };

  void plan_row(const StepSequence& sequence);
  void plan_rows(const StepSequence& sequence);
  void attend_partition(Thread& own, const LayerKv& kv, const Task& task, const float* q);
  void attend_rows(Thread& own, const LayerKv& kv, const Task& task, const float* q,
                   float* out) const;
  void merge(std::int64_t of, const cpu::Scores& scores, float* out);

  std::span<const StepSequence> sequences_;
  AttentionShape shape_;  // that was planned; of no heads: none
  std::vector<Task> tasks_;
  std::vector<CutRow> cut_rows_;
  std::int64_t partials_ = 0;            // of all cut rows
  cpu::AlignedVector<float> o_, m_, l_;  // of a cut row: [partition][head]
  std::vector<Thread> threads_;
};

}  // namespace rigcast::engine
