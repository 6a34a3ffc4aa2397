#include "engine/gguf/model/check_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/model/tensor_table.hpp"
#include "engine/architectures/architecture.hpp"
#include "engine/gguf/clean_text.hpp"
#include "engine/gguf/model/tensor_name.hpp"
#include "engine/model/file_tensors.hpp"

namespace rigcast::engine {
namespace {

Error refused(const GgufFile& file, std::string message, std::string hint = {}) {
  return bad_input(std::move(message), std::move(hint), SourceRef{file.name()});
}

// Checks that every layer has tensors. The number of layers is bounded by the number of tensors,
// and so by the file's size.
std::optional<Error> check_layers(const GgufFile& file, const ModelSpec& spec) {
  const int count = spec.layers + spec.nextn_layers;
  std::vector<bool> seen(std::size_t(count), false);
  for (const TensorInfo& t : file.tensors()) {
    const TensorName name = parse_tensor_name(t.name);
    if (is_single_expert(name))
      return refused(file, fmt::format("\"{}\" is one matrix of one expert", clean_text(t.name)),
                     "files from before 2024-04 have experts one by one: fetch a newer file");
    if (name.layer >= count)
      return refused(file, fmt::format("there is a tensor \"{}\" and a model of {} layers",
                                       clean_text(t.name), count));
    if (name.layer >= 0) seen[std::size_t(name.layer)] = true;
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing == seen.end()) return std::nullopt;
  return refused(file, fmt::format("layer {} of {} has no tensors", missing - seen.begin(), count));
}

using Shape = std::array<std::uint64_t, 4>;

std::optional<Error> check_shape(const GgufFile& file, const TensorInfo& t, const Shape& expected) {
  if (t.shape == expected) return std::nullopt;
  const auto last = std::find_if(expected.rbegin(), expected.rend() - 1,
                                 [](std::uint64_t width) { return width != 1; });
  const std::span<const std::uint64_t> widths(expected.begin(), last.base());
  return refused(file,
                 fmt::format("\"{}\" has the shape {}, expected {}", clean_text(t.name),
                             shape_text(t), fmt::join(widths, " x ")),
                 "the file's metadata do not fit its tensors");
}

// Checks the matrices that determine the size of the KV cache and the bytes that a token reads.
std::optional<Error> check_common(const GgufFile& file, const ModelSpec& spec) {
  const auto hidden = std::uint64_t(spec.hidden);
  for (int layer = 0; layer < spec.layers; ++layer) {
    const auto tensor = [&](const char* stem) {
      return file.find_tensor(fmt::format("blk.{}.{}.weight", layer, stem));
    };
    const auto kv = std::uint64_t(spec.kv_heads_of(layer) * spec.head_dim_of(layer));
    if (const TensorInfo* k = tensor("attn_k"); k && !spec.mla)
      if (auto error = check_shape(file, *k, {hidden, kv, 1, 1})) return error;
    const TensorInfo* down = tensor("ffn_down_exps");
    if ((down != nullptr) != spec.is_moe_layer(layer))
      return refused(file, fmt::format("layer {} has {} experts, and the metadata say otherwise",
                                       layer, down ? "" : "no"));
    if (!down) continue;
    const Shape expected = {std::uint64_t(spec.moe->expert_ffn), hidden,
                            std::uint64_t(spec.moe->experts), 1};
    if (auto error = check_shape(file, *down, expected)) return error;
  }
  return std::nullopt;
}

// Layers that attend to the cache of an earlier one need no keys and values.
bool is_of_shared_cache(const ModelSpec& spec, const Tensor& t) {
  if (t.layer < 0 || spec.has_kv(t.layer)) return false;
  return t.role == TensorRole::kAttentionK || t.role == TensorRole::kAttentionV ||
         t.name.ends_with(".attn_k_norm.weight");
}

// A norm of every head is a row for each, or all in one.
bool is_of_heads(const Tensor& t, const TensorInfo& found) {
  const bool norm = t.name.ends_with("_q_norm.weight") || t.name.ends_with("_k_norm.weight");
  return norm && found.elements() == t.elements();
}

std::optional<Error> check_every_tensor(const GgufFile& file, const ModelSpec& spec) {
  const auto mix = QuantMix::from_name("F32");  // shapes are the same in any mix
  const auto expected = make_tensor_table(spec, *mix);
  if (!expected) return refused(file, expected.error().message, expected.error().hint);
  for (const Tensor& t : file_tensors(spec, *expected).tensors) {
    const TensorInfo* found = file.find_tensor(t.name);
    if (is_of_shared_cache(spec, t) || (found && is_of_heads(t, *found))) continue;
    if (!found && t.name == "output.bias") continue;  // a head may have none
    // An expert's gate and up may be two matrices; binding checks them.
    if (!found && t.name.ends_with(".ffn_gate_up_exps.weight")) continue;
    if (!found)
      return refused(file, fmt::format("there is no \"{}\"", t.name),
                     "the file is of another architecture, or was not written to its end");
    if (auto error = check_shape(file, *found, {t.shape[0], t.shape[1], t.shape[2], 1}))
      return error;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> check_layout(const GgufFile& file, const ModelSpec& spec) {
  if (auto error = check_layers(file, spec)) return error;
  if (auto error = check_common(file, spec)) return error;
  // Only a few tensors are known for architectures that are not executed, and files of before
  // 2025-04 have other ones in latent attention, which binding refuses.
  const bool is_old = spec.mla && file.find_tensor("blk.0.attn_kv_b.weight");
  return find_architecture(spec.architecture) && !is_old ? check_every_tensor(file, spec)
                                                         : std::nullopt;
}

std::string shape_text(const TensorInfo& tensor) {
  const std::span<const std::uint64_t> widths(tensor.shape.data(), std::size_t(tensor.dimensions));
  return fmt::format("{}", fmt::join(widths, " x "));
}

}  // namespace rigcast::engine
