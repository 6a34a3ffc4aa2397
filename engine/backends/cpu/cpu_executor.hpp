#pragma once
// The executor that computes all layers on the CPU.

#include <memory>

#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/kv/window_ring.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/state_history.hpp"

namespace rigcast::engine {

/// Of a model with recurrent layers the state after the last prompt is kept as well: truncate() to
/// where a state is not kept has the next call compute the tokens from there, or from the first,
/// anew.
class CpuExecutor : public Executor {
 public:
  /// Throws MachineError if threads cannot be made, ShortOfMemory if the weights exceed
  /// options.ram.
  CpuExecutor(std::shared_ptr<const Model> model, const CpuOptions& options);

  std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) override;
  std::int32_t decode(std::int32_t token, Sampler& sampler) override;

  TokenCount cached() const override { return cached_; }
  void truncate(TokenCount tokens) override;
  void fill(TokenCount tokens) override;

  int threads() const override { return options_.threads; }
  const Model& model() const override { return layers_.model(); }
  MovedBytes take_bytes() override { return layers_.take_bytes(); }
  DeviceMemory host() const override { return host_memory(options_.ram); }
  KvCache& cache() { return layers_.cache(); }
  const KvCache& cache() const { return layers_.cache(); }

 private:
  bool is_recurrent() const { return layers_.model().spec.recurrent.has_value(); }
  void restore_state();
  std::span<const float> steps(std::span<const std::int32_t> tokens, Logits which);
  std::span<const float> step(std::span<const std::int32_t> tokens, Logits which);

  CpuOptions options_;
  WindowRing ring_;
  RamCharge weights_;
  ThreadTeam team_;
  CpuLayers layers_;
  TokenCount cached_ = 0;  // tokens in the cache before this step
  std::vector<float> logits_;
  StateHistory history_;  // of a model with recurrent layers
};

}  // namespace rigcast::engine
