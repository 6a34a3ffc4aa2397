#include "engine/kernels/cuda/batch/experts_batch.cuh"

#include <algorithm>
#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/matvec/lane_dot.cuh"
#include "engine/kernels/cuda/matvec/top_k_experts.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kExpertsOfWarp = 4, kTokensOfWarp = 8;
constexpr int kSortThreads = 256;

struct Logits {
  const std::uint8_t* weights;
  const float* x;
  int columns, experts, tokens;
  float* out;
  int* counts;
  const float* bias;
};

// A warp multiplies four experts' rows with eight tokens.
template <QuantFormat F>
__global__ void __launch_bounds__(32 * kWarps) batch_logits(const Logits in) {
  using Dot = FloatDot<F, 1>;
  allow_next_kernel();
  wait_for_inputs();
  if (blockIdx.x == 0 && blockIdx.y == 0)
    for (int e = int(threadIdx.x); e < in.experts; e += int(blockDim.x)) in.counts[e] = 0;
  const int lane = threadIdx.x % 32, parts = in.columns / Dot::kColumns;
  const int expert = (int(blockIdx.x) * kWarps + int(threadIdx.x / 32)) * kExpertsOfWarp;
  const int token = int(blockIdx.y) * kTokensOfWarp;
  if (expert >= in.experts) return;
  const auto* weights = reinterpret_cast<const uint4*>(in.weights);
  float sums[kTokensOfWarp][kExpertsOfWarp] = {};
  for (int part = lane; part < parts; part += 32) {
    uint4 w[kExpertsOfWarp];
#pragma unroll
    for (int e = 0; e < kExpertsOfWarp; ++e)
      w[e] = load_weights16(weights + std::int64_t(min(expert + e, in.experts - 1)) * parts + part);
#pragma unroll
    for (int t = 0; t < kTokensOfWarp; ++t) {
      const std::int64_t row = min(token + t, in.tokens - 1);
      const auto x = typename Dot::X::Cursor({{}, in.x + row * in.columns}, part).load();
#pragma unroll
      for (int e = 0; e < kExpertsOfWarp; ++e) Dot::add_words(w[e], x, sums[t][e]);
    }
  }
#pragma unroll
  for (int t = 0; t < kTokensOfWarp; ++t) {
    const float sum = sum_rows(sums[t], lane);
    const int e = expert + lane / 8;
    if (lane % 8 == 0 && e < in.experts && token + t < in.tokens)
      in.out[std::int64_t(token + t) * in.experts + e] = in.bias ? sum + in.bias[e] : sum;
  }
}

// One warp per token. Shared memory: for each its logits, and where there is a bias of the choice
// as many scores.
__global__ void __launch_bounds__(32 * kWarps)
    batch_choices(const float* logits, const __grid_constant__ ChoiceRule rule,
                  const __grid_constant__ ExpertGroups g) {
  extern __shared__ float of_warps[];
  allow_next_kernel();
  wait_for_inputs();
  const int lane = threadIdx.x % 32;
  const std::int64_t token = std::int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= g.tokens) return;
  const int warp = int(threadIdx.x) / 32;
  float* const mine = of_warps + warp * g.experts;
  for (int e = lane; e < g.experts; e += 32) mine[e] = __ldcg(logits + token * g.experts + e);
  __syncwarp();
  int* const ids = g.chosen.ids + token * g.chosen.used;
  top_k_experts({mine, mine + kWarps * g.experts, g.experts}, g.chosen.used, rule,
                {ids, g.chosen.weights + token * g.chosen.used});
  // Integer counts do not depend on the order of additions. A lane reads what it wrote itself.
  if (lane < g.chosen.used) atomicAdd(g.counts + ids[lane], 1);
}

// The weights of the shared expert: one warp per token.
__global__ void __launch_bounds__(32 * kWarps)
    shared_weights(const SharedRouter router, const float* x, int columns, int tokens) {
  allow_next_kernel();
  wait_for_inputs();
  const int lane = threadIdx.x % 32;
  const std::int64_t token = std::int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= tokens) return;
  const auto* w = reinterpret_cast<const float4*>(router.w);
  const auto* row = reinterpret_cast<const float4*>(x + token * columns);
  float sum = 0;
  for (int i = lane; i < columns / 4; i += 32) {
    const float4 a = w[i], b = __ldcg(row + i);
    sum = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane == 0) router.weight[token] = sigmoid(sum);
}

