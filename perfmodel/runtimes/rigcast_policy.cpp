#include "perfmodel/runtimes/rigcast_policy.hpp"

#include <algorithm>

namespace rigcast {

TokenCount timed_tokens(const ModelSpec& m, TokenCount ubatch) {
  constexpr TokenCount kTokens = 64, kTokensOfExpert = 8, kMaxTokens = 256;
  const TokenCount wanted =
      m.moe
          ? std::clamp(kTokensOfExpert * m.moe->experts / m.moe->experts_used, kTokens, kMaxTokens)
          : kTokens;
  return std::min(wanted, ubatch);
}

}  // namespace rigcast
