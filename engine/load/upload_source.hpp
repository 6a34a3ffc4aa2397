#pragma once
// The bytes of reads: through the page cache where it has them, past it where it does not.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/load/upload_plan.hpp"

namespace rigcast::engine {

/// For use by several threads. `tensors` and the file behind them outlive it.
class UploadSource {
 public:
  /// Room that a buffer has beyond the bytes of a read, and what its begin is aligned to.
  static constexpr std::uint64_t kAlignment = 4096;
  static constexpr std::uint64_t kSlack = 2 * kAlignment;

  /// For the parts that `reads` names, of the files that are mapped, whatever has their names by
  /// now; not `past_page_cache`: what is not there yet comes through it and stays. Throws
  /// MachineError: a part is no longer as long as it was.
  UploadSource(std::span<const HostTensor> tensors, const GgufFile* file,
               std::span<const UploadRead> reads, bool past_page_cache = true);
  ~UploadSource();
  UploadSource(const UploadSource&) = delete;
  UploadSource& operator=(const UploadSource&) = delete;

  struct Filled {
    const std::byte* first = nullptr;  // of the read, in the buffer
    bool direct = false;               // it came past the page cache
  };
  /// Waits for the disk. Throws MachineError when reading fails or the file ends early.
  Filled fill(const UploadRead& read, std::byte* buffer) const;

 private:
  struct Part {
    int buffered = -1;  // the mapping's descriptor; -1: nothing is read from it
    int direct = -1;    // past the page cache; -1: there is no such way
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
