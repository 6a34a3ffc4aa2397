#include "engine/kernels/cuda/hopper/tiled_experts.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"
#include "engine/kernels/cuda/hopper/tiled_launch.cuh"

namespace rigcast::engine::cuda {
namespace {

void check(const ExpertGroups& g, const DeviceMatrix& w) {
  if (!has_tiled_gemm() || !takes_tiled_columns(w) ||
      g.group_tokens != tiled_tokens(g.group_tokens))
    throw std::invalid_argument("tiled_experts: matrices or groups that it does not take");
}

TiledPart part_of(const DeviceMatrixStack& stack) {
  TiledPart part;
  part.view = view_of(stack.first);
  part.rows = stack.first.rows;
  part.expert_stride = stack.stride;
  part.bias = stack.bias;
  return part;
}

void launch_groups(const DeviceMatrix& w, std::int64_t tile_rows, const ExpertGroups& g,
                   TiledWork work, const Stream& stream) {
  work.units = int(w.columns / 32);
  work.blocks = int(tiled_columns(w.columns) / kTileColumns);
  work.groups = g.groups;
  work.group_count = g.group_count;
  work.order = g.order;
  work.first_group = g.first;
  launch_tiled({w.format, w.format}, g.group_tokens, work,
               (tile_rows + kTiledRows - 1) / kTiledRows, visited_groups(g), Start::kEarly, stream);
}

bool are_alike(const DeviceMatrix& gate, const DeviceMatrix& up) {
  return gate.format == up.format && gate.rows == up.rows && gate.columns == up.columns;
}

}  // namespace

bool supports_tiled_experts(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                            const DeviceMatrixStack& down) {
  return has_tiled_gemm() && are_alike(gate.first, up.first) &&
         takes_tiled_columns(gate.first) && takes_tiled_columns(down.first);
}

void tiled_experts_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                           const ExpertGroups& groups, const __half* x, __half* out,
                           const Stream& stream, GateFunction function) {
  if (!are_alike(gate.first, up.first))
    throw std::invalid_argument("tiled_experts: gate and up must be alike");
  if (!gate.bias != !up.bias)
    throw std::invalid_argument("tiled_experts: both have a bias, or none");
  if (groups.tokens == 0) return;
  check(groups, gate.first);
  TiledWork work;
  work.parts[0] = part_of(gate);
  work.parts[1] = part_of(up);
  work.part_count = 2;
  work.x = x;
  work.ffn_hidden = out;
  work.function = function;
  launch_groups(gate.first, 2 * tiled_columns(gate.first.rows), groups, work, stream);
}

void tiled_experts_down(const DeviceMatrixStack& down, const ExpertGroups& groups, const __half* x,
                        float* out, const Stream& stream) {
  if (groups.tokens == 0) return;
  check(groups, down.first);
  TiledWork work;
  work.parts[0] = part_of(down);
  work.parts[0].out = out;
  work.part_count = 1;
  work.x = x;
  work.stride = down.first.rows;
  launch_groups(down.first, down.first.rows, groups, work, stream);
}

}  // namespace rigcast::engine::cuda
