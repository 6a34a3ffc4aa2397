#include "engine/serve/disk_tier.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

constexpr std::size_t kMaxBuffers = 4096;  // each is a mapping, of which a process has some 65,000

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point begin) {
  return Seconds{std::chrono::duration<double>(Clock::now() - begin).count()};
}

}  // namespace

DiskTier::DiskTier(BlockStore& store, BatchExecutor& executor, std::function<void()> notify)
    : store_(store),
      executor_(executor),
      notify_(std::move(notify)),
      read_buffer_(store.buffer_bytes()),
      thread_([this] { work(); }) {
  RIGCAST_ASSERT(store.buffer_bytes() >= executor.block_bytes());
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

// A buffer for one more block; nullopt: as many are in use as may be, or memory is short.
std::optional<LargePages> DiskTier::buffer() {
  if (!buffers_.empty()) {
    LargePages out = std::move(buffers_.back());
    buffers_.pop_back();
    return out;
  }
  const double bytes = double(buffers_made_ + 1) * double(store_.buffer_bytes());
  if (buffers_made_ > 0 && (bytes > kBufferBytes || buffers_made_ >= kMaxBuffers))
    return std::nullopt;
  try {
    LargePages made(store_.buffer_bytes());
    ++buffers_made_;
    return made;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

std::size_t DiskTier::write(std::span<const BlockCopy> copies) {
  std::vector<Write> writes;
  const auto release_buffers = [&] {
    const std::lock_guard lock(mutex_);
    for (Write& w : writes) buffers_.push_back(std::move(w.buffer));
  };
  for (const BlockCopy& copy : copies) {
    std::optional<LargePages> to;
    {
      const std::lock_guard lock(mutex_);
      if (!failed_) to = buffer();
    }
    if (!to) break;
    writes.push_back({copy.to, *std::move(to)});
    try {
      executor_.read_block(copy.from, {writes.back().buffer.data(), writes.back().buffer.size()});
    } catch (...) {
      release_buffers();
      throw;
    }
  }
  const std::size_t count = writes.size();
  const std::lock_guard lock(mutex_);
  if (failed_) {  // meanwhile: nothing is written after what told of it
    for (Write& w : writes) buffers_.push_back(std::move(w.buffer));
    return 0;
  }
  std::ranges::move(writes, std::back_inserter(writes_));
  changed_.notify_all();
  return count;
}

void DiskTier::read(std::uint64_t id, std::vector<BlockCopy> copies) {
  const std::lock_guard lock(mutex_);
  if (failed_) {
    results_.reads.push_back({id, true, 0, {}});
    notify_();
    return;
  }
  reads_.push_back({id, std::move(copies)});
  changed_.notify_all();
}

void DiskTier::cancel(std::uint64_t id) {
  std::unique_lock lock(mutex_);
  std::erase_if(results_.reads, [id](const Read& read) { return read.id == id; });
  const auto own = std::ranges::find(reads_, id, &Reading::id);
  if (own == reads_.end()) return;
  if (own != reads_.begin() || !under_way_) {
    reads_.erase(own);
    return;
  }
  cancelled_ = true;
  changed_.wait(lock, [this] { return !cancelled_; });
}

DiskTier::Results DiskTier::take_results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

bool DiskTier::is_reading() const {
  const std::lock_guard lock(mutex_);
  return !reads_.empty();
}

void DiskTier::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !reads_.empty() || !writes_.empty(); });
    if (stops_) return;
    if (!reads_.empty())
      read_next(lock);
    else
      write_next(lock);
    notify_();
  }
}

// The oldest read, block by block, so that a cancelled one ends soon.
void DiskTier::read_next(std::unique_lock<std::mutex>& lock) {
  under_way_ = true;
  const Reading reading{reads_.front().id, std::move(reads_.front().copies)};
  Read result{reading.id, false, 0, {}};
  const std::span buffer(read_buffer_.data(), read_buffer_.size());
  const auto begin = Clock::now();
  for (const BlockCopy& copy : reading.copies) {
    if (cancelled_ || stops_) break;
    lock.unlock();
    std::string failure;
    try {
      store_.read(copy.from, buffer);
      executor_.write_block(copy.to, buffer);
    } catch (const std::exception& error) {
      failure = error.what();
      if (failure.empty()) failure = "unknown";
    }
    lock.lock();
    result.failed = !failure.empty();
    if (result.failed) fail(failure.c_str());
    if (result.failed) break;
    ++result.blocks;
  }
  result.took = since(begin);
  under_way_ = false;
  if (!cancelled_) results_.reads.push_back(result);
  cancelled_ = false;
  if (!reads_.empty() && reads_.front().id == reading.id) reads_.pop_front();
  changed_.notify_all();
}

void DiskTier::write_next(std::unique_lock<std::mutex>& lock) {
  Write own = std::move(writes_.front());
  writes_.pop_front();
  lock.unlock();
  std::string failure;
  try {
    store_.write(own.to, {own.buffer.data(), own.buffer.size()});
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "unknown";
  }
  lock.lock();
  buffers_.push_back(std::move(own.buffer));
  if (failure.empty())
    results_.written.push_back(own.to);
  else
    fail(failure.c_str());
}

// Nothing that is there can be relied on any more: what waits for it ends, too.
void DiskTier::fail(const char* why) {
  if (failed_) return;
  failed_ = true;
  results_.failure = why;
  for (Write& w : writes_) buffers_.push_back(std::move(w.buffer));
  writes_.clear();
  for (std::size_t i = under_way_ ? 1 : 0; i < reads_.size(); ++i)
    results_.reads.push_back({reads_[i].id, true, 0, {}});
  reads_.resize(under_way_ ? 1 : 0);
}

}  // namespace rigcast::engine
