#include "bench/kernel_table/products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "engine/model/fused_blocks.hpp"

namespace rigcast::bench {
namespace {

using engine::FusedBlock;
using engine::Layer;
using engine::Matrix;
using engine::Model;
using engine::OpKind;

using Matrices = std::initializer_list<const Matrix*>;

// Of `times` matrices like each of these. Those that a model does not have are left out.
Product product(ProductKind kind, std::string what, Matrices matrices, int times = 1) {
  Product p{kind, std::move(what), {}, 0};
  for (const Matrix* m : matrices) {
    if (!*m) continue;
    p.formats.push_back(m->format);
    p.bytes += double(m->bytes()) * times;
  }
  return p;
}

bool has_floats(const Matrix& m) {
  return m.format == QuantFormat::kF32 || m.format == QuantFormat::kF16 ||
         m.format == QuantFormat::kBF16;
}

class TokenProducts {
 public:
  TokenProducts(const Model& model, const KvTypes& kv, TokenCount cached)
      : model_(model), kv_(kv), cached_(cached) {}

  void add(FusedBlock block, int layer) {
    const Layer& w = model_.layers[std::size_t(layer)];
    if (block == FusedBlock::kAttention) attention(w, layer);
    if (block == FusedBlock::kFfn) ffn(w);
    if (block == FusedBlock::kExperts) w.router_norm.empty() ? experts(w) : experts_beside(w);
  }
  std::vector<Product> with_head() {
    all_.push_back(product(ProductKind::kMatvec, "head", {&model_.head}));
    return std::move(all_);
  }

 private:
  void attention(const Layer& w, int layer) {
    all_.push_back(product(ProductKind::kMatvec, "q k v", {&w.q, &w.k, &w.v}));
    // The new token's keys and values are stored by the kernel itself, where the layer has any.
    const int source = engine::kv_layer_of(model_.spec, layer);
    const TokenCount read =
        cached_ - w.attention.first_attended(cached_) + (source == layer ? 0 : 1);
    all_.push_back({ProductKind::kAttention,
                    "attention",
                    {},
                    double(read) * kv_read_bytes_per_token(model_.spec, source, kv_)});
    all_.push_back(product(ProductKind::kMatvec, "output", {&w.output}));
  }

  void ffn(const Layer& w) {
    if (w.gate)
      all_.push_back(product(ProductKind::kGateUp, "gate up", {&w.gate, &w.up}));
    else
      all_.push_back(product(ProductKind::kMlpUp, "up", {&w.up}));
    all_.push_back(product(ProductKind::kMatvec, "down", {&w.down}));
  }

  void router(const Layer& w) {
    all_.push_back(product(ProductKind::kRouter, "router", {&w.router}));
    all_.back().bytes += double(w.shared_router.size() * sizeof(float));
  }
  Product experts_first(const Layer& w) const {
    return product(ProductKind::kGateUp, w.expert_gate ? "experts gate up" : "experts up",
                   {&w.expert_gate.first, &w.expert_up.first}, model_.spec.moe->experts_used);
  }
  Product experts_down(const Layer& w) const {
    return product(ProductKind::kExpertsDown, "experts down", {&w.expert_down.first},
                   model_.spec.moe->experts_used);
  }
  static Product shared_first(const Layer& w) {
    return product(ProductKind::kGateUp, w.shared_gate ? "shared gate up" : "shared up",
                   {&w.shared_gate, &w.shared_up});
  }
  static Product shared_down(const Layer& w) {
    return product(ProductKind::kMatvec, "shared down", {&w.shared_down});
  }

  // A dense FFN, which has the shared expert's matrices, then experts.
  void experts_beside(const Layer& w) {
    all_.push_back(shared_first(w));
    all_.push_back(shared_down(w));
    router(w);
    all_.push_back(experts_first(w));
    all_.push_back(experts_down(w));
  }

  // The shared expert joins the products of the chosen ones where formats and sizes allow it.
  void experts(const Layer& w) {
    router(w);
    all_.push_back(experts_first(w));
    if (w.shared_down) join_or_add(joins_first(w), shared_first(w));
    all_.push_back(experts_down(w));
    if (w.shared_down)
      join_or_add(w.shared_down.format == w.expert_down.first.format, shared_down(w));
  }
  void join_or_add(bool joins, Product shared) {
    if (joins)
      all_.back().bytes += shared.bytes;
    else
      all_.push_back(std::move(shared));
  }
  static bool joins_first(const Layer& w) {
    constexpr std::int64_t kRowsOfBlock = 32;  // of the kernel gate_up
    const Matrix& gate = w.expert_gate ? w.expert_gate.first : w.expert_up.first;
    const Matrix& shared = w.shared_gate ? w.shared_gate : w.shared_up;
    const bool silu =
        !w.has_gelu() && !w.has_clamped_experts() && !uses(w.ops, OpKind::kSquaredReluExperts);
    return silu && has_floats(w.shared_down) == has_floats(w.expert_down.first) &&
           shared.format == gate.format && w.shared_up.format == w.expert_up.first.format &&
           gate.rows % kRowsOfBlock == 0 && shared.rows % kRowsOfBlock == 0;
  }

  const Model& model_;
  const KvTypes& kv_;
  TokenCount cached_;
  std::vector<Product> all_;
};

// What a layer has that is not covered; nullopt: nothing.
std::optional<std::string> uncovered(const Layer& w, FusedBlock block) {
  if (w.latent) return "latent attention";
  if (block == FusedBlock::kLayerInput) return "an input of its own";
  const bool covered =
      block == FusedBlock::kAttention || block == FusedBlock::kFfn || block == FusedBlock::kExperts;
  return covered ? std::nullopt : std::optional<std::string>("a recurrent mixer");
}

}  // namespace

Result<std::vector<Product>> products_of_token(const Model& model, const KvTypes& kv,
                                               TokenCount cached) {
  TokenProducts products(model, kv, cached);
  for (int layer = 0; layer < int(model.layers.size()); ++layer) {
    const Layer& w = model.layers[std::size_t(layer)];
    const auto blocks = engine::fuse(w.ops, engine::decoder_blocks());
    if (!blocks) return blocks.error();
    for (const FusedBlock block : *blocks) {
      if (const auto what = uncovered(w, block))
        return bad_input(fmt::format("layer {} has {}", layer, *what));
      products.add(block, layer);
    }
  }
  std::vector<Product> all = products.with_head();
  for (const Product& p : all)
    if (p.kind != ProductKind::kAttention && p.formats.empty())
      return bad_input(fmt::format("a layer has no matrix of {}", p.what));
  return all;
}

}  // namespace rigcast::bench
