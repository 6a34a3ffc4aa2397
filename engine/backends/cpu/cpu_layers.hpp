#pragma once
// Stages that compute a model's layers on the CPU: all threads of a team run each stage together. A
// stage is a fused block of a layer's operations.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "engine/backends/cpu/decode_attention.hpp"
#include "engine/backends/cpu/expert_jobs.hpp"
#include "engine/backends/cpu/products.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/memory/ram.hpp"
#include "engine/model/fused_blocks.hpp"
#include "engine/model/model.hpp"
#include "engine/model/rope.hpp"
#include "engine/run/executor.hpp"
#include "engine/threads/thread_team.hpp"
#include "report/trace.hpp"

namespace rigcast::engine {

struct CpuOptions {
  int threads = 1;
  KvTypes kv_types;
  TokenCount kv_block = 128;
  TokenCount ubatch = 512;
  std::optional<std::vector<int>> cached_layers{};  // layers with a KV cache; absent: all
  Allocator kv_memory{};  // tracked by its provider; absent: large pages, counted on `ram`
  Ram ram{};              // charged with weights, cache and buffers
  StopFlag stop{};        // when set, work in progress ends with Interrupted
};

/// The reason why the CPU cannot compute the model: a layer's operation that belongs to no stage.
/// nullopt: it can.
std::optional<Error> check_layers_on_cpu(const Model& model);

class CpuLayers {
 public:
  /// The model must pass check_layers_on_cpu(); otherwise MachineError is thrown.
  CpuLayers(std::shared_ptr<const Model> model, const CpuOptions& options);

  // Stages: every member of a team of options.threads threads calls them, with the same arguments.
  /// Begins a step of `tokens` tokens, the first of them at position `cached`. Throws ShortOfMemory
  /// if its buffers do not fit.
  void begin(Worker& worker, TokenCount cached, std::int64_t tokens);
  /// hidden() = the embeddings of `ids`, one for each of the step's tokens.
  void embed(Worker& worker, std::span<const std::int32_t> ids);
  /// Computes layers [first, end) on hidden(), and stores their keys and values in the cache. Ends
  /// without a barrier: add_residual(), head() or the end of the team's job must follow.
  void through(Worker& worker, int first, int end);
  /// Adds the last block's output to hidden(), which through() leaves to the next stage. hidden()
  /// is complete after this.
  void add_residual(Worker& worker);
  /// Computes the logits of all tokens or of the last one, in logits().
  void head(Worker& worker, Logits which);

  // Parts of a layer, where another device computes the others:
  /// hidden() += the output of a layer's mixture of experts. Call after add_residual().
  void mixture_of_experts(Worker& worker, int layer);
  /// attn_out() = attention over the cache of the projected rows [token][q | k | v]; their keys and
  /// values are stored in the cache first.
  void attend(Worker& worker, int layer, const float* projected);
  /// Partial attention of one token: its projected query over the first `tokens` tokens of `cache`,
  /// within the layer's window. Partials over other parts of the context can be merged with it.
  struct Part {
    std::vector<float> o;  // [heads][head_dim]: sum of exp(score - m) * value
    // [heads]: the largest score (-infinity without tokens); the sum of exp(score - m).
    std::vector<float> m, l;
  };
  const Part& attend_part(Worker& worker, int layer, const float* q, const KvCache& cache,
                          TokenCount tokens);
  /// Prefetches, while the query has not arrived, what attend_part() or attend() reads first of one
  /// token's context.
  void prefetch_kv(Worker& worker, int layer, const KvCache& cache, TokenCount tokens);
  /// mixture() = the weighted sum of the chosen experts' outputs for one token's normed hidden
  /// state.
  void run_chosen_experts(Worker& worker, int layer, const float* normed, std::span<const int> ids,
                          std::span<const float> weights);
  std::span<const float> attn_out() const { return attn_out_; }
  std::span<const float> mixture() const { return block_; }

  /// Stores random keys and values for tokens [first, last), for which the cache has room.
  void fill(TokenCount first, TokenCount last);

  /// [token][hidden], complete after add_residual().
  std::span<float> hidden() { return hidden_; }
  std::vector<float>& logits() { return logits_; }

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }
  const Model& model() const { return *model_; }
  MovedBytes take_bytes() { return std::exchange(bytes_, {}); }
  void record_into(Recorder* recorder) { recorder_ = recorder; }

 private:
  struct Thread {
    ProductScratch products;
    cpu::AttentionScratch attention;
    std::vector<cpu::KvRun> runs;
    std::vector<float> rows, o, m, l;
    std::vector<TokenCount> from, to;
    std::vector<int> order;  // scratch: indices of experts
  };

  /// Matrices by which the next stage multiplies first: the target of a prefetch.
  using Next = std::vector<const Matrix*>;
  struct Stage {
    FusedBlock block{};
    int layer = 0;
  };
  void compute(Worker& worker, const Stage& stage, const Next& next);
  Next first_of(const Stage& stage) const;
  /// The matrices to prefetch: none in a batch, whose tiles fill the caches into which the next
  /// weights would go.
  Next if_one(Next next) const { return tokens_ == 1 ? std::move(next) : Next(); }

