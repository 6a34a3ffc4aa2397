#include "engine/backends/cuda/batch/row_results.cuh"

#include <algorithm>
#include <cmath>

#include "engine/backends/cuda/steps/sampling_params.cuh"
#include "engine/cuda/cuda_call.cuh"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

RowResults::RowResults(Vram& vram, const Stream& stream, int rows, std::int64_t vocabulary)
    : vocabulary_(vocabulary),
      ids_(std::size_t(rows) * sizeof(std::int32_t), "chosen ids"),
      params_(std::size_t(rows) * sizeof(SamplingParams), "parameters of sampling") {
  const auto count = std::size_t(rows);
  const std::size_t logits = aligned(count * std::size_t(vocabulary) * sizeof(float)),
                    greedy = aligned(count * sizeof(ArgmaxState)),
                    drawn = count * sizeof(SampleState);
  memory_ = vram.allocate(logits + greedy + drawn, "activations");
  auto* const at = memory_.as<std::byte>();
  logits_ = reinterpret_cast<float*>(at);
  greedy_ = reinterpret_cast<ArgmaxState*>(at + logits);
  drawn_ = reinterpret_cast<SampleState*>(at + logits + greedy);
  RIGCAST_CUDA_CALL(cudaMemsetAsync(greedy_, 0, greedy + drawn, stream.get()));
}

bool RowResults::place_samplers(std::span<Sampler* const> rows, const Stream& stream) {
  auto* const params = params_.as<SamplingParams>();
  bool any = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    params[i] = {.temperature = 0};
    if (!rows[i] || rows[i]->is_greedy()) continue;
    const auto drawn = sampling_of(*rows[i], vocabulary_);
    if (!drawn) continue;
    params[i] = *drawn;
    any = true;
  }
  if (any)
    RIGCAST_CUDA_CALL(cudaMemcpy2DAsync(drawn_, sizeof(SampleState), params, sizeof(SamplingParams),
                                        sizeof(SamplingParams), rows.size(), cudaMemcpyHostToDevice,
                                        stream.get()));
  return any;
}

void RowResults::queue_choice(int rows, bool draw, const Stream& stream) const {
  const ArgmaxResult ids{nullptr, ids_.on_device<std::int32_t>()};
  argmax(stream, logits_, int(vocabulary_), greedy_, ids, rows);
  if (draw) sample(stream, logits_, int(vocabulary_), drawn_, ids, rows);
}

std::int32_t RowResults::take(int row, Sampler& sampler, const Stream& stream) {
  const std::int32_t id = ids_.as<std::int32_t>()[row];
  if (id == kNoToken) return BatchExecutor::kNotNumbers;
  if (sampler.is_greedy()) return id;
  if (!sampling_of(sampler, vocabulary_)) return sampler.next(read_row(row, stream));
  sampler.count_draw();
  return id;
}

std::span<const float> RowResults::read_row(int row, const Stream& stream) {
  on_host_.resize(std::size_t(vocabulary_));
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(on_host_.data(), logits_ + row * vocabulary_,
                                    on_host_.size() * sizeof(float), cudaMemcpyDeviceToHost,
                                    stream.get()));
  stream.wait();
  return on_host_;
}

std::span<const float> RowResults::read_logits(int rows, const Stream& stream) {
  on_host_.resize(std::size_t(rows) * std::size_t(vocabulary_));
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(on_host_.data(), logits_, on_host_.size() * sizeof(float),
                                    cudaMemcpyDeviceToHost, stream.get()));
  stream.wait();
  return on_host_;
}

}  // namespace rigcast::engine::cuda
