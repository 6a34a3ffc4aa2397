#pragma once
// A forecast in closed form: every operation after the one before, nothing contends. What the
// simulator gives for a runtime that overlaps nothing, a thousand times faster: for fitting.

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
  struct Handoffs {
    double host = 0, gpu = 0;  // how many, between CPU and GPU, between two GPUs
    Seconds copies;
  };
  // An operation as often as layers alike it exist.
  struct Item {
    StepOp op;
    TokenCount tokens = 1;
    double count = 1;
  };
  struct Pass {
    std::vector<Item> items;
    Handoffs handoffs;
    double weight = 1;  // how many tokens, or ubatches of the prompt, it stands for
    bool samples = true;
  };

  Handoffs count_handoffs(const Step& step) const;
  Pass pass(Phase phase, BatchShape batch, bool last, double weight) const;
  void plan_tokens();
  void plan_ubatches();
  Seconds time_of(const Item& item) const;
  Seconds time_of(const Handoffs& handoffs) const;
  Seconds time_of(const Pass& pass, std::vector<double>* by_device) const;

  const Scenario& s_;
  Placement placement_;
  MemoryPlan memory_;
  std::vector<std::pair<int, int>> classes_;  // a layer, and how many are alike
  std::vector<Pass> tokens_, ubatches_;
};

/// Time that several GPUs save on a prompt of `ubatches`, each taking `by_device` seconds there,
/// when every GPU starts on the next ubatch as soon as it is done with its layers.
Seconds pipeline_saving(const Scenario& scenario, const std::vector<double>& by_device,
                        double ubatches);

}  // namespace rigcast
