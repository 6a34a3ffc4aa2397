#include "engine/gguf/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/gguf/clean_text.hpp"
#include "engine/gguf/mapping.hpp"

namespace rigcast::engine {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMaxParts = 65535;

Error refused(const std::string& file, std::string message, std::string hint = {}) {
  return bad_input(std::move(message), std::move(hint), SourceRef{file});
}

// "x-00002-of-00003.gguf"
struct PartName {
  std::string stem;  // "x"
  std::int64_t number = 0;
  std::int64_t count = 0;

  std::string with(std::int64_t other) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, other, count);
  }
};

std::optional<std::int64_t> five_digits(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc{} && end == text.data() + text.size();
  return text.size() == 5 && whole && value >= 0 ? std::optional(value) : std::nullopt;
}

std::optional<PartName> part_name(const fs::path& path) {
  constexpr std::string_view kPattern = "-00001-of-00003.gguf";
  const std::string file = path.filename().string();
  if (file.size() < kPattern.size()) return std::nullopt;
  const std::string_view tail = std::string_view(file).substr(file.size() - kPattern.size());
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !number ||
      !count)
    return std::nullopt;
  return PartName{file.substr(0, file.size() - kPattern.size()), *number, *count};
}

// A part's metadata about the whole split file.
struct SplitKeys {
  std::int64_t number = 0;  // index of the part, from 0
  std::int64_t count = 1;
  std::int64_t tensors = 0;  // tensors in all parts; 0: not stated
};

Result<SplitKeys> split_keys(const GgufPart& part, const std::string& file) {
  MetadataReader keys(part.metadata, file);
  SplitKeys split;
  split.count = std::max<std::int64_t>(1, keys.integer_or("split.count", 1, 0, kMaxParts));
  split.number = keys.integer_or("split.no", 0, 0, split.count - 1);
  split.tensors = keys.integer_or("split.tensors.count", 0, 0, 1ll << 31);
  if (keys.error()) return *keys.error();
  return split;
}

std::optional<Error> check_first(const fs::path& path, const SplitKeys& split) {
  const std::string file = path.string();
  const auto named = part_name(path);
  if (split.number != 0) {
    const std::string hint =
        named ? "open the first part, " + named->with(1) : "open the first part of the model";
    return refused(file, fmt::format("this is part {} of {}", split.number + 1, split.count), hint);
  }
  const std::int64_t by_name = named ? named->count : 1;
  if (split.count == 1 && by_name > 1)
    return refused(file,
                   fmt::format("named as a part of {}, and its metadata know of no parts", by_name),
                   "give the file another name if it is whole");
  if (split.count > 1 && (by_name != split.count || named->number != 1))
    return refused(file, fmt::format("the first of {} parts, and not named so", split.count),
                   fmt::format("parts are found by name: NAME-00001-of-{:05}.gguf", split.count));
  return std::nullopt;
}

std::optional<Error> check_later(const std::string& file, const SplitKeys& split,
                                 std::int64_t number, std::int64_t count) {
  if (split.number == number && split.count == count) return std::nullopt;
  return refused(file,
                 fmt::format("says that it is part {} of {}, expected part {} of {}",
                             split.number + 1, split.count, number + 1, count),
                 "fetch all parts of one model again");
}

struct Opened {
  std::vector<Mapping> mappings;
  std::vector<GgufPart> parts;

  std::optional<Error> add(const fs::path& path) {
    auto mapping = Mapping::open(path);
    if (!mapping) return mapping.error();
    auto part = read_part(mapping->bytes(), path.string());
    if (!part) return part.error();
    mappings.push_back(*std::move(mapping));
    parts.push_back(*std::move(part));
    return std::nullopt;
  }
};

std::optional<Error> add_later_parts(Opened& opened, const fs::path& first, std::int64_t count) {
  const auto named = part_name(first);
  for (std::int64_t i = 1; i < count; ++i) {
    const fs::path path = first.parent_path() / named->with(i + 1);
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      return refused(first.string(), fmt::format("part {} of {} is missing", i + 1, count),
                     "expected " + path.string());
    if (auto error = opened.add(path)) return error;
    const auto split = split_keys(opened.parts.back(), path.string());
    if (!split) return split.error();
    if (auto error = check_later(path.string(), *split, i, count)) return error;
  }
  return std::nullopt;
}

