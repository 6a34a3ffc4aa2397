#pragma once
// Where blocks of a KV cache are kept outside of memory, by number.

#include <cstddef>
#include <span>

namespace rigcast::engine {

/// One thread at a time calls its functions.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  [[nodiscard]] virtual int blocks() const = 0;
  /// Bytes of the buffers below, which are those of a block and what alignment adds. They begin at
  /// a page of memory.
  [[nodiscard]] virtual std::size_t buffer_bytes() const = 0;
  /// Wait for the device. Throw MachineError; what the block then holds is not known.
  virtual void write(int block, std::span<const std::byte> buffer) = 0;
  virtual void read(int block, std::span<std::byte> buffer) = 0;
};

}  // namespace rigcast::engine
