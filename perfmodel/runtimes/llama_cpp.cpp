#include "perfmodel/runtimes/llama_cpp.hpp"

namespace rigcast {

TokenCount LlamaCpp::cells(const MemoryContext& s, TokenCount) const {
  return read_cells(s.context, s.runtime.memory.kv_padding);
}

}  // namespace rigcast
