#pragma once
// Device code: a warp multiplies groups of rows, and copies weights to shared memory some steps
// ahead.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/matvec/lane_dot.cuh"

namespace rigcast::engine::cuda {

/// The number of stages that a warp keeps in flight within kBudget bytes: enough that the warps on
/// a multiprocessor together have several times (bandwidth x latency) in flight.
template <class Lane, int kBudget>
struct Ring {
  static constexpr int kFit = kBudget / int(sizeof(typename Lane::Stage));
  static constexpr int kStages = kFit < 3 ? 3 : kFit > 9 ? 9 : kFit;
  static constexpr int kBytes = (kStages * int(sizeof(typename Lane::Stage)) + 15) / 16 * 16;
};

/// Shared memory per multiprocessor that blocks can use, for the capability that is compiled for
/// (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
inline constexpr int kMultiprocessorSharedKib = 228;
#elif __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 870
inline constexpr int kMultiprocessorSharedKib = 164;
#elif __CUDA_ARCH__ >= 860
inline constexpr int kMultiprocessorSharedKib = 100;
#else
inline constexpr int kMultiprocessorSharedKib = 64;
#endif

/// Thread blocks per multiprocessor that shared memory allows, up to `largest`. Registers must not
/// limit them further, because blocks that wait for their inputs already have weights in flight.
template <class Ring>
constexpr int blocks_that_fit(int warps, int largest) {
  // Each block includes the driver's share of its shared memory.
  const int fit = (kMultiprocessorSharedKib - 1) * 1024 / (warps * Ring::kBytes + 1280);
  return fit < 1 ? 1 : fit > largest ? largest : fit;
}

/// The steps of a warp along rows of `parts` parts: `count` steps, beginning at `first`.
struct Steps {
  int parts, first, count;

  /// True if there is a part for the lane, `step` steps after the first.
  __device__ __forceinline__ bool reaches(int step, int lane) const {
    return (first + step) * 32 + lane < parts;
  }
};

/// The steps of warp `index` of `warps` warps that share rows.
template <class Lane>
__device__ __forceinline__ Steps steps_of(int columns, int index = 0, int warps = 1) {
  const int parts = columns / Lane::kColumns, all = (parts + 31) / 32;
  const int first = all * index / warps;
  return {parts, first, all * (index + 1) / warps - first};
}

// Walks over the steps of all groups, ahead of the walk that multiplies.
template <class Lane, class GroupOf>
class Fetcher {
 public:
  __device__ Fetcher(const GroupOf& group_of, int groups, const Steps& steps, int lane)
      : group_of_(group_of),
        groups_(groups),
        steps_(steps),
        lane_(lane),
        source_(group_of(0), steps.first * 32 + lane) {}

  /// Starts the copies of one step, or none if no step is left.
  __device__ __forceinline__ void next(typename Lane::Stage& stage) {
    if (group_ < groups_) {
      if (steps_.reaches(step_, lane_)) source_.fetch(stage, lane_);
      if constexpr (requires { source_.fetch_heads(stage, 0); }) source_.fetch_heads(stage, lane_);
      source_.advance();
      if (++step_ == steps_.count) {
        step_ = 0;
        if (++group_ < groups_)
          source_ = typename Lane::Source(group_of_(group_), steps_.first * 32 + lane_);
      }
    }
    commit_group();
  }

 private:
  const GroupOf& group_of_;
  int groups_;
  Steps steps_;
  int lane_;
  int group_ = 0, step_ = 0;
  typename Lane::Source source_;
};

// The corresponding walk over activations.
template <class Lane, class InputsOf>
class InputWalk {
 public:
  __device__ InputWalk(const InputsOf& inputs_of, int groups, const Steps& steps, int lane)
      : inputs_of_(inputs_of),
        groups_(groups),
        steps_(steps),
        lane_(lane),
        cursor_(inputs_of(0), steps.first * 32 + lane) {}

  /// The result is unspecified where no column is left.
  __device__ __forceinline__ void next(typename Lane::X& x) {
    if (group_ == groups_) return;
    if (steps_.reaches(step_, lane_)) x = cursor_.load();
    cursor_.advance();
    if (++step_ == steps_.count) {
      step_ = 0;
      if (++group_ < groups_)
        cursor_ = typename Lane::X::Cursor(inputs_of_(group_), steps_.first * 32 + lane_);
    }
  }

 private:
  const InputsOf& inputs_of_;
  int groups_;
  Steps steps_;
  int lane_;
  int group_ = 0, step_ = 0;
  typename Lane::X::Cursor cursor_;
};

/// Multiplies `groups` groups of kRows rows, one after the other, each in `steps`. group_of(i): a
/// RowGroup; all have the same columns. ready() is called once the copies of weights have started.
/// inputs_of(i): the activations for group i. at_end(i, sums): this lane's part of the products; it
/// is not called where there are no steps. All lanes of a warp take part in every call.
template <class Lane, int kRows, class Ring, class GroupOf, class Ready, class InputsOf,
          class AtEnd>
__device__ __forceinline__ void stream_rows(std::byte* shared, const Steps& steps, int groups,
                                            const GroupOf& group_of, const Ready& ready,
                                            const InputsOf& inputs_of, const AtEnd& at_end) {
  constexpr int kStages = Ring::kStages;
  if (steps.count == 0) return ready();
  auto* ring = reinterpret_cast<typename Lane::Stage*>(shared);
  const int lane = threadIdx.x % 32;
  Fetcher<Lane, GroupOf> weights(group_of, groups, steps, lane);
  for (int i = 0; i < kStages; ++i) weights.next(ring[i]);
  ready();
  InputWalk<Lane, InputsOf> inputs(inputs_of, groups, steps, lane);
  typename Lane::X x{};
  inputs.next(x);
  RowGroup rows = group_of(0);
  float sums[kRows] = {};
  int slot = 0, group = 0, step = 0;
  for (int left = groups * steps.count; left > 0; --left) {
    wait_for_group<kStages - 1>();
    __syncwarp();
    if (steps.reaches(step, lane)) Lane::add(ring[slot], rows, steps.first + step, lane, x, sums);
    __syncwarp();
    weights.next(ring[slot]);
    inputs.next(x);
    slot = slot + 1 == kStages ? 0 : slot + 1;
    if (++step < steps.count) continue;
    at_end(group, sums);
    step = 0;
    for (float& sum : sums) sum = 0;
    if (++group < groups) rows = group_of(group);
  }
}

}  // namespace rigcast::engine::cuda
