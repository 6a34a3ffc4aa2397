#include "engine/kernels/cuda/hopper/tiled_launch.cuh"

#include <array>
#include <atomic>
#include <stdexcept>

#include "engine/kernels/cuda/hopper/tiled_kernel.cuh"

namespace rigcast::engine::cuda {
namespace {

using Kernel = void (*)(TiledWork);

// Also permits the kernel its shared memory: the most that any launch of it has, so that launches
// do not change what others need.
template <int kTokens>
Shape shape_of(Kernel kernel, const dim3& grid, int cluster) {
  using Ring = TiledRing<kTokens>;
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Ring::kBytes));
  return {grid, dim3(32 * kTiledWarps), std::size_t(Ring::kBytes), unsigned(cluster)};
}

// Calls `call` with the room for tokens as a constant.
template <class Call>
auto for_tokens(int tokens, const Call& call) {
  switch (tiled_tokens(tokens)) {
    case 8: return call.template operator()<8>();
    case 16: return call.template operator()<16>();
    case 32: return call.template operator()<32>();
    case 64: return call.template operator()<64>();
    case 128: return call.template operator()<128>();
    default: return call.template operator()<256>();
  }
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
  const dim3 grid(unsigned(tiles * work.token_tiles * work.cluster), unsigned(groups));
  for_formats(formats, [&]<QuantFormat F, QuantFormat G>() {
    for_tokens(tokens, [&]<int kTokens>() {
      const auto kernel = tiled_kernel<F, G, kTokens>;
      launch(stream, shape_of<kTokens>(kernel, grid, work.cluster), start, kernel, work);
    });
  });
}

int tiled_clusters(const TiledFormats& formats, int tokens, int cluster) {
  constexpr std::size_t kMaxDevices = 64;
  using Counts = std::array<std::atomic<int>, kMaxCluster>;  // plus one; 0: not yet asked
  int device = 0, clusters = 0;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  for_formats(formats, [&]<QuantFormat F, QuantFormat G>() {
    for_tokens(tokens, [&]<int kTokens>() {
      static std::array<Counts, kMaxDevices> known;
      std::atomic<int>& count = known.at(std::size_t(device)).at(std::size_t(cluster - 1));
      const auto kernel = tiled_kernel<F, G, kTokens>;
      if (count == 0)
        count =
            1 + most_clusters(shape_of<kTokens>(kernel, dim3(unsigned(cluster)), cluster), kernel);
      clusters = count - 1;
    });
  });
  return clusters;
}

bool has_tiled_code() { return RIGCAST_HAS_HOPPER_CODE; }

}  // namespace rigcast::engine::cuda
