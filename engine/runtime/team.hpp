#pragma once
// A team of threads that go through the same function together, meeting at barriers: a token is
// hundreds of short stages, and waking threads for each would cost more than the stage.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rigcast::engine {

class Team;

/// One member, as the function it runs sees it.
class Worker {
 public:
  Worker(Team& team, int index) : team_(team), index_(index) {}

  int index() const { return index_; }
  int count() const;
  bool first() const { return index_ == 0; }

  /// Waits until every member is here. Spins for a while, then sleeps.
  void barrier();

  /// All members share [0, n) in pieces of at most `grain`, each done once by whoever is free:
  /// use(begin, end). Ends with a barrier.
  template <class Use>
  void share(std::int64_t n, std::int64_t grain, const Use& use);

  /// The same in pieces that shrink to one towards the end: long ones are worked through without a
  /// word to the others, and all end together.
  template <class Use>
  void share_shrinking(std::int64_t n, const Use& use);

  /// The first member alone; the others wait.
  template <class Use>
  void alone(const Use& use) {
    if (first()) use();
    barrier();
  }

 private:
  Team& team_;
  int index_;
};

class Team {
 public:
  /// `threads` >= 1, the caller of run() included. Members that wait look `spins` times, some 5 ns
  /// each, before they sleep.
  explicit Team(int threads, int spins = kSpins);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return int(threads_.size()) + 1; }

  /// Runs `job` on every member and returns when all are done. What a member throws ends the job
  /// of all at their next barrier and is thrown from here.
  void run(const std::function<void(Worker&)>& job);

 private:
  friend class Worker;
  static constexpr std::size_t kLine = 64;
  /// About 20 microseconds: longer than the stages that threads usually wait for.
  static constexpr int kSpins = 4000;
  struct Stopped {};  // leaves a job that another member has failed

  void member(int index);
  void do_job(Worker& worker);
  void part();
  void barrier();
  void fail(std::exception_ptr error);
  void await_change(const std::atomic<int>& value, int old) const;

  int spins_;
  std::vector<std::thread> threads_;
  const std::function<void(Worker&)>* job_ = nullptr;

  std::atomic<int> started_{0};                 // jobs so far; negative: leave
  std::array<std::atomic<int>, 1024> taken_{};  // by CPU: the last job in which a member was there
  std::atomic<int> running_{0};

  // A line each: members that wait look at one while others write the next.
  alignas(kLine) std::atomic<int> phase_{0};  // barriers passed
  alignas(kLine) std::atomic<int> arrived_{0};
  alignas(kLine) std::atomic<std::int64_t> next_{0};  // what share() hands out
  alignas(kLine) std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

inline int Worker::count() const { return team_.size(); }
inline void Worker::barrier() { team_.barrier(); }

template <class Use>
void Worker::share(std::int64_t n, std::int64_t grain, const Use& use) {
  for (;;) {
    const std::int64_t begin = team_.next_.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= n) break;
    use(begin, begin + grain < n ? begin + grain : n);
  }
  barrier();
}

template <class Use>
void Worker::share_shrinking(std::int64_t n, const Use& use) {
  for (std::int64_t begin = team_.next_.load(std::memory_order_relaxed); begin < n;) {
    const std::int64_t end = begin + std::max<std::int64_t>(1, (n - begin) / (2 * count()));
    if (!team_.next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    use(begin, end);
    begin = team_.next_.load(std::memory_order_relaxed);
  }
  barrier();
}

}  // namespace rigcast::engine
