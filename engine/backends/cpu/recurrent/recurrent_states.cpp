#include "engine/backends/cpu/recurrent/recurrent_states.hpp"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

// States begin at cache lines, whichever layer's they are.
constexpr std::size_t kLineFloats = 16;

std::size_t floats_of(const ModelSpec& spec, const Layer& layer) {
  const auto floats = std::size_t(spec.recurrent->state_bytes) / sizeof(float);
  return layer.is_recurrent() ? (floats + kLineFloats - 1) / kLineFloats * kLineFloats : 0;
}

}  // namespace

RecurrentStates::RecurrentStates(const Model& model, int count, const Ram& ram,
                                 const std::optional<std::vector<int>>& layers,
                                 Allocator memory) {
  for (int i = 0; i < int(model.layers.size()); ++i) {
    const Layer& layer = model.layers[std::size_t(i)];
    const bool is_here =
        model.spec.recurrent && (!layers || std::ranges::find(*layers, i) != layers->end());
    parts_.push_back({state_floats_, is_here ? floats_of(model.spec, layer) : 0});
    state_floats_ += parts_.back().floats;
  }
  if (empty()) return;
  if (!memory) memory = make_large_pages;
  memory_ = ram.tracked("recurrent states", std::move(memory))(bytes() * std::size_t(count));
}

std::span<float> RecurrentStates::at(int state, int layer) const {
  const Part& part = parts_[std::size_t(layer)];
  RIGCAST_ASSERT(part.floats > 0);
  return {begin(state) + part.begin, part.floats};
}

void RecurrentStates::begin(std::span<const StepSequence> sequences, int layer) {
  for (const StepSequence& s : sequences)
    if (s.cached == 0) std::ranges::fill(at(s.state, layer), 0.0f);
}

void RecurrentStates::clear(int state) { std::fill_n(begin(state), state_floats_, 0.0f); }

void RecurrentStates::copy(int from, int to) { std::copy_n(begin(from), state_floats_, begin(to)); }

void RecurrentStates::copy(int from, int to, ThreadTeam& team) {
  constexpr std::int64_t kPiece = 1 << 18;  // floats: a MiB
  const auto all = std::int64_t(state_floats_);
  team.run([&](Worker& worker) {
    worker.parallel_for_nowait(
        (all + kPiece - 1) / kPiece, 1, [&](std::int64_t first, std::int64_t end) {
          const std::int64_t at = first * kPiece, count = std::min(end * kPiece, all) - at;
          std::copy_n(begin(from) + at, count, begin(to) + at);
        });
  });
}

std::size_t state_bytes(const Model& model) {
  std::size_t floats = 0;
  if (model.spec.recurrent)
    for (const Layer& layer : model.layers) floats += floats_of(model.spec, layer);
  return floats * sizeof(float);
}

}  // namespace rigcast::engine
