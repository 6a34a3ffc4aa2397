#include "engine/backends/cpu/experts/experts_stage.hpp"

#include <algorithm>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/ops.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

// Adds an expert's part of a bias, if there is one.
void add_bias(std::span<float> to, const std::vector<float>& bias, int expert) {
  if (!bias.empty()) cpu::add_scaled(to, bias.data() + std::size_t(expert) * to.size(), 1.0f);
}

float dot(const std::vector<float>& a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += double(a[i]) * double(b[i]);
  return float(sum);
}

// The matrices that experts, or the shared one, multiply first: gate and up, or up alone.
const Matrix& first_of_experts(const Layer& w) {
  return w.expert_gate ? w.expert_gate.first : w.expert_up.first;
}
const Matrix& first_of_shared(const Layer& w) {
  return w.shared_gate ? w.shared_gate : w.shared_up;
}

// inner = the input of an expert's down matrix, from the first matrix's product, and that of up.
void activate(const Layer& w, bool gated, std::span<float> inner, const float* up) {
  if (!gated) return cpu::squared_relu(inner);
  if (w.has_clamped_experts()) return cpu::clamped_swiglu(inner, up);
  w.has_gelu() ? cpu::gelu_multiply(inner, up) : cpu::silu_multiply(inner, up);
}

}  // namespace

// Chooses the experts of tokens [begin, end).
void ExpertsStage::choose(const Layer& w, std::int64_t begin, std::int64_t end,
                          ref::ChoiceScratch& scratch) {
  const auto experts = std::size_t(w.router.rows),
             used = std::size_t(step_.model->spec.moe->experts_used);
  for (std::size_t t = std::size_t(begin); t < std::size_t(end); ++t) {
    const auto scores = std::span(scores_).subspan(t * experts, experts);
    add_bias(scores, w.router_bias, 0);
    ref::choose_experts(scores, w.selection_bias, step_.model->hyper.routing,
                        std::span(chosen_).subspan(t * used, used),
                        std::span(weights_).subspan(t * used, used), scratch);
    for (std::size_t i = t * used; !w.expert_scale.empty() && i < (t + 1) * used; ++i)
      weights_[i] *= w.expert_scale[std::size_t(chosen_[i])];
  }
}

// Resizes the inputs and outputs of all jobs.
void ExpertsStage::size_jobs(const Layer& w) {
  const Matrix &gate = first_of_experts(w), &up = w.expert_up.first, &down = w.expert_down.first;
  // Few tokens leave an expert too few rows for a tile.
  const RowForm form = step_.form() == RowForm::kTiled ? RowForm::kTiled : RowForm::kApart;
  jobs_.sort(chosen_, int(w.router.rows), step_.model->spec.moe->experts_used,
             form == RowForm::kApart ? 1 : group_rows({&gate, &up, &down}),
             form == RowForm::kTiled && step_.isolates_rows);
  if (const std::int64_t rows = jobs_.batch_rows(); rows > 0) {
    expert_in_.resize(gate.columns, rows, {&gate, &up}, form);
    expert_hidden_.resize(down.columns, rows, {&down}, form);
  }
  const auto singles = std::size_t(jobs_.rows() - jobs_.batch_rows());
  if (single_expert_hidden_.size() < singles) single_expert_hidden_.resize(singles);
  for (std::size_t i = 0; i < singles; ++i)
    single_expert_hidden_[i].resize(down.columns, 1, {&down});
  cpu::resize_at_least(step_.gate, std::size_t(jobs_.rows() * gate.rows));
  cpu::resize_at_least(step_.up, std::size_t(jobs_.rows() * gate.rows));
  cpu::resize_at_least(expert_out_, std::size_t(jobs_.rows() * down.rows));
  step_.bytes.weights += double(one_expert_bytes(w)) * double(jobs_.jobs().size());
}

