#pragma once
// Device code: a warp multiplies groups of rows, copying weights to shared memory some steps ahead.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/lane_dot.cuh"

namespace rigcast::engine::cuda {

/// Stages that a warp keeps in flight within kBudget bytes: enough that the warps that fit on a
/// multiprocessor together have several times what its memory delivers within a latency.
template <class Lane, int kBudget>
struct Ring {
  static constexpr int kFit = kBudget / int(sizeof(typename Lane::Stage));
  static constexpr int kStages = kFit < 3 ? 3 : kFit > 9 ? 9 : kFit;
  static constexpr int kBytes = (kStages * int(sizeof(typename Lane::Stage)) + 15) / 16 * 16;
};

/// Thread blocks of a multiprocessor that shared memory lets in, up to `most`: registers are not to
/// keep them out, for what waits for its inputs has weights under way as well.
template <class Ring>
constexpr int blocks_that_fit(int warps, int most) {
  const int fit = 227 * 1024 / (warps * Ring::kBytes + 1280);  // with what the driver takes
  return fit < 1 ? 1 : fit > most ? most : fit;
}

// Parts of a row and the steps that all lanes take to its end.
struct Steps {
  int parts, count;
};

// Walks the steps of all groups, ahead of the walk that multiplies.
template <class Lane, class GroupOf>
class Fetcher {
 public:
  __device__ Fetcher(const GroupOf& group_of, int groups, const Steps& steps, int lane)
      : group_of_(group_of),
        groups_(groups),
        steps_(steps),
        lane_(lane),
        source_(group_of(0), lane) {}

  /// Begins the copies of one step, or of none where no step is left.
  __device__ __forceinline__ void next(typename Lane::Stage& stage) {
    if (group_ < groups_) {
      if (step_ * 32 + lane_ < steps_.parts) source_.fetch(stage, lane_);
      if constexpr (requires { source_.fetch_shared(stage, 0); })
        source_.fetch_shared(stage, lane_);
      source_.advance();
      if (++step_ == steps_.count) {
        step_ = 0;
        if (++group_ < groups_) source_ = typename Lane::Source(group_of_(group_), lane_);
      }
    }
    end_group();
  }

 private:
  const GroupOf& group_of_;
  int groups_;
  Steps steps_;
  int lane_;
  int group_ = 0, step_ = 0;
  typename Lane::Source source_;
};

// The same for activations.
template <class Lane, class InputsOf>
class InputWalk {
 public:
  __device__ InputWalk(const InputsOf& inputs_of, int groups, const Steps& steps, int lane)
      : inputs_of_(inputs_of),
        groups_(groups),
        steps_(steps),
        lane_(lane),
        cursor_(inputs_of(0), lane) {}

  /// What it gives where no column is left does not matter.
  __device__ __forceinline__ void next(typename Lane::X& x) {
    if (group_ == groups_) return;
    if (step_ * 32 + lane_ < steps_.parts) x = cursor_.load();
    cursor_.advance();
    if (++step_ == steps_.count) {
      step_ = 0;
      if (++group_ < groups_) cursor_ = typename Lane::X::Cursor(inputs_of_(group_), lane_);
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

/// Steps whose activations a lane has loaded: they come from the second cache, and what waits for
/// them has nothing else to do. More rows leave fewer registers.
template <int kRows>
inline constexpr int kInputsAhead = kRows > 2 ? 1 : 1;

/// Multiplies `groups` groups of kRows rows, one after the other. group_of(i): a RowGroup, all of
/// the same columns. ready() is called once weights are on their way. inputs_of(i): what group i is
/// multiplied with. at_end(i, sums): this lane's part of the products. All lanes of a warp take
/// part in every call.
template <class Lane, int kRows, class Ring, class GroupOf, class Ready, class InputsOf,
          class AtEnd>
__device__ __forceinline__ void stream_rows(std::byte* shared, int columns, int groups,
                                            const GroupOf& group_of, const Ready& ready,
                                            const InputsOf& inputs_of, const AtEnd& at_end) {
  constexpr int kStages = Ring::kStages, kAhead = kInputsAhead<kRows>;
  auto* ring = reinterpret_cast<typename Lane::Stage*>(shared);
  const int lane = threadIdx.x % 32;
  const int parts = columns / Lane::kColumns;
  const Steps steps{parts, (parts + 31) / 32};
  Fetcher<Lane, GroupOf> weights(group_of, groups, steps, lane);
  for (int i = 0; i < kStages; ++i) weights.next(ring[i]);
  ready();
  InputWalk<Lane, InputsOf> inputs(inputs_of, groups, steps, lane);
  typename Lane::X x[kAhead]{};
#pragma unroll
  for (int i = 0; i < kAhead; ++i) inputs.next(x[i]);
  RowGroup rows = group_of(0);
  float sums[kRows] = {};
  int slot = 0, group = 0, step = 0;
  for (int left = groups * steps.count; left > 0;) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i, --left) {  // unrolled, so that x stays in registers
      if (left <= 0) break;
      wait_for_group<kStages - 1>();
      __syncwarp();
      if (step * 32 + lane < parts) Lane::add(ring[slot], rows, step, lane, x[i], sums);
      __syncwarp();
      weights.next(ring[slot]);
      inputs.next(x[i]);
      slot = slot + 1 == kStages ? 0 : slot + 1;
      if (++step < steps.count) continue;
      at_end(group, sums);
      step = 0;
      for (float& sum : sums) sum = 0;
      if (++group < groups) rows = group_of(group);
    }
  }
}

}  // namespace rigcast::engine::cuda