  void allocate_buffers(std::int64_t tokens);
  void attention(Worker& worker, int layer, const Next& next);
  void place_queries(int layer, std::int64_t row);
  void rope_query(int layer, float* q);
  void attend_batch(Worker& worker, int layer);
  void attend_rows(Thread& thread, int layer, int kv_head, std::int64_t first, std::int64_t last);
  void ffn(Worker& worker, int layer, const Next& next);
  void size_attention(int layer);
  template <class Place>
  void attend_over_cache(Worker& worker, int layer, const Place& place, AroundHeads around);
  void attend_to_input(Worker& worker, int layer);
  void experts(Worker& worker, int layer, const Next& next);
  void compute_jobs(Worker& worker, const Layer& layer, const Next& next);
  void route(Worker& worker, const Layer& layer);
  void choose_experts(const Layer& layer, std::int64_t begin, std::int64_t end,
                      std::vector<int>& order);
  void set_token(const Layer& layer, std::int64_t row, std::span<const float> normed);
  void size_jobs(const Layer& layer);
  /// Calls use(row) for those of the first `rows` rows that are not gaps, spread over the team.
  template <class Use>
  void share_jobs(Worker& worker, std::int64_t rows, const Use& use);
  InputRows ffn_hidden_of(const ExpertJobs::Job& job) const;
  void sum_experts(Worker& worker);
  void sum_expert_rows(std::int64_t row);

  /// Fills `input` for products with `matrices`: make(row index, row) writes each row into a buffer
  /// of its thread. before() is called once before that.
  template <class Before, class Make>
  void prepare(Worker& worker, Input& input, std::int64_t columns, std::int64_t rows,
               std::initializer_list<const Matrix*> matrices, const Before& before,
               const Make& make);
  /// Fills rows [begin, end) of `input`; both are multiples of input.rows_together(), or the end.
  template <class Make>
  void make_rows(Worker& worker, Input& input, std::int64_t begin, std::int64_t end,
                 const Make& make);
  void size_input(Input& input, std::int64_t columns, std::int64_t rows,
                  std::initializer_list<const Matrix*> matrices);
  /// Computes the input of the FFN's down matrix from the outputs of gate and up.
  void gate(Worker& worker, std::int64_t width);
  /// Adds the last block's output to the hidden state of a row, then normalizes it into `out`.
  void normed_row(std::int64_t row, std::span<const float> weight, std::span<float> out);
  const AttentionShape& shape(int layer) const { return weights(layer).attention; }
  Thread& thread(const Worker& worker) { return threads_[std::size_t(worker.index())]; }
  Layer const& weights(int layer) const { return model_->layers[std::size_t(layer)]; }

  std::shared_ptr<const Model> model_;
  std::vector<Stage> stages_;  // stages of all layers, in order
  // Index of each layer's first stage, and the total number.
  std::vector<std::size_t> first_stages_;
  Ram ram_;
  KvCache cache_;
  RamShare buffers_;           // charge for the vectors below
  std::int64_t buffered_ = 0;  // tokens for which they have room
  Rope rope_;
  DecodeAttention one_;
  std::vector<Thread> threads_;
  MovedBytes bytes_;
  Recorder* recorder_ = nullptr;

  TokenCount cached_ = 0;    // tokens in the cache before this step
  std::int64_t tokens_ = 0;  // tokens of this step
  bool pending_ = false;     // block_ has not been added to hidden_ yet
  Input input_, gated_;
  // Buffers begin at a cache line: threads write neighbouring columns at once, and a line that two
  // threads write would move between their caches (false sharing).
  cpu::AlignedVector<float> hidden_;  // [token][hidden]
  cpu::AlignedVector<float> block_;   // [token][hidden]: output of the last block
  cpu::AlignedVector<float> q_, k_, v_, attn_out_, gate_, up_, angles_;
  std::vector<float> scores_;
  Part part_;
  // Buffers of a layer's experts. They are kept from layer to layer: memory that is allocated anew
  // is zeroed by the system.
  std::vector<int> chosen_;    // [token][experts used]
  std::vector<float> shares_;  // [token][experts used]: router weights
  ExpertJobs jobs_;
  std::vector<Input> token_inputs_, single_expert_hidden_;
  Input expert_in_, expert_hidden_;
  cpu::AlignedVector<float> expert_out_;  // [row of jobs][hidden]
  std::vector<float> logits_;
};

template <class Make>
void CpuLayers::make_rows(Worker& worker, Input& input, std::int64_t begin, std::int64_t end,
                          const Make& make) {
  std::vector<float>& values = thread(worker).rows;
  const auto columns = std::size_t(input.columns());
  for (std::int64_t first = begin; first < end; first += input.rows_at_once()) {
    const auto count = std::size_t(std::min(input.rows_at_once(), end - first));
    values.resize(count * columns);
    for (std::size_t i = 0; i < count; ++i)
      make(first + std::int64_t(i), std::span(values).subspan(i * columns, columns));
    input.set_rows(first, values);
  }
}

template <class Before, class Make>
void CpuLayers::prepare(Worker& worker, Input& input, std::int64_t columns, std::int64_t rows,
                        std::initializer_list<const Matrix*> matrices, const Before& before,
                        const Make& make) {
  worker.run_once([&] {
    before();
    size_input(input, columns, rows, matrices);
    if (rows == 1) make_rows(worker, input, 0, 1, make);
  });
  if (rows == 1) return;
  worker.parallel_for(rows, input.rows_together(), [&](std::int64_t begin, std::int64_t end) {
    make_rows(worker, input, begin, end, make);
  });
}

}  // namespace rigcast::engine
