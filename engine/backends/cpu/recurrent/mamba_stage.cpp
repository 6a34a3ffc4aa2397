#include "engine/backends/cpu/recurrent/mamba_stage.hpp"

#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

float softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

ConvolvedRows MambaStage::rows_of(int layer, const StepSequence& sequence) {
  const Layer& w = step_.layer(layer);
  const MixerWidths& m = w.mixer;
  const std::int64_t stride = w.mixer_in.rows;
  return {mixed_.data() + sequence.first * stride + m.inner_size,
          states_.at(sequence.state, layer).data() + m.inner_size * m.state_size, m.convolved(),
          m.conv_kernel, stride};
}

void MambaStage::project(Worker& worker, int layer) {
  const Layer& w = step_.layer(layer);
  const auto rows = std::size_t(step_.tokens);
  const bool beside = w.has_parallel_mixer();
  const auto before = [&] {
    cpu::resize_at_least(mixed_, rows * std::size_t(w.mixer_in.rows));
    cpu::resize_at_least(convolved_, rows * std::size_t(w.mixer.convolved()));
    cpu::resize_at_least(out_, rows * std::size_t(w.mixer.inner_size));
    states_.begin(step_.sequences, layer);
    const double state = double(step_.sequences.size()) * double(states_.at(0, layer).size_bytes());
    // Attention beside it counts the weights of both.
    step_.bytes += {beside ? 0.0 : double(attention_weight_bytes(w)), state, state};
  };
  step_.prepare(worker, step_.input, step_.width(), {&w.mixer_in}, before,
                [&](std::int64_t row, std::span<float> out) {
                  beside ? step_.shared_row(row, w, out)
                         : step_.normed_row(row, w.attention_norm, out);
                });
  const Product product{&w.mixer_in, step_.input, mixed_.data(), w.mixer_in.rows};
  multiply(worker, {&product, 1}, step_.products(worker), step_.if_apart({&w.mixer_out}));
  worker.barrier();
}

void MambaStage::convolve(Worker& worker, int layer) {
  constexpr std::int64_t kAtOnce = 1024;
  const Layer& w = step_.layer(layer);
  const std::int64_t width = w.mixer.convolved(), pieces = (width + kAtOnce - 1) / kAtOnce;
  worker.parallel_for(step_.tokens * pieces, 1, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t row = piece / pieces, first = piece % pieces * kAtOnce;
    const StepSequence& sequence = step_.sequence_of(row);
    const std::span<float> out(convolved_.data() + row * width + first,
                               std::size_t(std::min(kAtOnce, width - first)));
    rows_of(layer, sequence).convolve(row - sequence.first, first, w.mixer_taps.data(), out);
    cpu::add_scaled(out, w.mixer_taps_bias.data() + first, 1);
    cpu::silu(out);
  });
}

void MambaStage::advance_head(std::vector<cpu::DeltaToken>& tokens, int layer,
                              const StepSequence& sequence, std::int64_t head) {
  const Layer& w = step_.layer(layer);
  const MixerWidths& m = w.mixer;
  const std::int64_t heads = m.time_step_rank, rows = m.inner_size / heads, width = m.state_size;
  const std::int64_t key = m.inner_size + head / (heads / m.group_count) * width;
  const auto h = std::size_t(head);
  tokens.clear();
  for (std::int64_t t = 0; t < sequence.tokens; ++t) {
    const std::int64_t row = sequence.first + t;
    const float* const mixed = convolved_.data() + row * m.convolved();
    const float* const steps = mixed_.data() + row * w.mixer_in.rows + m.inner_size + m.convolved();
    const float step = softplus(steps[h] + w.mixer_time_bias[h]);
    tokens.push_back({mixed + key + m.groups_width(), mixed + key, mixed + head * rows,
                      std::exp(w.mixer_decay[h] * step), step,
                      out_.data() + row * m.inner_size + head * rows, false});
  }
  float* const state = states_.at(sequence.state, layer).data() + head * rows * width;
  cpu::delta_rule(state, rows, width, tokens);
  for (std::int64_t t = 0; t < sequence.tokens; ++t) {
    const cpu::DeltaToken& token = tokens[std::size_t(t)];
    const std::span<float> out(token.out, std::size_t(rows));
    cpu::add_scaled(out, token.value, w.mixer_skip[h]);
    float* const gate = mixed_.data() + (sequence.first + t) * w.mixer_in.rows + head * rows;
    cpu::silu_multiply({gate, std::size_t(rows)}, out.data());
  }
}

// Every head of every sequence, and with it a part of what is kept of the convolution.
void MambaStage::advance_heads(Worker& worker, int layer) {
  const MixerWidths& m = step_.layer(layer).mixer;
  const std::int64_t heads = m.time_step_rank, width = m.convolved();
  std::vector<cpu::DeltaToken>& tokens = threads_[std::size_t(worker.index())];
  const std::int64_t tasks = std::int64_t(step_.sequences.size()) * heads;
  worker.parallel_for_nowait(tasks, 1, [&](std::int64_t task, std::int64_t) {
    const StepSequence& sequence = step_.sequences[std::size_t(task / heads)];
    const std::int64_t head = task % heads;
    advance_head(tokens, layer, sequence, head);
    rows_of(layer, sequence)
        .keep(sequence.tokens, head * width / heads, (head + 1) * width / heads);
  });
}

void MambaStage::norm_groups(const Layer& layer, std::span<float> row) const {
  if (layer.mixer_norm.empty()) return;
  const auto width = row.size() / std::size_t(layer.mixer.group_count);
  for (std::size_t at = 0; at < row.size(); at += width) {
    const std::span<float> group = row.subspan(at, width);
    cpu::rms_norm(group, std::span(layer.mixer_norm).subspan(at, width),
                  step_.model->hyper.norm_eps, group.data());
  }
}

void MambaStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  const Layer& w = step_.layer(layer);
  const std::int64_t inner = w.mixer.inner_size;
  const ActivitySpan span = step_.span(worker, ActivityKind::kAttention, layer);
  project(worker, layer);
  convolve(worker, layer);
  advance_heads(worker, layer);
  step_.prepare(
      worker, step_.input, inner, {&w.mixer_out}, [&] { step_.set_pending(w.attention_post_norm); },
      [&](std::int64_t row, std::span<float> out) {
        std::copy_n(mixed_.data() + row * w.mixer_in.rows, inner, out.data());
        norm_groups(w, out);
      });
  const Product output{&w.mixer_out, step_.input, step_.block.data(), step_.width()};
  multiply(worker, {&output, 1}, step_.products(worker), next);
}

}  // namespace rigcast::engine
