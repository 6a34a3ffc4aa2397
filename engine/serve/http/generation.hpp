#pragma once
// One answer on its way to a client: tokens in, bytes of the response's body out.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/chat/answer_text.hpp"
#include "engine/serve/completions.hpp"
#include "engine/serve/http/api_reply.hpp"
#include "engine/serve/http/metrics.hpp"
#include "engine/serve/http/served_model.hpp"

namespace rigcast::engine {

/// Used by one thread.
class Generation {
 public:
  using Clock = std::chrono::steady_clock;

  /// `asked`: when the request had come in.
  Generation(const PreparedRequest& request, const Tokenizer& tokenizer, ApiReply reply,
             Clock::time_point asked);

  bool streams() const { return stream_; }

  /// The body's bytes before any token: events of a stream; nothing otherwise.
  std::string begin();
  /// What tokens that were there at `when` add to it. Nothing once the text has come to a stop.
  std::string add(std::span<const std::int32_t> ids, Clock::time_point when,
                  TokenDurations& durations);
  /// The text has come to a stop: what else the engine computes is not needed.
  bool stopped() const { return answer_.stopped(); }

  /// The rest of the body. `error`: there is no answer, and why; a stream's bytes tell it, too.
  struct End {
    std::string bytes{};
    std::optional<ApiError> error{};
  };
  End end(const CompletionEnd& end);
  /// The end of an answer that the server does not wait for.
  End abort(const ApiError& error);

 private:
  std::string event_of(const AnswerPart& part) const;

  bool stream_, include_usage_;
  AnswerText answer_;
  ApiReply reply_;
  AnswerPart whole_{};  // where it is not streamed
  Clock::time_point last_;
  bool has_token_ = false;
};

}  // namespace rigcast::engine
