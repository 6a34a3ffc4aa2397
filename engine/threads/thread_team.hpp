#pragma once
// A team of threads that run the same function together and meet at barriers: a token is hundreds
// of short stages, and waking threads for each would cost more than the stage.
//
// A thread that waits at a barrier may prefetch what it reads next: otherwise memory would be idle
// while the slowest thread ends, and during serial work.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/base/stop_flag.hpp"

namespace rigcast::engine {

class ThreadTeam;

/// A range of memory that is prefetched in small steps into the thread's own L2 cache.
class Prefetcher {
 public:
  /// The largest useful range: half of a small L2 cache, because weights and a cache's keys may be
  /// prefetched at once.
  static constexpr std::int64_t kMaxBytes = 512 << 10;

  Prefetcher() = default;
  explicit Prefetcher(std::span<const std::byte> memory)
      : at_(memory.data()), end_(memory.data() + memory.size()) {}

  /// Prefetches the next few cache lines, in about 100 ns. Returns false if none are left.
  bool prefetch_next() {
    if (at_ >= end_) return false;
    for (int line = 0; line < kLines && at_ < end_; ++line, at_ += kLine)
      __builtin_prefetch(at_, 0, 2);
    return true;
  }

 private:
  static constexpr int kLines = 16, kLine = 64;
  const std::byte *at_ = nullptr, *end_ = nullptr;
};

/// One member of the team, as the function that it runs sees it.
class Worker {
 public:
  Worker(ThreadTeam& team, int index) : team_(team), index_(index) {}

  int index() const { return index_; }
  int count() const;
  bool first() const { return index_ == 0; }

  /// Waits until every member has arrived. Spins for a while, then sleeps.
  void barrier() {
    run_once([] {});
  }

  /// When every member has arrived, one of them calls `use`; then all continue.
  template <class Use>
  void run_once(const Use& use);

  /// A parallel loop over [0, n) in pieces of at most `grain`, which free members claim: use(begin,
  /// end). Ends with a barrier.
  template <class Use>
  void parallel_for(std::int64_t n, std::int64_t grain, const Use& use) {
    parallel_for_nowait(n, grain, use);
    barrier();
  }

  /// A parallel loop without the barrier at its end: the next stage of this team must begin with
  /// one.
  template <class Use>
  void parallel_for_nowait(std::int64_t n, std::int64_t grain, const Use& use);

  /// A parallel loop whose pieces shrink to one towards the end (guided scheduling): long pieces
  /// need no synchronization, and all members end together. Ends with a barrier.
  template <class Use>
  void parallel_for_guided(std::int64_t n, const Use& use);

  /// What this member reads soon: it is prefetched wherever the member waits from now on.
  void prefetch(std::span<const std::byte> memory) { prefetcher_ = Prefetcher(memory); }

 private:
  ThreadTeam& team_;
  int index_;
  Prefetcher prefetcher_;
};

class ThreadTeam {
 public:
  /// Time for which a waiting member spins before it sleeps.
  using SpinTime = std::chrono::microseconds;
  /// Spin time of threads that answer a GPU: longer than the GPU's part of a token. A sleeping
  /// thread would respond only 50 microseconds after it was called.
  static constexpr std::chrono::milliseconds kGpuSpinTime{10};
  /// Default spin time: longer than the stages for which threads usually wait.
  static constexpr SpinTime kSpinTime{50};
  /// `threads` >= 1, the caller of run() included. `stop` is looked at before every job and every
  /// piece of what members share.
  explicit ThreadTeam(int threads, SpinTime spin_time = kSpinTime, StopFlag stop = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return int(threads_.size()) + 1; }
  const StopFlag& stop() const { return stop_; }

  /// Runs `job` on every member and returns when all are done. What a member throws ends the job
  /// of all at their next barrier and is thrown from here. Throws Interrupted if it is asked to
  /// stop.
  void run(const std::function<void(Worker&)>& job);

 private:
  friend class Worker;
  static constexpr std::size_t kLine = 64;
  /// The first value of the job counter, which wraps around to the smallest int. Starting here, a
  /// team wraps within its first hundred jobs, and not only after days.
  static constexpr int kBefore = std::numeric_limits<int>::max() - 100;
  struct Stopped {};  // thrown to leave a job that another member has failed

  void member(int index);
  void do_job(Worker& worker);
  void part();
  /// True if this member is the last to arrive at a barrier; it then releases the others, which
  /// wait.
  bool arrives_last();
  void release_all();
  void wait_for_phase(int phase, Prefetcher& prefetcher);
  void throw_if_failed() const {
    if (failed_.load(std::memory_order_acquire)) throw Stopped{};
  }
  void fail(std::exception_ptr error);
  void stop_threads();
  void wait_for_change(const std::atomic<int>& value, int old) const;

  SpinTime spin_time_;
  StopFlag stop_;
  std::vector<std::thread> threads_;
  const std::function<void(Worker&)>* job_ = nullptr;

  std::atomic<int> started_{kBefore};           // number of jobs so far, from kBefore on
  std::atomic<bool> leave_{false};              // set before the last start, which only ends the
                                                // threads
  std::array<std::atomic<int>, 1024> taken_{};  // by CPU: the last job in which a member ran there
  std::atomic<int> running_{0};

  // Each has a cache line of its own: waiting members poll one while others write the next.
  alignas(kLine) std::atomic<int> phase_{0};  // barriers passed
  alignas(kLine) std::atomic<int> arrived_{0};
  alignas(kLine) std::atomic<std::int64_t> next_{0};  // next index for parallel_for_nowait()
  alignas(kLine) std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

inline int Worker::count() const { return team_.size(); }

// If `use` throws, the member that arrived last fails the team.
template <class Use>
void Worker::run_once(const Use& use) {
  // The order matters: a member that sees the phase of a failure also sees the failure.
  const int phase = team_.phase_.load(std::memory_order_acquire);
  team_.throw_if_failed();
  if (team_.arrives_last()) {
    use();
    team_.release_all();
  } else {
    team_.wait_for_phase(phase, prefetcher_);
  }
  team_.throw_if_failed();
}

template <class Use>
void Worker::parallel_for_nowait(std::int64_t n, std::int64_t grain, const Use& use) {
  for (;;) {
    const std::int64_t begin = team_.next_.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= n) return;
    team_.stop_.throw_if_requested();
    use(begin, begin + grain < n ? begin + grain : n);
  }
}

template <class Use>
void Worker::parallel_for_guided(std::int64_t n, const Use& use) {
  for (std::int64_t begin = team_.next_.load(std::memory_order_relaxed); begin < n;) {
    const std::int64_t end = begin + std::max<std::int64_t>(1, (n - begin) / (2 * count()));
    if (!team_.next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    team_.stop_.throw_if_requested();
    use(begin, end);
    begin = team_.next_.load(std::memory_order_relaxed);
  }
  barrier();
}

}  // namespace rigcast::engine
