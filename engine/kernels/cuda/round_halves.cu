#include "engine/kernels/cuda/round_halves.cuh"

#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/round_device.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 256;

// Four neighbours a thread: 8 lanes hold 32 values, so all lanes of 8 are in or out together.
__global__ void __launch_bounds__(kThreads)
    round_half_values(const __half* x, std::int64_t count, const Rounded out) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t at = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * 4;
  const bool inside = at < count;
  uint2 words{};
  if (inside) words = __ldcg(reinterpret_cast<const uint2*>(x + at));
  const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&words.x));
  const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&words.y));
  const float most = fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(b.x), fabsf(b.y)));
  const RoundingScale s = rounding_scale(most_of(most, 8));
  const std::uint32_t q = rounded_byte(a.x, s.inverse) | rounded_byte(a.y, s.inverse) << 8 |
                          rounded_byte(b.x, s.inverse) << 16 | rounded_byte(b.y, s.inverse) << 24;
  const int sum = sum_of(__dp4a(int(q), 0x01010101, 0), 4);
  if (!inside) return;
  *reinterpret_cast<std::uint32_t*>(out.q + at) = q;
  if (at % 32 == 0) out.scale[at / 32] = s.scale;
  if (at % 16 == 0) out.sum16[at / 16] = s.scale * float(sum);
}

}  // namespace

void round_halves(const __half* x, std::int64_t count, const Rounded& out, const Stream& stream) {
  if (count % 32 != 0) throw std::invalid_argument("round_halves: values must be 32s");
  if (count == 0) return;
  constexpr std::int64_t kOfBlock = kThreads * 4;
  launch(stream, {dim3(unsigned((count + kOfBlock - 1) / kOfBlock)), dim3(kThreads)}, Start::kEarly,
         round_half_values, x, count, out);
}

}  // namespace rigcast::engine::cuda
