#include "engine/gguf/metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace rigcast::engine {

Metadata::Metadata(std::vector<MetadataEntry> entries)
    : entries_(std::move(entries)), by_key_(entries_.size()) {
  std::iota(by_key_.begin(), by_key_.end(), std::size_t{0});
  std::ranges::stable_sort(by_key_, {}, [this](std::size_t i) { return entries_[i].key; });
}

const Value* Metadata::find(std::string_view key) const {
  const auto key_of = [this](std::size_t i) { return entries_[i].key; };
  const auto at = std::ranges::lower_bound(by_key_, key, {}, key_of);
  return at != by_key_.end() && key_of(*at) == key ? &entries_[*at].value : nullptr;
}

const MetadataEntry* Metadata::repeated() const {
  const auto same = [this](std::size_t a, std::size_t b) {
    return entries_[a].key == entries_[b].key;
  };
  const auto at = std::ranges::adjacent_find(by_key_, same);
  return at == by_key_.end() ? nullptr : &entries_[*(at + 1)];
}

void MetadataReader::refuse(std::string message, std::string hint) {
  if (!error_) error_ = bad_input(std::move(message), std::move(hint), SourceRef{file_});
}

void MetadataReader::require(std::string_view key) {
  refuse(fmt::format("the metadata lack \"{}\"", key), "rigcast inspect lists what the file has");
}

// The value, or the common value of all elements of an array.
std::optional<Value> MetadataReader::single(std::string_view key) {
  const Value* value = metadata_.find(key);
  if (!value) return std::nullopt;
  if (value->type() != ValueType::kArray) return *value;
  std::optional<Value> first;
  bool equal = true;
  value->each([&](const Value& v) {
    if (!first) first = v;
    equal = equal && v.number() && v.number() == first->number();
  });
  if (!first || !equal) {
    refuse(fmt::format("\"{}\" differs from layer to layer, which is not understood", key),
           "such a model can be forecast by its name in the catalogue: rigcast list models");
    return std::nullopt;
  }
  return first;
}

std::int64_t MetadataReader::integer_or(std::string_view key, std::int64_t fallback,
                                        std::int64_t lo, std::int64_t hi) {
  const auto value = single(key);
  if (!value) return fallback;
  const auto whole = value->integer();
  if (!whole) {
    refuse(fmt::format("\"{}\" is of type {}, expected a whole number", key, name(value->type())));
  } else if (*whole < lo || *whole > hi) {
    refuse(fmt::format("\"{}\" is {}, expected {} to {}", key, *whole, lo, hi));
  } else {
    return *whole;
  }
  return fallback;
}

std::int64_t MetadataReader::integer(std::string_view key, std::int64_t lo, std::int64_t hi) {
  if (!has(key)) require(key);
  return integer_or(key, lo, lo, hi);
}

double MetadataReader::number_or(std::string_view key, double fallback, double lo, double hi) {
  const auto value = single(key);
  if (!value) return fallback;
  const auto number = value->number();
  if (!number) {
    refuse(fmt::format("\"{}\" is of type {}, expected a number", key, name(value->type())));
  } else if (!(*number >= lo && *number <= hi)) {  // refuses NaN
    refuse(fmt::format("\"{}\" is {}, expected {} to {}", key, *number, lo, hi));
  } else {
    return *number;
  }
  return fallback;
}

bool MetadataReader::flag_or(std::string_view key, bool fallback) {
  const auto value = single(key);
  if (!value) return fallback;
  if (const auto flag = value->flag()) return *flag;
  refuse(fmt::format("\"{}\" is of type {}, expected true or false", key, name(value->type())));
  return fallback;
}

std::string_view MetadataReader::text_or(std::string_view key, std::string_view fallback) {
  const Value* value = metadata_.find(key);
  if (!value) return fallback;
  if (const auto text = value->text()) return *text;
  refuse(fmt::format("\"{}\" is of type {}, expected a string", key, name(value->type())));
  return fallback;
}

std::string_view MetadataReader::text(std::string_view key) {
  if (!has(key)) require(key);
  return text_or(key, {});
}

}  // namespace rigcast::engine
