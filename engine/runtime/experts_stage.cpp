// One layer's mixture of experts: every token goes to a few, every expert computes its tokens as
// one batch, and all experts share the team at once.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/runtime/cpu_stages.hpp"

namespace rigcast::engine {
namespace {

struct Chosen {
  int expert = 0;
  float weight = 0;
};

// The `used` experts of highest score, with their shares of a softmax over all, or over the chosen.
std::vector<Chosen> choose(std::span<const float> scores, int used, bool normalised) {
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int e) { return scores[static_cast<std::size_t>(e)]; };
  std::partial_sort(order.begin(), order.begin() + used, order.end(), [&](int a, int b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  });
  const double most = double(score(order.front()));
  const auto share = [&](int e) { return std::exp(double(score(e)) - most); };
  const std::size_t counted = normalised ? std::size_t(used) : order.size();
  double whole = 0;
  for (std::size_t i = 0; i < counted; ++i) whole += share(order[i]);
  std::vector<Chosen> chosen;
  for (int i = 0; i < used; ++i) {
    const int e = order[static_cast<std::size_t>(i)];
    chosen.push_back({e, float(share(e) / whole)});
  }
  return chosen;
}

}  // namespace

// Jobs by expert, in the order in which tokens first need them.
void CpuLayers::choose_experts(const Layer& w) {
  const std::size_t experts = std::size_t(w.router.rows);
  std::vector<int> job_of(experts, -1);
  choices_.clear();
  jobs_.clear();
  for (int t = 0; t < int(tokens_); ++t) {
    const std::span<const float> scores(scores_.data() + std::size_t(t) * experts, experts);
    for (const Chosen& c :
         choose(scores, model_->spec.moe->experts_used, model_->hyper.normalised_experts)) {
      int& job = job_of[std::size_t(c.expert)];
      if (job < 0) {
        job = int(jobs_.size());
        jobs_.emplace_back().expert = c.expert;
      }
      std::vector<int>& rows = jobs_[std::size_t(job)].tokens;
      choices_.push_back({job, int(rows.size()), c.weight});
      rows.push_back(t);
    }
  }
}

void CpuLayers::size_jobs(const Layer& w) {
  const Matrix &gate = w.expert_gate.first, &up = w.expert_up.first, &down = w.expert_down.first;
  const bool integers = needs_integers(gate) || needs_integers(up);
  const bool floats = !needs_integers(gate) || !needs_integers(up);
  for (Job& job : jobs_) {
    const std::int64_t rows = std::int64_t(job.tokens.size());
    job.in.resize(gate.columns, rows, integers, floats);
    job.middle.resize(down.columns, rows, needs_integers(down), !needs_integers(down));
    job.gate.resize(std::size_t(rows * gate.rows));
    job.up.resize(job.gate.size());
    job.out.resize(std::size_t(rows * down.rows));
  }
  bytes_.weights += double(gate.bytes() + up.bytes() + down.bytes()) * double(jobs_.size());
}

// Which experts every token goes to; its normed state is kept.
void CpuLayers::route(Worker& worker, const Layer& w) {
  const std::int64_t hidden = model_->spec.hidden;
  const auto before = [&] {
    normed_.resize(std::size_t(tokens_ * hidden));
    scores_.resize(std::size_t(tokens_ * w.router.rows));
  };
  prepare(worker, input_, hidden, tokens_, {&w.router}, before,
          [&](std::int64_t row, std::span<float> out) {
            normed_row(row, w.ffn_norm, out);
            std::copy(out.begin(), out.end(), normed_.begin() + row * hidden);
          });
  const Product router{&w.router, &input_, scores_.data(), w.router.rows};
  multiply(worker, {&router, 1}, thread(worker).products);
  worker.alone([&] {
    choose_experts(w);
    size_jobs(w);
    bytes_.weights += double(w.router.bytes()) + 4.0 * double(w.ffn_norm.size());
  });
}

