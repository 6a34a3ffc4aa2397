#include "engine/kernels/cuda/weights/synthesize.cuh"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "engine/cuda/launch.cuh"
#include "engine/synth/block_fields.hpp"
#include "engine/synth/counter_rng.hpp"

// A thread block generates a tile in shared memory: first all of its words, then the fields of its
// blocks. Blocks of most formats begin and end within words, and fields are read before they are
// replaced.

namespace rigcast::engine::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMaxTileBytes = 16384;

struct Range {
  std::uint64_t first_byte;  // byte offset in the tensor
  std::uint64_t bytes;
  std::byte* out;
};

// Sixteen blocks of any format are whole words, as is every tile but the last.
RIGCAST_HOST_DEVICE constexpr unsigned tile_bytes(unsigned block) {
  return kMaxTileBytes / (16 * block) * 16 * block;
}

template <QuantFormat kFormat, unsigned kBlock = info(kFormat).block_bytes>
__global__ void synthesize_tiles(std::uint64_t key, WeightScales scales, Range range) {
  constexpr unsigned kTile = tile_bytes(kBlock);
  __shared__ std::uint64_t words[kTile / 8 + 1];
  const std::uint64_t done = std::uint64_t(blockIdx.x) * kTile;
  const std::uint64_t first = range.first_byte + done;
  const unsigned skew = unsigned(first % 8);  // position of the tile's first byte in its word
  const std::uint64_t left = range.bytes - done;
  const unsigned n = left < kTile ? unsigned(left) : kTile;

  for (unsigned i = threadIdx.x; i < (skew + n + 7) / 8; i += kThreads)
    words[i] = random_word(key, first / 8 + i);
  __syncthreads();
  auto* tile = reinterpret_cast<std::uint8_t*>(words) + skew;
  for (unsigned at = threadIdx.x * kBlock; at < n; at += kThreads * kBlock)
    set_block_fields<kFormat>(tile + at, scales);
  __syncthreads();
  auto* out = reinterpret_cast<std::uint64_t*>(range.out + done);
  for (unsigned i = threadIdx.x; i < n / 8; i += kThreads)
    out[i] = skew == 0 ? words[i] : words[i] >> (8 * skew) | words[i + 1] << (64 - 8 * skew);
  if (threadIdx.x < n % 8) {
    const unsigned at = n / 8 * 8 + threadIdx.x;
    range.out[done + at] = std::byte(tile[at]);
  }
}

template <QuantFormat kFormat>
void queue(const Stream& stream, const SyntheticTensor& tensor, const Range& range) {
  constexpr std::uint64_t kTile = tile_bytes(info(kFormat).block_bytes);
  const auto tiles = unsigned((range.bytes + kTile - 1) / kTile);
  launch(stream, {dim3(tiles), dim3(kThreads)}, Start::kAfter, synthesize_tiles<kFormat>,
         tensor.key, tensor.scales, range);
}

using Queue = void (*)(const Stream&, const SyntheticTensor&, const Range&);

template <std::size_t... kIndex>
Queue queue_of(QuantFormat format, std::index_sequence<kIndex...>) {
  static constexpr Queue kAll[] = {queue<QuantFormat(kIndex)>...};
  return kAll[std::size_t(format)];
}

}  // namespace

SyntheticTensor synthetic_tensor(const Tensor& tensor, std::uint64_t seed, SynthTraits traits) {
  return {tensor.format, stream_key(seed, tensor.name), weight_scales(tensor, traits)};
}

void synthesize(const Stream& stream, const SyntheticTensor& tensor, std::uint64_t first_block,
                std::byte* on_device, std::uint64_t bytes) {
  const std::uint64_t block = info(tensor.format).block_bytes;
  RIGCAST_ASSERT(is_computed(tensor.format));
  RIGCAST_ASSERT(bytes % block == 0 && reinterpret_cast<std::uintptr_t>(on_device) % 8 == 0);
  if (bytes == 0) return;
  queue_of(tensor.format, std::make_index_sequence<kComputedFormatCount>{})(
      stream, tensor, {first_block * block, bytes, on_device});
}

}  // namespace rigcast::engine::cuda
