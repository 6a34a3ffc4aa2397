// The host's turns at a prompt's batches: rows go there and back, and both wait for each other.

#include "engine/backends/cuda/state.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"

namespace rigcast::engine::cuda {
namespace {

// Rows that are on the GPU, in the host's memory once all work before has ended.
std::span<float> brought(State& s, const float* rows, std::int64_t count) {
  float* const to = s.host->rows.as<float>();
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(to, rows, std::size_t(count) * sizeof(float),
                                    cudaMemcpyDeviceToHost, s.stream.get()));
  s.stream.wait();
  return {to, std::size_t(count)};
}

void send_back(State& s, std::span<const float> rows, float* to) {
  RIGCAST_CUDA_CALL(
      cudaMemcpyAsync(to, rows.data(), rows.size_bytes(), cudaMemcpyHostToDevice, s.stream.get()));
  s.stream.wait();  // the rows' memory is used again
}

template <class Turn>
void turn(State& s, int tokens, const Turn& take) {
  const auto hidden = brought(s, s.vectors.hidden, tokens * s.spec().hidden);
  take(hidden);
  send_back(s, hidden, s.vectors.hidden);
}

}  // namespace

void host_embedding(State& s, TokenCount cached, std::span<const std::int32_t> ids) {
  const std::span<float> hidden(s.host->rows.as<float>(),
                                ids.size() * std::size_t(s.spec().hidden));
  // Not waited for but where the rows' memory is used again: the batch before may still go on.
  s.host->embedded.wait();
  s.host->side.embed(cached, ids, hidden);
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(s.vectors.hidden, hidden.data(), hidden.size_bytes(),
                                    cudaMemcpyHostToDevice, s.stream.get()));
  s.host->embedded.set(s.stream);
}

void host_layers(State& s, TokenCount cached, int first, int end, int tokens) {
  turn(s, tokens,
       [&](std::span<float> hidden) { s.host->side.through(first, end, cached, hidden); });
}

void host_experts(State& s, TokenCount cached, int layer, int tokens) {
  turn(s, tokens, [&](std::span<float> hidden) { s.host->side.mixture(layer, cached, hidden); });
}

void host_attention(State& s, TokenCount cached, int layer, int tokens) {
  const int q = s.q_width();
  const auto projected =
      brought(s, s.vectors.projected, std::int64_t(tokens) * (q + 2 * s.kv_width()));
  // The mix takes the projections' place, which were copied by then.
  const auto mixed = projected.first(std::size_t(tokens) * std::size_t(q));
  s.host->side.attend(layer, cached, projected, mixed);
  send_back(s, mixed, s.vectors.projected);
  to_halves(s.stream, s.vectors.projected, std::int64_t(tokens) * q, s.batch.x);
}

void host_head(State& s, TokenCount cached, int first, int tokens) {
  const std::int64_t hidden = s.spec().hidden;
  s.host->side.head(cached + first,
                    brought(s, s.vectors.hidden + first * hidden, (tokens - first) * hidden));
}

}  // namespace rigcast::engine::cuda
