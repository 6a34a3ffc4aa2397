// One layer's mixture of experts: every token is routed to a few experts, every expert computes its
// tokens as one batch, and the team computes all experts at once.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/backends/cpu/activity_span.hpp"
#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

// Chooses the experts with the highest scores, as many as `chosen` holds; `shares` are their
// weights by a softmax over all experts, or over the chosen ones if normalised. `order` is scratch
// memory for all experts.
void choose(std::span<const float> scores, bool normalised, std::vector<int>& order,
            std::span<int> chosen, std::span<float> shares) {
  order.resize(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int e) {  // NaN would break the order
    const float value = scores[static_cast<std::size_t>(e)];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  std::partial_sort(
      order.begin(), order.begin() + std::ptrdiff_t(chosen.size()), order.end(),
      [&](int a, int b) { return score(a) != score(b) ? score(a) > score(b) : a < b; });
  const double most = double(score(order.front()));
  const auto share = [&](int e) { return std::exp(double(score(e)) - most); };
  const std::size_t counted = normalised ? chosen.size() : order.size();
  double whole = 0;
  for (std::size_t i = 0; i < counted; ++i) whole += share(order[i]);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = order[i];
    shares[i] = float(share(order[i]) / whole);
  }
}

}  // namespace

// Chooses the experts of tokens [begin, end).
void CpuLayers::choose_experts(const Layer& w, std::int64_t begin, std::int64_t end,
                               std::vector<int>& order) {
  const auto experts = std::size_t(w.router.rows),
             used = std::size_t(model_->spec.moe->experts_used);
  for (std::size_t t = std::size_t(begin); t < std::size_t(end); ++t)
    choose(std::span(scores_).subspan(t * experts, experts), model_->hyper.normalised_experts,
           order, std::span(chosen_).subspan(t * used, used),
           std::span(shares_).subspan(t * used, used));
}

// Resizes the inputs and outputs of all jobs.
void CpuLayers::size_jobs(const Layer& w) {
  const Matrix &gate = w.expert_gate.first, &up = w.expert_up.first, &down = w.expert_down.first;
  jobs_.sort(chosen_, int(w.router.rows), model_->spec.moe->experts_used,
             group_rows({&gate, &up, &down}));
  if (const std::int64_t rows = jobs_.batch_rows(); rows > 0) {
    size_input(expert_in_, gate.columns, rows, {&gate, &up});
    size_input(expert_hidden_, down.columns, rows, {&down});
  }
  const auto singles = std::size_t(jobs_.rows() - jobs_.batch_rows());
  if (single_expert_hidden_.size() < singles) single_expert_hidden_.resize(singles);
  for (std::size_t i = 0; i < singles; ++i)
    size_input(single_expert_hidden_[i], down.columns, 1, {&down});
  cpu::resize_at_least(gate_, std::size_t(jobs_.rows() * gate.rows));
  cpu::resize_at_least(up_, std::size_t(jobs_.rows() * gate.rows));
  cpu::resize_at_least(expert_out_, std::size_t(jobs_.rows() * down.rows));
  bytes_.weights += double(one_expert_bytes(w)) * double(jobs_.jobs().size());
}

// Routes every token to its experts. The normed hidden state is kept in the form that experts
// multiply, and quantized once.
void CpuLayers::route(Worker& worker, const Layer& w) {
  const std::int64_t hidden = model_->spec.hidden;
  const auto before = [&] {
    const auto choices = std::size_t(tokens_ * model_->spec.moe->experts_used);
    chosen_.resize(choices);
    shares_.resize(choices);
    scores_.resize(std::size_t(tokens_ * w.router.rows));
    if (token_inputs_.size() < std::size_t(tokens_)) token_inputs_.resize(std::size_t(tokens_));
  };
  prepare(worker, input_, hidden, tokens_, {&w.router}, before,
          [&](std::int64_t row, std::span<float> out) {
            normed_row(row, w.ffn_norm, out);
            set_token(w, row, out);
          });
  const Product router{&w.router, input_, scores_.data(), w.router.rows};
  multiply(worker, {&router, 1}, thread(worker).products);
  std::vector<int>& order = thread(worker).order;
  if (tokens_ > 1) {
    worker.barrier();
    worker.parallel_for_nowait(tokens_, 8, [&](std::int64_t begin, std::int64_t end) {
      choose_experts(w, begin, end, order);
    });
  }
  worker.run_once([&] {
    if (tokens_ == 1) choose_experts(w, 0, 1, order);
    size_jobs(w);
    bytes_.weights += double(ffn_weight_bytes(w));
    // Rows have been normed by now, so the experts' output may overwrite the block that was added.
    pending_ = true;
  });
}

