#include "perfmodel/pressure/paging_time.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {
namespace {

constexpr double kPage = 4096;
// Of eight pages, beside the disk: the kernel frees as many first. Measured by the authors on Linux
// 6.18 in a memory control group, with faults of eight.
constexpr Seconds kReclaim{50e-6};
constexpr double kReclaimed = 8;
// Of a page that zram unpacks, and of the one that it packs instead, on one core: 5,500 to 13,200
// faults of 17 us in a step (the same machine).
constexpr Seconds kZramPage{17e-6};
// Of one page from a usual NVMe drive, where the rig's was not measured.
constexpr Seconds kDefaultPageRead{100e-6};

BytesPerSecond left_of(BytesPerSecond disk, BytesPerSecond stream) {
  return std::max(disk - stream, disk / 2);
}

}  // namespace

BytesPerSecond file_read_rate(const StepContext& s, BytesPerSecond stream) {
  const SsdPart& ssd = s.rig.ssd;
  const BytesPerSecond sequential = left_of(ssd.sequential_read.value, stream);
  const double share = s.runtime.load.ssd_share.value;
  if (!s.runtime.load.maps_pages || !ssd.mapped_read) return sequential * share;
  // The disk's rate is that of sequential requests. A single reader of mapped pages reaches the
  // rate measured for those, which may be higher. Several readers send requests, and reach the
  // higher of both measured rates: a disk shared with other machines can only be measured too low.
  const BytesPerSecond pages = left_of(ssd.mapped_read->value, stream);
  const bool by_requests = s.runtime.load.readers > 1 && !s.rig.gpus.empty();
  return by_requests ? std::max(sequential, pages) * share : pages;
}

Seconds swap_in_time(const StepContext& s, Bytes bytes, BytesPerSecond stream) {
  if (bytes.value <= 0 || !s.memory) return {};
  if (s.memory->swap_on == SwapDevice::kZram) return kZramPage * (bytes.value / kPage);
  const Bytes fault{kPage * std::exp2(s.memory->page_cluster)};
  const Seconds page = s.rig.ssd.page_read ? s.rig.ssd.page_read->value : kDefaultPageRead;
  const BytesPerSecond disk = left_of(s.rig.ssd.sequential_read.value, stream);
  // Faults of two threads took as long as those of one: each frees memory first.
  const Seconds freed = kReclaim * (fault.value / kPage / kReclaimed);
  return (page + fault / disk + freed) * (bytes / fault);
}

Seconds page_in_time(const StepContext& s, const Paging& paging) {
  return paging.files / file_read_rate(s, paging.stream) +
         swap_in_time(s, paging.swapped, paging.stream);
}

}  // namespace rigcast