void CpuLayers::experts(Worker& worker, int layer, const Next& next) {
  const Layer& w = weights(layer);
  Span span(worker, recorder_, ActivityKind::kExperts, layer, cached_, bytes_);
  route(worker, w);
  compute_jobs(worker, w, next);
  mix_experts(worker);
}

void CpuLayers::mixture_of_experts(Worker& worker, int layer) {
  experts(worker, layer, {});
  worker.alone([&] { pending_ = true; });
}

void CpuLayers::mix_chosen(Worker& worker, int layer, const float* normed, std::span<const int> ids,
                           std::span<const float> shares) {
  const Layer& w = weights(layer);
  Span span(worker, recorder_, ActivityKind::kExperts, layer, cached_, bytes_);
  worker.alone([&] {
    normed_.assign(normed, normed + model_->spec.hidden);
    choices_.clear();
    jobs_.resize(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      jobs_[i].expert = ids[i];
      jobs_[i].tokens.assign(1, 0);
      choices_.push_back({int(i), 0, shares[i]});
    }
    size_jobs(w);
  });
  compute_jobs(worker, w, {});
  mix_experts(worker);
}

// Every job's experts, for all of their tokens.
void CpuLayers::compute_jobs(Worker& worker, const Layer& w, const Next& next) {
  const std::int64_t hidden = model_->spec.hidden, width = w.expert_gate.first.rows;
  const std::int64_t used = model_->spec.moe->experts_used;
  const std::int64_t choices = tokens_ * used;
  worker.share(choices, 1, [&](std::int64_t c, std::int64_t) {
    const Choice& choice = choices_[std::size_t(c)];
    const float* row = normed_.data() + c / used * hidden;
    jobs_[std::size_t(choice.job)].in.set_row(choice.row, {row, std::size_t(hidden)});
  });
  std::vector<Matrix> stack;  // of this thread; products point into it
  stack.reserve(3 * jobs_.size());
  const auto product = [&](const MatrixStack& experts, const Job& job, const Input& x, float* y) {
    stack.push_back(experts.at(job.expert));
    return Product{&stack.back(), &x, y, stack.back().rows};
  };
  std::vector<Product> wide, narrow;
  Next downs;
  for (Job& job : jobs_) {
    wide.push_back(product(w.expert_gate, job, job.in, job.gate.data()));
    wide.push_back(product(w.expert_up, job, job.in, job.up.data()));
    narrow.push_back(product(w.expert_down, job, job.middle, job.out.data()));
    downs.push_back(narrow.back().w);
  }
  multiply(worker, wide, thread(worker).products, if_one(downs));
  worker.barrier();
  worker.share(choices, 1, [&](std::int64_t c, std::int64_t) {
    const Choice& choice = choices_[std::size_t(c)];
    Job& job = jobs_[std::size_t(choice.job)];
    const std::span<float> gate(job.gate.data() + choice.row * width, std::size_t(width));
    cpu::silu_multiply(gate, job.up.data() + choice.row * width);
    job.middle.set_row(choice.row, gate);
  });
  multiply(worker, narrow, thread(worker).products, next);
}

// A token's experts by their weights.
void CpuLayers::mix_row(std::int64_t row) {
  const std::size_t hidden = std::size_t(model_->spec.hidden), token = std::size_t(row);
  const std::size_t used = std::size_t(model_->spec.moe->experts_used);
  const std::span<float> out(block_.data() + token * hidden, hidden);
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t i = 0; i < used; ++i) {
    const Choice& c = choices_[token * used + i];
    const float* own = jobs_[std::size_t(c.job)].out.data() + std::size_t(c.row) * hidden;
    cpu::add_scaled(out, own, c.weight);
  }
}

void CpuLayers::mix_experts(Worker& worker) {
  if (tokens_ == 1) return worker.alone([&] { mix_row(0); });
  worker.barrier();
  worker.share(tokens_, 1, [&](std::int64_t row, std::int64_t) { mix_row(row); });
}

}  // namespace rigcast::engine
