#pragma once
// A forecast in closed form, a thousand times faster than the simulator, for fitting and for
// comparing the candidates of a plan. Both price the same steps. For a runtime that overlaps
// nothing they agree up to rounding; where copies overlap operations, the simulator also models
// contention at every moment (tests/sim/serial_time_test.cpp states the bound).

#include <cstdint>
#include <optional>
#include <vector>

#include "perfmodel/request_batches.hpp"
#include "perfmodel/step.hpp"

namespace rigcast {

class SerialForecast {
 public:
  /// Refers to `scenario`, of which only the runtime's figures may change between calls.
  explicit SerialForecast(const Scenario& scenario) : SerialForecast(scenario, scenario.workload) {}
  /// Of another request in the same memory: `workload` has the scenario's context limit.
  SerialForecast(const Scenario& scenario, const Workload& workload);

  /// The time of the token that is decoded when the cache holds `cached` tokens, itself included.
  Seconds token(TokenCount cached) const;
  /// The mean time per output token after depth and prompt: 1 / (tokens per second).
  Seconds mean_token() const;
  /// The time of the whole prompt, from its first to its last ubatch.
  Seconds prompt() const;
  /// The time of the whole request: the prompt, whose last step gives the first output token, and
  /// every further token.
  Seconds request() const { return prompt() + double(output_tokens_ - 1) * mean_token(); }

  const Placement& placement() const { return placement_; }

 private:
  // The handoffs of a step, kept as counts because their waits change with the runtime's figures.
  struct Handoffs {
    double host = 0, gpu = 0;  // number between CPU and GPU, and between two GPUs
    Seconds copies;            // of hidden states, and of logits to the host
  };
  struct LayerClasses {
    explicit LayerClasses(std::vector<int> alike);
    std::vector<int> first;     // for every layer, the first layer that is like it
    std::vector<double> sizes;  // for each such first layer, the number of layers like it
  };
  // One step, in which one operation stands for all layers that are alike.
  struct Pass {
    Phase phase = Phase::kDecode;
    TokenCount tokens = 1;
    std::vector<StepOp> ops;
    std::vector<double> counts;  // how often each operation occurs
    Handoffs handoffs;
    double mask_pairs = 0;
    bool waits = true;  // for the mask: waits_for_host()
    Paging page_in;
    TokenCount sampled_rows = 0;
    DeviceIndex sampled_on = kHost;
    bool first = false;               // of the prompt
    double weight = 1;                // the number of tokens, or of the prompt's ubatches, that it
                                      // stands for
    std::optional<Step> overlapping;  // set if copies are prefetched: the step as it is
  };

  Handoffs count_handoffs(const Step& step) const;
  Pass decode_pass(TokenCount cached, double weight) const;
  Pass prefill_pass(std::int64_t ubatch, double weight) const;
  Pass pass_of(Step step, Phase phase, TokenCount tokens, double weight) const;
  std::vector<StepOp> priced(std::vector<StepOp> ops, Phase phase,
                             const std::vector<double>& counts) const;
  void plan_tokens(const Workload& workload);
  void plan_ubatches();
  Seconds time_of(const Handoffs& handoffs) const;
  // `by_thread`: the weighted time of the thread that prepares steps beside the GPUs.
  Seconds time_of(const Pass& pass, std::vector<double>* by_device,
                  Seconds* by_thread = nullptr) const;

  const StepContext s_;
  const MemoryContext memory_context_;
  const RequestBatches batches_;
  const TokenCount output_tokens_;
  Placement placement_;
  MemoryPlan memory_;
  const LayerClasses token_layers_, prompt_layers_;
  std::vector<Pass> tokens_, ubatches_;
};

/// The time that several GPUs save on a prompt of `ubatches`, each of which takes `by_device`
/// seconds on each GPU, when a GPU starts on the next ubatch as soon as it has computed its layers.
Seconds pipeline_saving(const StepContext& context, const std::vector<double>& by_device,
                        double ubatches);

}  // namespace rigcast
