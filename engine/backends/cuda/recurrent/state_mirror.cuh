#pragma once
// A sequence's states of recurrent layers on the GPU and on the host, where the GPU computes
// prompts and the host decodes, or has the layers while decoding.

#include <utility>
#include <vector>

#include "engine/backends/cpu/recurrent/recurrent_states.hpp"
#include "engine/backends/cuda/recurrent/device_states.cuh"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

class StateMirror {
 public:
  /// Of these layers of the model. All of these outlive it.
  StateMirror(const Stream& stream, const Model& model, DeviceStates& gpu, RecurrentStates& host,
              std::vector<int> layers)
      : stream_(stream), model_(model), gpu_(gpu), host_(host), layers_(std::move(layers)) {}

  /// The state has seen `cached` tokens; it is copied to where it is missing, complete on return.
  /// Of none there is nothing to copy: a GPU begins with an empty one.
  void to_gpu(int state, TokenCount cached);
  void to_host(int state, TokenCount cached);
  /// One side goes on.
  void gpu_advances() { newest_ = Side::kGpu; }
  void host_advances() { newest_ = Side::kHost; }
  /// Both sides have copied this state to another one, or back.
  void current_is_kept() { kept_ = newest_; }
  void kept_is_current() { newest_ = kept_; }

  MovedBytes take_bytes() { return std::exchange(sent_, {}); }

 private:
  enum class Side { kBoth, kGpu, kHost };
  double copy(int state, TokenCount cached, cudaMemcpyKind direction) const;

  const Stream& stream_;
  const Model& model_;
  DeviceStates& gpu_;
  RecurrentStates& host_;
  std::vector<int> layers_;
  Side newest_ = Side::kBoth, kept_ = Side::kBoth;
  MovedBytes sent_;
};

}  // namespace rigcast::engine::cuda
