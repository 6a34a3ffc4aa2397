#include "engine/gguf/model/read_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/gguf/clean_text.hpp"
#include "engine/gguf/model/tensor_name.hpp"

namespace rigcast::engine {
namespace {

bool is_embedding(const TensorName& name) {
  return name.stem == "token_embd" || name.stem == "per_layer_token_embd" ||
         name.stem == "position_embd" || name.stem == "token_types";
}

// The position of a tensor in a forward pass: embedding, layers, head. Within each the file's own
// order remains.
int place_in_pass(const Tensor& t, const TensorName& name) {
  if (name.stem == "token_embd") return -2;
  if (t.layer >= 0) return t.layer;
  return is_embedding(name) ? -1 : 1 << 30;
}

bool is_of_attention(const Tensor& t, const TensorName& name) {
  return t.role == TensorRole::kRecurrent || name.stem.starts_with("attn_");
}

bool is_of_experts(const TensorName& name) { return name.stem.ends_with("_exps"); }

WeightGroup& group_of(const Tensor& t, const TensorName& name, const ModelSpec& spec,
                      TensorTable& table) {
  if (t.layer >= spec.layers) return table.speculation;
  if (t.layer < 0) return is_embedding(name) ? table.embedding : table.head;
  LayerWeights& layer = table.layers[std::size_t(t.layer)];
  if (is_of_experts(name)) return layer.experts;
  return is_of_attention(t, name) ? layer.attention : layer.ffn;
}

Error unknown_format(const GgufFile& file, const TensorInfo& t) {
  return bad_input(fmt::format("tensor \"{}\" is in {}, which forecasts know not",
                               clean_text(t.name), t.type->name),
                   "choose a file of another quant mix: rigcast list quants",
                   SourceRef{file.name()});
}

Tensor as_tensor(const TensorInfo& t, const TensorName& name) {
  Tensor out;
  out.name = clean_text(t.name);
  out.role = role_of(name, t.dimensions);
  out.layer = name.layer;
  out.shape = {t.shape[0], t.shape[1], t.shape[2] * t.shape[3]};
  out.dimensions = std::min(t.dimensions, 3);
  out.format = *t.type->format;
  out.bytes = t.bytes;
  return out;
}

// The name of a quant mix by general.file_type; empty if it is none of the known mixes.
std::string_view mix_of_file_type(std::int64_t type) {
  constexpr std::pair<int, std::string_view> kTypes[] = {
      {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
      {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
      {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
      {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
      {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
      {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
      {38, "MXFP4"}};
  for (const auto& [id, name] : kTypes)
    if (id == type) return name;
  return {};
}

// Largest relative difference from a mix's size. Vendors' variants differ by less; a file with a
// wrong file_type differs by more.
constexpr double kSizeDoubt = 0.25;

bool is_about(const ModelSpec& spec, const QuantMix& mix, const TensorTable& tensors) {
  const auto usual = make_tensor_table(spec, mix);
  if (!usual || usual->bytes() == 0) return false;
  const double share = double(tensors.bytes()) / double(usual->bytes());
  return share > 1.0 - kSizeDoubt && share < 1.0 + kSizeDoubt;
}

std::string format_of_most_bytes(const TensorTable& tensors) {
  std::array<std::uint64_t, kQuantFormatCount> bytes{};
  for (const Tensor& t : tensors.tensors) bytes[std::size_t(t.format)] += t.bytes;
  const auto most = std::ranges::max_element(bytes) - bytes.begin();
  return std::string(kQuantFormats[std::size_t(most)].name);
}

}  // namespace

Result<TensorTable> read_tensor_table(const GgufFile& file, const ModelSpec& spec) {
  TensorTable table;
  table.layers.resize(std::size_t(spec.layers));
  table.head_is_embedding = spec.tied_embeddings;
  std::vector<std::pair<int, const TensorInfo*>> in_order;
  for (const TensorInfo& t : file.tensors()) {
    if (!t.type->format) return unknown_format(file, t);
    const TensorName name = parse_tensor_name(t.name);
    in_order.emplace_back(place_in_pass(as_tensor(t, name), name), &t);
  }
  std::ranges::stable_sort(in_order, {}, &std::pair<int, const TensorInfo*>::first);
  for (const auto& [place, t] : in_order) {
    const TensorName name = parse_tensor_name(t->name);
    Tensor tensor = as_tensor(*t, name);
    group_of(tensor, name, spec, table).add(tensor);
    table.tensors.push_back(std::move(tensor));
  }
  if (table.head_is_embedding && !table.tensors.empty()) table.head.add(table.tensors.front());
  return table;
}

std::string quant_name(const GgufFile& file, const ModelSpec& spec, const TensorTable& tensors) {
  const Value* type = file.metadata().find("general.file_type");
  const auto id = type ? type->integer() : std::nullopt;
  // Converters add 1024 to a guessed type.
  const std::string_view named = id && *id >= 0 ? mix_of_file_type(*id & 1023) : std::string_view{};
  if (!named.empty())
    if (const auto mix = QuantMix::from_name(named); mix && is_about(spec, *mix, tensors))
      return mix->name();
  return format_of_most_bytes(tensors);
}

Result<std::vector<NamedTensor>> named_tensors(const GgufFile& file) {
  std::vector<NamedTensor> out;
  for (const TensorInfo& t : file.tensors()) {
    if (!t.type->format || !is_computed(*t.type->format)) {
      Error error = uncomputed_format(clean_text(t.name), t.type->name);
      error.where = SourceRef{file.name()};
      return error;
    }
    const auto end = t.shape.begin() + t.dimensions;
    out.push_back({t.name, *t.type->format, {t.shape.begin(), end}, t.data});
  }
  return out;
}

}  // namespace rigcast::engine
