#include "perfmodel/runtimes/llama_cpp.hpp"

#include <algorithm>

namespace rigcast {

TokenCount LlamaCpp::cells(const MemoryContext& s, TokenCount) const {
  return read_cells(s.context, s.runtime.memory.kv_padding);
}

TokenCount LlamaCpp::layer_cells(const MemoryContext& s, int layer, TokenCount cells) const {
  if (!s.model.has_kv(layer) || s.model.sees_all_tokens(layer))
    return s.model.attended_tokens(layer, cells);
  const TokenCount with_batch = s.model.window->tokens + s.settings.ubatch;
  return std::min(cells, read_cells(std::min(s.context, with_batch), s.runtime.memory.kv_padding));
}

}  // namespace rigcast
