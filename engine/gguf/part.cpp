#include "engine/gguf/part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "engine/gguf/clean_text.hpp"

namespace rigcast::engine {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMaxKeyLength = 65535;
constexpr std::uint64_t kMaxTensorName = 63;
constexpr std::uint64_t kMaxEntries = 1'000'000;         // real files have tens
constexpr std::uint64_t kMinEntry = 8 + 4 + 1;           // bytes of a key of no length and a flag
constexpr std::uint64_t kMinTensor = 8 + 4 + 8 + 4 + 8;  // one dimension and no name
constexpr std::string_view kDamaged = "the file is damaged, cut off or not as its writer meant it";

// The product; nullopt on overflow.
std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return std::nullopt;
  return a * b;
}

class PartReader {
 public:
  explicit PartReader(std::span<const std::byte> bytes) : bytes_(bytes), cursor_(bytes) {}

  Result<GgufPart> read() && {
    part_.bytes = bytes_.size();
    using Step = std::optional<Error> (PartReader::*)();
    for (const Step step :
         {&PartReader::read_magic, &PartReader::read_version, &PartReader::read_counts,
          &PartReader::read_metadata, &PartReader::read_alignment, &PartReader::read_tensors,
          &PartReader::place_tensors, &PartReader::check_names, &PartReader::check_overlaps})
      if (auto error = (this->*step)()) return *std::move(error);
    return std::move(part_);
  }

 private:
  std::optional<Error> read_magic();
  std::optional<Error> read_version();
  std::optional<Error> read_counts();
  std::optional<Error> read_metadata();
  std::optional<Error> read_alignment();
  std::optional<Error> read_tensors();
  std::optional<Error> place_tensors();
  std::optional<Error> check_names();
  std::optional<Error> check_overlaps();

  Error cut_off(std::string_view what) const {
    return error_at(cursor_.offset(), fmt::format("the file ends within {}", what),
                    "it was cut off, or is still being copied: fetch it again");
  }
  Result<std::string_view> read_name(std::string_view what, std::uint64_t longest);
  std::optional<Error> read_entry(std::vector<MetadataEntry>& entries);
  std::optional<Error> read_tensor();
  std::optional<Error> read_shape(TensorInfo& tensor);
  std::optional<Error> read_type(TensorInfo& tensor);
  std::optional<Error> measure(TensorInfo& tensor) const;
  std::optional<Error> place(TensorInfo& tensor) const;

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  GgufPart part_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t entry_count_ = 0;
};

std::string shown(std::string_view name) { return clean_text(name.substr(0, kMaxTensorName)); }

std::optional<Error> PartReader::read_magic() {
  const std::string_view begin = as_text(bytes_.first(std::min<std::size_t>(bytes_.size(), 64)));
  if (begin.starts_with(kMagic)) {
    cursor_.take(kMagic.size());
    return std::nullopt;
  }
  if (begin.empty()) return bad_input("the file is empty", "fetch it again");
  if (begin.starts_with("version https://git-lfs"))
    return bad_input("this is a pointer to a file in Git LFS, not the file",
                     "fetch the file itself: git lfs pull");
  for (const std::string_view old : {"ggml", "ggjt", "ggla", "ggmf", "lmgg", "tjgg", "fmgg"})
    if (begin.starts_with(old))
      return bad_input("a model file from before GGUF", "convert it again, or fetch a GGUF file");
  return error_at(0, "not a GGUF file: it does not begin with \"GGUF\"",
                  "expected a model file, as llama.cpp reads it");
}

std::optional<Error> PartReader::read_version() {
  const std::uint64_t at = cursor_.offset();
  const auto version = cursor_.number<std::uint32_t>();
  if (!version) return cut_off("its version");
  part_.version = *version;
  if (*version == 2 || *version == 3) return std::nullopt;
  if (*version != 0 && (*version & 0xFFFF) == 0)
    return error_at(at, "a big-endian file", "fetch or convert a little-endian one");
  if (*version == 1)
    return error_at(at, "GGUF version 1, which few files ever had",
                    "convert it again: versions 2 and 3 are read");
  return error_at(at, fmt::format("GGUF version {}", *version), "versions 2 and 3 are read");
}

