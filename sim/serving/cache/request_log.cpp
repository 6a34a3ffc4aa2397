#include "sim/serving/cache/request_log.hpp"

#include <algorithm>
#include <limits>

namespace rigcast {

TokenCount RequestLog::common_prefix(RequestId a, RequestId b) const {
  // The later of the two is replaced by the one that it continues, until they are the same; they
  // have no more in common than every such step leaves.
  TokenCount common = std::numeric_limits<TokenCount>::max();
  while (a != b) {
    RequestId& later = a > b ? a : b;
    const ServedRequest& r = requests_[later];
    if (!r.continues) return 0;
    common = std::min(common, r.shared);
    later = RequestId(*r.continues);
  }
  return common;
}

}  // namespace rigcast
