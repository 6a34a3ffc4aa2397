#include "engine/load/upload_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace rigcast::engine {
namespace {

constexpr std::uint64_t kMaxGap = 64 << 10;  // read along rather than for a read of its own
constexpr std::uint64_t kMemoryAlignment = 64;

struct MappedPart {
  const std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
  int index = 0;
};

std::vector<MappedPart> mapped_parts(const GgufFile* file) {
  std::vector<MappedPart> parts;
  if (!file || !file->storage()) return parts;
  for (std::size_t i = 0; i < file->parts().size(); ++i) {
    const GgufPart& part = file->parts()[i];
    if (part.tensors.empty()) continue;
    const TensorInfo& one = part.tensors.front();
    parts.push_back({one.data - one.offset, part.bytes, int(i)});
  }
  return parts;
}

// Where a tensor lies: kMemory, or the part and its offset there.
struct Place {
  int part = UploadRead::kMemory;
  std::uint64_t offset = 0;
};

Place place_of(const HostTensor& tensor, const std::vector<MappedPart>& parts) {
  const auto address = [](const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); };
  for (const MappedPart& p : parts)
    if (address(tensor.data) >= address(p.begin) &&
        address(tensor.data) + tensor.bytes <= address(p.begin) + p.bytes)
      return {p.index, std::uint64_t(tensor.data - p.begin)};
  return {};
}

class Plan {
 public:
  explicit Plan(std::uint64_t max_bytes) : max_(max_bytes) {}

  void add(std::size_t index, const HostTensor& tensor, const Place& place) {
    for (std::uint64_t done = 0; done < tensor.bytes;) {
      const Place here{place.part, place.offset + done};
      const std::uint64_t at = begin_piece(here, tensor.row_bytes);
      const std::uint64_t rows =
          std::min((max_ - at) / tensor.row_bytes, (tensor.bytes - done) / tensor.row_bytes);
      const std::uint64_t bytes = rows * tensor.row_bytes;
      reads_.back().pieces.push_back({index, done, bytes, at});
      reads_.back().bytes = at + bytes;
      done += bytes;
    }
  }
  std::vector<UploadRead> take() { return std::move(reads_); }

 private:
  // Where in the last read the next piece goes; begins another if no row of it has room.
  std::uint64_t begin_piece(const Place& place, std::uint64_t row_bytes) {
    if (!reads_.empty()) {
      const UploadRead& last = reads_.back();
      const bool memory = place.part == UploadRead::kMemory;
      const std::uint64_t end = last.offset + last.bytes;
      const std::uint64_t at =
          memory ? (last.bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment
                 : place.offset - last.offset;
      const bool follows = memory || (place.offset >= end && place.offset - end <= kMaxGap);
      if (last.part == place.part && follows && at + row_bytes <= max_) return at;
    }
    reads_.push_back({place.part, place.offset, 0, {}});
    return 0;
  }

  std::uint64_t max_;
  std::vector<UploadRead> reads_;
};

}  // namespace

HostTensor host_tensor(std::string_view name, const Matrix& matrix) {
  return {name, matrix.data, std::uint64_t(matrix.bytes()), std::uint64_t(matrix.row_bytes())};
}

HostTensor host_tensor(const TensorInfo& tensor) {
  const std::uint64_t rows = tensor.elements() / std::max<std::uint64_t>(1, tensor.shape[0]);
  return {tensor.name, tensor.data, tensor.bytes, tensor.bytes / std::max<std::uint64_t>(1, rows)};
}

Result<std::vector<UploadRead>> plan_upload(std::span<const HostTensor> tensors,
                                            const GgufFile* file, std::uint64_t max_bytes) {
  const std::vector<MappedPart> parts = mapped_parts(file);
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::less<>(), [&](std::size_t i) { return tensors[i].data; });
  Plan plan(max_bytes);
  for (const std::size_t i : order) {
    const HostTensor& t = tensors[i];
    if (t.bytes == 0) continue;
    RIGCAST_ASSERT(t.data && t.row_bytes > 0 && t.bytes % t.row_bytes == 0);
    if (t.row_bytes > max_bytes)
      return Error{ErrorKind::kMachine,
                   fmt::format("a row of {} has {} bytes, and uploads take {} at a time", t.name,
                               t.row_bytes, max_bytes)};
    plan.add(i, t, place_of(t, parts));
  }
  return plan.take();
}

}  // namespace rigcast::engine
