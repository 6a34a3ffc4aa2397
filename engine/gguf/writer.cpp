#include "engine/gguf/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace rigcast::engine {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kChunkBytes = 4u << 20;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

GgufWriter::GgufWriter(OutputFile out, GgufHeader header)
    : out_(std::move(out)), header_(std::move(header)) {}

Result<GgufWriter> GgufWriter::create(const fs::path& target, GgufHeader header) {
  std::error_code none;
  if (target.filename().empty()) return bad_input("no file to write to: " + target.string());
  if (fs::is_directory(target, none) || !is_replaced(target))
    return bad_input(target.string() + " is no regular file", "name a file to write to");
  auto out = OutputFile::create(target);
  if (!out) return out.error();
  GgufWriter writer(*std::move(out), std::move(header));
  if (auto error = writer.put(as_bytes(writer.header_.encode()))) return *error;
  return writer;
}

// Adds a hint with the needed size to errors about a full disk.
std::optional<Error> GgufWriter::with_hint(std::optional<Error> error) const {
  if (error && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    error->hint = fmt::format("the file takes {} bytes", header_.data_bytes());
  return error;
}

std::optional<Error> GgufWriter::put(std::span<const std::byte> bytes) {
  return with_hint(out_.write(bytes));
}

const PlannedTensor* GgufWriter::next() const {
  return written_ < header_.tensors().size() ? &header_.tensors()[written_] : nullptr;
}

std::optional<Error> GgufWriter::end_tensor(const PlannedTensor& tensor) {
  ++written_;
  const std::string padding(std::size_t(header_.padded(tensor.bytes) - tensor.bytes), '\0');
  return put(as_bytes(padding));
}

std::optional<Error> GgufWriter::write(std::span<const std::byte> data) {
  RIGCAST_ASSERT(next() != nullptr && data.size() == next()->bytes);
  if (auto error = put(data)) return error;
  return end_tensor(*next());
}

std::optional<Error> GgufWriter::write_chunks(const Fill& fill) {
  RIGCAST_ASSERT(next() != nullptr);
  const PlannedTensor& tensor = *next();
  const std::uint64_t block = info(tensor.format).block_bytes;
  const std::uint64_t blocks = tensor.bytes / block;
  const std::uint64_t at_once = std::min(blocks, std::max<std::uint64_t>(1, kChunkBytes / block));
  std::vector<std::byte> chunk(std::size_t(at_once * block));
  for (std::uint64_t first = 0; first < blocks; first += at_once) {
    const std::uint64_t count = std::min(at_once, blocks - first);
    const std::span<std::byte> part(chunk.data(), std::size_t(count * block));
    fill(first, part);
    if (auto error = put(part)) return error;
  }
  return end_tensor(tensor);
}

std::optional<Error> GgufWriter::skip() {
  RIGCAST_ASSERT(next() != nullptr);
  if (auto error = with_hint(out_.skip(header_.padded(next()->bytes)))) return error;
  ++written_;
  return std::nullopt;
}

// Syncs the file, so that a later disk measurement does not include the writing of these bytes.
std::optional<Error> GgufWriter::finish(const StopFlag& stop) {
  RIGCAST_ASSERT(next() == nullptr);
  if (auto error = out_.sync(stop)) return with_hint(std::move(error));
  return with_hint(out_.finish());
}

}  // namespace rigcast::engine
