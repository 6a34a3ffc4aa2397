#pragma once
// A store of blocks in memory that can be made to fail, and to be slow.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "engine/serve/block_store.hpp"

namespace rigcast::engine::fixtures {

class MemoryStore : public BlockStore {
 public:
  MemoryStore(int blocks, std::size_t bytes)
      : blocks_(blocks), bytes_(bytes), data_(std::size_t(blocks) * bytes) {}

  int fails_at = 0;                       // this call, from 1 on; 0: none
  std::chrono::microseconds read_time{};  // of a block
  // Of the thread that calls; to be read when it has ended.
  int calls = 0, reads = 0, writes = 0;

  int blocks() const override { return blocks_; }
  std::size_t buffer_bytes() const override { return bytes_; }
  void write(int block, std::span<const std::byte> buffer) override {
    begin_call();
    ++writes;
    std::ranges::copy(buffer, at(block));
  }
  void read(int block, std::span<std::byte> buffer) override {
    begin_call();
    ++reads;
    if (read_time.count() > 0) std::this_thread::sleep_for(read_time);
    std::copy_n(at(block), bytes_, buffer.begin());
  }

 private:
  std::byte* at(int block) { return data_.data() + std::size_t(block) * bytes_; }
  // Like a disk that is gone, it fails from then on, and spoils what it was to write.
  void begin_call() {
    if (++calls < fails_at || fails_at == 0) return;
    std::ranges::fill(data_, std::byte{0xee});
    throw MachineError("the disk is gone");
  }
  const int blocks_;
  const std::size_t bytes_;
  std::vector<std::byte> data_;
};

}  // namespace rigcast::engine::fixtures
