#include "engine/backends/cuda/steps/token_graphs.cuh"

namespace rigcast::engine::cuda {

void TokenGraphs::launch(const Stream& stream, const Key& key, int generation,
                         const std::function<void()>& queue) {
  TokenGraph& token = graphs_[key];
  if (!token.graph)
    token.graph.emplace(stream, queue);
  else if (token.generation != generation)
    token.graph->record_again(stream, queue);
  token.generation = generation;
  token.graph->launch(stream);
}

}  // namespace rigcast::engine::cuda
