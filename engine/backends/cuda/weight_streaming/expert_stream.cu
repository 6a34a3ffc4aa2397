#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"

#include <algorithm>
#include <utility>

#include "core/scenario/engine_memory.hpp"
#include "engine/cuda/settle.cuh"
#include "engine/kernels/cuda/weights/planes.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr const char* kItem = "streamed weights";
constexpr std::int64_t kMostGap = 512 << 10;  // copied along: a copy of its own takes longer
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t planes_of(const engine::MatrixStack& s) {
  return s ? aligned(planes_bytes(s.first.format, s.first.columns, s.first.rows)) : 0;
}

std::size_t blocks_of(const engine::MatrixStack& s) { return s ? std::size_t(s.first.bytes()) : 0; }

int experts_of(const Model& model) { return model.spec.moe ? model.spec.moe->experts : 0; }

}  // namespace

std::size_t ExpertStream::Stacks::slot_bytes() const {
  return blocks_of(gate) + blocks_of(up) + blocks_of(down);
}

std::size_t ExpertStream::Stacks::planes_bytes() const {
  return planes_of(gate) + planes_of(up) + planes_of(down);
}

std::vector<ExpertStream::Stacks> ExpertStream::stacks_of(const Model& model,
                                                          const std::vector<int>& layers) {
  std::vector<Stacks> stacks(model.layers.size());
  for (const int layer : layers) {
    const Layer& w = model.layers[std::size_t(layer)];
    stacks[std::size_t(layer)] = {w.expert_gate, w.expert_up, w.expert_down};
  }
  return stacks;
}

std::size_t ExpertStream::most(const std::vector<Stacks>& stacks,
                               std::size_t (Stacks::*of)() const) {
  std::size_t most = 0;
  for (const Stacks& s : stacks) {
    const std::size_t one = (s.*of)();
    most = std::max({most, one, std::min(kExpertSlotBytes, one * std::size_t(s.gate.count))});
  }
  return most;
}

ExpertStream::ExpertStream(Vram& vram, const Stream& computing, const Model& model,
                           const std::vector<int>& layers, DeviceModel& weights)
    : computing_(computing),
      stacks_(stacks_of(model, layers)),
      slots_(vram, computing, most(stacks_, &Stacks::slot_bytes), kItem),
      planes_(vram.take(most(stacks_, &Stacks::planes_bytes), kItem)),
      counts_(std::size_t(std::max(1, experts_of(model))) * sizeof(int)) {
  for (const int layer : layers) {
    const Stacks& s = stacks_[std::size_t(layer)];
    DeviceLayer& to = weights.layers[std::size_t(layer)];
    const auto shape = [](const engine::MatrixStack& from) {
      return MatrixStack{{nullptr, from.first.format, from.first.columns, from.first.rows},
                         planes_of(from)};
    };
    to.expert_gate = shape(s.gate);
    to.expert_up = shape(s.up);
    to.expert_down = shape(s.down);
  }
}

// Experts whose blocks fit into a slot and whose planes fit, too.
int ExpertStream::at_once(const Stacks& s) const {
  return int(std::min(slots_.slot_bytes() / s.slot_bytes(), planes_.bytes() / s.planes_bytes()));
}

std::vector<ExpertStream::Chunk> ExpertStream::chunks_of(const Stacks& s,
                                                         std::span<const int> counts) const {
  const int experts = int(counts.size()), most = at_once(s);
  std::vector<Chunk> chunks;
  for (int e = 0; e < experts; ++e) {
    if (counts[std::size_t(e)] == 0) continue;
    if (chunks.empty() || e >= chunks.back().first + most) chunks.push_back({e, e});
    chunks.back().end = e + 1;
  }
  return chunks;
}

// In the slot: all gates of the chunk, all ups, all downs. Neighbours are one copy for each, and so
// are those that are not far apart.
std::vector<CopyRun> ExpertStream::runs_of(const Stacks& s, const Chunk& chunk,
                                           std::span<const int> counts) const {
  std::vector<CopyRun> runs;
  std::size_t begin = 0;
  for (const engine::MatrixStack* stack : {&s.gate, &s.up, &s.down}) {
    const std::int64_t one = stack->first.bytes();
    int last = -1;  // the expert behind the stack's last copy
    for (int e = chunk.first; e < chunk.end; ++e) {
      if (counts[std::size_t(e)] == 0) continue;
      if (last >= 0 && (e - last) * one < kMostGap)
        runs.back().bytes += std::size_t((e + 1 - last) * one);
      else
        runs.push_back(
            {stack->at(e).data, std::size_t(one), begin + std::size_t((e - chunk.first) * one)});
      last = e + 1;
    }
    begin += std::size_t((chunk.end - chunk.first) * one);
  }
  return runs;
}

ArrivedExperts ExpertStream::unpack(const Stacks& s, const Chunk& chunk,
                                    std::span<const int> counts, const std::byte* blocks) {
  std::byte* planes = planes_.as();
  const auto stack = [&](const engine::MatrixStack& from) {
    const engine::Matrix& m = from.first;
    const std::size_t stride = planes_of(from);
    for (int e = chunk.first; e < chunk.end; ++e) {
      const auto i = std::size_t(e - chunk.first);
      if (counts[std::size_t(e)] > 0)
        repack(m.format, m.columns, m.rows, {0, m.rows}, blocks + i * std::size_t(m.bytes()),
               planes + i * stride, computing_);
    }
    // Where expert 0 would be: before all memory, perhaps, and never read.
    const auto zero = reinterpret_cast<std::uintptr_t>(planes) - std::size_t(chunk.first) * stride;
    const auto count = std::size_t(chunk.end - chunk.first);
    blocks += count * std::size_t(m.bytes());
    planes += count * stride;
    return MatrixStack{{reinterpret_cast<const std::byte*>(zero), m.format, m.columns, m.rows},
                       stride};
  };
  ArrivedExperts arrived{chunk.first, chunk.end, {}, {}, {}};
  arrived.gate = stack(s.gate);
  arrived.up = stack(s.up);
  arrived.down = stack(s.down);
  return arrived;
}

void ExpertStream::bring(int layer, std::span<const int> counts,
                         const std::function<void(const ArrivedExperts&)>& use) {
  const Stacks& s = stacks_[std::size_t(layer)];
  const std::vector<Chunk> chunks = chunks_of(s, counts);
  const auto fill = [&](std::size_t i) {
    if (i >= chunks.size()) return;
    const std::vector<CopyRun> runs = runs_of(s, chunks[i], counts);
    for (const CopyRun& run : runs) bytes_ += double(run.bytes);
    slots_.fill(int(i % 2), runs);
  };
  fill(0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    fill(i + 1);
    const ArrivedExperts arrived = unpack(s, chunks[i], counts, slots_.arrived(int(i % 2)));
    slots_.emptied(int(i % 2));
    settle(computing_);
    use(arrived);
  }
}

BytesPerSecond ExpertStream::measure_link() {
  for (const Stacks& s : stacks_) {
    if (!s.gate) continue;
    // As of a batch whose tokens chose all.
    const int experts = std::min(s.gate.count, at_once(s));
    const std::vector<int> counts(std::size_t(experts), 1);
    return slots_.measure(runs_of(s, {0, experts}, counts));
  }
  return {};
}

}  // namespace rigcast::engine::cuda
