#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"

#include <algorithm>
#include <utility>

#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cuda/weights/alignment.hpp"
#include "engine/cuda/barrier_kernel.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"
#include "engine/model/layer_weights.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr const char* kItem = "streamed weights";
// Gaps up to this are copied, too: a separate copy takes longer.
constexpr std::int64_t kMaxGap = 512 << 10;

std::size_t soa_of(const MatrixStack& s) {
  return s ? aligned(soa_bytes(s.first.format, s.first.columns, s.first.rows)) : 0;
}

int experts_of(const Model& model) { return model.spec.moe ? model.spec.moe->experts : 0; }

// Bytes of one expert, as quant blocks in a slot and in the SoA layout.
std::size_t slot_bytes_of(const Layer& layer) { return std::size_t(one_expert_bytes(layer)); }
std::size_t soa_bytes_of(const Layer& layer) {
  std::size_t bytes = 0;
  for_each_stack([&](LayerWeight, const MatrixStack& s) { bytes += soa_of(s); }, layer);
  return bytes;
}

// The largest slot that a layer needs for its experts.
template <class BytesOf>
std::size_t most(const Model& model, const std::vector<int>& layers, const BytesOf& bytes_of) {
  std::size_t most = 0;
  for (const int i : layers) {
    const Layer& layer = model.layers[std::size_t(i)];
    most = std::max(most, expert_slot_bytes(bytes_of(layer), layer.expert_up.count));
  }
  return most;
}

}  // namespace

ExpertStream::ExpertStream(Vram& vram, const Stream& computing, const Model& model,
                           const std::vector<int>& layers, DeviceModel& weights)
    : computing_(computing),
      model_(model),
      first_layer_(layers.front()),
      slots_(vram, computing, most(model, layers, slot_bytes_of), kItem),
      soa_(vram.allocate(most(model, layers, soa_bytes_of), kItem)),
      counts_(std::size_t(std::max(1, experts_of(model))) * sizeof(int)) {
  for (const int i : layers)
    for_each_stack(
        [](LayerWeight, const MatrixStack& from, DeviceMatrixStack& to) {
          to = {{nullptr, from.first.format, from.first.columns, from.first.rows}, soa_of(from)};
        },
        model.layers[std::size_t(i)], weights.layers[std::size_t(i)]);
}

// The number of experts that fit both into a slot and into the SoA memory.
int ExpertStream::at_once(const Layer& layer) const {
  return int(
      std::min(slots_.slot_bytes() / slot_bytes_of(layer), soa_.bytes() / soa_bytes_of(layer)));
}

std::vector<ExpertStream::Chunk> ExpertStream::chunks_of(const Layer& layer,
                                                         std::span<const int> counts) const {
  const int experts = int(counts.size()), most = at_once(layer);
  std::vector<Chunk> chunks;
  for (int e = 0; e < experts; ++e) {
    if (counts[std::size_t(e)] == 0) continue;
    if (chunks.empty() || e >= chunks.back().first + most) chunks.push_back({e, e});
    chunks.back().end = e + 1;
  }
  return chunks;
}

// The copies of a chunk. The slot has all gates, then all ups, then all downs of the chunk. Experts
// that are contiguous, or close to each other, share a copy.
std::vector<CopyRun> ExpertStream::runs_of(const Layer& layer, const Chunk& chunk,
                                           std::span<const int> counts) const {
  std::vector<CopyRun> runs;
  std::size_t begin = 0;
  const auto add = [&](LayerWeight, const MatrixStack& stack) {
    const std::int64_t one = stack.first.bytes();
    const bool neighbours = stack.stride == 0 || stack.stride == one;
    int last = -1;  // the expert after the stack's last copy
    for (int e = chunk.first; e < chunk.end; ++e) {
      if (counts[std::size_t(e)] == 0) continue;
      if (neighbours && last >= 0 && (e - last) * one < kMaxGap)
        runs.back().bytes += std::size_t((e + 1 - last) * one);
      else
        runs.push_back(
            {stack.at(e).data, std::size_t(one), begin + std::size_t((e - chunk.first) * one)});
      last = e + 1;
    }
    begin += std::size_t((chunk.end - chunk.first) * one);
  };
  for_each_stack(add, layer);
  return runs;
}

ArrivedExperts ExpertStream::unpack(const Layer& layer, const Chunk& chunk,
                                    std::span<const int> counts, const std::byte* blocks) {
  std::byte* soa = soa_.as();
  const auto stack = [&](const MatrixStack& from) {
    if (!from) return DeviceMatrixStack{};
    const Matrix& m = from.first;
    const std::size_t stride = soa_of(from);
    for (int e = chunk.first; e < chunk.end; ++e) {
      const auto i = std::size_t(e - chunk.first);
      if (counts[std::size_t(e)] > 0)
        repack(m.format, m.columns, m.rows, {0, m.rows}, blocks + i * std::size_t(m.bytes()),
               soa + i * stride, computing_);
    }
    // The address of expert 0, from which others are computed. It may be outside of the allocation,
    // and is never read.
    const auto zero = reinterpret_cast<std::uintptr_t>(soa) - std::size_t(chunk.first) * stride;
    const auto count = std::size_t(chunk.end - chunk.first);
    blocks += count * std::size_t(m.bytes());
    soa += count * stride;
    return DeviceMatrixStack{
        {reinterpret_cast<const std::byte*>(zero), m.format, m.columns, m.rows}, stride};
  };
  ArrivedExperts arrived{chunk.first, chunk.end, {}, {}, {}};
  arrived.gate = stack(layer.expert_gate);
  arrived.up = stack(layer.expert_up);
  arrived.down = stack(layer.expert_down);
  return arrived;
}

void ExpertStream::stream_in(int layer, std::span<const int> counts,
                             const std::function<void(const ArrivedExperts&)>& use) {
  const Layer& w = model_.layers[std::size_t(layer)];
  const std::vector<Chunk> chunks = chunks_of(w, counts);
  const auto fill = [&](std::size_t i) {
    if (i >= chunks.size()) return;
    const std::vector<CopyRun> runs = runs_of(w, chunks[i], counts);
    for (const CopyRun& run : runs) bytes_ += double(run.bytes);
    slots_.fill(int(i % 2), runs);
  };
  fill(0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    fill(i + 1);
    const ArrivedExperts arrived = unpack(w, chunks[i], counts, slots_.arrived(int(i % 2)));
    slots_.emptied(int(i % 2));
    launch_barrier_kernel(computing_);
    use(arrived);
  }
}

BytesPerSecond ExpertStream::measure_link() {
  // Measures the copies of a batch whose tokens chose all experts.
  const Layer& layer = model_.layers[std::size_t(first_layer_)];
  const int experts = std::min(layer.expert_up.count, at_once(layer));
  const std::vector<int> counts(std::size_t(experts), 1);
  return slots_.measure(runs_of(layer, {0, experts}, counts));
}

}  // namespace rigcast::engine::cuda
