#pragma once
// A model's layers on the CPU: all threads of a team go through the stages of a step together. A
// stage is a fused block of a layer's operations.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/backends/cpu/attention_stage.hpp"
#include "engine/backends/cpu/cpu_step.hpp"
#include "engine/backends/cpu/experts_stage.hpp"
#include "engine/backends/cpu/ffn_stage.hpp"
#include "engine/backends/cpu/layer_input_stage.hpp"
#include "engine/memory/ram.hpp"
#include "engine/model/fused_blocks.hpp"
#include "engine/model/model.hpp"
#include "engine/run/executor.hpp"

namespace rigcast::engine {

/// The reason why the CPU cannot compute the model: a layer's operation that belongs to no stage.
/// nullopt: it can.
std::optional<Error> check_layers_on_cpu(const Model& model);

class CpuLayers {
 public:
  /// The model must pass check_layers_on_cpu(); otherwise MachineError is thrown.
  CpuLayers(std::shared_ptr<const Model> model, const CpuOptions& options);
  CpuLayers(const CpuLayers&) = delete;
  CpuLayers& operator=(const CpuLayers&) = delete;

  // Every member of a team of options.threads threads calls these, with the same arguments.
  /// Begins a step of `tokens` tokens, the first of them at position `cached`. Throws ShortOfMemory
  /// if its buffers do not fit.
  void begin(Worker& worker, TokenCount cached, std::int64_t tokens);
  /// Begins a step of rows of many sequences, whose tables name blocks of the cache. `sequences`
  /// are one after the other, without gaps. No row's bits depend on the contents of other
  /// rows, nor on their number as long as the form of the rows is the same (form_of()).
  void begin(Worker& worker, std::span<const StepSequence> sequences);
  /// hidden() = the embeddings of `ids`, one for each of the step's tokens.
  void embed(Worker& worker, std::span<const std::int32_t> ids);
  /// Computes layers [first, end) on hidden(), and stores their keys and values in the cache. Ends
  /// without a barrier: add_residual(), head() or the end of the team's job must follow.
  void through(Worker& worker, int first, int end);
  /// Adds the last block's output to hidden(), which through() leaves to the next stage. hidden()
  /// is complete after this.
  void add_residual(Worker& worker) { step_.add_residual(worker); }
  /// Computes the logits of all tokens or of the last one, in logits().
  void head(Worker& worker, Logits which);
  /// Computes the logits of these rows of the step, in their order, first of all in logits().
  void head(Worker& worker, std::span<const std::int64_t> rows);

  /// Charges the buffers of a step of `tokens` tokens, so that begin() need not. Throws
  /// ShortOfMemory.
  void reserve(std::int64_t tokens) { allocate_buffers(tokens); }

  /// Parts of a layer, where another device computes the others. add_residual() adds their output.
  AttentionStage& attention() { return attention_; }
  ExpertsStage& experts() { return experts_; }

  /// [token][hidden], complete after add_residual().
  std::span<float> hidden() { return step_.hidden; }
  std::vector<float>& logits() { return logits_; }

  KvCache& cache() { return attention_.cache(); }
  const KvCache& cache() const { return attention_.cache(); }
  const Model& model() const { return *step_.model; }
  MovedBytes take_bytes() { return std::exchange(step_.bytes, {}); }
  void record_into(Recorder* recorder) { step_.recorder = recorder; }

 private:
  struct Stage {
    FusedBlock block{};
    int layer = 0;
  };
  void compute(Worker& worker, const Stage& stage, const NextMatrices& next);
  NextMatrices first_of(const Stage& stage) const;
  void allocate_buffers(std::int64_t tokens);
  void begin_step(Worker& worker, std::span<const StepSequence> sequences, bool isolates_rows);
  /// Scales and bounds the logits of `rows` rows, as the model says.
  void finish_logits(Worker& worker, std::int64_t rows);
  template <class RowOf>
  void head_of(Worker& worker, std::int64_t rows, const RowOf& row_of);

  Ram ram_;
  RamCharge buffers_;          // charge for the vectors of the step and its stages
  std::int64_t buffered_ = 0;  // tokens for which they have room
  CpuStep step_;
  AttentionStage attention_;
  FfnStage ffn_;
  LayerInputStage inputs_;
  ExpertsStage experts_;
  std::vector<Stage> stages_;  // stages of all layers, in order
  // Index of each layer's first stage, and the total number.
  std::vector<std::size_t> first_stages_;
  std::vector<float> logits_;
};

}  // namespace rigcast::engine
