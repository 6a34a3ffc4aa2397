#pragma once
// Layers whose weights the host keeps, on the GPU just as they are needed: the next layer's blocks
// are copied while a layer computes.

#include <vector>

#include "engine/backends/cuda/weight_streaming/copy_slots.cuh"
#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/model/model.hpp"
#include "engine/placement/host_parts.hpp"

namespace rigcast::engine::cuda {

// Blocks land in one of two slots; the computing stream takes them apart into planes, which all
// layers share: what computes with a layer's planes is queued before the next layer's are written.
// So two slots and one set of planes are enough: a slot is empty once its planes are written, and
// while copies take longer than the rest, one slot is filled while the other waits or is emptied.

/// All of it is queued on the stream that computes, and on one that copies. Throws CudaFailure.
class LayerStream {
 public:
  /// Of these layers, whose blocks lie in pinned memory of `model`; experts that the host computes
  /// for tokens stay out. Takes "streamed weights" from `vram` (ShortOfMemory), and gives `weights`
  /// the layers' matrices: what they point to is a layer's from take() to the next take().
  LayerStream(Vram& vram, const Stream& computing, const Model& model, const HostParts& parts,
              const std::vector<int>& layers, DeviceModel& weights);

  /// What is copied for a layer of the model; 0 for others.
  double bytes(int layer) const;

  // A batch takes some of them in order, each once, between begin() and end(). What is queued on
  // the computing stream behind take() finds the layer's weights.
  void begin(std::vector<int> layers);
  void take(int layer);
  void end();

  // A token takes parts.streamed_layers(), and its last copies are the next token's first: weights
  // never change. Its work may be recorded, and launched for tokens whose first layer is in the
  // same slot.
  const std::vector<int>& of_tokens() const { return of_tokens_; }
  /// Before the work is queued or launched, not recorded itself. Gives the first layer's slot.
  int begin_token();
  /// In the work, before the first take() and after the last.
  void queue_begin();
  void queue_end();
  /// Behind the work.
  void end_token();

  BytesPerSecond measure_link();
  const Stream& copying() const { return slots_.copying(); }

 private:
  // A matrix, and where its blocks are in the slot.
  struct Piece {
    Matrix planes;
    std::size_t at = 0;
  };
  struct Plan {
    std::vector<CopyRun> runs;
    std::vector<Piece> pieces;
    std::size_t slot_bytes = 0, planes_bytes = 0;
  };
  class Planner;

  static std::vector<Plan> plans_of(const Model& model, const HostParts& parts,
                                    const std::vector<int>& layers, std::byte* planes,
                                    DeviceModel& weights);
  static std::size_t most(const std::vector<Plan>& plans, std::size_t Plan::*of);
  int slot(std::size_t use) const { return int((std::size_t(first_) + use) % 2); }
  void copy_next();
  bool is_recorded() const;

  const Stream& computing_;
  std::vector<int> of_tokens_;
  std::vector<Plan> plans_;  // by layer of the model
  CopySlots slots_;
  VramPiece planes_;

  std::vector<int> pass_;               // layers in the order in which they are taken
  std::size_t taken_ = 0, copied_ = 0;  // of these
  int first_ = 0;                       // the slot of the pass's first layer
  int held_ = -1;                       // the layer that is there or on its way; -1: none
};

}  // namespace rigcast::engine::cuda
