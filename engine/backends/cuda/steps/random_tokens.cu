#include "engine/backends/cuda/steps/random_tokens.cuh"

#include "engine/kernels/cuda/activations/random_rows.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"

namespace rigcast::engine::cuda {

void queue_random_tokens(const ForwardContext& f, const DeviceCache& cache, TokenCount cached,
                         int tokens) {
  const ActivationBuffers& v = f.buffers.vectors;
  queue_rope_angles(f, tokens, {f.buffers.token.position});
  for (int layer = 0; layer < f.spec().layers; ++layer) {
    if (cache.layer(layer) < 0) continue;
    const std::int64_t width = qkv_width(f.layer(layer).attention);
    const std::uint64_t first =
        (std::uint64_t(cached) * 1024 + std::uint64_t(layer)) * std::uint64_t(width);
    random_values(f.stream, first, v.projected, tokens * width);
    rope_and_store(f.stream, new_token_inputs(f, layer), cache.view(layer), 0, tokens,
                   {f.buffers.token.position}, v.queries);
  }
}

}  // namespace rigcast::engine::cuda
