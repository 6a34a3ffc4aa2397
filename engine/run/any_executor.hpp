#pragma once
// What executors of one sequence and of many have in common: a model, threads, memory, and counts
// of what they move.

#include <vector>

#include "core/scenario/device_memory.hpp"
#include "engine/model/model.hpp"
#include "engine/run/recorder.hpp"

namespace rigcast::engine {

class AnyExecutor {
 public:
  virtual ~AnyExecutor() = default;

  /// Host threads that compute: a busy machine takes time away from them.
  virtual int threads() const = 0;
  virtual const Model& model() const = 0;
  /// Bytes of weights and cache that were read and written since the last call of this.
  virtual MovedBytes take_bytes() = 0;
  /// Memory of weights, cache and buffers on every GPU in use, now.
  virtual std::vector<DeviceMemory> gpus() const { return {}; }
  /// Host memory of weights, caches and buffers. Capacity: the limit; 0: none.
  virtual DeviceMemory host() const = 0;
  /// Activities are recorded while this is set; nullptr: nothing is.
  void record_into(Recorder* recorder) { recorder_ = recorder; }

 protected:
  Recorder* recorder_ = nullptr;
};

}  // namespace rigcast::engine
