#include "engine/kernels/cuda/matvec/router.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/matvec/lane_dot.cuh"
#include "engine/kernels/cuda/matvec/top_k_experts.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kAhead = 8;  // 16-byte loads of a thread before the inputs are ready

struct Routing {
  const std::uint8_t* weights;
  int columns;
  int experts;
  const float* x;
  ChoiceRule rule;
  float* logits;
  unsigned* arrivals;
  ChosenExperts chosen;
  const float* bias;
  SharedRouter shared;
};

template <QuantFormat F>
__device__ float dot_part(const uint4& w, const float* x, int part) {
  using Dot = FloatDot<F, 1>;
  const auto in = typename Dot::X::Cursor({{}, x}, part).load();
  float sum[1] = {};
  Dot::add_words(w, in, sum[0]);
  return sum[0];
}

// The product of a row of this format and x, in thread 0.
template <QuantFormat F>
__device__ float product(const Routing& r, const uint4* row) {
  const int parts = r.columns / FloatDot<F, 1>::kColumns;
  uint4 ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int part = i * kThreads + int(threadIdx.x);
    ahead[i] = part < parts ? load_weights16(row + part) : uint4{};
  }
  wait_for_inputs();
  typename FloatDot<F, 1>::X x[kAhead]{};
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int part = i * kThreads + int(threadIdx.x);
    if (part < parts) x[i] = typename FloatDot<F, 1>::X::Cursor({{}, r.x}, part).load();
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) FloatDot<F, 1>::add_words(ahead[i], x[i], sum);
  for (int part = kAhead * kThreads + int(threadIdx.x); part < parts; part += kThreads)
    sum += dot_part<F>(load_weights16(row + part), r.x, part);
  const float warp_sum[1] = {sum};
  __shared__ float sums[kWarps];
  const float total = sum_rows(warp_sum, int(threadIdx.x % 32));
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
  __syncthreads();
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The logit of this block's expert.
template <QuantFormat F>
__device__ float logit(const Routing& r) {
  const int parts = r.columns / FloatDot<F, 1>::kColumns;
  return product<F>(r,
                    reinterpret_cast<const uint4*>(r.weights) + std::int64_t(blockIdx.x) * parts);
}

// True if this block is the last to write its logit.
__device__ bool arrives_last(const Routing& r, float value) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    r.logits[blockIdx.x] = value;
    __threadfence();
    last = atomicAdd(r.arrivals, 1u) + 1 == unsigned(r.experts);
    __threadfence();
  }
  __syncthreads();
  return last;
}

// Copies all experts' logits to shared memory, where one warp reads them many times.
__device__ void gather_logits(const Routing& r, float* logits) {
  for (int e = int(threadIdx.x); e < r.experts; e += kThreads) logits[e] = __ldcg(r.logits + e);
  __syncthreads();
}

// One block for each expert, and one for the weight of the shared one.
template <QuantFormat F>
__global__ void __launch_bounds__(kThreads) route_token(const __grid_constant__ Routing r) {
  allow_next_kernel();
  if (int(blockIdx.x) == r.experts) {
    const float x = product<QuantFormat::kF32>(r, reinterpret_cast<const uint4*>(r.shared.w));
    if (threadIdx.x == 0) *r.shared.weight = sigmoid(x);
    return;
  }
  const float bias = r.bias ? r.bias[blockIdx.x] : 0;
  const float value = logit<F>(r) + bias;
  if (!arrives_last(r, value)) return;
  __shared__ float logits[kMaxExperts], scores[kMaxExperts];
  gather_logits(r, logits);
  if (threadIdx.x < 32)
    top_k_experts({logits, scores, r.experts}, r.chosen.used, r.rule,
                  {r.chosen.ids, r.chosen.weights});
  if (threadIdx.x == 0) *r.arrivals = 0;
}

}  // namespace

void check_choice(const DeviceMatrix& w, const ChoiceRule& rule, int used) {
  const ExpertRouting& r = rule.routing;
  if (w.rows > kMaxExperts || used > w.rows || used > kMaxExpertsPerToken || w.columns % 32 != 0)
    throw std::invalid_argument("route: too many experts, or columns that are not 32s");
  if (r.has_groups() && (r.groups > kMaxExpertGroups || w.rows % r.groups != 0 ||
                         used > r.groups_used * (w.rows / r.groups)))
    throw std::invalid_argument("route: too many groups, or too few experts in those that count");
}

void route(const Router& router, const float* x, const ChosenExperts& chosen, const Stream& stream,
           Start start) {
  const DeviceMatrix& w = router.w;
  check_choice(w, router.rule, chosen.used);
  const Routing r{reinterpret_cast<const std::uint8_t*>(w.soa),
                  int(w.columns),
                  int(w.rows),
                  x,
                  router.rule,
                  router.logits,
                  router.arrivals,
                  chosen,
                  router.bias,
                  router.shared};
  const Shape shape{dim3(unsigned(w.rows) + (router.shared.w ? 1 : 0)), dim3(kThreads)};
  using enum QuantFormat;
  if (w.format == kF32) return launch(stream, shape, start, route_token<kF32>, r);
  if (w.format == kF16) return launch(stream, shape, start, route_token<kF16>, r);
  if (w.format == kBF16) return launch(stream, shape, start, route_token<kBF16>, r);
  throw std::invalid_argument("route: weights must be F32, F16 or BF16");
}

}  // namespace rigcast::engine::cuda
