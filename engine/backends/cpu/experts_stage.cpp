// One layer's mixture of experts: every token goes to a few, every expert computes its tokens as
// one batch, and all experts share the team at once.

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

// The experts of highest score, as many as `chosen` holds, with their shares of a softmax over all,
// or over the chosen. `order` is room for all experts.
void choose(std::span<const float> scores, bool normalised, std::vector<int>& order,
            std::span<int> chosen, std::span<float> shares) {
  order.resize(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int e) {  // one that is not a number would leave them without an order
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

// Of tokens [begin, end).
void CpuLayers::choose_experts(const Layer& w, std::int64_t begin, std::int64_t end,
                               std::vector<int>& order) {
  const auto experts = std::size_t(w.router.rows),
             used = std::size_t(model_->spec.moe->experts_used);
  for (std::size_t t = std::size_t(begin); t < std::size_t(end); ++t)
    choose(std::span(scores_).subspan(t * experts, experts), model_->hyper.normalised_experts,
           order, std::span(chosen_).subspan(t * used, used),
           std::span(shares_).subspan(t * used, used));
}

// Room for what all jobs take and give.
void CpuLayers::size_jobs(const Layer& w) {
  const Matrix &gate = w.expert_gate.first, &up = w.expert_up.first, &down = w.expert_down.first;
  jobs_.sort(chosen_, int(w.router.rows), model_->spec.moe->experts_used,
             group_rows({&gate, &up, &down}));
  if (const std::int64_t rows = jobs_.batch_rows(); rows > 0) {
    size_input(expert_in_, gate.columns, rows, {&gate, &up});
    size_input(expert_middle_, down.columns, rows, {&down});
  }
  const auto singles = std::size_t(jobs_.rows() - jobs_.batch_rows());
  if (single_middles_.size() < singles) single_middles_.resize(singles);
  for (std::size_t i = 0; i < singles; ++i)
    size_input(single_middles_[i], down.columns, 1, {&down});
  cpu::grow(gate_, std::size_t(jobs_.rows() * gate.rows));
  cpu::grow(up_, std::size_t(jobs_.rows() * gate.rows));
  cpu::grow(expert_out_, std::size_t(jobs_.rows() * down.rows));
  bytes_.weights += double(one_expert_bytes(w)) * double(jobs_.jobs().size());
}

// Which experts every token goes to. Its normed state is kept as they take it, rounded once.
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
    worker.hand_out(tokens_, 8, [&](std::int64_t begin, std::int64_t end) {
      choose_experts(w, begin, end, order);
    });
  }
  worker.alone([&] {
    if (tokens_ == 1) choose_experts(w, 0, 1, order);
    size_jobs(w);
    bytes_.weights += double(ffn_weight_bytes(w));
    pending_ = true;  // rows have been normed: what experts give takes the place of what was added
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
  mix_experts(worker);
}

void CpuLayers::mixture_of_experts(Worker& worker, int layer) { experts(worker, layer, {}); }

void CpuLayers::mix_chosen(Worker& worker, int layer, const float* normed, std::span<const int> ids,
                           std::span<const float> shares) {
  const Layer& w = weights(layer);
  ActivitySpan span(worker, recorder_, ActivityKind::kExperts, layer, cached_, bytes_);
  worker.alone([&] {
    chosen_.assign(ids.begin(), ids.end());
    shares_.assign(shares.begin(), shares.end());
    if (token_inputs_.empty()) token_inputs_.resize(1);
    set_token(w, 0, {normed, std::size_t(model_->spec.hidden)});
    size_jobs(w);
  });
  compute_jobs(worker, w, {});
  mix_experts(worker);
}

// Rows of jobs, all but gaps: whole groups of those of several tokens, so that no two threads write
// to one cache line, and single ones.
template <class Use>
void CpuLayers::share_jobs(Worker& worker, std::int64_t rows, const Use& use) {
  const std::int64_t group = jobs_.group(), groups = jobs_.batch_rows() / group;
  worker.share(groups + rows - jobs_.batch_rows(), 1, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t first = piece < groups ? piece * group : jobs_.batch_rows() + piece - groups;
    const std::int64_t last = piece < groups ? first + group : first + 1;
    for (std::int64_t row = first; row < last && jobs_.token(row) >= 0; ++row) use(row);
  });
}

InputRows CpuLayers::middle_of(const ExpertJobs::Job& job) const {
  if (!job.single()) return {expert_middle_, job.first, job.count};
  return single_middles_[std::size_t(job.first - jobs_.batch_rows())];
}

// Every job's experts, for all of their tokens.
void CpuLayers::compute_jobs(Worker& worker, const Layer& w, const Next& next) {
  const std::int64_t hidden = model_->spec.hidden, width = w.expert_gate.first.rows;
  if (jobs_.batch_rows() > 0)
    share_jobs(worker, jobs_.batch_rows(), [&](std::int64_t row) {
      expert_in_.set_row(row, token_inputs_[std::size_t(jobs_.token(row))]);
    });
  std::vector<Matrix> stack;  // of this thread; products point into it
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
    narrow.push_back(
        {of(w.expert_down, job), middle_of(job), expert_out_.data() + job.first * hidden, hidden});
    downs.push_back(narrow.back().w);
  }
  multiply(worker, wide, thread(worker).products, if_one(downs));
  worker.barrier();
  share_jobs(worker, jobs_.rows(), [&](std::int64_t row) {
    const std::span<float> gate(gate_.data() + row * width, std::size_t(width));
    cpu::silu_multiply(gate, up_.data() + row * width);
    const std::int64_t single = row - jobs_.batch_rows();
    single < 0 ? expert_middle_.set_row(row, gate)
               : single_middles_[std::size_t(single)].set_row(0, gate);
  });
  multiply(worker, narrow, thread(worker).products, next);
}

// A token's experts by their weights.
void CpuLayers::mix_row(std::int64_t row) {
  const std::int64_t hidden = model_->spec.hidden, used = model_->spec.moe->experts_used;
  const std::span<float> out(block_.data() + row * hidden, std::size_t(hidden));
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::int64_t choice = row * used; choice < (row + 1) * used; ++choice)
    cpu::add_scaled(out, expert_out_.data() + jobs_.row(choice) * hidden,
                    shares_[std::size_t(choice)]);
}

void CpuLayers::mix_experts(Worker& worker) {
  if (tokens_ == 1) return worker.alone([&] { mix_row(0); });
  worker.barrier();
  worker.share(tokens_, 1, [&](std::int64_t row, std::int64_t) { mix_row(row); });
}

}  // namespace rigcast::engine
