#pragma once
// The executor of the CPU: a team of threads goes through the layers together.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/kv_cache.hpp"
#include "core/trace.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/runtime/decode_attention.hpp"
#include "engine/runtime/executor.hpp"
#include "engine/runtime/products.hpp"
#include "engine/runtime/rope.hpp"
#include "engine/runtime/team.hpp"

namespace rigcast::engine {

struct CpuOptions {
  int threads = 1;
  KvTypes kv_types;
  TokenCount kv_block = 128;
  TokenCount ubatch = 512;
};

class CpuExecutor : public Executor {
 public:
  /// Throws MachineError if threads cannot be made.
  CpuExecutor(std::shared_ptr<const Model> model, const CpuOptions& options);

  std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) override;

  TokenCount cached() const override { return cached_; }
  void truncate(TokenCount tokens) override;
  void fill(TokenCount tokens) override;

  int threads() const override { return options_.threads; }
  const Model& model() const override { return *model_; }
  MovedBytes take_bytes() override;
  Bytes host_cache() const override { return Bytes{double(cache_.bytes())}; }
  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }

 private:
  struct Thread {
    ProductScratch products;
    cpu::AttentionScratch attention;
    std::vector<cpu::KvRun> runs;
    std::vector<float> row, o, m, l;
    std::vector<TokenCount> from, to;
  };
  // Tokens that one expert computes.
  struct Job {
    int expert = 0;
    std::vector<int> tokens;
    Input in, middle;
    cpu::AlignedVector<float> gate, up, out;
  };
  // A token's share in a job.
  struct Choice {
    int job = 0, row = 0;
    float weight = 0;
  };

  std::span<const float> step(std::span<const std::int32_t> tokens, Logits which);
  void embed(Worker& worker, std::span<const std::int32_t> tokens);
  void attention(Worker& worker, int layer);
  void place_queries(int layer, std::int64_t row);
  void attend_batch(Worker& worker, int layer);
  void attend_rows(Thread& thread, int layer, int kv_head, std::int64_t first, std::int64_t last);
  void ffn(Worker& worker, int layer);
  void experts(Worker& worker, int layer);
  void route(Worker& worker, const Layer& layer);
  void choose_experts(const Layer& layer);
  void size_jobs(const Layer& layer);
  void mix_experts(Worker& worker);
  void head(Worker& worker, Logits which);

  /// Rows of `input`, made by make(row index, row) in a buffer of the thread.
  template <class Make>
  void prepare(Worker& worker, Input& input, std::int64_t columns, std::int64_t rows,
               std::initializer_list<const Matrix*> matrices, const Make& make);
  /// Adds what the last block gave to the hidden state of a row; then its norm.
  void normed_row(std::int64_t row, std::span<const float> weight, std::span<float> out);
  /// First token that a query at `position` sees.
  TokenCount seen_from(int layer, TokenCount position) const;
  Thread& thread(const Worker& worker) { return threads_[std::size_t(worker.index())]; }
  Layer const& weights(int layer) const { return model_->layers[std::size_t(layer)]; }

  std::shared_ptr<const Model> model_;
  CpuOptions options_;
  Team team_;
  KvCache cache_;
  Rope rope_;
  DecodeAttention one_;
  std::vector<Thread> threads_;
  MovedBytes bytes_;

  TokenCount cached_ = 0;    // before the tokens of this step
  std::int64_t tokens_ = 0;  // of this step
  bool pending_ = false;     // block_ is still to be added to hidden_
  Input input_;
  // From a cache line on: threads write neighbouring columns of them at once, and a line that two
  // of them write goes to and fro.
  cpu::AlignedVector<float> hidden_;  // [token][hidden]
  cpu::AlignedVector<float> block_;   // [token][hidden]: what the last block gave
  cpu::AlignedVector<float> q_, k_, v_, mixed_, gate_, up_, angles_;
  std::vector<float> normed_, scores_;
  std::vector<Job> jobs_;
  std::vector<Choice> choices_;  // [token][experts used]
  std::vector<float> logits_;
};

}  // namespace rigcast::engine
