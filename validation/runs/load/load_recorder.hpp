#pragma once
// Records what a serving loop does with a load, in the terms in which forecasts are made.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/serve/serving_observer.hpp"
#include "report/serving/served_load.hpp"

namespace rigcast::validation {

class LoadRecorder : public engine::ServingObserver {
 public:
  /// Times are seconds since `start`. `block_bytes`: of a copy of one block.
  LoadRecorder(Time start, Bytes block_bytes) : start_(start), last_(start), bytes_(block_bytes) {}

  Time start() const { return start_; }
  Seconds since_start(Time at) const;
  /// Calls `submit`, whose id is that of the next request. Nothing is recorded meanwhile.
  template <class Submit>
  void add(const ServedRequest& request, const Submit& submit) {
    const std::lock_guard lock(mutex_);
    requests_.push_back({request, {}, {}});
    if (const std::optional<engine::CompletionId> id = submit())
      number_of_[*id] = requests_.size() - 1;
    else
      ++refused_;
  }

  /// What was recorded of requests that have their whole answer, after the loop has been stopped.
  ServingRun run() const;
  std::size_t failed() const { return failed_; }
  /// Tokens that were in RAM or on disk when their request was admitted, and that it computed.
  std::int64_t computed_anew() const { return computed_anew_; }
  /// Why nothing more was kept on disk; empty: it was to the end.
  const std::string& disk_failure() const { return disk_failure_; }

  void queued(engine::CompletionId id, Time arrival, Time at) override;
  void admitted(engine::CompletionId id, Time at, const engine::FoundTokens& found) override;
  void preempted(engine::CompletionId id, Time at, TokenCount lost) override;
  void copied(Time at, const engine::CopiedBlocks& blocks) override;
  void awaited_copies(Time begin, Time end) override;
  void lost_disk(const std::string& why) override;
  void token(engine::CompletionId id, Time at) override;
  void ended(engine::CompletionId id, Time at, engine::FinishReason reason) override;
  void stepped(const engine::ServedStep& step) override;

 private:
  struct Request {
    ServedRequest asked;
    ServedTimes times;
    std::optional<Time> last_token;
    TokenCount tokens = 0;
    bool was_admitted = false, is_whole = false;
  };
  Request* find(engine::CompletionId id);
  void pass(Time now);

  mutable std::mutex mutex_;  // add() is called on another thread
  const Time start_;
  Time last_;  // up to which time was counted
  Bytes bytes_;
  std::vector<Request> requests_;
  std::unordered_map<engine::CompletionId, std::size_t> number_of_;
  std::size_t alive_ = 0, running_ = 0, refused_ = 0, failed_ = 0;
  int blocks_used_ = 0;
  std::string disk_failure_;
  std::int64_t computed_anew_ = 0;
  ServingRun run_;  // but for requests
};

}  // namespace rigcast::validation
