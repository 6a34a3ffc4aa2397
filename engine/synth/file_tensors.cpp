#include "engine/synth/file_tensors.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rigcast::engine {
namespace {

using Tensors = std::vector<Tensor>;

bool is_short_convolution(const ModelSpec& m) {
  return m.architecture == "lfm2" || m.architecture == "lfm2moe";
}

// A matrix of the layer of `t`, in the same format.
Tensor matrix(const Tensor& t, std::string_view name, std::uint64_t columns, std::uint64_t rows) {
  Tensor out = t;
  out.name = "blk." + std::to_string(t.layer) + "." + std::string(name) + ".weight";
  out.shape = {columns, rows, 1};
  out.dimensions = 2;
  out.bytes = tensor_bytes(out.format, columns, rows);
  return out;
}

// The stand-ins of a mixer that convolves a few tokens: a projection to three vectors, one back,
// and the convolution.
Tensors short_convolution(const Tensor& t, std::uint64_t hidden) {
  if (t.dimensions == 1) return {matrix(t, "shortconv.conv", t.shape[0] / hidden, hidden)};
  return {matrix(t, "shortconv.in_proj", hidden, 3 * hidden),
          matrix(t, "shortconv.out_proj", hidden, hidden)};
}

// Phi 3.5 MoE adds a bias to its logits.
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

Tensors in_file(const ModelSpec& m, const Tensor& t) {
  if (m.architecture == "phimoe" && t.role == TensorRole::kOutput) return biased_head(t);
  if (!is_short_convolution(m)) return {t};
  if (t.role == TensorRole::kRecurrent) return short_convolution(t, std::uint64_t(m.hidden));
  if (t.name != "output_norm.weight") return {t};
  Tensor norm = t;
  norm.name = "token_embd_norm.weight";
  return {norm};
}

}  // namespace

TensorTable file_tensors(const ModelSpec& model, const TensorTable& tensors) {
  TensorTable out = tensors;
  out.tensors.clear();
  for (const Tensor& t : tensors.tensors)
    for (Tensor& stored : in_file(model, t)) out.tensors.push_back(std::move(stored));
  return out;
}

}  // namespace rigcast::engine
