#pragma once
// Questions in turn: a few are answered at a time, others wait, and more are refused.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/ui/questions.hpp"
#include "cli/ui/workers.hpp"
#include "http/service.hpp"

namespace rigcast::cli {

/// What a worker gave. `code`: -1: it was cut short; -2: it took too long.
struct WorkerOutput {
  static constexpr int kCutShort = -1, kTooLong = -2;
  int code = kCutShort;
  std::string text{};
};

/// Who waits for an answer. Both are called on the loop.
struct WorkerListener {
  std::function<void(std::string_view line)> progress;  // how far it is, without the line's end
  std::function<void(WorkerOutput)> take;               // once
};

class AnswerDesk {
 public:
  static constexpr std::size_t kMaxWaiting = 64;

  /// `jobs`: questions that are answered at once, at least 2, of which one is not a long one.
  AnswerDesk(Workers workers, int jobs) : workers_(std::move(workers)), jobs_(jobs) {}

  /// A question on its way; when it is destroyed, nobody works on it any more.
  class Ticket;
  /// nullptr: too many wait.
  std::shared_ptr<Ticket> ask(Question question, std::shared_ptr<HttpLoop> loop,
                              WorkerListener listener);

  int jobs() const { return jobs_; }
  int busy() const { return busy_; }
  std::size_t waiting() const;
  std::uint64_t answered() const { return answered_; }
  std::uint64_t refused() const { return refused_; }

 private:
  void start_more();
  bool start_one(std::deque<std::weak_ptr<Ticket>>& queue);

  Workers workers_;
  int jobs_, busy_ = 0, long_busy_ = 0;
  std::uint64_t answered_ = 0, refused_ = 0;
  std::deque<std::weak_ptr<Ticket>> quick_, long_;  // some of which nobody waits for any more
};

}  // namespace rigcast::cli
