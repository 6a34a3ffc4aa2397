#include "core/model/quantized_model.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/model/quant_mix.hpp"
#include "core/model/tensor_table.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {

const PublishedFile* find_published(const ModelSpec& model, std::string_view quant) {
  const std::string release = as_id(model.alias.empty() ? model.name : model.alias);
  const auto holds = [&](const PublishedFile& f) {
    const auto is_release = [&](const std::string& name) { return as_id(name) == release; };
    return is_same_quant(f.quant, quant) && (f.of.empty() || std::ranges::any_of(f.of, is_release));
  };
  const auto found = std::ranges::find_if(model.published, holds);
  return found == model.published.end() ? nullptr : &*found;
}

namespace {

// Releases of one shape have files of about the same sizes by one recipe.
const PublishedFile* published_of_any(const ModelSpec& model, std::string_view quant) {
  if (const PublishedFile* const file = find_published(model, quant)) return file;
  const auto same = [&](const PublishedFile& f) { return is_same_quant(f.quant, quant); };
  const auto found = std::ranges::find_if(model.published, same);
  return found == model.published.end() ? nullptr : &*found;
}

// The mix of about as many bits, for a recipe whose name tells none.
std::optional<QuantMix> nearest_in_size(const ModelSpec& model, Bytes size) {
  std::optional<QuantMix> nearest;
  double least = INFINITY;
  for (const std::string& name : QuantMix::names()) {
    const auto mix = QuantMix::from_name(name);
    if (!mix || mix->base() == QuantFormat::kMXFP4) continue;
    const auto tensors = make_tensor_table(model, *mix);
    if (!tensors) continue;
    const double distance = std::abs(std::log(double(tensors->bytes()) / size.value));
    if (distance >= least) continue;
    least = distance;
    nearest = *mix;
  }
  return nearest;
}

Error unknown_recipe(const ModelSpec& model, std::string_view quant) {
  std::string hint = "state it: --model-size \"SIZE of the files\"";
  if (!model.published.empty()) {
    hint += "; known of this model:";
    for (const PublishedFile& f : model.published) hint += " " + f.quant;
  }
  return bad_input("the size of " + std::string(quant) + " is not known for " + model.name +
                       ": its recipe differs from model to model",
                   std::move(hint));
}

Result<QuantizedModel> by_recipe(const ModelSpec& model, std::string_view quant,
                                 const QuantMix& nearest, bool size_is_stated) {
  const PublishedFile* const file = published_of_any(model, quant);
  if (!file && !size_is_stated) return unknown_recipe(model, quant);
  auto tensors = make_tensor_table(model, nearest);
  if (!tensors) return tensors.error();
  QuantizedModel out{file ? file->quant : std::string(quant), *std::move(tensors), {}};
  out.note = out.quant + " is a recipe of its own: every tensor is taken in proportion to " +
             nearest.name();
  if (size_is_stated) return out;
  scale_to(out.tensors, file->size);
  out.note += ", " + text_gib(file->size) + " in all as published";
  return out;
}

}  // namespace

Result<QuantizedModel> quantize(const ModelSpec& model, std::string_view quant,
                                bool size_is_stated) {
  const auto mix = QuantMix::from_name(quant);
  if (!mix) {
    auto nearest = QuantMix::nearest_to_recipe(quant);
    if (const PublishedFile* file = published_of_any(model, quant); file && !nearest)
      nearest = nearest_in_size(model, file->size);
    return nearest ? by_recipe(model, quant, *nearest, size_is_stated) : mix.error();
  }
  auto tensors = make_tensor_table(model, *mix);
  if (!tensors) return tensors.error();
  return QuantizedModel{mix->name(), *std::move(tensors), {}};
}

bool is_native_mix(const ModelSpec& model) {
  if (model.native.empty()) return false;
  const auto mix = QuantMix::from_name(model.native);
  return mix && !mix->is_served();
}

std::string default_quant(const ModelSpec& model) {
  return is_native_mix(model) ? model.native : "Q4_K_M";
}

std::string default_served_quant(const ModelSpec& model) {
  return model.native == "FP8" ? model.native : "BF16";
}

}  // namespace rigcast
