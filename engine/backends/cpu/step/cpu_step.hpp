#pragma once
// What all stages of a step share: the model, the step's tokens with their hidden states, and the
// way from these to the input of a product.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "engine/backends/cpu/step/activity_span.hpp"
#include "engine/backends/cpu/step/products.hpp"
#include "engine/kernels/cpu/aligned.hpp"
#include "engine/kv/block_table.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/memory/ram.hpp"
#include "engine/model/model.hpp"
#include "engine/run/recorder.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

struct CpuOptions {
  int threads = 1;
  KvTypes kv_types;
  TokenCount kv_block = 128;
  TokenCount ubatch = 512;
  std::optional<std::vector<int>> cached_layers{};  // layers with a KV cache; absent: all
  Allocator kv_memory{};  // tracked by its provider; absent: large pages, counted on `ram`
  Ram ram{};              // charged with weights, cache and buffers
  int states = 1;         // sequences of which recurrent layers keep a state
  std::optional<std::vector<int>> state_layers{};  // that keep one here; absent: all
  Allocator state_memory{};                        // of states; absent: large pages
  StopFlag stop{};  // when set, work in progress ends with Interrupted
  /// Blocks that layers with a window keep, of one sequence (window_ring.hpp), or in a pool of
  /// many; 0: all. Absent: all, but in a CpuExecutor as many as its steps need.
  std::optional<TokenCount> window_blocks{};
};

/// Matrices by which the next stage multiplies first: the target of a prefetch.
using NextMatrices = std::vector<const Matrix*>;

/// The rows of one sequence in a step.
struct StepSequence {
  TokenCount cached = 0;  // its tokens before these
  std::int64_t first = 0, tokens = 0;
  BlockTable table{};  // of the cache's blocks
  int state = 0;       // what recurrent layers keep of it

  /// The position of a row in the sequence.
  TokenCount position(std::int64_t row) const { return cached + row - first; }
};

struct CpuStep {
  CpuStep(std::shared_ptr<const Model> model, int threads);

  /// Begins a step of the rows of these sequences, one after the other. One member calls it.
  void begin(std::span<const StepSequence> sequences);

  // Every member of the team calls these, with the same arguments.
  /// Adds the last block's output to the hidden states, if that is pending.
  void add_residual(Worker& worker);
  /// Fills `to` for products with `matrices`: make(row index, row) writes each row into a buffer of
  /// its thread. before() is called once before that.
  template <class Before, class Make>
  void prepare(Worker& worker, Input& to, std::int64_t columns, std::int64_t rows, RowForm form,
               std::initializer_list<const Matrix*> matrices, const Before& before,
               const Make& make);
  /// The same of the step's rows.
  template <class Before, class Make>
  void prepare(Worker& worker, Input& to, std::int64_t columns,
               std::initializer_list<const Matrix*> matrices, const Before& before,
               const Make& make) {
    prepare(worker, to, columns, tokens, form(), matrices, before, make);
  }
  ActivitySpan span(const Worker& worker, ActivityKind kind, int layer) const {
    return {worker, recorder, kind, layer, cached, bytes};
  }

  /// Fills rows [begin, end) of `to`; both are multiples of to.rows_together(), or the end.
  template <class Make>
  void make_rows(const Worker& worker, Input& to, std::int64_t begin, std::int64_t end,
                 const Make& make);
  /// Adds the last block's output to the hidden state of a row, if that is pending, then normalizes
  /// it into `out`; without a weight, copies it.
  void normed_row(std::int64_t row, std::span<const float> weight, std::span<float> out,
                  std::span<const float> bias = {});
  /// The same of the layer's norm of its attention, before the last block's output is added: for an
  /// FFN that reads what attention read.
  void shared_row(std::int64_t row, const Layer& layer, std::span<float> out);
  /// Says that `block` is to be added to `hidden`, after a norm with this weight; empty: none. The
  /// sum is multiplied by `scale`.
  void set_pending(std::span<const float> norm, float scale = 1) {
    pending = true;
    pending_norm = norm;
    pending_scale = scale;
  }

  const StepSequence& sequence_of(std::int64_t row) const {
    return sequences[std::size_t(sequence_at[std::size_t(row)])];
  }
  const Layer& layer(int index) const { return model->layers[std::size_t(index)]; }
  std::int64_t width() const { return model->spec.hidden; }
  ProductScratch& products(const Worker& worker) {
    return threads[std::size_t(worker.index())].products;
  }
  /// The form of the step's rows.
  RowForm form() const { return form_of(tokens); }
  /// The matrices to prefetch: none where tiles fill the caches into which the next weights would
  /// go.
  NextMatrices if_apart(NextMatrices next) const {
    return form() == RowForm::kApart ? std::move(next) : NextMatrices();
  }

  /// Adds `block` to `hidden` in a row.
  void add_block(std::int64_t row);
  /// The model's kind of norm.
  void norm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
            std::span<float> out) const;

  struct Thread {
    ProductScratch products;
    std::vector<float> rows;
  };

  std::shared_ptr<const Model> model;
  std::vector<Thread> threads;
  MovedBytes bytes;  // since they were last taken
  Recorder* recorder = nullptr;

  std::vector<StepSequence> sequences;
  std::vector<int> sequence_at;  // by row
  TokenCount cached = 0;         // tokens of the first sequence before this step
  std::int64_t tokens = 0;       // tokens of this step
  // No bit of a row depends on other rows' contents: tiles compute other bits than kernels for rows
  // apart, and how many rows an expert has is up to all of them.
  bool isolates_rows = false;
  bool pending = false;                 // `block` has not been added to `hidden` yet
  float pending_scale = 1;              // of the sum
  std::span<const float> pending_norm;  // weight of a norm of `block` before that; empty: none
  Input input;                          // of a stage's first products
  // Buffers begin at a cache line: threads write neighbouring columns at once, and a line that two
  // threads write would move between their caches (false sharing).
  cpu::AlignedVector<float> hidden;    // [token][hidden]
  cpu::AlignedVector<float> block;     // [token][hidden]: output of the last block
  cpu::AlignedVector<float> gate, up;  // of an FFN, or of the experts' rows
};

template <class Make>
void CpuStep::make_rows(const Worker& worker, Input& to, std::int64_t begin, std::int64_t end,
                        const Make& make) {
  std::vector<float>& values = threads[std::size_t(worker.index())].rows;
  const auto columns = std::size_t(to.columns());
  for (std::int64_t first = begin; first < end; first += to.rows_at_once()) {
    const auto count = std::size_t(std::min(to.rows_at_once(), end - first));
    values.resize(count * columns);
    for (std::size_t i = 0; i < count; ++i)
      make(first + std::int64_t(i), std::span(values).subspan(i * columns, columns));
    to.set_rows(first, values);
  }
}

template <class Before, class Make>
void CpuStep::prepare(Worker& worker, Input& to, std::int64_t columns, std::int64_t rows,
                      RowForm rows_form, std::initializer_list<const Matrix*> matrices,
                      const Before& before, const Make& make) {
  worker.run_once([&] {
    before();
    to.resize(columns, rows, matrices, rows_form);
    if (rows == 1) make_rows(worker, to, 0, 1, make);
  });
  if (rows == 1) return;
  worker.parallel_for(rows, to.rows_together(), [&](std::int64_t begin, std::int64_t end) {
    make_rows(worker, to, begin, end, make);
  });
}

}  // namespace rigcast::engine
