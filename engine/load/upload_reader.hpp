#pragma once
// Executes planned reads: from the page cache where it holds them, and bypassing it where it does
// not.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/load/upload_plan.hpp"

namespace rigcast::engine {

/// For use by several threads. `tensors` and the file behind them outlive it.
class UploadReader {
 public:
  /// Bytes that a buffer must have beyond those of a read, and the alignment of its start.
  static constexpr std::uint64_t kAlignment = 4096;
  static constexpr std::uint64_t kSlack = 2 * kAlignment;

  /// Opens the parts that `reads` names, as the mapped files, whatever has their names by now.
  /// Without `past_page_cache`, uncached bytes are read through the page cache and stay there.
  /// Throws MachineError if a part is shorter than it was.
  UploadReader(std::span<const HostTensor> tensors, const GgufFile* file,
               std::span<const UploadRead> reads, bool past_page_cache = true);
  ~UploadReader();
  UploadReader(const UploadReader&) = delete;
  UploadReader& operator=(const UploadReader&) = delete;

  struct Filled {
    const std::byte* first = nullptr;  // first byte of the read in the buffer
    bool direct = false;               // read bypassing the page cache
  };
  /// Waits for the disk. Throws MachineError when reading fails or the file ends early.
  Filled fill(const UploadRead& read, std::byte* buffer) const;

 private:
  struct Part {
    int buffered = -1;  // the mapping's descriptor; -1: nothing is read from it
    int direct = -1;    // direct I/O; -1: not supported
    const std::byte* mapped = nullptr;
    std::uint64_t bytes = 0;
    std::string path;
  };
  void open_part(Part& part, const GgufFile& file, std::size_t index, bool past_page_cache);
  void close_all() noexcept;
  bool is_cached(const Part& part, const UploadRead& read) const;
  void from_memory(const UploadRead& read, std::byte* buffer) const;

  std::span<const HostTensor> tensors_;
  std::vector<Part> parts_;
};

}  // namespace rigcast::engine
