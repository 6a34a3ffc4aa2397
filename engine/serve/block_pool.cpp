#include "engine/serve/block_pool.hpp"

#include "core/base/error.hpp"

namespace rigcast::engine {

BlockPool::BlockPool(int count) : blocks_(std::size_t(count)) {
  for (int block = 0; block < count; ++block) at(block).place = free_.insert(free_.end(), block);
}

int BlockPool::take() {
  RIGCAST_ASSERT(!free_.empty());
  const int block = free_.front();
  share(block);
  return block;
}

// Places move from one list to the other, so that nothing here allocates.
void BlockPool::share(int block) {
  if (at(block).users++ == 0) used_.splice(used_.end(), free_, at(block).place);
}

void BlockPool::release(int block) {
  RIGCAST_ASSERT(at(block).users > 0);
  if (--at(block).users == 0) free_.splice(free_.end(), used_, at(block).place);
}

void BlockPool::touch(int block) {
  if (at(block).users == 0) free_.splice(free_.end(), free_, at(block).place);
}

}  // namespace rigcast::engine
