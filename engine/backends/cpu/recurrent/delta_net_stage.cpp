#include "engine/backends/cpu/recurrent/delta_net_stage.hpp"

#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

float softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

DeltaNetStage::DeltaNetStage(CpuStep& step, RecurrentStates& states)
    : step_(step), states_(states), threads_(step.threads.size()) {}

ConvolvedRows DeltaNetStage::rows_of(int layer, const StepSequence& sequence) {
  const MixerWidths& m = step_.layer(layer).mixer;
  const std::span<float> state = states_.at(sequence.state, layer);
  return {mixed_.data() + sequence.first * m.convolved(),
          state.data() + m.inner_size * m.state_size, m.convolved(), m.conv_kernel, m.convolved()};
}

void DeltaNetStage::project(Worker& worker, int layer) {
  const Layer& w = step_.layer(layer);
  const MixerWidths& m = w.mixer;
  const auto rows = std::size_t(step_.tokens);
  const auto before = [&] {
    cpu::resize_at_least(mixed_, rows * std::size_t(m.convolved()));
    cpu::resize_at_least(convolved_, rows * std::size_t(m.convolved()));
    cpu::resize_at_least(gate_, rows * std::size_t(m.inner_size));
    cpu::resize_at_least(out_, rows * std::size_t(m.inner_size));
    cpu::resize_at_least(alpha_, rows * std::size_t(m.time_step_rank));
    cpu::resize_at_least(beta_, rows * std::size_t(m.time_step_rank));
    states_.begin(step_.sequences, layer);
    const double state = double(step_.sequences.size()) * double(states_.at(0, layer).size_bytes());
    step_.bytes += {double(attention_weight_bytes(w)), state, state};
  };
  step_.prepare(worker, step_.input, step_.width(),
                {&w.mixer_in, &w.mixer_gate, &w.mixer_alpha, &w.mixer_beta}, before,
                [&](std::int64_t row, std::span<float> out) {
                  step_.normed_row(row, w.attention_norm, out);
                });
  const Product products[] = {{&w.mixer_in, step_.input, mixed_.data(), m.convolved()},
                              {&w.mixer_gate, step_.input, gate_.data(), m.inner_size},
                              {&w.mixer_alpha, step_.input, alpha_.data(), m.time_step_rank},
                              {&w.mixer_beta, step_.input, beta_.data(), m.time_step_rank}};
  multiply(worker, products, step_.products(worker), step_.if_apart({&w.mixer_out}));
  worker.barrier();
}

void DeltaNetStage::convolve(Worker& worker, int layer) {
  constexpr std::int64_t kAtOnce = 1024;
  const Layer& w = step_.layer(layer);
  const std::int64_t width = w.mixer.convolved(), pieces = (width + kAtOnce - 1) / kAtOnce;
  worker.parallel_for(step_.tokens * pieces, 1, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t row = piece / pieces, first = piece % pieces * kAtOnce;
    const StepSequence& sequence = step_.sequence_of(row);
    const std::span<float> out(convolved_.data() + row * width + first,
                               std::size_t(std::min(kAtOnce, width - first)));
    rows_of(layer, sequence).convolve(row - sequence.first, first, w.mixer_taps.data(), out);
    cpu::silu(out);
  });
}

void DeltaNetStage::advance_head(Thread& thread, int layer, const StepSequence& sequence,
                                 std::int64_t head) {
  const Layer& w = step_.layer(layer);
  const MixerWidths& m = w.mixer;
  const std::int64_t width = m.state_size, heads = m.time_step_rank;
  const std::int64_t group = head % m.group_count * width;
  const float eps = step_.model->hyper.norm_eps, scale = 1.0f / std::sqrt(float(width));
  const auto h = std::size_t(head);
  thread.keys.resize(std::size_t(2 * width * sequence.tokens));
  thread.tokens.clear();
  for (std::int64_t t = 0; t < sequence.tokens; ++t) {
    const std::int64_t row = sequence.first + t;
    const float* const mixed = convolved_.data() + row * m.convolved();
    const std::span<float> both(thread.keys.data() + 2 * width * t, std::size_t(2 * width));
    const std::span<float> query = both.first(std::size_t(width)),
                           key = both.subspan(std::size_t(width));
    std::copy_n(mixed + group, width, query.begin());
    std::copy_n(mixed + m.groups_width() + group, width, key.begin());
    cpu::normalise(query, eps, scale);
    cpu::normalise(key, eps, 1);
    const float step = softplus(alpha_[std::size_t(row * heads + head)] + w.mixer_time_bias[h]);
    const float part = 1.0f / (1.0f + std::exp(-beta_[std::size_t(row * heads + head)]));
    thread.tokens.push_back({query.data(), key.data(), mixed + 2 * m.groups_width() + head * width,
                             std::exp(w.mixer_decay[h] * step), part,
                             out_.data() + row * m.inner_size + head * width});
  }
  float* const state = states_.at(sequence.state, layer).data() + head * width * width;
  cpu::delta_rule(state, width, width, thread.tokens);
  for (std::int64_t t = 0; t < sequence.tokens; ++t) {
    const std::span<float> out(thread.tokens[std::size_t(t)].out, std::size_t(width));
    float* const gate = gate_.data() + (sequence.first + t) * m.inner_size + head * width;
    cpu::rms_norm(out, w.mixer_norm, eps, out.data());
    cpu::silu_multiply({gate, std::size_t(width)}, out.data());
  }
}

// Every head of every sequence, and with it a part of what is kept of the convolution.
void DeltaNetStage::advance_heads(Worker& worker, int layer) {
  const MixerWidths& m = step_.layer(layer).mixer;
  const std::int64_t heads = m.time_step_rank, width = m.convolved();
  Thread& thread = threads_[std::size_t(worker.index())];
  const std::int64_t tasks = std::int64_t(step_.sequences.size()) * heads;
  worker.parallel_for_nowait(tasks, 1, [&](std::int64_t task, std::int64_t) {
    const StepSequence& sequence = step_.sequences[std::size_t(task / heads)];
    const std::int64_t head = task % heads;
    advance_head(thread, layer, sequence, head);
    rows_of(layer, sequence)
        .keep(sequence.tokens, head * width / heads, (head + 1) * width / heads);
  });
}

void DeltaNetStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  const Layer& w = step_.layer(layer);
  const std::int64_t inner = w.mixer.inner_size;
  const ActivitySpan span = step_.span(worker, ActivityKind::kAttention, layer);
  project(worker, layer);
  convolve(worker, layer);
  advance_heads(worker, layer);
  step_.prepare(
      worker, step_.input, inner, {&w.mixer_out}, [&] { step_.set_pending(w.attention_post_norm); },
      [&](std::int64_t row, std::span<float> out) {
        std::copy_n(gate_.data() + row * inner, inner, out.data());
      });
  const Product output{&w.mixer_out, step_.input, step_.block.data(), step_.width()};
  multiply(worker, {&output, 1}, step_.products(worker), next);
}

}  // namespace rigcast::engine
