#include "engine/placement/refuse_shapes.hpp"

#include <fmt/format.h>

#include <string>

namespace rigcast::engine {
namespace {

constexpr std::int64_t kWidestHead = 256;
constexpr std::int64_t kWidestRow = 65536;
constexpr int kMostExperts = 1024, kMostExpertsUsed = 32;

Error refused(const std::string& what, const std::string& limit) {
  return bad_input(fmt::format("{} is not executed on a GPU: {}", what, limit), "--device cpu");
}

std::optional<Error> refuse_row(const std::string& name, const Matrix& w) {
  if (!w.columns || (w.columns % 32 == 0 && w.columns <= kWidestRow)) return std::nullopt;
  return refused(fmt::format("\"{}\" of {} x {}", name, w.columns, w.rows),
                 fmt::format("rows are a multiple of 32 up to {} there", kWidestRow));
}

std::optional<Error> refuse_router(const std::string& name, const Matrix& router, int used) {
  using enum QuantFormat;
  if (router.rows > kMostExperts || used > kMostExpertsUsed)
    return refused(fmt::format("\"{}\": {} experts of which {} are used", name, router.rows, used),
                   fmt::format("at most {} and {} are there", kMostExperts, kMostExpertsUsed));
  if (router.format == kF32 || router.format == kF16 || router.format == kBF16) return std::nullopt;
  return refused(fmt::format("\"{}\" in {}", name, info(router.format).name),
                 "routers are in F32, F16 or BF16 there");
}

std::optional<Error> refuse_layer(const Model& model, int index) {
  const Layer& l = model.layers[std::size_t(index)];
  const std::string block = fmt::format("blk.{}.", index);
  const std::pair<const char*, const Matrix*> matrices[] = {
      {"attn_q", &l.q},
      {"attn_k", &l.k},
      {"attn_v", &l.v},
      {"attn_output", &l.output},
      {"ffn_gate", &l.gate},
      {"ffn_up", &l.up},
      {"ffn_down", &l.down},
      {"ffn_gate_inp", &l.router},
      {"ffn_gate_exps", &l.expert_gate.first},
      {"ffn_up_exps", &l.expert_up.first},
      {"ffn_down_exps", &l.expert_down.first}};
  for (const auto& [name, w] : matrices)
    if (auto error = refuse_row(block + name + ".weight", *w)) return error;
  if (l.router.rows == 0) return std::nullopt;
  return refuse_router(block + "ffn_gate_inp.weight", l.router, model.spec.moe->experts_used);
}

}  // namespace

std::optional<Error> refuse_shapes_on_gpu(const Model& model) {
  const std::int64_t head = model.spec.head_dim;
  if (head % 8 != 0 || head > kWidestHead)
    return refused(fmt::format("{} with heads of {}", model.spec.name, head),
                   fmt::format("heads are a multiple of 8 up to {} wide there", kWidestHead));
  for (int i = 0; i < int(model.layers.size()); ++i)
    if (auto error = refuse_layer(model, i)) return error;
  return refuse_row("output.weight", model.head);
}

}  // namespace rigcast::engine