std::optional<Error> PartReader::read_counts() {
  const std::uint64_t at = cursor_.offset();
  const auto tensors = cursor_.number<std::uint64_t>();
  const auto entries = cursor_.number<std::uint64_t>();
  if (!tensors || !entries) return cut_off("its counts");
  if (*tensors > cursor_.remaining() / kMinTensor)
    return error_at(at, fmt::format("{} tensors in a file of {} bytes", *tensors, bytes_.size()),
                    std::string(kDamaged));
  if (*entries > cursor_.remaining() / kMinEntry)
    return error_at(at + 8,
                    fmt::format("{} metadata in a file of {} bytes", *entries, bytes_.size()),
                    std::string(kDamaged));
  if (*entries > kMaxEntries)
    return error_at(at + 8, fmt::format("{} metadata, at most {} are read", *entries, kMaxEntries),
                    std::string(kDamaged));
  tensor_count_ = *tensors;
  entry_count_ = *entries;
  return std::nullopt;
}

Result<std::string_view> PartReader::read_name(std::string_view what, std::uint64_t longest) {
  const std::uint64_t at = cursor_.offset();
  const auto length = cursor_.number<std::uint64_t>();
  if (!length) return cut_off(what);
  if (*length == 0 || *length > longest)
    return error_at(at, fmt::format("{} of {} bytes, expected 1 to {}", what, *length, longest),
                    std::string(kDamaged));
  const auto text = cursor_.take(*length);
  if (!text) return cut_off(what);
  return as_text(*text);
}

std::optional<Error> PartReader::read_entry(std::vector<MetadataEntry>& entries) {
  const std::uint64_t at = cursor_.offset();
  const auto key = read_name("a key", kMaxKeyLength);
  if (!key) return key.error();
  const auto in_key = [&](const Error& error) {
    return bad_input(fmt::format("\"{}\": {}", shown(*key), error.message), error.hint);
  };
  const auto type = read_value_type(cursor_);
  if (!type) return in_key(type.error());
  auto value = read_value(cursor_, *type);
  if (!value) return in_key(value.error());
  entries.push_back({*key, *std::move(value), at});
  return std::nullopt;
}

std::optional<Error> PartReader::read_metadata() {
  std::vector<MetadataEntry> entries;
  for (std::uint64_t i = 0; i < entry_count_; ++i)
    if (auto error = read_entry(entries)) return error;
  part_.metadata = Metadata(std::move(entries));
  if (const MetadataEntry* twice = part_.metadata.repeated())
    return error_at(twice->offset, fmt::format("the key \"{}\" is there twice", shown(twice->key)),
                    std::string(kDamaged));
  return std::nullopt;
}

std::optional<Error> PartReader::read_alignment() {
  const Value* value = part_.metadata.find("general.alignment");
  if (!value) return std::nullopt;
  const auto alignment = value->integer();
  if (!alignment || *alignment < 1 || *alignment > (1ll << 31) ||
      !std::has_single_bit(std::uint64_t(*alignment)))
    return bad_input(
        fmt::format("general.alignment is {}, expected a power of two", value_text(*value)),
        std::string(kDamaged));
  part_.alignment = std::uint32_t(*alignment);
  return std::nullopt;
}

std::optional<Error> PartReader::read_shape(TensorInfo& tensor) {
  const std::uint64_t at = cursor_.offset();
  const auto dimensions = cursor_.number<std::uint32_t>();
  if (!dimensions) return cut_off("the shape of a tensor");
  if (*dimensions < 1 || *dimensions > tensor.shape.size())
    return error_at(at, fmt::format("tensor \"{}\" has {} dimensions, expected 1 to {}",
                                    shown(tensor.name), *dimensions, tensor.shape.size()));
  tensor.dimensions = int(*dimensions);
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < *dimensions; ++i) {
    const std::uint64_t here = cursor_.offset();
    const auto width = cursor_.number<std::uint64_t>();
    if (!width) return cut_off("the shape of a tensor");
    if (*width == 0)
      return error_at(here, fmt::format("tensor \"{}\" has a width of 0", shown(tensor.name)));
    const auto all = product(elements, *width);
    // After this check, counts fit into signed integers.
    if (!all || *all > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
      return error_at(here,
                      fmt::format("tensor \"{}\" has more than 2^63 weights", shown(tensor.name)));
    elements = *all;
    tensor.shape[i] = *width;
  }
  return std::nullopt;
}

std::optional<Error> PartReader::read_type(TensorInfo& tensor) {
  const std::uint64_t at = cursor_.offset();
  const auto id = cursor_.number<std::uint32_t>();
  if (!id) return cut_off("the type of a tensor");
  tensor.type = find_tensor_type(*id);
  if (tensor.type) return std::nullopt;
  const std::string_view removed = removed_tensor_type(*id);
  if (!removed.empty())
    return error_at(at,
                    fmt::format("tensor \"{}\" has the type {}, which is no longer in use",
                                shown(tensor.name), removed),
                    "fetch a newer file of the model, or quantise it again");
  return error_at(at, fmt::format("tensor \"{}\" has the unknown type {}", shown(tensor.name), *id),
                  "the file is damaged, or newer than this program");
}

