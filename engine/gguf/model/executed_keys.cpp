#include "engine/gguf/model/executed_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "engine/architectures/architecture.hpp"
#include "engine/gguf/clean_text.hpp"

namespace rigcast::engine {
namespace {

std::optional<double> number_of(const Value& value) {
  if (const auto flag = value.flag()) return double(*flag);
  return value.number();
}

Error refused(const MetadataEntry& entry, std::string_view would) {
  return bad_input(fmt::format("\"{}\" is {}, which is not executed: it would {}",
                               clean_text(entry.key), value_text(entry.value), would),
                   "forecasts of the file work: rigcast simulate");
}

// True if the scale is the usual 1 / sqrt(head_dim), or 0, which converters write for it.
bool is_default_scale(double scale, const ModelSpec& spec) {
  const double usual = 1 / std::sqrt(double(spec.head_dim));
  constexpr double kF32Epsilon = 0x1p-23;  // the file's number is an F32
  return scale == 0 || std::abs(scale - usual) <= 2 * kF32Epsilon * usual;
}

std::optional<Error> refuse_key(const MetadataEntry& entry, std::string_view key,
                                const ModelSpec& spec) {
  // An unknown architecture is checked with Llama's keys; check_executable() reports it.
  const Architecture* const architecture = find_architecture(spec.architecture);
  const Architecture& known = architecture ? *architecture : *find_architecture("llama");
  const MetadataKeys& keys = *known.keys;
  const auto number = number_of(entry.value);
  const auto check = [&](const NeutralKey& neutral) -> std::optional<Error> {
    if (number == neutral.value || number == neutral.also) return std::nullopt;
    return refused(entry, neutral.would);
  };
  if (std::ranges::find(known.scalars, key, &ScalarKey::key) != known.scalars.end())
    return std::nullopt;
  const auto own = std::ranges::find(known.own_neutral, key, &NeutralKey::key);
  if (own != known.own_neutral.end()) return check(*own);
  for (const auto followed : {known.own_keys, keys.read, keys.harmless})
    if (std::ranges::find(followed, key) != followed.end()) return std::nullopt;
  if (key == "attention.scale")
    return number && is_default_scale(*number, spec)
               ? std::nullopt
               : std::optional(refused(entry, "scale scores of attention"));
  const auto neutral = std::ranges::find(keys.neutral, key, &NeutralKey::key);
  if (neutral == keys.neutral.end())
    return refused(entry, "change the model in a way that is not known here");
  return check(*neutral);
}

}  // namespace

std::optional<Error> check_executed_keys(const GgufFile& file, const ModelSpec& spec) {
  const std::string prefix = spec.architecture + ".";
  const Architecture* const architecture = find_architecture(spec.architecture);
  for (const NeutralKey& own :
       architecture ? architecture->own_neutral : std::span<const NeutralKey>())
    if (own.absent != own.value && !file.metadata().find(prefix + std::string(own.key)))
      return bad_input(fmt::format("there is no \"{}{}\", which is not executed: it would {}",
                                   prefix, own.key, own.would),
                       "forecasts of the file work: rigcast simulate", SourceRef{file.name()});
  for (const MetadataEntry& entry : file.metadata().entries()) {
    if (!entry.key.starts_with(prefix)) continue;
    if (auto error = refuse_key(entry, entry.key.substr(prefix.size()), spec)) {
      error->where = SourceRef{file.name()};
      return error;
    }
  }
  return std::nullopt;
}

}  // namespace rigcast::engine
