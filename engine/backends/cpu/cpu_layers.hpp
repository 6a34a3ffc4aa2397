#pragma once
// What the CPU computes of a model, stage by stage: a team of threads goes through each together. A
// stage is a fused block of a layer's operations.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model/kv_cache.hpp"
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
#include "engine/threads/team.hpp"
#include "report/trace.hpp"

namespace rigcast::engine {

struct CpuOptions {
  int threads = 1;
  KvTypes kv_types;
  TokenCount kv_block = 128;
  TokenCount ubatch = 512;
  std::optional<std::vector<int>> cached_layers{};  // whose keys and values are kept; absent: all
  MakeMemory kv_memory{};  // counted by who gives it; absent: large pages, counted on `ram`
  Ram ram{};               // on which weights, cache and buffers are counted
  StopFlag stop{};         // ends what goes on with Interrupted
};

/// Why the CPU cannot compute the model: names a layer's operation that is in none of its stages.
std::optional<Error> refuse_layers_on_cpu(const Model& model);

class CpuLayers {
 public:
  /// The model is one that refuse_layers_on_cpu() lets pass, or MachineError is thrown.
  CpuLayers(std::shared_ptr<const Model> model, const CpuOptions& options);

  // Stages: every member of a team of options.threads calls them, with the same arguments.
  /// A step of `tokens` tokens begins, the first of them at position `cached`. Throws ShortOfMemory
  /// where its buffers do not fit.
  void begin(Worker& worker, TokenCount cached, std::int64_t tokens);
  /// hidden() = the embeddings of as many ids as the step has tokens.
  void embed(Worker& worker, std::span<const std::int32_t> ids);
  /// Takes hidden() through layers [first, end). Their keys and values are put into the cache. Ends
  /// without a barrier: settle(), head() or the end of the team's job follows.
  void through(Worker& worker, int first, int end);
  /// hidden() is complete from here on: through() leaves to the next stage what it can do with.
  void settle(Worker& worker);
  /// Logits of all tokens or of the last, in logits().
  void head(Worker& worker, Logits which);

  // Parts of a layer whose rest is computed elsewhere:
  /// hidden() += the mixture of experts of a layer, after settle().
  void mixture_of_experts(Worker& worker, int layer);
  /// mixed() = the attention of projected [token][q | k | v] over the cache, into which k and v are
  /// put.
  void attend(Worker& worker, int layer, const float* projected);
  /// Of one token: the attention of a projected query over the first `tokens` tokens of `cache`, as
  /// far as its layer sees them: what other parts of a context can be merged with.
  struct Part {
    std::vector<float> o;     // [heads][head_dim]: sum of exp(score - m) * value
    std::vector<float> m, l;  // [heads]: the largest score, -infinity without tokens; the sum
  };
  const Part& attend_part(Worker& worker, int layer, const float* q, const KvCache& cache,
                          TokenCount tokens);
  /// While the query is waited for: what attend_part() or attend() reads first of one token's
  /// context.
  void fetch_ahead(Worker& worker, int layer, const KvCache& cache, TokenCount tokens);
  /// Of one token: mixture() = the chosen experts of a normed hidden state, each by its weight.
  void mix_chosen(Worker& worker, int layer, const float* normed, std::span<const int> ids,
                  std::span<const float> weights);
  std::span<const float> mixed() const { return mixed_; }
  std::span<const float> mixture() const { return block_; }

  /// Random keys and values for tokens [first, last), of which the cache has room.
  void fill(TokenCount first, TokenCount last);

  /// [token][hidden], whole after settle().
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
    std::vector<int> order;  // of experts
  };

  /// A block of a layer, and what a token is multiplied with first in the one that comes next.
  using Next = std::vector<const Matrix*>;
  struct Stage {
    FusedBlock block{};
    int layer = 0;
  };
  void compute(Worker& worker, const Stage& stage, const Next& next);
  Next first_of(const Stage& stage) const;
  /// A batch's tiles fill the caches that another's weights would come into.
  Next if_one(Next next) const { return tokens_ == 1 ? std::move(next) : Next(); }

  void take_buffers(std::int64_t tokens);
  void attention(Worker& worker, int layer, const Next& next);
  void place_queries(int layer, std::int64_t row);
  void turn_query(int layer, float* q);
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
  /// use(row) for those of the first `rows` rows that are not gaps.
  template <class Use>
  void share_jobs(Worker& worker, std::int64_t rows, const Use& use);
  InputRows middle_of(const ExpertJobs::Job& job) const;
  void mix_experts(Worker& worker);
  void mix_row(std::int64_t row);

  /// Rows of `input`, made by make(row index, row) in a buffer of the thread, for products with
  /// `matrices`; before() is called once ahead of it.
  template <class Before, class Make>
  void prepare(Worker& worker, Input& input, std::int64_t columns, std::int64_t rows,
               std::initializer_list<const Matrix*> matrices, const Before& before,
               const Make& make);
  /// Rows [begin, end): both multiples of input.rows_together(), or the end.
  template <class Make>
  void make_rows(Worker& worker, Input& input, std::int64_t begin, std::int64_t end,
                 const Make& make);
  void size_input(Input& input, std::int64_t columns, std::int64_t rows,
                  std::initializer_list<const Matrix*> matrices);
  /// Of the FFN: its down matrix's input from what gate and up gave.
  void gate(Worker& worker, std::int64_t width);
  /// Adds what the last block gave to the hidden state of a row; then its norm.
  void normed_row(std::int64_t row, std::span<const float> weight, std::span<float> out);
  const AttentionShape& shape(int layer) const { return weights(layer).attention; }
  Thread& thread(const Worker& worker) { return threads_[std::size_t(worker.index())]; }
  Layer const& weights(int layer) const { return model_->layers[std::size_t(layer)]; }

  std::shared_ptr<const Model> model_;
  std::vector<Stage> stages_;              // of all layers, in order
  std::vector<std::size_t> first_stages_;  // of every layer, and behind the last one
  Ram ram_;
  KvCache cache_;
  RamShare buffers_;           // of the vectors below
  std::int64_t buffered_ = 0;  // tokens that these are for
  Rope rope_;
  DecodeAttention one_;
  std::vector<Thread> threads_;
  MovedBytes bytes_;
  Recorder* recorder_ = nullptr;

  TokenCount cached_ = 0;    // before the tokens of this step
  std::int64_t tokens_ = 0;  // of this step
  bool pending_ = false;     // block_ is still to be added to hidden_
  Input input_, gated_;
  // From a cache line on: threads write neighbouring columns of them at once, and a line that two
  // of them write goes to and fro.
  cpu::AlignedVector<float> hidden_;  // [token][hidden]
  cpu::AlignedVector<float> block_;   // [token][hidden]: what the last block gave
  cpu::AlignedVector<float> q_, k_, v_, mixed_, gate_, up_, angles_;
  std::vector<float> scores_;
  Part part_;
  // Of a layer's experts. Memory is kept from layer to layer: taken anew, the system clears it.
  std::vector<int> chosen_;    // [token][experts used]
  std::vector<float> shares_;  // of the same
  ExpertJobs jobs_;
  std::vector<Input> token_inputs_, single_middles_;
  Input expert_in_, expert_middle_;
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
  worker.alone([&] {
    before();
    size_input(input, columns, rows, matrices);
    if (rows == 1) make_rows(worker, input, 0, 1, make);
  });
  if (rows == 1) return;
  worker.share(rows, input.rows_together(), [&](std::int64_t begin, std::int64_t end) {
    make_rows(worker, input, begin, end, make);
  });
}

}  // namespace rigcast::engine
