#pragma once
// Tokens of an answer between the engine's thread and the one that sends them: however far that is
// behind, it finds all of them at once.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/serve/completions.hpp"

namespace rigcast::engine {

class TokenMailbox {
 public:
  using Clock = std::chrono::steady_clock;

  struct Contents {
    std::vector<std::int32_t> ids{};
    Clock::time_point when{};  // of the last of them
    std::optional<CompletionEnd> end{};
  };

  /// True: whoever takes has to be told. Nothing is thrown: where there is no memory for ids, the
  /// end is a failure.
  bool put(std::span<const std::int32_t> ids) noexcept;
  bool put_end(const CompletionEnd& end) noexcept;
  Contents take();

 private:
  std::mutex mutex_;
  Contents contents_;
  bool told_ = false, lost_ = false;
};

}  // namespace rigcast::engine
