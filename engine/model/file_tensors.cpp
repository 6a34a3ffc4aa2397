#include "engine/model/file_tensors.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/recurrent_mixers.hpp"

namespace rigcast::engine {
namespace {

using Tensors = std::vector<Tensor>;

// Phi-2 and Phi 3.5 MoE add a bias to their logits.
Tensors biased_head(const Tensor& t) {
  Tensor bias = t;
  bias.name = "output.bias";
  bias.role = TensorRole::kBias;
  bias.shape = {t.shape[1], 1, 1};
  bias.dimensions = 1;
  bias.format = QuantFormat::kF32;
  bias.bytes = tensor_bytes(bias.format, bias.shape[0], 1);
  return {t, bias};
}

Tensor renamed(Tensor t, std::string name) {
  t.name = std::move(name);
  return t;
}

// Norms of Command R+ have weights for every head.
Tensor of_heads(Tensor t, std::int64_t head_dim) {
  t.shape = {std::uint64_t(head_dim), t.elements() / std::uint64_t(head_dim), 1};
  t.dimensions = 2;
  return t;
}

// Gemma 4 with experts: the dense FFN beside them, which the catalogue counts as a shared expert,
// has its usual names, the others are those of more norms, and an expert's gate and up are one
// matrix.
Tensors beside_dense_ffn(const Tensor& t) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"norm_5.weight", "post_ffw_norm_1.weight"},
      {"norm_6.weight", "pre_ffw_norm_2.weight"},
      {"norm_7.weight", "post_ffw_norm_2.weight"},
      {"norm_8.weight", "ffn_gate_inp.scale"},
      {"exp_probs_b.bias", "ffn_down_exps.scale"},
      {"ffn_gate_shexp.weight", "ffn_gate.weight"},
      {"ffn_up_shexp.weight", "ffn_up.weight"},
      {"ffn_down_shexp.weight", "ffn_down.weight"},
      {"ffn_gate_exps.weight", "ffn_gate_up_exps.weight"}};
  if (t.role == TensorRole::kExpertUp) return {};
  for (const auto& [own, name] : kNames)
    if (t.layer >= 0 && t.name.ends_with("." + std::string(own))) {
      Tensor out = renamed(t, "blk." + std::to_string(t.layer) + "." + std::string(name));
      if (t.role == TensorRole::kBias) out.role = TensorRole::kNorm;
      if (t.role == TensorRole::kExpertGate) {
        out.shape[1] *= 2;
        out.bytes *= 2;
      }
      return {out};
    }
  return {t};
}

Tensors in_file(const ModelSpec& m, const Tensor& t) {
  if (m.architecture == "gemma4" && m.moe) return beside_dense_ffn(t);
  if (t.role == TensorRole::kRecurrent) return mixer_tensors(m, t);
  if (m.architecture.starts_with("phi") && m.norm_bias && t.role == TensorRole::kOutput)
    return biased_head(t);
  if (m.architecture.starts_with("lfm2") && t.name == "output_norm.weight")
    return {renamed(t, "token_embd_norm.weight")};
  if (m.architecture == "falcon-h1" && t.name.ends_with(".ffn_norm.weight"))
    return {renamed(t, t.name.substr(0, t.name.rfind('.')))};
  const bool norm_of_heads =
      t.name.ends_with("_q_norm.weight") || t.name.ends_with("_k_norm.weight");
  if (m.architecture == "command-r" && norm_of_heads) return {of_heads(t, m.head_dim)};
  return {t};
}

Tensor floats(std::string name, int layer, std::array<std::uint64_t, 3> shape) {
  Tensor t;
  t.name = (layer < 0 ? std::string() : "blk." + std::to_string(layer) + ".") + std::move(name);
  t.layer = layer;
  t.role = shape[1] > 1 ? TensorRole::kUnquantized : TensorRole::kNorm;
  t.shape = shape;
  t.dimensions = shape[2] > 1 ? 3 : shape[1] > 1 ? 2 : 1;
  t.format = QuantFormat::kF32;
  t.bytes = tensor_bytes(t.format, shape[0], shape[1] * shape[2]);
  return t;
}

// What Gemma 3n has and the catalogue leaves out: four alternating states (AltUp) and a residual of
// low rank (Laurel).
void add_gemma_3n(const ModelSpec& m, Tensors& out) {
  constexpr std::uint64_t kStates = 4, kRank = 64;
  const auto hidden = std::uint64_t(m.hidden);
  for (const char* name : {"altup_proj.weight", "altup_unembd_proj.weight"})
    out.push_back(floats(name, -1, {hidden, hidden, kStates - 1}));
  for (int i = 0; i < m.layers; ++i) {
    out.push_back(floats("altup_correct_coef.weight", i, {kStates, kStates, 1}));
    out.push_back(floats("altup_correct_scale.weight", i, {hidden, 1, 1}));
    out.push_back(floats("altup_predict_coef.weight", i, {kStates, kStates * kStates, 1}));
    out.push_back(floats("altup_router.weight", i, {hidden, kStates, 1}));
    out.push_back(floats("altup_router_norm.weight", i, {hidden, 1, 1}));
    out.push_back(floats("laurel_l.weight", i, {hidden, kRank, 1}));
    out.push_back(floats("laurel_r.weight", i, {kRank, hidden, 1}));
    out.push_back(floats("laurel_post_norm.weight", i, {hidden, 1, 1}));
  }
}

}  // namespace

TensorTable file_tensors(const ModelSpec& model, const TensorTable& tensors) {
  TensorTable out = tensors;
  out.tensors.clear();
  for (const Tensor& t : tensors.tensors)
    for (Tensor& stored : in_file(model, t)) out.tensors.push_back(std::move(stored));
  if (model.architecture == "gemma3n") add_gemma_3n(model, out.tensors);
  return out;
}

}  // namespace rigcast::engine
