#pragma once
// Layers whose weights the host keeps, streamed to the GPU when they are needed: the next layer's
// quant blocks are copied while a layer computes.

#include <vector>

#include "engine/backends/cuda/weight_streaming/copy_slots.cuh"
#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/model/model.hpp"
#include "engine/placement/host_placement.hpp"

namespace rigcast::engine::cuda {

// Blocks are copied into one of two slots, and the computing stream repacks them into the SoA
// layout. All layers share one SoA memory: work that reads a layer's weights is queued before the
// next layer's are written. A slot is empty as soon as it has been repacked. So two slots are
// enough: while copies take longer than the computation, one slot is being filled and the other
// waits or is being emptied.

/// All work is queued, on the computing stream and on a copying one. Throws CudaFailure.
class LayerStream {
 public:
  /// Makes a stream of `layers`, whose quant blocks are in pinned memory of `model`. Experts that
  /// the host computes while decoding are left out. Allocates "streamed weights" from `vram`
  /// (ShortOfMemory), and sets the layers' matrices in `weights`: the memory to which they point
  /// belongs to a layer from its acquire() to the next acquire().
  LayerStream(Vram& vram, const Stream& computing, const Model& model, const HostPlacement& parts,
              const std::vector<int>& layers, DeviceModel& weights);

  /// Bytes that are copied for a layer of the model; 0 if it is not streamed.
  double bytes(int layer) const;

  // A batch uses some of the layers in order, each once, between begin() and end(). Work that is
  // queued on the computing stream after acquire() finds the layer's weights.
  void begin(std::vector<int> layers);
  void acquire(int layer);
  void end();

  // A token uses parts.streamed_layers(). Its last copies are the next token's first layers,
  // because weights never change. Its work may be captured, and launched for tokens whose first
  // layer is in the same slot.
  const std::vector<int>& of_tokens() const { return of_tokens_; }
  /// Call before the work is queued or launched; not captured. Returns the first layer's slot.
  int begin_token();
  /// Call within the work, before the first acquire() and after the last.
  void queue_begin();
  void queue_end();
  /// Call after the work.
  void end_token();

  BytesPerSecond measure_link();
  const Stream& copying() const { return slots_.copying(); }

 private:
  // A matrix, and the offset of its blocks in the slot.
  struct Piece {
    DeviceMatrix soa;
    std::size_t at = 0;
  };
  struct Plan {
    std::vector<CopyRun> runs;
    std::vector<Piece> pieces;
    std::size_t slot_bytes = 0, soa_bytes = 0;
  };
  class Planner;

  static std::vector<Plan> plans_of(const Model& model, const HostPlacement& parts,
                                    const std::vector<int>& layers, std::byte* soa,
                                    DeviceModel& weights);
  static std::size_t most(const std::vector<Plan>& plans, std::size_t Plan::*of);
  int slot(std::size_t use) const { return int((std::size_t(first_) + use) % 2); }
  void copy_next();
  bool is_recorded() const;

  const Stream& computing_;
  std::vector<int> of_tokens_;
  std::vector<Plan> plans_;  // plans by layer of the model
  CopySlots slots_;
  VramPiece soa_;

  std::vector<int> pass_;               // layers in the order of their use
  std::size_t taken_ = 0, copied_ = 0;  // number of them used, and copied
  int first_ = 0;                       // the slot of the pass's first layer
  int held_ = -1;                       // the layer that is on the GPU or being copied; -1: none
};

}  // namespace rigcast::engine::cuda
