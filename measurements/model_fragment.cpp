#include "measurements/model_fragment.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/model/model_names.hpp"
#include "core/runtime/format_group.hpp"
#include "core/text/freetext.hpp"

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

std::optional<double> stated_bytes(const Measurement& m, const ModelSpec& model,
                                   const std::string& label, NameResolver& resolver) {
  if (m.size) return m.size->value;
  const auto bits = bits_per_weight_of_label(label);
  const auto size = resolver.size_of(model, "Q8_0");
  if (!bits || !size) return std::nullopt;
  return size->elements * *bits / 8;
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
  const auto rule = fitted_mix(label);
  const auto bytes = stated_bytes(m, *spec, label, resolver);
  if (rule) {
    const auto computed = resolver.size_of(*spec, rule->name());
    if (!computed)
      return bad_input(fmt::format("{} cannot be stored as {}", spec->id, rule->name()));
    return fragment_of(std::move(spec), parsed_notes, rule->name(), computed->bytes,
                       m.size ? bytes : std::nullopt);
  }
  if (label.empty() && !bytes) return bad_input("no quant mix and no file size stated");
  if (!bytes)
    return bad_input(
        fmt::format("no rule for mix {} and no file size stated", freetext::clipped(label)));
  const std::string mix = nearest_mix(*spec, *bytes, resolver);
  const auto computed = resolver.size_of(*spec, mix);
  if (!computed) return bad_input(fmt::format("{} has no size", spec->id));
  return fragment_of(std::move(spec), parsed_notes, mix, computed->bytes, bytes);
}

}  // namespace rigcast
