#include "engine/kernels/cuda/hopper/tiled_launch.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/hopper/tiled_kernel.cuh"

namespace rigcast::engine::cuda {
namespace {

template <int kTokens>
void launch_with(void (*kernel)(TiledWork), const TiledWork& work, const dim3& grid, Start start,
                 const Stream& stream) {
  using Ring = TiledRing<kTokens>;
  const int bytes = Ring::kBytes + (work.cluster > 1 ? Ring::kSumBytes : 0);
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  Shape shape{grid, dim3(32 * kTiledWarps), std::size_t(bytes)};
  shape.cluster = unsigned(work.cluster);
  launch(stream, shape, start, kernel, work);
}

// Calls `call` with a format as a constant, of those that supports_tiled_gemm() names.
template <class Call>
void for_format_of_tiles(QuantFormat format, const Call& call) {
  using enum QuantFormat;
  switch (format) {
    case kQ4_0: return call.template operator()<kQ4_0>();
    case kQ4_1: return call.template operator()<kQ4_1>();
    case kQ5_0: return call.template operator()<kQ5_0>();
    case kQ5_1: return call.template operator()<kQ5_1>();
    case kQ8_0: return call.template operator()<kQ8_0>();
    case kQ4_K: return call.template operator()<kQ4_K>();
    case kQ5_K: return call.template operator()<kQ5_K>();
    case kQ6_K: return call.template operator()<kQ6_K>();
    case kIQ4_NL: return call.template operator()<kIQ4_NL>();
    case kMXFP4: return call.template operator()<kMXFP4>();
    default: throw std::invalid_argument("launch_tiled: a format that it does not take");
  }
}

template <class Call>
void for_formats(const TiledFormats& formats, const Call& call) {
  using enum QuantFormat;
  const auto [first, second] = formats;
  if (first == second)
    return for_format_of_tiles(first, [&]<QuantFormat F>() { call.template operator()<F, F>(); });
  if (second == kQ6_K && first == kQ4_K) return call.template operator()<kQ4_K, kQ6_K>();
  if (second == kQ6_K && first == kQ5_K) return call.template operator()<kQ5_K, kQ6_K>();
  throw std::invalid_argument("launch_tiled: formats that are not multiplied in one launch");
}

}  // namespace

void launch_tiled(const TiledFormats& formats, int tokens, const TiledWork& work,
                  std::int64_t tiles, int groups, Start start, const Stream& stream) {
  const dim3 grid(unsigned(tiles * work.cluster), unsigned(groups));
  for_formats(formats, [&]<QuantFormat F, QuantFormat G>() {
    switch (tiled_tokens(tokens)) {
      case 8: return launch_with<8>(tiled_kernel<F, G, 8>, work, grid, start, stream);
      case 16: return launch_with<16>(tiled_kernel<F, G, 16>, work, grid, start, stream);
      case 32: return launch_with<32>(tiled_kernel<F, G, 32>, work, grid, start, stream);
      default: return launch_with<64>(tiled_kernel<F, G, 64>, work, grid, start, stream);
    }
  });
}

bool has_tiled_code() { return RIGCAST_HAS_HOPPER_CODE; }

}  // namespace rigcast::engine::cuda
