#include "engine/backends/cuda/steps/random_tokens.cuh"

#include "engine/kernels/cuda/activations/random_rows.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"
#include "engine/kernels/cuda/latent/latent_rows.cuh"

namespace rigcast::engine::cuda {

void queue_random_tokens(const ForwardContext& f, const DeviceCache& cache, TokenCount cached,
                         int tokens) {
  const ActivationBuffers& v = f.buffers.vectors;
  queue_rope_angles(f, tokens, {f.buffers.token.position});
  for (int layer = 0; layer < f.spec().layers; ++layer) {
    if (cache.layer(layer) < 0) continue;
    const bool latent = bool(f.layer(layer).latent);
    const std::int64_t width =
        latent ? f.layer(layer).latent.row() : qkv_width(f.layer(layer).attention);
    const std::uint64_t first =
        (std::uint64_t(cached) * 1024 + std::uint64_t(layer)) * std::uint64_t(width);
    random_values(f.stream, first, v.projected, tokens * width);
    if (latent) {
      LatentRows rows = latent_inputs(f, layer, tokens);
      rows.widths.heads = 0;  // rows of the cache alone
      rows.rows = v.projected;
      rows.row_stride = width;
      place_latent_rows(f.stream, rows, cache.view(layer), 0, tokens, {f.buffers.token.position},
                        {});
      continue;
    }
    rope_and_store(f.stream, new_token_inputs(f, layer), cache.view(layer), 0, tokens,
                   {f.buffers.token.position}, v.queries);
  }
}

}  // namespace rigcast::engine::cuda
