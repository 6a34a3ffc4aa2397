#pragma once
// Copies of KV blocks to and from a store on a disk, on a thread of their own, beside the steps.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/units.hpp"
#include "engine/memory/large_pages.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/serve/block_store.hpp"

namespace rigcast::engine {

/// Reads come before writes: requests wait for them. After the first error nothing more is read or
/// written. All functions are for one thread, the one that computes steps.
class DiskTier {
 public:
  /// Bytes of blocks that wait to be written, at most; a block more where one is larger.
  static constexpr double kBufferBytes = double(256) * (1 << 20);

  /// Both must outlive it. `notify` is called on the other thread when there are results; it does
  /// not throw.
  DiskTier(BlockStore& store, BatchExecutor& executor, std::function<void()> notify);
  /// Gives up what has not begun.
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  [[nodiscard]] int blocks() const { return store_.blocks(); }
  /// Copies blocks of the pool, now, to be written. Returns how many of them, the first ones: for
  /// the others there is no buffer. Throws what the executor's read_block() throws; then none is
  /// written.
  std::size_t write(std::span<const BlockCopy> copies);
  /// Blocks of the store that come back to blocks of the pool, which nobody else uses before it has
  /// ended or is cancelled. `id`: none that is under way.
  void read(std::uint64_t id, std::vector<BlockCopy> copies);
  /// Returns when nothing of it is written to the pool any more. It has no result.
  void cancel(std::uint64_t id);

  struct Read {
    std::uint64_t id = 0;
    bool failed = false;
    std::size_t blocks = 0;  // that came back
    Seconds took{};          // of these, from the store to the pool
  };
  struct Results {
    std::vector<int> written{};  // blocks of the store
    std::vector<Read> reads{};   // in the order in which they ended
    std::string failure{};       // why nothing more is kept there, told once; empty: it goes on
  };
  /// What has ended since the last call. With a failure, blocks that were to be written are not.
  Results take_results();
  /// True if reads are under way.
  [[nodiscard]] bool is_reading() const;

 private:
  struct Write {
    int to = 0;
    LargePages buffer;
  };
  struct Reading {
    std::uint64_t id = 0;
    std::vector<BlockCopy> copies;
  };
  void work();
  void read_next(std::unique_lock<std::mutex>& lock);
  void write_next(std::unique_lock<std::mutex>& lock);
  void fail(const char* why);
  std::optional<LargePages> buffer();

  BlockStore& store_;
  BatchExecutor& executor_;
  const std::function<void()> notify_;
  LargePages read_buffer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Reading> reads_;        // the first one may be under way
  std::deque<Write> writes_;         // that have not begun
  std::vector<LargePages> buffers_;  // that are free
  std::size_t buffers_made_ = 0;
  bool under_way_ = false, cancelled_ = false;  // the first read: and nobody waits for it any more
  bool failed_ = false, stops_ = false;
  Results results_;

  std::thread thread_;  // after all that it uses
};

}  // namespace rigcast::engine
