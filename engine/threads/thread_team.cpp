#include "engine/threads/thread_team.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <string>
#include <system_error>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// Waits until the atomic is no longer `old`. Spin time is measured by the clock, because a pause
// takes 5 ns or 60.
void ThreadTeam::wait_for_change(const std::atomic<int>& value, int old) const {
  using Clock = std::chrono::steady_clock;
  constexpr int kLooks = 64;  // polls between looks at the clock: a few microseconds
  const auto until = Clock::now() + spin_time_;
  do
    for (int i = 0; i < kLooks; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause();
    }
  while (Clock::now() < until);
  value.wait(old, std::memory_order_acquire);
}

ThreadTeam::ThreadTeam(int threads, SpinTime spin_time, StopFlag stop)
    : spin_time_(spin_time), stop_(stop) {
  RIGCAST_ASSERT(threads >= 1);
  threads_.reserve(std::size_t(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { member(i); });
  } catch (const std::system_error& e) {
    stop_threads();
    throw MachineError("no more threads after " + std::to_string(threads_.size() + 1) + ": " +
                       e.what());
  }
}

ThreadTeam::~ThreadTeam() { stop_threads(); }

void ThreadTeam::stop_threads() {
  leave_.store(true, std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadTeam::member(int index) {
  Worker worker(*this, index);
  for (int seen = kBefore;;) {
    wait_for_change(started_, seen);
    seen = started_.load(std::memory_order_acquire);
    if (leave_.load(std::memory_order_relaxed)) return;
    do_job(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
  }
}

// Separates members that share a CPU. The scheduler may put a woken thread on the CPU of the thread
// that woke it, and leave both there for half a second: longer than a short prompt takes. So a
// member that finds another one on its CPU moves to a CPU without a member, and removes the
// affinity at once. If that is refused, or there are more members than CPUs, it stays.
void ThreadTeam::part() {
#if defined(__linux__)
  const int job = started_.load(std::memory_order_relaxed), here = ::sched_getcpu();
  const auto take = [&](int cpu) {
    return cpu >= 0 && cpu < CPU_SETSIZE &&
           taken_[std::size_t(cpu)].exchange(job, std::memory_order_relaxed) != job;
  };
  cpu_set_t allowed;
  if (size() == 1 || take(here) || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(std::size_t(cpu), &allowed) || !take(cpu)) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(std::size_t(cpu), &own);
    if (::sched_setaffinity(0, sizeof own, &own) == 0)
      ::sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
#endif
}

void ThreadTeam::do_job(Worker& worker) {
  part();
  try {
    (*job_)(worker);
  } catch (const Stopped&) {
  } catch (...) {
    fail(std::current_exception());
  }
}

void ThreadTeam::run(const std::function<void(Worker&)>& job) {
  stop_.throw_if_requested();
  job_ = &job;
  arrived_ = 0;
  next_ = 0;
  failed_ = false;
  error_ = nullptr;
  running_ = int(threads_.size());
  started_.fetch_add(1, std::memory_order_acq_rel);
  started_.notify_all();
  Worker self(*this, 0);
  do_job(self);
  for (int left; (left = running_.load(std::memory_order_acquire)) != 0;)
    wait_for_change(running_, left);
  if (error_) std::rethrow_exception(error_);
}

bool ThreadTeam::arrives_last() {
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < size()) return false;
  arrived_.store(0, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  return true;
}

void ThreadTeam::release_all() {
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
}

void ThreadTeam::wait_for_phase(int phase, Prefetcher& prefetcher) {
  while (phase_.load(std::memory_order_acquire) == phase)
    if (!prefetcher.prefetch_next()) return wait_for_change(phase_, phase);
}

void ThreadTeam::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  failed_.store(true, std::memory_order_release);
  release_all();
}

}  // namespace rigcast::engine