std::optional<Error> PartReader::measure(TensorInfo& tensor) const {
  const TensorType& type = *tensor.type;
  if (tensor.shape[0] % type.block_elements != 0)
    return error_at(
        cursor_.offset(),
        fmt::format("tensor \"{}\" has rows of {} weights, no multiple of the {} of a "
                    "block of {}",
                    shown(tensor.name), tensor.shape[0], type.block_elements, type.name),
        std::string(kDamaged));
  const auto bytes = product(tensor.elements() / type.block_elements, type.block_bytes);
  if (!bytes)
    return error_at(cursor_.offset(),
                    fmt::format("tensor \"{}\" has more than 2^64 bytes", shown(tensor.name)));
  tensor.bytes = *bytes;
  return std::nullopt;
}

std::optional<Error> PartReader::read_tensor() {
  TensorInfo tensor;
  const auto name = read_name("the name of a tensor", kMaxTensorName);
  if (!name) return name.error();
  tensor.name = *name;
  if (auto error = read_shape(tensor)) return error;
  if (auto error = read_type(tensor)) return error;
  if (auto error = measure(tensor)) return error;
  const std::uint64_t at = cursor_.offset();
  const auto offset = cursor_.number<std::uint64_t>();
  if (!offset) return cut_off("the offset of a tensor");
  if (*offset % part_.alignment != 0)
    return error_at(at,
                    fmt::format("tensor \"{}\" begins at {} of the data, no multiple of the "
                                "alignment {}",
                                shown(tensor.name), *offset, part_.alignment),
                    std::string(kDamaged));
  tensor.offset = *offset;
  part_.tensors.push_back(tensor);
  return std::nullopt;
}

std::optional<Error> PartReader::read_tensors() {
  for (std::uint64_t i = 0; i < tensor_count_; ++i)
    if (auto error = read_tensor()) return error;
  return std::nullopt;
}

std::optional<Error> PartReader::place(TensorInfo& tensor) const {
  const std::uint64_t begin = part_.data_begin;
  const std::uint64_t room = bytes_.size() > begin ? bytes_.size() - begin : 0;
  if (tensor.offset > room || tensor.bytes > room - tensor.offset)
    return error_at(begin,
                    fmt::format("tensor \"{}\" takes {} bytes from {} of the data on, and "
                                "the file holds {} bytes of data",
                                shown(tensor.name), tensor.bytes, tensor.offset, room),
                    "it was cut off, or is still being copied: fetch it again");
  tensor.offset += begin;
  tensor.data = bytes_.data() + tensor.offset;
  return std::nullopt;
}

std::optional<Error> PartReader::place_tensors() {
  const std::uint64_t mask = std::uint64_t(part_.alignment) - 1;
  part_.data_begin = (cursor_.offset() + mask) & ~mask;
  for (TensorInfo& tensor : part_.tensors)
    if (auto error = place(tensor)) return error;
  return std::nullopt;
}

std::optional<Error> PartReader::check_names() {
  std::vector<std::string_view> names;
  names.reserve(part_.tensors.size());
  for (const TensorInfo& tensor : part_.tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return std::nullopt;
  return bad_input(fmt::format("the tensor \"{}\" is there twice", shown(*twice)),
                   std::string(kDamaged));
}

std::optional<Error> PartReader::check_overlaps() {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(part_.tensors.size());
  for (const TensorInfo& tensor : part_.tensors) by_offset.push_back(&tensor);
  std::ranges::sort(by_offset, {}, &TensorInfo::offset);
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const TensorInfo& before = *by_offset[i - 1];
    const TensorInfo& after = *by_offset[i];
    if (before.offset + before.bytes > after.offset)
      return error_at(after.offset,
                      fmt::format("the tensors \"{}\" and \"{}\" overlap", shown(before.name),
                                  shown(after.name)),
                      std::string(kDamaged));
  }
  return std::nullopt;
}

}  // namespace

Result<GgufPart> read_part(std::span<const std::byte> bytes, const std::string& file) {
  auto part = PartReader(bytes).read();
  if (part) return part;
  Error error = part.error();
  error.where = SourceRef{file};
  return error;
}

}  // namespace rigcast::engine