// Prefix sums over the block: the sum of the threads before this one, and the sum of all.
struct Scanned {
  int before, all;
};
__device__ Scanned scan(int mine) {
  __shared__ int of_warp[kSortThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int upto = mine;
  for (int d = 1; d < 32; d *= 2) {
    const int other = __shfl_up_sync(~0u, upto, unsigned(d));
    if (lane >= d) upto += other;
  }
  __syncthreads();
  if (lane == 31) of_warp[warp] = upto;
  __syncthreads();
  Scanned s{upto - mine, 0};
  for (int w = 0; w < kSortThreads / 32; ++w) {
    if (w < warp) s.before += of_warp[w];
    s.all += of_warp[w];
  }
  return s;
}

__device__ int groups_of(int count, int group_tokens) {
  return (count + group_tokens - 1) / group_tokens;
}

// Where an expert's choices and groups begin.
struct Begin {
  int choice, group;
};
__device__ Begin begin_of(const ExpertGroups& g, int expert) {
  int choices = 0, groups = 0;
  for (int e = int(threadIdx.x); e < expert; e += kSortThreads) {
    const int count = __ldcg(g.counts + e);
    choices += count;
    groups += groups_of(count, g.group_tokens);
  }
  return {scan(choices).all, scan(groups).all};
}

// One block per expert: its groups, and its choices in ascending order.
__global__ void __launch_bounds__(kSortThreads) sort_choices(const ExpertGroups g) {
  allow_next_kernel();
  wait_for_inputs();
  const int expert = int(blockIdx.x), thread = int(threadIdx.x);
  const Begin begin = begin_of(g, expert);
  const int count = __ldcg(g.counts + expert);
  const int groups = groups_of(count, g.group_tokens);
  for (int i = thread; i < groups; i += kSortThreads) {
    const int first = i * g.group_tokens;
    g.groups[begin.group + i] = {expert, begin.choice + first, min(g.group_tokens, count - first)};
  }
  if (expert == g.experts - 1 && thread == 0) *g.group_count = begin.group + groups;
  const int choices = g.tokens * g.chosen.used;
  const int share = (choices + kSortThreads - 1) / kSortThreads;
  const int first = min(thread * share, choices), end = min(first + share, choices);
  int mine = 0;
  for (int i = first; i < end; ++i) mine += __ldcg(g.chosen.ids + i) == expert;
  int to = begin.choice + scan(mine).before;
  for (int i = first; i < end && mine > 0; ++i)
    if (__ldcg(g.chosen.ids + i) == expert) g.order[to++] = i, --mine;
}

__global__ void __launch_bounds__(256)
    add_chosen(const ExpertGroups g, const float4* rows, int fours, float4* hidden, bool adds) {
  allow_next_kernel();
  wait_for_inputs();
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= fours) return;
  const std::int64_t token = blockIdx.y;
  float4 sum{};
  for (int e = 0; e < g.chosen.used; ++e) {
    const std::int64_t choice = token * g.chosen.used + e;
    const float weight = g.chosen.weights ? __ldcg(g.chosen.weights + choice) : 1;
    const float4 row = __ldcg(rows + choice * fours + i);
    sum.x = fmaf(weight, row.x, sum.x), sum.y = fmaf(weight, row.y, sum.y);
    sum.z = fmaf(weight, row.z, sum.z), sum.w = fmaf(weight, row.w, sum.w);
  }
  float4& to = hidden[token * fours + i];
  to = adds ? float4{to.x + sum.x, to.y + sum.y, to.z + sum.z, to.w + sum.w} : sum;
}

__device__ __forceinline__ __half clamped_half(float x) {
  constexpr float kMax = 65504.0f;  // comparisons leave NaN as it is
  return __float2half_rn(x > kMax ? kMax : x < -kMax ? -kMax : x);
}

__global__ void __launch_bounds__(256)
    weigh_rows(const float* weights, float4* rows, int fours, __half* halves) {
  allow_next_kernel();
  wait_for_inputs();
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= fours) return;
  const std::int64_t at = std::int64_t(blockIdx.y) * fours + i;
  const float by = __ldcg(weights + blockIdx.y);
  float4 x = rows[at];
  x = {x.x * by, x.y * by, x.z * by, x.w * by};
  rows[at] = x;
  if (!halves) return;
  halves[4 * at] = clamped_half(x.x), halves[4 * at + 1] = clamped_half(x.y);
  halves[4 * at + 2] = clamped_half(x.z), halves[4 * at + 3] = clamped_half(x.w);
}

