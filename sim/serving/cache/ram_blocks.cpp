#include "sim/serving/cache/ram_blocks.hpp"

namespace rigcast {

bool RamBlocks::store(BlockContent content) {
  if (count_ == 0) return false;
  const auto found = held_.find(key(content));
  if (found != held_.end()) {
    order_.splice(order_.end(), order_, found->second);
    return false;
  }
  if (held_.size() == count_) {
    held_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(key(content));
  held_.emplace(key(content), std::prev(order_.end()));
  return true;
}

}  // namespace rigcast