// Routes every token to its experts. The normed hidden state is kept in the form that experts
// multiply, and quantized once.
void ExpertsStage::route(Worker& worker, const Layer& w, Which which) {
  const std::int64_t hidden = step_.width();
  const auto before = [&] {
    const auto choices = std::size_t(step_.tokens * step_.model->spec.moe->experts_used);
    chosen_.resize(choices);
    weights_.resize(choices);
    scores_.resize(std::size_t(step_.tokens * w.router.rows));
    if (token_inputs_.size() < std::size_t(step_.tokens))
      token_inputs_.resize(std::size_t(step_.tokens));
    size_shared(w, which);
  };
  const auto make = [&](std::int64_t row, std::span<float> out) {
    step_.normed_row(row, w.ffn_norm, out, w.ffn_norm_bias);
    set_token(w, row, out);
    if (which == Which::kAll && !w.shared_router.empty())
      shared_weights_[std::size_t(row)] = ref::sigmoid(dot(w.shared_router, out));
  };
  const bool routes_apart = !w.router_norm.empty();
  if (routes_apart)
    norm_apart(worker, w, which, before);
  else if (which == Which::kAll)
    step_.prepare(worker, step_.input, hidden, {&w.router, &first_of_shared(w), &w.shared_up},
                  before, make);
  else
    step_.prepare(worker, step_.input, hidden, {&w.router}, before, make);
  const Product router{&w.router, routes_apart ? routed_ : step_.input, scores_.data(),
                       w.router.rows};
  multiply(worker, {&router, 1}, step_.products(worker));
  ref::ChoiceScratch& scratch = choices_[std::size_t(worker.index())];
  if (step_.tokens > 1) {
    worker.barrier();
    // To choose a token's experts takes some microseconds: few tokens are spread over all threads.
    const std::int64_t at_once = std::clamp<std::int64_t>(step_.tokens / worker.count(), 1, 8);
    worker.parallel_for_nowait(step_.tokens, at_once, [&](std::int64_t begin, std::int64_t end) {
      choose(w, begin, end, scratch);
    });
  }
  worker.run_once([&] {
    if (step_.tokens == 1) choose(w, 0, 1, scratch);
    size_jobs(w);
    step_.bytes.weights +=
        double(ffn_weight_bytes(w) - (which == Which::kAll ? 0 : shared_expert_bytes(w)));
    // Rows have been normed by now, so the experts' output may overwrite the block that was added.
    step_.set_pending(w.ffn_post_norm, w.input_gate ? 1.0f : w.scale());
  });
}

// The inputs of the shared expert, of the others and of the router are norms of their own.
template <class Before>
void ExpertsStage::norm_apart(Worker& worker, const Layer& w, Which which, const Before& before) {
  const std::int64_t hidden = step_.width();
  const bool has_dense = which == Which::kAll;
  if (has_dense)
    step_.prepare(
        worker, step_.input, hidden, {&w.shared_gate, &w.shared_up}, before,
        [&](std::int64_t row, std::span<float> out) { step_.normed_row(row, w.ffn_norm, out); });
  const auto first = [&] {
    if (!has_dense) before();
  };
  step_.prepare(
      worker, routed_, hidden, {&w.router}, first, [&](std::int64_t row, std::span<float> out) {
        const std::span<const float> x(step_.hidden.data() + row * hidden, std::size_t(hidden));
        // Whoever norms first adds the last block's output.
        has_dense ? step_.norm(x, w.expert_norm, {}, out)
                  : step_.normed_row(row, w.expert_norm, out);
        set_token(w, row, out);
        step_.norm(x, w.router_norm, {}, out);
      });
}

void ExpertsStage::set_token(const Layer& w, std::int64_t row, std::span<const float> normed) {
  Input& input = token_inputs_[std::size_t(row)];
  input.resize(step_.width(), 1, {&first_of_experts(w), &w.expert_up.first});
  input.set_row(0, normed);
}

// Resizes what the shared expert of the step's tokens needs.
void ExpertsStage::size_shared(const Layer& w, Which which) {
  if (which == Which::kChosen) return;
  const auto tokens = std::size_t(step_.tokens);
  shared_weights_.assign(tokens, 1.0f);
  cpu::resize_at_least(shared_gate_, tokens * std::size_t(w.shared_up.rows));
  cpu::resize_at_least(shared_up_, tokens * std::size_t(w.shared_up.rows));
  cpu::resize_at_least(shared_out_, tokens * std::size_t(step_.width()));
  shared_hidden_.resize(w.shared_down.columns, step_.tokens, {&w.shared_down}, step_.form());
}

// The input of the shared expert's down matrix.
void ExpertsStage::activate_shared(Worker& worker, const Layer& w) {
  const std::int64_t width = w.shared_up.rows;
  worker.parallel_for(
      step_.tokens, shared_hidden_.rows_together(), [&](std::int64_t begin, std::int64_t end) {
        step_.make_rows(worker, shared_hidden_, begin, end,
                        [&](std::int64_t row, std::span<float> out) {
                          std::copy_n(shared_gate_.data() + row * width, width, out.data());
                          activate(w, bool(w.shared_gate), out, shared_up_.data() + row * width);
                        });
      });
}

void ExpertsStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  compute(worker, layer, step_.layer(layer).has_shared_expert() ? Which::kAll : Which::kChosen,
          next);
}

void ExpertsStage::compute_chosen(Worker& worker, int layer) {
  compute(worker, layer, Which::kChosen, {});
}

