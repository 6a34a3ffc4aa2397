#include "validation/runs/load/replay_load.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace rigcast::validation {
namespace {

using Clock = std::chrono::steady_clock;
using engine::CompletionEnd;
using engine::CompletionId;
using engine::FinishReason;

// What the engine's thread tells of answers.
class Answers {
 public:
  struct Ended {
    std::size_t request;
    Clock::time_point at;
    std::vector<std::int32_t> ids;
    CompletionEnd end;
  };

  void begin(std::size_t request) {
    const std::lock_guard lock(mutex_);
    if (ids_.size() <= request) ids_.resize(request + 1);
  }
  void add(std::size_t request, std::span<const std::int32_t> ids) {
    const std::lock_guard lock(mutex_);
    ids_[request].insert(ids_[request].end(), ids.begin(), ids.end());
  }
  void end(std::size_t request, const CompletionEnd& end) {
    const std::lock_guard lock(mutex_);
    ended_.push_back({request, Clock::now(), std::move(ids_[request]), end});
    changed_.notify_one();
  }
  // Those that have ended since the last call, for some of which it waits until then.
  std::vector<Ended> take(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return !ended_.empty(); });
    return std::exchange(ended_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::int32_t>> ids_;  // by request
  std::vector<Ended> ended_;
};

class Replay {
 public:
  Replay(OfferedLoad& load, engine::Completions& server, LoadPrompts& prompts,
         LoadRecorder& recorder, Clock::time_point start, const ReplayOptions& options)
      : load_(load),
        server_(server),
        prompts_(prompts),
        recorder_(recorder),
        start_(start),
        options_(options) {}

  ReplayedLoad run() {
    while (!out_.interrupted) {
      const std::optional<Seconds> next = load_.next();
      if (!next && open_ == 0) break;
      if (next && recorder_.since_start(Clock::now()) >= *next) {
        ask();
      } else {
        wait(next);
      }
      out_.interrupted = options_.keep_going && !options_.keep_going();
    }
    return std::move(out_);
  }

 private:
  // Until the next request is due, or one has ended, or it is time to ask whether to go on.
  void wait(std::optional<Seconds> next) {
    constexpr std::chrono::milliseconds kLook(100);
    Clock::time_point until = Clock::now() + kLook;
    if (next) {
      const auto due = start_ + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(next->value));
      until = std::min(until, due);
    }
    for (const Answers::Ended& e : answers_->take(until)) {
      --open_;
      prompts_.add_answer(e.request, e.ids);
      if (e.end.reason == FinishReason::kFailed && out_.failure.empty()) out_.failure = e.end.error;
      load_.ended(e.request, recorder_.since_start(e.at));
    }
  }

  void ask() {
    const ServedRequest request = load_.take();
    const std::size_t number = out_.asked++;
    answers_->begin(number);
    engine::CompletionRequest completion;
    completion.prompt = prompts_.next(request);
    completion.max_tokens = request.output;
    completion.sampling = options_.sampling;
    completion.on_tokens = [answers = answers_, number](std::span<const std::int32_t> ids) {
      answers->add(number, ids);
    };
    completion.on_end = [answers = answers_, number](const CompletionEnd& end) {
      answers->end(number, end);
    };
    std::optional<Error> refusal;
    recorder_.add(request, [&]() -> std::optional<CompletionId> {
      const auto id = server_.submit(std::move(completion));
      if (id) return *id;
      refusal = id.error();
      return std::nullopt;
    });
    if (!refusal) {
      ++open_;
    } else {
      if (refusal->kind != ErrorKind::kDoesNotFit && out_.failure.empty())
        out_.failure = refusal->message;
      load_.ended(number, recorder_.since_start(Clock::now()));
    }
    if (options_.progress) options_.progress(out_.asked);
  }

  OfferedLoad& load_;
  engine::Completions& server_;
  LoadPrompts& prompts_;
  LoadRecorder& recorder_;
  const Clock::time_point start_;
  const ReplayOptions& options_;
  // The server may go on with requests after an interruption.
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::size_t open_ = 0;  // requests that have not ended
  ReplayedLoad out_;
};

}  // namespace

ReplayedLoad replay_load(OfferedLoad& load, engine::Completions& server, LoadPrompts& prompts,
                         LoadRecorder& recorder, Clock::time_point start,
                         const ReplayOptions& options) {
  return Replay(load, server, prompts, recorder, start, options).run();
}

}  // namespace rigcast::validation
