#pragma once
// A forecast in closed form, a thousand times faster than the simulator: for fitting, and for
// comparing the candidates of a plan. Both price the same steps. Where a runtime overlaps nothing
// they agree but for rounding; where copies run beside operations, the simulator also knows who
// shares a memory at every moment (tests/sim/serial_time_test.cpp states the bound).

#include <optional>
#include <vector>

#include "perfmodel/memory.hpp"
#include "perfmodel/step.hpp"

namespace rigcast {

class SerialForecast {
 public:
  /// Keeps a reference: figures of scenario.runtime may change between calls, nothing else may.
  explicit SerialForecast(const Scenario& scenario);

  /// The token decoded with `cached` tokens in the cache, itself included.
  Seconds token(TokenCount cached) const;
  /// The mean over the scenario's output tokens after depth and prompt: 1 / (tokens per second).
  Seconds mean_token() const;
  /// The whole prompt, from its first to its last ubatch.
  Seconds prompt() const;

  const Placement& placement() const { return placement_; }

 private:
  // Handoffs of a step: their waits change with the runtime's figures.
  struct Handoffs {
    double host = 0, gpu = 0;  // how many, between CPU and GPU, between two GPUs
    Seconds copies;            // of hidden states, and of logits to the host
  };
  // One step, with one operation for all layers that are alike.
  struct Pass {
    Phase phase = Phase::kDecode;
    TokenCount tokens = 1;
    std::vector<StepOp> ops;
    std::vector<double> counts;  // of each operation
    Handoffs handoffs;
    TokenCount sampled_rows = 0;
    DeviceIndex sampled_on = kHost;
    bool first = false;               // of the prompt
    double weight = 1;                // how many tokens, or ubatches of the prompt, it stands for
    std::optional<Step> overlapping;  // where copies run ahead of operations: the step as it is
  };

  Handoffs count_handoffs(const Step& step) const;
  Pass decode_pass(TokenCount cached, double weight) const;
  Pass prefill_pass(TokenCount cached, TokenCount tokens, bool last, double weight) const;
  Pass pass_of(Step step, Phase phase, TokenCount tokens, double weight) const;
  std::vector<StepOp> priced(std::vector<StepOp> ops, Phase phase,
                             const std::vector<double>& counts) const;
  void plan_tokens();
  void plan_ubatches();
  Seconds time_of(const Handoffs& handoffs) const;
  Seconds time_of(const Pass& pass, std::vector<double>* by_device) const;

  const Scenario& s_;
  Placement placement_;
  MemoryPlan memory_;
  std::vector<int> alike_;           // for every layer the first one like it
  std::vector<double> class_sizes_;  // for a layer that is the first: how many are like it
  std::vector<Pass> tokens_, ubatches_;
};

/// Time that several GPUs save on a prompt of `ubatches`, each taking `by_device` seconds there,
/// when every GPU starts on the next ubatch as soon as it is done with its layers.
Seconds pipeline_saving(const StepContext& context, const std::vector<double>& by_device,
                        double ubatches);

}  // namespace rigcast
