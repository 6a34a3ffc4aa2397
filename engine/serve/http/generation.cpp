#include "engine/serve/http/generation.hpp"

#include <utility>

namespace rigcast::engine {

Generation::Generation(const PreparedRequest& request, const Tokenizer& tokenizer, ApiReply reply,
                       Clock::time_point asked)
    : stream_(request.stream),
      include_usage_(request.include_usage),
      answer_(tokenizer, request.answer),
      reply_(std::move(reply)),
      last_(asked) {}

std::string Generation::begin() {
  const std::string first = stream_ ? reply_.first(include_usage_) : std::string();
  return first.empty() ? first : sent_event(first);
}

std::string Generation::event_of(const AnswerPart& part) const {
  return part.empty() ? std::string() : sent_event(reply_.part(part, include_usage_));
}

std::string Generation::add(std::span<const std::int32_t> ids, Clock::time_point when,
                            TokenDurations& durations) {
  if (ids.empty() || answer_.stopped()) return {};
  const Seconds since{std::chrono::duration<double>(when - last_).count()};
  last_ = when;
  // Tokens that come together share the time since the one before; those with the first one follow
  // it at once.
  const bool is_first = !std::exchange(has_token_, true);
  if (is_first) durations.first.add(since);
  const std::size_t next = ids.size() - std::size_t(is_first);
  if (next > 0) durations.next.add({is_first ? 0 : since.value / double(next)}, next);
  AnswerPart part;
  for (const std::int32_t id : ids) {
    AnswerPart more = answer_.push(id);
    part.text += more.text;
    part.reasoning += more.reasoning;
  }
  if (stream_) return event_of(part);
  whole_.text += part.text;
  whole_.reasoning += part.reasoning;
  return {};
}

Generation::End Generation::end(const CompletionEnd& end) {
  const bool done =
      answer_.stopped() || end.reason == FinishReason::kStop || end.reason == FinishReason::kLength;
  if (!done) {
    const bool failed = end.reason == FinishReason::kFailed;
    return abort(failed ? ApiError{500, end.error, {}, "engine_failed"}
                        : ApiError{503, "the answer was cancelled", {}, "cancelled"});
  }
  const bool length = !answer_.stopped() && end.reason == FinishReason::kLength;
  const std::string_view reason = length ? "length" : "stop";
  const Usage usage{end.prompt_tokens, end.cached_tokens, end.output_tokens};
  const AnswerPart rest = answer_.finish();
  if (!stream_) {
    whole_.text += rest.text;
    whole_.reasoning += rest.reasoning;
    return {reply_.whole(whole_, reason, usage), {}};
  }
  std::string bytes = event_of(rest) + sent_event(reply_.last(reason, include_usage_));
  if (include_usage_) bytes += sent_event(reply_.usage(usage));
  return {bytes + sent_event("[DONE]"), {}};
}

Generation::End Generation::abort(const ApiError& error) {
  return {stream_ ? sent_event(error_json(error)) : std::string(), error};
}

}  // namespace rigcast::engine
