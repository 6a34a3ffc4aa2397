#include "engine/serve/block_pool.hpp"

#include "core/base/error.hpp"

namespace rigcast::engine {

BlockPool::BlockPool(int count, int cold) : blocks_(std::size_t(count)), first_cold_(count - cold) {
  RIGCAST_ASSERT(cold >= 0 && cold <= count);
  for (int block = 0; block < count; ++block) {
    std::list<int>& free = free_like(block);
    at(block).place = free.insert(free.end(), block);
  }
}

int BlockPool::take() {
  RIGCAST_ASSERT(free() > 0);
  const int block = free_[free_[0].empty() ? 1 : 0].front();
  share(block);
  return block;
}

// Places move from one list to the other, so that nothing here allocates.
void BlockPool::share(int block) {
  if (at(block).users++ == 0) used_.splice(used_.end(), free_like(block), at(block).place);
}

void BlockPool::release(int block) {
  RIGCAST_ASSERT(at(block).users > 0);
  std::list<int>& free = free_like(block);
  if (--at(block).users == 0) free.splice(free.end(), used_, at(block).place);
}

void BlockPool::touch(int block) {
  std::list<int>& free = free_like(block);
  if (at(block).users == 0) free.splice(free.end(), free, at(block).place);
}

}  // namespace rigcast::engine