void queue_logits(const Router& router, const float* x, const ExpertGroups& g,
                  const Stream& stream) {
  const DeviceMatrix& w = router.w;
  const Logits in{reinterpret_cast<const std::uint8_t*>(w.soa),
                  x,
                  int(w.columns),
                  g.experts,
                  g.tokens,
                  router.logits,
                  g.counts,
                  router.bias};
  constexpr int kExpertsOfBlock = kWarps * kExpertsOfWarp;
  const Shape shape{dim3(unsigned((g.experts + kExpertsOfBlock - 1) / kExpertsOfBlock),
                         unsigned((g.tokens + kTokensOfWarp - 1) / kTokensOfWarp)),
                    dim3(32 * kWarps)};
  using enum QuantFormat;
  if (w.format == kF32) return launch(stream, shape, Start::kEarly, batch_logits<kF32>, in);
  if (w.format == kF16) return launch(stream, shape, Start::kEarly, batch_logits<kF16>, in);
  if (w.format == kBF16) return launch(stream, shape, Start::kEarly, batch_logits<kBF16>, in);
  throw std::invalid_argument("route_batch: weights must be F32, F16 or BF16");
}

}  // namespace

int group_tokens_for(int tokens, int used, int experts) {
  const int mean = tokens * used / experts;
  return mean <= 6 ? 16 : mean <= 16 ? 32 : 64;
}

int most_groups(int tokens, int used, int experts, int group_tokens) {
  const int choices = tokens * used;
  // Each expert's last group may have a single token.
  return (choices + std::min(experts, choices) * (group_tokens - 1)) / group_tokens;
}

int visited_groups(const ExpertGroups& g) {
  const int all = most_groups(g.tokens, g.chosen.used, g.experts, g.group_tokens) - g.first;
  return g.at_most > 0 ? std::min(g.at_most, all) : all;
}

void route_batch(const Router& router, const float* x, const ExpertGroups& g,
                 const Stream& stream) {
  const DeviceMatrix& w = router.w;
  check_choice(w, router.rule, g.chosen.used);
  if (w.rows != g.experts) throw std::invalid_argument("route_batch: a row for each expert");
  if (g.tokens == 0) return;
  queue_logits(router, x, g, stream);
  const int values = kWarps * g.experts * (router.rule.selection_bias ? 2 : 1);
  const Shape shape{dim3(unsigned((g.tokens + kWarps - 1) / kWarps)), dim3(32 * kWarps),
                    std::size_t(values) * sizeof(float)};
  launch(stream, shape, Start::kEarly, batch_choices, router.logits, router.rule, g);
  weigh_shared_expert(router.shared, x, int(w.columns), g.tokens, stream);
  launch(stream, {dim3(unsigned(g.experts)), dim3(kSortThreads)}, Start::kEarly, sort_choices, g);
}

void weigh_shared_expert(const SharedRouter& router, const float* x, int columns, int tokens,
                         const Stream& stream) {
  if (!router.w || tokens < 1) return;
  if (columns % 4 != 0) throw std::invalid_argument("weigh_shared_expert: columns must be 4s");
  launch(stream, {dim3(unsigned((tokens + kWarps - 1) / kWarps)), dim3(32 * kWarps)}, Start::kEarly,
         shared_weights, router, x, columns, tokens);
}

void weigh_inputs(const ExpertGroups& groups, float* rows, int width, __half* halves,
                  const Stream& stream) {
  if (width % 4 != 0 || groups.chosen.used != 1)
    throw std::invalid_argument("weigh_inputs: width must be 4s, and experts one of each token");
  if (groups.tokens == 0) return;
  const int fours = width / 4;
  launch(stream, {dim3(unsigned(fours + 255) / 256, unsigned(groups.tokens)), dim3(256)},
         Start::kEarly, weigh_rows, static_cast<const float*>(groups.chosen.weights),
         reinterpret_cast<float4*>(rows), fours, halves);
}

void add_experts(const ExpertGroups& groups, const float* rows, const ExpertSums& sums,
                 const Stream& stream) {
  if (sums.width % 4 != 0) throw std::invalid_argument("add_experts: width must be 4s");
  if (groups.tokens == 0) return;
  const int fours = sums.width / 4;
  launch(stream, {dim3(unsigned(fours + 255) / 256, unsigned(groups.tokens)), dim3(256)},
         Start::kEarly, add_chosen, groups, reinterpret_cast<const float4*>(rows), fours,
         reinterpret_cast<float4*>(sums.to), sums.adds);
}

}  // namespace rigcast::engine::cuda
