#include "engine/serve/http/token_mailbox.hpp"

#include <new>
#include <utility>

namespace rigcast::engine {

bool TokenMailbox::put(std::span<const std::int32_t> ids) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    contents_.ids.insert(contents_.ids.end(), ids.begin(), ids.end());
    contents_.when = Clock::now();
  } catch (const std::bad_alloc&) {
    lost_ = true;
  }
  return !std::exchange(told_, true);
}

bool TokenMailbox::put_end(const CompletionEnd& end) noexcept {
  const std::lock_guard lock(mutex_);
  CompletionEnd& own = contents_.end.emplace();
  own.reason = lost_ ? FinishReason::kFailed : end.reason;
  own.prompt_tokens = end.prompt_tokens;
  own.cached_tokens = end.cached_tokens;
  own.output_tokens = end.output_tokens;
  try {
    own.error = lost_ ? "out of memory" : end.error;
  } catch (const std::bad_alloc&) {
    own.reason = FinishReason::kFailed;
  }
  return !std::exchange(told_, true);
}

TokenMailbox::Contents TokenMailbox::take() {
  const std::lock_guard lock(mutex_);
  told_ = false;
  return std::exchange(contents_, {});
}

}  // namespace rigcast::engine