void CpuLayers::set_token(const Layer& w, std::int64_t row, std::span<const float> normed) {
  Input& input = token_inputs_[std::size_t(row)];
  size_input(input, model_->spec.hidden, 1, {&w.expert_gate.first, &w.expert_up.first});
  input.set_row(0, normed);
}

void CpuLayers::experts(Worker& worker, int layer, const Next& next) {
  const Layer& w = weights(layer);
  ActivitySpan span(worker, recorder_, ActivityKind::kExperts, layer, cached_, bytes_);
  route(worker, w);
  compute_jobs(worker, w, next);
  sum_experts(worker);
}

void CpuLayers::mixture_of_experts(Worker& worker, int layer) { experts(worker, layer, {}); }

void CpuLayers::run_chosen_experts(Worker& worker, int layer, const float* normed,
                                   std::span<const int> ids, std::span<const float> shares) {
  const Layer& w = weights(layer);
  ActivitySpan span(worker, recorder_, ActivityKind::kExperts, layer, cached_, bytes_);
  worker.run_once([&] {
    chosen_.assign(ids.begin(), ids.end());
    shares_.assign(shares.begin(), shares.end());
    if (token_inputs_.empty()) token_inputs_.resize(1);
    set_token(w, 0, {normed, std::size_t(model_->spec.hidden)});
    size_jobs(w);
  });
  compute_jobs(worker, w, {});
  sum_experts(worker);
}

// Spreads the rows of jobs over the team, without gaps: whole groups where jobs have several
// tokens, so that no two threads write to one cache line, and single rows otherwise.
template <class Use>
void CpuLayers::share_jobs(Worker& worker, std::int64_t rows, const Use& use) {
  const std::int64_t group = jobs_.group(), groups = jobs_.batch_rows() / group;
  worker.parallel_for(groups + rows - jobs_.batch_rows(), 1, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t first = piece < groups ? piece * group : jobs_.batch_rows() + piece - groups;
    const std::int64_t last = piece < groups ? first + group : first + 1;
    for (std::int64_t row = first; row < last && jobs_.token(row) >= 0; ++row) use(row);
  });
}

InputRows CpuLayers::ffn_hidden_of(const ExpertJobs::Job& job) const {
  if (!job.single()) return {expert_hidden_, job.first, job.count};
  return single_expert_hidden_[std::size_t(job.first - jobs_.batch_rows())];
}

// Computes all jobs: every chosen expert, for all of its tokens.
void CpuLayers::compute_jobs(Worker& worker, const Layer& w, const Next& next) {
  const std::int64_t hidden = model_->spec.hidden, width = w.expert_gate.first.rows;
  if (jobs_.batch_rows() > 0)
    share_jobs(worker, jobs_.batch_rows(), [&](std::int64_t row) {
      expert_in_.set_row(row, token_inputs_[std::size_t(jobs_.token(row))]);
    });
  std::vector<Matrix> stack;  // this thread's matrices; products point into it
  std::vector<Product> wide, narrow;
  Next downs;
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
    wide.push_back({of(w.expert_gate, job), in, gate_.data() + at, width});
    wide.push_back({of(w.expert_up, job), in, up_.data() + at, width});
    narrow.push_back({of(w.expert_down, job), ffn_hidden_of(job),
                      expert_out_.data() + job.first * hidden, hidden});
    downs.push_back(narrow.back().w);
  }
  multiply(worker, wide, thread(worker).products, if_one(downs));
  worker.barrier();
  share_jobs(worker, jobs_.rows(), [&](std::int64_t row) {
    const std::span<float> gate(gate_.data() + row * width, std::size_t(width));
    cpu::silu_multiply(gate, up_.data() + row * width);
    const std::int64_t single = row - jobs_.batch_rows();
    single < 0 ? expert_hidden_.set_row(row, gate)
               : single_expert_hidden_[std::size_t(single)].set_row(0, gate);
  });
  multiply(worker, narrow, thread(worker).products, next);
}

// Adds up the outputs of a token's experts, each times its router weight.
void CpuLayers::sum_expert_rows(std::int64_t row) {
  const std::int64_t hidden = model_->spec.hidden, used = model_->spec.moe->experts_used;
  const std::span<float> out(block_.data() + row * hidden, std::size_t(hidden));
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::int64_t choice = row * used; choice < (row + 1) * used; ++choice)
    cpu::add_scaled(out, expert_out_.data() + jobs_.row(choice) * hidden,
                    shares_[std::size_t(choice)]);
}

void CpuLayers::sum_experts(Worker& worker) {
  if (tokens_ == 1) return worker.run_once([&] { sum_expert_rows(0); });
  worker.barrier();
  worker.parallel_for(tokens_, 1, [&](std::int64_t row, std::int64_t) { sum_expert_rows(row); });
}

}  // namespace rigcast::engine
