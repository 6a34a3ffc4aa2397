#pragma once
// The upload of weights to the GPU: threads read into pinned memory while the GPU copies what they
// have read, and repacks what has arrived.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "core/base/units.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/cuda/sync_event.cuh"
#include "engine/load/upload_plan.hpp"

namespace rigcast::engine::cuda {

struct UploadOptions {
  std::uint64_t piece_bytes = 8 << 20;  // largest size of a read, and of a piece
  int readers = 0;                      // threads; 0: three for every four cores, 12 at most
  // Data that is not in the page cache is read with direct I/O. That is faster, but the next start
  // reads it from the disk again.
  bool past_page_cache = true;
};

/// Rows of a tensor on the GPU, at an address aligned to 256 bytes. Work that is queued on
/// `stream`, the same one for all pieces, before the next piece is passed finds them; after that
/// they are overwritten.
struct ArrivedPiece {
  std::size_t tensor;  // index among the given tensors
  std::uint64_t first_byte;
  std::uint64_t bytes;
  const std::byte* on_device;
  const Stream& stream;
};

struct UploadReport {
  std::uint64_t bytes = 0;
  std::uint64_t direct_bytes = 0;  // bytes read by direct I/O
  Seconds time;  // time from the first read until all data has arrived and all queued work is done
};

/// An uploader of tensors. Only one thread may use it at a time.
class Uploader {
 public:
  /// Allocates pinned memory, and GPU memory as "upload buffers". That takes tens of milliseconds,
  /// so all uploads of a start should share one. Throws MachineError.
  explicit Uploader(Vram& vram, const UploadOptions& options = {});

  /// Passes every byte of every tensor to `use` once, in any order, on this thread. Bytes of a
  /// mapped file are read from the file. Returns when all work on the streams is done. Throws
  /// MachineError if reading fails or a stop is requested, CudaFailure, and what `use` throws; then
  /// all threads and all queued work have ended.
  UploadReport upload(std::span<const HostTensor> tensors, const GgufFile* file,
                      const std::function<void(const ArrivedPiece&)>& use,
                      std::stop_token stop = {});

  int readers() const { return readers_; }
  /// Bytes of pinned memory that an uploader uses.
  static std::size_t pinned_bytes(const UploadOptions& options);

 private:
  class Run;
  // Pinned memory, and an event after the last copy from it.
  struct Slot {
    std::byte* memory = nullptr;
    SyncEvent copied;
  };
  // GPU memory that the copying stream fills and the working stream empties.
  struct Stage {
    VramPiece memory;
    SyncEvent filled, emptied;
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