// Checks that tensor names are unique over all parts, and that their number is what the first part
// states.
std::optional<Error> check_whole(const GgufFile& file, std::int64_t expected) {
  const auto count = std::int64_t(file.tensors().size());
  if (expected > 0 && count != expected)
    return refused(file.name(),
                   fmt::format("the parts have {} tensors, and split.tensors.count "
                               "says {}",
                               count, expected),
                   "fetch all parts of one model again");
  for (const TensorInfo& t : file.tensors())
    if (file.find_tensor(t.name) != &t)
      return refused(file.name(), fmt::format("two parts have a tensor \"{}\"", clean_text(t.name)),
                     "fetch all parts of one model again");
  return std::nullopt;
}

}  // namespace

GgufFile::GgufFile(std::string name, std::vector<GgufPart> parts, std::vector<int> descriptors,
                   std::shared_ptr<const void> storage)
    : name_(std::move(name)),
      parts_(std::move(parts)),
      descriptors_(std::move(descriptors)),
      storage_(std::move(storage)) {
  for (const GgufPart& part : parts_)
    tensors_.insert(tensors_.end(), part.tensors.begin(), part.tensors.end());
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::stable_sort(by_name_, {}, [this](std::size_t i) { return tensors_[i].name; });
}

Result<GgufFile> GgufFile::open(const fs::path& first_part) {
  auto opened = std::make_shared<Opened>();
  if (auto error = opened->add(first_part)) return *error;
  const auto split = split_keys(opened->parts.front(), first_part.string());
  if (!split) return split.error();
  if (auto error = check_first(first_part, *split)) return *error;
  if (auto error = add_later_parts(*opened, first_part, split->count)) return *error;
  std::vector<GgufPart> parts = std::move(opened->parts);
  std::vector<int> descriptors;
  for (const Mapping& m : opened->mappings) descriptors.push_back(m.descriptor());
  GgufFile file(first_part.string(), std::move(parts), std::move(descriptors), std::move(opened));
  if (auto error = check_whole(file, split->tensors)) return *error;
  return file;
}

Result<GgufFile> GgufFile::from_bytes(std::span<const std::byte> bytes, std::string name) {
  auto part = read_part(bytes, name);
  if (!part) return part.error();
  const auto split = split_keys(*part, name);
  if (!split) return split.error();
  if (split->count > 1) return refused(name, "one of several parts", "open the file by its path");
  std::vector<GgufPart> parts;
  parts.push_back(*std::move(part));
  return GgufFile(std::move(name), std::move(parts), {}, nullptr);
}

fs::path GgufFile::part_path(std::size_t part) const {
  if (!storage_) return {};
  return parts_.size() == 1 ? fs::path(name_) : part_paths(name_)[part];
}

int GgufFile::descriptor(std::size_t part) const {
  return part < descriptors_.size() ? descriptors_[part] : -1;
}

std::vector<fs::path> part_paths(const fs::path& first_part) {
  std::vector<fs::path> paths = {first_part};
  const auto named = part_name(first_part);
  for (std::int64_t i = 2; named && named->number == 1 && i <= named->count; ++i)
    paths.push_back(first_part.parent_path() / named->with(i));
  return paths;
}

std::uint64_t GgufFile::bytes() const {
  std::uint64_t sum = 0;
  for (const GgufPart& part : parts_) sum += part.bytes;
  return sum;
}

const TensorInfo* GgufFile::find_tensor(std::string_view wanted) const {
  const auto name_of = [this](std::size_t i) { return tensors_[i].name; };
  const auto at = std::ranges::lower_bound(by_name_, wanted, {}, name_of);
  return at != by_name_.end() && name_of(*at) == wanted ? &tensors_[*at] : nullptr;
}

}  // namespace rigcast::engine
