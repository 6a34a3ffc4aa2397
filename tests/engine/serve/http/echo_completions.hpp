#pragma once
// Completions without a model: an answer is the prompt, over and over.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/serve/completions.hpp"

namespace rigcast::fixtures {

struct EchoHow {
  std::chrono::microseconds step{0};  // between tokens of one answer
  std::size_t running = 8, waiting = 1000;
  TokenCount context = 100'000;
};

class EchoCompletions final : public engine::Completions {
 public:
  using How = EchoHow;

  explicit EchoCompletions(How how = {}) : how_(how), thread_([this] { serve(); }) {}
  ~EchoCompletions() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  Result<engine::CompletionId> submit(engine::CompletionRequest request) override {
    const std::lock_guard lock(mutex_);
    if (all_.size() >= how_.running + how_.waiting) {
      ++state_.refused;
      return Error{ErrorKind::kDoesNotFit, "the queue is full"};
    }
    state_.prompt_tokens += request.prompt.size();
    all_.push_back({++last_, std::move(request)});
    changed_.notify_all();
    return last_;
  }
  void cancel(engine::CompletionId id) override {
    const std::lock_guard lock(mutex_);
    for (One& one : all_)
      if (one.id == id) one.cancelled = true;
    changed_.notify_all();
  }
  void finish(engine::CompletionId id) override {
    const std::lock_guard lock(mutex_);
    for (One& one : all_)
      if (one.id == id) one.finished = true;
    changed_.notify_all();
  }
  engine::CompletionsState state() const override {
    const std::lock_guard lock(mutex_);
    engine::CompletionsState state = state_;
    state.running = int(std::min(all_.size(), how_.running));
    state.waiting = int(all_.size()) - state.running;
    return state;
  }
  TokenCount context() const override { return how_.context; }

 private:
  struct One {
    engine::CompletionId id = 0;
    engine::CompletionRequest request;
    TokenCount done = 0;
    bool cancelled = false, finished = false;
  };

  void serve() {
    std::unique_lock lock(mutex_);
    while (!stops_) {
      if (all_.empty()) {
        changed_.wait(lock);
        continue;
      }
      std::size_t running = 0;
      for (auto one = all_.begin(); one != all_.end();) {
        const bool runs = running++ < how_.running;
        const bool ends = one->cancelled || one->finished;
        one = ends || (runs && !keep_going(*one)) ? end(one) : std::next(one);
      }
      if (how_.step.count() > 0) changed_.wait_for(lock, how_.step, [&] { return stops_; });
    }
    while (!all_.empty()) {
      all_.front().cancelled = true;
      end(all_.begin());
    }
  }

  // False: that was its last token.
  bool keep_going(One& one) {
    const std::int32_t id = one.request.prompt[std::size_t(one.done) % one.request.prompt.size()];
    for (const std::int32_t stop : one.request.stop_ids)
      if (stop == id) return false;
    one.request.on_tokens(std::span(&id, 1));
    ++state_.output_tokens;
    return ++one.done < one.request.max_tokens;
  }

  std::list<One>::iterator end(std::list<One>::iterator one) {
    ++(one->cancelled ? state_.cancelled : state_.completed);
    const bool full = one->done == one->request.max_tokens;
    one->request.on_end({one->cancelled ? engine::FinishReason::kCancelled
                         : full         ? engine::FinishReason::kLength
                                        : engine::FinishReason::kStop,
                         TokenCount(one->request.prompt.size()),
                         0,
                         one->done,
                         {}});
    return all_.erase(one);
  }

  const How how_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<One> all_;
  engine::CompletionsState state_;
  engine::CompletionId last_ = 0;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace rigcast::fixtures
