#pragma once
// The metadata of a file, and a typed reader.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/gguf/value.hpp"

namespace rigcast::engine {

struct MetadataEntry {
  std::string_view key;
  Value value;
  std::uint64_t offset = 0;  // offset of the key in its file
};

class Metadata {
 public:
  Metadata() = default;
  explicit Metadata(std::vector<MetadataEntry> entries);

  std::span<const MetadataEntry> entries() const { return entries_; }  // in the file's order
  const Value* find(std::string_view key) const;
  /// The first entry with the key of an earlier one; nullptr if there is none.
  const MetadataEntry* repeated() const;

 private:
  std::vector<MetadataEntry> entries_;
  std::vector<std::size_t> by_key_;  // indices into entries_
};

/// A reader of typed values. The first error is kept: later reads return defaults, and error()
/// returns it at the end. Where one value is expected, an array of equal ones is accepted, because
/// files state some figures layer by layer.
class MetadataReader {
 public:
  /// `file` appears in errors.
  MetadataReader(const Metadata& metadata, std::string file)
      : metadata_(metadata), file_(std::move(file)) {}

  bool has(std::string_view key) const { return metadata_.find(key) != nullptr; }
  std::int64_t integer(std::string_view key, std::int64_t lo, std::int64_t hi);  // required
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t lo,
                          std::int64_t hi);
  double number_or(std::string_view key, double fallback, double lo, double hi);
  bool flag_or(std::string_view key, bool fallback);
  std::string_view text(std::string_view key);  // required
  std::string_view text_or(std::string_view key, std::string_view fallback);

  void refuse(std::string message, std::string hint = {});
  const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<Value> single(std::string_view key);
  void require(std::string_view key);

  const Metadata& metadata_;
  std::string file_;
  std::optional<Error> error_;
};

}  // namespace rigcast::engine
