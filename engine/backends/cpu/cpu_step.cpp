#include "engine/backends/cpu/cpu_step.hpp"

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
  const std::size_t columns = std::size_t(width());
  worker.barrier();
  if (pending)
    worker.parallel_for_nowait(tokens, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t t = std::size_t(begin); t < std::size_t(end); ++t)
        cpu::add_scaled({hidden.data() + t * columns, columns}, block.data() + t * columns, 1.0f);
    });
  worker.run_once([&] { pending = false; });
}

void CpuStep::normed_row(std::int64_t row, std::span<const float> weight, std::span<float> out) {
  const std::size_t columns = std::size_t(width());
  const std::span<float> x(hidden.data() + std::size_t(row) * columns, columns);
  if (pending) cpu::add_scaled(x, block.data() + std::size_t(row) * columns, 1.0f);
  cpu::rms_norm(x, weight, model->hyper.norm_eps, out.data());
}

}  // namespace rigcast::engine