void ExpertsStage::compute(Worker& worker, int layer, Which which, const NextMatrices& next) {
  const Layer& w = step_.layer(layer);
  const ActivitySpan span = step_.span(worker, ActivityKind::kExperts, layer);
  route(worker, w, which);
  compute_jobs(worker, w, which, next);
  sum_rows(worker, w, which);
}

// This member's first piece of the chosen experts' matrices, in the order of their jobs.
void ExpertsStage::prefetch_chosen(Worker& worker, const Layer& w, std::span<const int> ids) {
  std::vector<int> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  std::vector<Matrix> matrices;
  for (const int id : sorted) {
    if (w.has_gated_experts()) matrices.push_back(w.expert_gate.at(id));
    matrices.push_back(w.expert_up.at(id));
  }
  NextMatrices next;
  for (const Matrix& matrix : matrices) next.push_back(&matrix);
  prefetch_first(worker, next, step_.products(worker));
}

void ExpertsStage::run_chosen(Worker& worker, int layer, const float* normed,
                              std::span<const int> ids, std::span<const float> weights,
                              float* out) {
  const Layer& w = step_.layer(layer);
  const ActivitySpan span = step_.span(worker, ActivityKind::kExperts, layer);
  prefetch_chosen(worker, w, ids);
  worker.run_once([&] {
    chosen_.assign(ids.begin(), ids.end());
    weights_.assign(weights.begin(), weights.end());
    if (token_inputs_.empty()) token_inputs_.resize(1);
    set_token(w, 0, {normed, std::size_t(step_.width())});
    size_jobs(w);
  });
  compute_jobs(worker, w, Which::kChosen, {});
  sum_token(worker, w, Which::kChosen, {out, std::size_t(step_.width())});
}

// Spreads the rows of jobs over the team, without gaps: whole groups where jobs have several
// tokens, so that no two threads write to one cache line, and single rows otherwise.
template <class Use>
void ExpertsStage::for_each_job_row(Worker& worker, std::int64_t rows, const Use& use) {
  const std::int64_t group = jobs_.group(), groups = jobs_.batch_rows() / group;
  worker.parallel_for(groups + rows - jobs_.batch_rows(), 1, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t first = piece < groups ? piece * group : jobs_.batch_rows() + piece - groups;
    const std::int64_t last = piece < groups ? first + group : first + 1;
    for (std::int64_t row = first; row < last && jobs_.token(row) >= 0; ++row) use(row);
  });
}

InputRows ExpertsStage::ffn_hidden_of(const ExpertJobs::Job& job) const {
  if (!job.single()) return {expert_hidden_, job.first, job.count};
  return single_expert_hidden_[std::size_t(job.first - jobs_.batch_rows())];
}

// The router's weight of a row of jobs.
float ExpertsStage::weight_of(std::int64_t row) const {
  const std::int64_t used = step_.model->spec.moe->experts_used, first = jobs_.token(row) * used;
  for (std::int64_t choice = first; choice < first + used; ++choice)
    if (jobs_.row(choice) == row) return weights_[std::size_t(choice)];
  return 0;
}

