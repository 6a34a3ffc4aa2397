#pragma once
// Answers of a serving loop, as its clients get them.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/serve/completions.hpp"

namespace rigcast::engine::fixtures {

class ServedAnswers {
 public:
  struct Answer {
    std::vector<std::int32_t> ids{};
    std::vector<CompletionEnd> ends{};  // one
  };

  /// Submits a request whose answer is kept under `key`. False: it was refused.
  bool ask(Completions& server, int key, CompletionRequest request,
           CompletionId* number = nullptr) {
    {
      const std::lock_guard lock(mutex_);
      answers_[key];
    }
    request.on_tokens = [this, key](std::span<const std::int32_t> ids) {
      const std::lock_guard lock(mutex_);
      auto& to = answers_[key].ids;
      to.insert(to.end(), ids.begin(), ids.end());
      changed_.notify_all();
    };
    request.on_end = [this, key](const CompletionEnd& end) {
      const std::lock_guard lock(mutex_);
      answers_[key].ends.push_back(end);
      ++ended_;
      changed_.notify_all();
    };
    const auto id = server.submit(std::move(request));
    if (id && number) *number = *id;
    return id.ok();
  }
  void wait_for(std::size_t ended) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= ended; });
  }
  /// Until an answer has so many tokens, or has ended.
  void wait_for_tokens(int key, std::size_t tokens) {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return answers_[key].ids.size() >= tokens || !answers_[key].ends.empty(); });
  }
  std::size_t ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  Answer operator[](int key) const {
    const std::lock_guard lock(mutex_);
    const auto own = answers_.find(key);
    return own == answers_.end() ? Answer{} : own->second;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Answer> answers_;
  std::size_t ended_ = 0;
};

}  // namespace rigcast::engine::fixtures
