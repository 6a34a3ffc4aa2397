#include "load/trace_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/scenario/length_distribution.hpp"
#include "core/scenario/load.hpp"

namespace rigcast {

std::optional<std::string> TraceBuilder::add(double seconds, std::int64_t input,
                                             std::int64_t output) {
  constexpr double kMaxSeconds = 1e12;
  std::vector<ServedRequest>& requests = trace_.requests;
  if (!std::isfinite(seconds) || std::abs(seconds) > kMaxSeconds)
    return fmt::format("{} is no time of arrival", seconds);
  if (!requests.empty() && seconds < requests.back().arrival.value)
    return fmt::format("arrives {:.3g} s before the request before it",
                       requests.back().arrival.value - seconds);
  for (const auto& [tokens, what] : {std::pair{input, "prompt"}, {output, "answer"}})
    if (tokens < 1 || tokens > kMaxLength)
      return fmt::format("a{} {} of {} tokens", *what == 'a' ? "n" : "", what, tokens);
  if (requests.size() >= std::size_t(kMaxRequests))
    return fmt::format("a trace has at most {} requests", kMaxRequests);
  requests.push_back({Seconds{seconds}, input, output, {}, 0});
  return std::nullopt;
}

void TraceBuilder::share(std::size_t earlier, TokenCount tokens) {
  ServedRequest& last = trace_.requests.back();
  const ServedRequest& before = trace_.requests[earlier];
  last.shared = std::min({tokens, before.prompt + before.output, last.prompt});
  if (last.shared > 0) last.continues = earlier;
}

Trace TraceBuilder::finish(bool from_first) && {
  // No request arrives before the load begins.
  const double first = requests().empty() ? 0 : requests().front().arrival.value;
  const double begin = from_first ? first : std::min(first, 0.0);
  for (ServedRequest& r : trace_.requests) r.arrival -= Seconds{begin};
  return std::move(trace_);
}

}  // namespace rigcast
