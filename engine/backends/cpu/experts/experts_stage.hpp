#pragma once
// One layer's mixture of experts: every token is routed to a few experts, every expert computes its
// tokens as one batch, and the team computes all experts at once.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/cpu/experts/expert_jobs.hpp"
#include "engine/backends/cpu/step/cpu_step.hpp"
#include "engine/kernels/ref/ops.hpp"

namespace rigcast::engine {

class ExpertsStage {
 public:
  explicit ExpertsStage(CpuStep& step) : step_(step), choices_(step.threads.size()) {}

  // Every member of the team calls these.
  /// block = the mixture's output for all tokens of the step, pending. Ends without a barrier.
  void compute(Worker& worker, int layer, const NextMatrices& next);
  /// The same without the shared expert, whose weights the host may lack.
  void compute_chosen(Worker& worker, int layer);
  /// `out` = the weighted sum of the chosen experts' outputs for one token's normed hidden state,
  /// each of the model's hidden size. Ends with a barrier.
  void run_chosen(Worker& worker, int layer, const float* normed, std::span<const int> ids,
                  std::span<const float> weights, float* out);

 private:
  /// Which experts: those of the router, and the shared one, whose input is the step's.
  enum class Which { kChosen, kAll };
  void compute_jobs(Worker& worker, const Layer& layer, Which which, const NextMatrices& next);
  void compute(Worker& worker, int layer, Which which, const NextMatrices& next);
  void route(Worker& worker, const Layer& layer, Which which);
  template <class Before>
  void norm_apart(Worker& worker, const Layer& layer, Which which, const Before& before);
  void choose(const Layer& layer, std::int64_t begin, std::int64_t end,
              ref::ChoiceScratch& scratch);
  void set_token(const Layer& layer, std::int64_t row, std::span<const float> normed);
  void size_shared(const Layer& layer, Which which);
  void activate_shared(Worker& worker, const Layer& layer);
  void size_jobs(const Layer& layer);
  /// Calls use(row) for those of the first `rows` rows that are not gaps, spread over the team.
  template <class Use>
  void for_each_job_row(Worker& worker, std::int64_t rows, const Use& use);
  InputRows ffn_hidden_of(const ExpertJobs::Job& job) const;
  float weight_of(std::int64_t row) const;
  void prefetch_chosen(Worker& worker, const Layer& layer, std::span<const int> ids);
  void sum_rows(Worker& worker, const Layer& layer, Which which);
  void sum_token(Worker& worker, const Layer& layer, Which which, std::span<float> out);
  void add_chosen(const Layer& layer, std::int64_t row, std::int64_t first, std::span<float> out);
  void add_shared(const Layer& layer, Which which, std::int64_t row, std::span<float> out);

  CpuStep& step_;
  std::vector<ref::ChoiceScratch> choices_;  // by thread
  // Buffers of a layer's experts. They are kept from layer to layer: memory that is allocated anew
  // is zeroed by the system.
  std::vector<float> scores_;   // [token][experts]: the router's logits
  std::vector<int> chosen_;     // [token][experts used]
  std::vector<float> weights_;  // [token][experts used]: router weights
  ExpertJobs jobs_;
  std::vector<Input> token_inputs_, single_expert_hidden_;
  Input expert_in_, expert_hidden_;
  Input routed_;                          // of a router with a norm of its own
  cpu::AlignedVector<float> expert_out_;  // [row of jobs][hidden]
  // Of the shared expert, by token: its vectors, and what weights its output.
  Input shared_hidden_;
  cpu::AlignedVector<float> shared_gate_, shared_up_, shared_out_;
  std::vector<float> shared_weights_;
};

}  // namespace rigcast::engine
