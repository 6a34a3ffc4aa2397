#include "measurements/model_fragment.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/model/foreign_formats.hpp"
#include "core/model/model_names.hpp"
#include "core/model/quantized_model.hpp"
#include "core/runtime/format_group.hpp"
#include "core/text/freetext.hpp"
#include "measurements/quant_label.hpp"

namespace rigcast {
namespace {

constexpr double kSameSize = 0.03;  // files differ by padding, metadata and a tensor's mix

// A label of a mix that stands where a model is given without one.
std::string label_of(const Measurement& m, const ParsedNotes& parsed_notes) {
  if (!m.quant.empty()) return m.quant;
  const bool is_default =
      parsed_notes.ollama || freetext::contains(freetext::lower(m.notes), "ollama default");
  return is_default ? "ollama default" : "";
}

// Runs in a mix whose formats no profile was fitted on, or of one publisher's, are taken as the mix
// that is nearest in size.
std::optional<QuantMix> fitted_mix(const std::string& label) {
  const auto mix = mix_of_label(label);
  if (!mix || stands_in_for(mix->base()) || mix->plain_name() != mix->name()) return std::nullopt;
  return mix;
}

// Mixes for one kind of model, or without quantisation, stand for no other label.
bool stands_for_others(const std::string& mix) {
  return mix != "MXFP4" && mix != "F32" && mix != "BF16" && fitted_mix(mix);
}

std::string nearest_mix(const ModelSpec& model, double bytes, NameResolver& resolver) {
  std::string nearest;
  double least = INFINITY;
  for (const std::string& mix : QuantMix::names()) {
    if (!stands_for_others(mix)) continue;
    const auto size = resolver.size_of(model, mix);
    if (!size) continue;
    const double distance = std::abs(std::log(size->bytes / bytes));
    if (distance < least) {
      least = distance;
      nearest = mix;
    }
  }
  return nearest;
}

// A file with all its matrices in one format, but for a head or an embedding that have another.
std::optional<double> bytes_in_format(const ModelSpec& model, double bits,
                                      std::optional<double> bits_of_head,
                                      std::optional<double> bits_of_embedding,
                                      NameResolver& resolver) {
  const auto size = resolver.size_of(model, "Q8_0");
  if (!size) return std::nullopt;
  const double matrix = double(model.vocabulary) * double(model.hidden);
  const double head = model.tied_embeddings ? 0 : matrix;
  const double body = size->elements - matrix - head;
  const double of_embedding =
      (model.tied_embeddings ? bits_of_head : bits_of_embedding).value_or(bits);
  return (body * bits + matrix * of_embedding + head * bits_of_head.value_or(bits)) / 8;
}

// What the name of a format or a mix alone says of a file's size.
std::optional<double> bytes_by_name(const QuantLabel& label, const ParsedNotes& parsed_notes,
                                    const ModelSpec& model, NameResolver& resolver) {
  if (label.recipe || QuantMix::nearest_to_recipe(label.name)) return std::nullopt;
  const auto mix = mix_of_label(label.name);
  const auto bits = bits_of_block_format(label.name);
  if (label.pure) {
    if (!bits) return std::nullopt;
    const auto ends = bits_of_block_format(parsed_notes.format_of_ends);
    return bytes_in_format(model, *bits, ends, ends, resolver);
  }
  if (mix) {
    const auto size = resolver.size_of(model, mix->name());
    return size ? std::optional(size->bytes) : std::nullopt;
  }
  // Of a mix named after a format of ik_llama.cpp's, its quantiser puts the head into Q6_K.
  if (bits) return bytes_in_format(model, *bits, bits_of_block_format("Q6_K"), *bits, resolver);
  return std::nullopt;
}

// The size of the file that was used: as the run's source states it, or a publisher of that file.
std::optional<double> whole_file(const Measurement& m, const ModelSpec& model,
                                 const QuantLabel& quant, const std::string& label) {
  if (m.size) return m.size->value;
  if (quant.size) return quant.size->value;
  const PublishedFile* const published = find_published(model, label);
  return published ? std::optional(published->size.value) : std::nullopt;
}

std::optional<double> bytes_by_bits(const ModelSpec& model, const QuantLabel& quant,
                                    NameResolver& resolver) {
  const auto size = resolver.size_of(model, "Q8_0");
  if (!quant.bits || !size) return std::nullopt;
  return size->elements * *quant.bits / 8;
}

ModelFragment fragment_of(std::shared_ptr<const ModelSpec> spec, const ParsedNotes& parsed_notes,
                          const std::string& mix, double computed, std::optional<double> stated) {
  ModelFragment fragment;
  fragment.toml = fmt::format("[model]\nname = \"{}\"\nquant = \"{}\"\n", spec->id, mix);
  if (parsed_notes.experts_used && spec->moe &&
      *parsed_notes.experts_used < spec->moe->experts_used)
    fragment.toml += fmt::format("experts_used = {}\n", *parsed_notes.experts_used);
  fragment.spec = std::move(spec);
  fragment.size = Bytes{computed};
  if (!stated || std::abs(*stated / computed - 1) <= kSameSize) return fragment;
  fragment.size = Bytes{*stated};
  fragment.toml += fmt::format("size = \"{:.4f} GiB\"\n", *stated / (1_GiB).value);
  return fragment;
}

}  // namespace

Result<ModelFragment> model_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                                     NameResolver& resolver) {
  auto spec = resolver.model(m.model, m.params_b);
  if (!spec) return bad_input(fmt::format("no model named \"{}\"", freetext::clipped(m.model)));
  const std::string label = label_of(m, parsed_notes);
  const QuantLabel quant = parse_quant_label(label);
  const auto rule = quant.pure || quant.recipe ? std::nullopt : fitted_mix(quant.name);
  if (rule) {
    const auto computed = resolver.size_of(*spec, rule->name());
    if (!computed)
      return bad_input(fmt::format("{} cannot be stored as {}", spec->id, rule->name()));
    const auto bytes = whole_file(m, *spec, quant, label);
    return fragment_of(std::move(spec), parsed_notes, rule->name(), computed->bytes, bytes);
  }
  auto bytes = whole_file(m, *spec, quant, label);
  if (!bytes) bytes = bytes_by_bits(*spec, quant, resolver);
  if (label.empty() && !bytes) return bad_input("no quant mix and no file size stated");
  if (!bytes) bytes = bytes_by_name(quant, parsed_notes, *spec, resolver);
  if (!bytes)
    return bad_input(
        fmt::format("no rule for mix {} and no file size stated", freetext::clipped(label)));
  const std::string mix = nearest_mix(*spec, *bytes, resolver);
  const auto computed = resolver.size_of(*spec, mix);
  if (!computed) return bad_input(fmt::format("{} has no size", spec->id));
  return fragment_of(std::move(spec), parsed_notes, mix, computed->bytes, bytes);
}

}  // namespace rigcast
