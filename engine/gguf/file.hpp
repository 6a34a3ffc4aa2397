#pragma once
// A stored model: one GGUF file, or all parts of a split one.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/gguf/part.hpp"

namespace rigcast::engine {

class GgufFile {
 public:
  /// Maps the file, and all its siblings if it is the first of several parts, named
  /// "x-00001-of-00003.gguf". Errors: those of Mapping and read_part; a part that is missing, is
  /// not the first or contradicts the first; a tensor that two parts have.
  static Result<GgufFile> open(const std::filesystem::path& first_part);
  /// Opens a file from bytes, which outlive it. A split file is refused. `name` appears in errors.
  static Result<GgufFile> from_bytes(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }  // the path as it was given
  std::uint32_t version() const { return parts_.front().version; }
  std::uint32_t alignment() const { return parts_.front().alignment; }
  std::span<const GgufPart> parts() const { return parts_; }
  /// Empty for from_bytes.
  std::filesystem::path part_path(std::size_t part) const;
  /// The descriptor of the mapped part, valid while storage() lives; -1 for from_bytes.
  int descriptor(std::size_t part) const;
  std::uint64_t bytes() const;  // of all parts together
  const Metadata& metadata() const {
    return parts_.front().metadata;
  }  // metadata of the first
     // part
  std::span<const TensorInfo> tensors() const {
    return tensors_;
  }  // tensors of all parts, in
     // order
  const TensorInfo* find_tensor(std::string_view name) const;
  /// Keeps the tensors' data alive; empty for from_bytes.
  std::shared_ptr<const void> storage() const { return storage_; }

 private:
  GgufFile(std::string name, std::vector<GgufPart> parts, std::vector<int> descriptors,
           std::shared_ptr<const void> storage);

  std::string name_;
  std::vector<GgufPart> parts_;
  std::vector<int> descriptors_;  // descriptors of the mappings in storage_
  std::shared_ptr<const void> storage_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::size_t> by_name_;  // indices into tensors_
};

/// All files of a model, from the name of the first: itself, and its siblings according to its
/// metadata.
std::vector<std::filesystem::path> part_paths(const std::filesystem::path& first_part);

}  // namespace rigcast::engine
