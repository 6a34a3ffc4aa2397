#include "engine/gguf/header.hpp"

#include <algorithm>
#include <bit>

namespace rigcast::engine {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kMaxTensorName = 63;

}  // namespace

GgufHeader::GgufHeader(std::uint32_t alignment) : alignment_(alignment) {
  RIGCAST_ASSERT(std::has_single_bit(alignment));
  if (alignment != 32) set("general.alignment", alignment);
}

std::uint64_t GgufHeader::padded(std::uint64_t bytes) const {
  const std::uint64_t mask = std::uint64_t(alignment_) - 1;
  return (bytes + mask) & ~mask;
}

void GgufHeader::begin_entry(std::string_view key, ValueType type) {
  const bool fresh = names_.insert(std::string(key)).second;
  RIGCAST_ASSERT(fresh && !key.empty());
  detail::append_text(entries_, key);
  detail::append_number(entries_, std::uint32_t(type));
  ++entry_count_;
}

void GgufHeader::add_tensor(std::string_view name, QuantFormat format,
                            std::span<const std::uint64_t> shape) {
  const bool fresh = names_.insert(" " + std::string(name)).second;
  RIGCAST_ASSERT(fresh && !name.empty() && name.size() <= kMaxTensorName);
  RIGCAST_ASSERT(!shape.empty() && shape.size() <= 4 && std::ranges::find(shape, 0) == shape.end());
  std::uint64_t rows = 1;
  for (const std::uint64_t width : shape.subspan(1)) rows *= width;
  PlannedTensor t{std::string(name), format, {shape.begin(), shape.end()}, data_bytes_, 0};
  t.bytes = tensor_bytes(format, shape[0], rows);
  data_bytes_ += padded(t.bytes);
  tensors_.push_back(std::move(t));
}

std::string GgufHeader::encode() const {
  using detail::append_number;
  std::string out = "GGUF";
  append_number(out, kVersion);
  append_number(out, std::uint64_t(tensors_.size()));
  append_number(out, entry_count_);
  out += entries_;
  for (const PlannedTensor& t : tensors_) {
    detail::append_text(out, t.name);
    append_number(out, std::uint32_t(t.shape.size()));
    for (const std::uint64_t width : t.shape) append_number(out, width);
    append_number(out, info(t.format).gguf_type);
    append_number(out, t.offset);
  }
  out.resize(std::size_t(padded(out.size())), '\0');
  return out;
}

}  // namespace rigcast::engine