// Computes all jobs: every chosen expert, for all of its tokens; and the shared one, for all
// tokens.
void ExpertsStage::compute_jobs(Worker& worker, const Layer& w, Which which,
                                const NextMatrices& next) {
  const std::int64_t hidden = step_.width(), width = w.expert_up.first.rows;
  const bool gated = w.has_gated_experts();
  if (jobs_.batch_rows() > 0)
    for_each_job_row(worker, jobs_.batch_rows(), [&](std::int64_t row) {
      expert_in_.set_row(row, token_inputs_[std::size_t(jobs_.token(row))]);
    });
  std::vector<Matrix> stack;  // this thread's matrices; products point into it
  std::vector<Product> wide, narrow;
  NextMatrices downs;
  stack.reserve(3 * jobs_.jobs().size());
  wide.reserve(2 * jobs_.jobs().size());
  narrow.reserve(jobs_.jobs().size());
  const auto of = [&](const MatrixStack& experts, const ExpertJobs::Job& job) {
    return &stack.emplace_back(experts.at(job.expert));
  };
  for (const ExpertJobs::Job& job : jobs_.jobs()) {
    const InputRows in = job.single()
                             ? InputRows(token_inputs_[std::size_t(jobs_.token(job.first))])
                             : InputRows(expert_in_, job.first, job.count);
    const std::int64_t at = job.first * width;
    if (gated) wide.push_back({of(w.expert_gate, job), in, step_.gate.data() + at, width});
    wide.push_back({of(w.expert_up, job), in, (gated ? step_.up : step_.gate).data() + at, width});
    narrow.push_back({of(w.expert_down, job), ffn_hidden_of(job),
                      expert_out_.data() + job.first * hidden, hidden});
    downs.push_back(narrow.back().w);
  }
  if (which == Which::kAll) {
    const std::int64_t inner = w.shared_up.rows;
    wide.push_back({&first_of_shared(w), step_.input, shared_gate_.data(), inner});
    if (w.shared_gate) wide.push_back({&w.shared_up, step_.input, shared_up_.data(), inner});
    narrow.push_back({&w.shared_down, shared_hidden_, shared_out_.data(), hidden});
  }
  multiply(worker, wide, step_.products(worker), step_.if_apart(downs));
  worker.barrier();
  const bool scales_input = step_.model->hyper.routing.scales_input;
  for_each_job_row(worker, jobs_.rows(), [&](std::int64_t row) {
    const std::span<float> gate(step_.gate.data() + row * width, std::size_t(width));
    const std::span<float> up(step_.up.data() + row * width, std::size_t(width));
    // Weights of the input are those of both products.
    if (scales_input)
      for (const std::span<float> scaled : {gate, up})
        for (float& x : scaled) x *= weight_of(row);
    add_bias(gate, w.expert_gate_bias, jobs_.expert(row));
    add_bias(up, w.expert_up_bias, jobs_.expert(row));
    activate(w, gated, gate, up.data());
    const std::int64_t single = row - jobs_.batch_rows();
    single < 0 ? expert_hidden_.set_row(row, gate)
               : single_expert_hidden_[std::size_t(single)].set_row(0, gate);
  });
  if (which == Which::kAll) activate_shared(worker, w);
  multiply(worker, narrow, step_.products(worker), next);
}

// out = the sum of the outputs of a token's experts, each times its router weight, in as many
// columns from `first` on.
void ExpertsStage::add_chosen(const Layer& w, std::int64_t row, std::int64_t first,
                              std::span<float> out) {
  const std::int64_t hidden = step_.width(), used = step_.model->spec.moe->experts_used;
  std::ranges::fill(out, 0.0f);
  for (std::int64_t choice = row * used; choice < (row + 1) * used; ++choice) {
    const float weight =
        step_.model->hyper.routing.scales_input ? 1.0f : weights_[std::size_t(choice)];
    cpu::add_scaled(out, expert_out_.data() + jobs_.row(choice) * hidden + first, weight);
    if (w.expert_down_bias.empty()) continue;
    const std::int64_t expert = chosen_[std::size_t(choice)];
    cpu::add_scaled(out, w.expert_down_bias.data() + expert * hidden + first, weight);
  }
}

// Norms the sum of a token, and adds the shared expert's output.
void ExpertsStage::add_shared(const Layer& w, Which which, std::int64_t row, std::span<float> out) {
  const auto norm = [&](std::span<float> x, const std::vector<float>& weight) {
    if (!weight.empty()) cpu::rms_norm(x, weight, step_.model->hyper.norm_eps, x.data());
  };
  norm(out, w.expert_post_norm);
  if (which != Which::kAll) return;
  const std::span<float> shared(shared_out_.data() + row * step_.width(), out.size());
  norm(shared, w.shared_post_norm);
  cpu::add_scaled(out, shared.data(), shared_weights_[std::size_t(row)]);
}

// What experts gave a single token lies in the caches of all members, from which one of them would
// fetch it more slowly: each adds some columns.
void ExpertsStage::sum_token(Worker& worker, const Layer& w, Which which, std::span<float> out) {
  constexpr std::int64_t kLine = 64 / sizeof(float), kColumns = 4 * kLine;
  const std::int64_t hidden = step_.width(), each = (hidden + worker.count() - 1) / worker.count();
  worker.barrier();
  worker.parallel_for_nowait(
      hidden, std::max(kColumns, (each + kLine - 1) / kLine * kLine),
      [&](std::int64_t begin, std::int64_t end) {
        add_chosen(w, 0, begin, out.subspan(std::size_t(begin), std::size_t(end - begin)));
      });
  worker.run_once([&] { add_shared(w, which, 0, out); });
}

// block = every token's mixture.
void ExpertsStage::sum_rows(Worker& worker, const Layer& w, Which which) {
  const auto hidden = std::size_t(step_.width());
  if (step_.tokens == 1) return sum_token(worker, w, which, {step_.block.data(), hidden});
  worker.barrier();
  worker.parallel_for(step_.tokens, 1, [&](std::int64_t row, std::int64_t) {
    const std::span<float> out(step_.block.data() + std::size_t(row) * hidden, hidden);
    add_chosen(w, row, 0, out);
    add_shared(w, which, row, out);
  });
}

}  // namespace rigcast::engine
