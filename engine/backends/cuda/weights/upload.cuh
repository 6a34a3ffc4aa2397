#pragma once
// Weights on their way to the GPU: threads read into pinned memory while the GPU copies what they
// have read, and works on what has arrived.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "core/base/units.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/mark.cuh"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/load/upload_plan.hpp"

namespace rigcast::engine::cuda {

struct UploadOptions {
  std::uint64_t piece_bytes = 8 << 20;  // of a read, and of a piece at most
  int readers = 0;                      // threads; 0: three for every four cores, 12 at most
  // What the page cache does not hold is read past it: faster, and the next start reads it again.
  bool past_page_cache = true;
};

/// Rows of a tensor on the GPU, at an address aligned to 256 bytes. Work that is queued on
/// `stream`, the same one for all pieces, before the next piece is given finds them; later they are
/// overwritten.
struct ArrivedPiece {
  std::size_t tensor;  // of those that were given
  std::uint64_t first_byte;
  std::uint64_t bytes;
  const std::byte* on_device;
  const Stream& stream;
};

struct UploadReport {
  std::uint64_t bytes = 0;
  std::uint64_t direct_bytes = 0;  // of these past the page cache
  Seconds time;  // from the first read until all has arrived, and what was queued then is done
};

/// For one thread at a time.
class Uploader {
 public:
  /// Takes pinned memory, and memory of the GPU as "upload buffers": tens of milliseconds, and so
  /// one for all uploads of a start. Throws MachineError.
  explicit Uploader(Vram& vram, const UploadOptions& options = {});

  /// Gives every byte of every tensor to `use` once, in any order, from this thread. Bytes of a
  /// file that is mapped are read from the file. Returns when all work on the streams is done.
  /// Throws MachineError when reading fails or a stop is asked for, CudaFailure, and what `use`
  /// throws; then no thread is left, and nothing queued is still running.
  UploadReport upload(std::span<const HostTensor> tensors, const GgufFile* file,
                      const std::function<void(const ArrivedPiece&)>& use,
                      std::stop_token stop = {});

  int readers() const { return readers_; }
  /// What one takes of pinned memory.
  static std::size_t pinned_bytes(const UploadOptions& options);

 private:
  class Run;
  // Pinned memory, and a mark after the last copy from it.
  struct Slot {
    std::byte* memory = nullptr;
    Mark copied;
  };
  // Memory of the GPU that the copying stream fills and the working stream empties.
  struct Stage {
    VramPiece memory;
    Mark filled, emptied;
  };
  void send(const UploadRead& read, const std::byte* bytes,
            const std::function<void(const ArrivedPiece&)>& use);

  int device_;
  int readers_;
  std::uint64_t piece_bytes_;
  bool past_page_cache_;
  PinnedPages pinned_;
  std::vector<Slot> slots_;
  std::vector<Stage> stages_;
  std::size_t next_stage_ = 0;
  Stream copying_, working_;
};

}  // namespace rigcast::engine::cuda
