#include "engine/backends/cpu/step/cpu_step.hpp"

#include <utility>

#include "engine/kernels/cpu/elementwise.hpp"

namespace rigcast::engine {

CpuStep::CpuStep(std::shared_ptr<const Model> model_, int threads_)
    : model(std::move(model_)), threads(std::size_t(threads_)) {}

void CpuStep::begin(std::span<const StepSequence> sequences_) {
  sequences.assign(sequences_.begin(), sequences_.end());
  cached = sequences.front().cached;
  tokens = sequences.back().first + sequences.back().tokens;
  sequence_at.clear();
  for (std::size_t i = 0; i < sequences.size(); ++i)
    sequence_at.insert(sequence_at.end(), std::size_t(sequences[i].tokens), int(i));
  hidden.resize(std::size_t(tokens * width()));
  block.resize(hidden.size());
  pending = false;
}

void CpuStep::add_residual(Worker& worker) {
  worker.barrier();
  if (pending)
    worker.parallel_for_nowait(tokens, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) add_block(row);
    });
  worker.run_once([&] { pending = false; });
}

void CpuStep::add_block(std::int64_t row) {
  const std::size_t columns = std::size_t(width()), at = std::size_t(row) * columns;
  const std::span<float> added(block.data() + at, columns);
  if (!pending_norm.empty())
    cpu::rms_norm(added, pending_norm, model->hyper.norm_eps, added.data());
  const std::span<float> sum(hidden.data() + at, columns);
  cpu::add_scaled(sum, added.data(), model->hyper.residual_scale);
  if (pending_scale != 1)
    for (float& x : sum) x *= pending_scale;
}

void CpuStep::norm(std::span<const float> x, std::span<const float> weight,
                   std::span<const float> bias, std::span<float> out) const {
  const float eps = model->hyper.norm_eps;
  if (model->hyper.layer_norm) return cpu::layer_norm(x, weight, bias, eps, out.data());
  cpu::rms_norm(x, weight, eps, out.data());
  if (!bias.empty()) cpu::add_scaled(out, bias.data(), 1.0f);
}

void CpuStep::shared_row(std::int64_t row, const Layer& layer, std::span<float> out) {
  const std::size_t columns = std::size_t(width());
  norm({hidden.data() + std::size_t(row) * columns, columns}, layer.attention_norm,
       layer.attention_norm_bias, out);
  if (pending) add_block(row);
}

void CpuStep::normed_row(std::int64_t row, std::span<const float> weight, std::span<float> out,
                         std::span<const float> bias) {
  const std::size_t columns = std::size_t(width());
  const std::span<float> x(hidden.data() + std::size_t(row) * columns, columns);
  if (pending) add_block(row);
  if (weight.empty())
    std::ranges::copy(x, out.begin());
  else
    norm(x, weight, bias, out);
}

}  // namespace rigcast::engine
