#include "engine/run/batch_executor.hpp"

namespace rigcast::engine {

void BatchExecutor::warm_up() {
  const std::int32_t token = 0;
  const int block = 0;
  const SequenceStep first{{&token, 1}, 0, {&block, 1}, nullptr, 0, {&block, 1}};
  static_cast<void>(step({&first, 1}));
}

void BatchExecutor::copy_state(int, int) {}

}  // namespace rigcast::engine
