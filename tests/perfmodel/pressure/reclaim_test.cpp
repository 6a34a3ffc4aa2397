// What the LRU lists of Linux keep, in closed form.
#include "perfmodel/pressure/reclaim.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

// 256 MiB of weights beside 128 MiB of cache in 330 MiB, on a disk with 8 MiB of read-ahead.
HostPools short_of_memory() {
  HostPools p;
  p.room = 330_MiB;
  p.anonymous = 128_MiB;
  p.files = p.touched = 256_MiB;
  p.readahead = 8_MiB;
  return p;
}

MemorySettings with(Bytes swap, int swappiness) {
  MemorySettings m;
  m.swap = swap;
  m.swappiness = swappiness;
  return m;
}

// On a disk, where all of the swap makes room.
Paging taken(HostPools p, const MemorySettings& m) {
  p.swap = m.swap;
  return reclaim(p, m);
}

}  // namespace

TEST_CASE("Where all fits nothing comes back, and one byte more reads all of the weights again",
          "[pressure]") {
  HostPools p = short_of_memory();
  p.anonymous = {};
  p.room = p.files;
  CHECK(taken(p, {}).reclaim == Reclaim::kNone);
  CHECK(taken(p, {}).files.value == 0);
  p.room -= 1_B;
  const Paging short_of_one = taken(p, {});
  CHECK(short_of_one.reclaim == Reclaim::kFiles);
  CHECK(short_of_one.files == 256_MiB);
  CHECK(short_of_one.lacking == 1_B);
  p.room = 64_MiB;  // a step, no slope
  CHECK(taken(p, {}).files == short_of_one.files);
}

TEST_CASE("Without swap, with swappiness 0 or a locked cache the files alone pay", "[pressure]") {
  const HostPools p = short_of_memory();
  HostPools locked = p;
  std::swap(locked.locked, locked.anonymous);
  for (const Paging& out :
       {taken(p, with(0_B, 60)), taken(p, with(8_GiB, 0)), taken(locked, with(8_GiB, 60))}) {
    CHECK(out.reclaim == Reclaim::kFiles);
    CHECK(out.files == 256_MiB);
    CHECK(out.swapped.value == 0);
    CHECK(out.swapped_most.value == 0);
  }
}

TEST_CASE("Locked memory is as if there were so much less of it", "[pressure]") {
  HostPools p = short_of_memory();
  HostPools less = p;
  p.locked = 20_MiB;
  less.room -= 20_MiB;
  for (const int swappiness : {0, 10, 60, 200}) {
    const MemorySettings m = with(1_GiB, swappiness);
    CHECK(taken(p, m).files == taken(less, m).files);
    CHECK(taken(p, m).swapped == taken(less, m).swapped);
  }
}

TEST_CASE("Swappiness decides how much of the cache is swapped, within an interval", "[pressure]") {
  const HostPools p = short_of_memory();
  double before = -1;
  for (const int swappiness : {0, 5, 10, 30, 60, 100, 150, 200}) {
    const Paging out = taken(p, with(1_GiB, swappiness));
    CHECK(out.swapped.value >= before);
    before = out.swapped.value;
    CHECK(out.swapped_least <= out.swapped);
    CHECK(out.swapped <= out.swapped_most);
    CHECK(out.swapped_most <= p.anonymous);
    CHECK(out.files <= 256_MiB);
  }
}

TEST_CASE("Locked weights leave the cache alone to be swapped", "[pressure]") {
  HostPools p = short_of_memory();
  p.locked = p.files;
  p.files = p.touched = {};
  const Paging out = taken(p, with(1_GiB, 60));
  CHECK(out.reclaim == Reclaim::kSwap);
  CHECK(out.files.value == 0);
  CHECK(out.swapped_least >= 54_MiB);  // at least what does not fit
  CHECK(out.swapped_most == p.anonymous);
  CHECK(taken(p, with(53_MiB, 60)).reclaim == Reclaim::kFull);
  CHECK(taken(p, {}).reclaim == Reclaim::kFull);
}

TEST_CASE("A control group without files is ended, however much swap is free", "[pressure]") {
  HostPools p = short_of_memory();
  p.locked = p.files;
  p.files = p.touched = {};
  MemorySettings m = with(1_GiB, 60);
  m.limit = p.room;
  CHECK(taken(p, m).reclaim == Reclaim::kFull);
  CHECK(taken(p, m).all_in_use);
  m.swap = 1_MiB;
  CHECK_FALSE(taken(p, m).all_in_use);  // swap does not suffice either
  m.swap = 1_GiB;
  p.stream = BytesPerSecond{1e8};  // whose pages are inactive, and go first
  CHECK(taken(p, m).reclaim == Reclaim::kSwap);
  p.stream = {};
  p.room = p.locked + p.anonymous;
  CHECK(taken(p, m).reclaim == Reclaim::kNone);
}

TEST_CASE("Memory that nobody touches is swapped once and costs no step anything", "[pressure]") {
  HostPools p = short_of_memory();
  p.idle = 54_MiB;
  p.anonymous -= 54_MiB;
  CHECK(taken(p, with(1_GiB, 60)).lacking.value == 0);
  CHECK(taken(p, with(0_B, 60)).files == 256_MiB);  // it cannot go anywhere
}

TEST_CASE("Files that are read once take two windows of read-ahead and no more", "[pressure]") {
  HostPools p = short_of_memory();
  p.stream = BytesPerSecond{32e6};
  p.anonymous = 330_MiB - p.files - 16_MiB;
  CHECK(taken(p, with(1_GiB, 100)).lacking.value == 0);
  p.anonymous += 1_B;
  CHECK(taken(p, with(1_GiB, 100)).lacking == 1_B);
}

TEST_CASE("Of experts the share that is in memory stays", "[pressure]") {
  HostPools p = short_of_memory();
  p.anonymous = {};
  p.files = 400_MiB;
  p.rarely = 300_MiB;               // any of them as likely
  p.touched = 100_MiB + 75_MiB;     // a quarter of them by each step
  const Paging out = taken(p, {});  // 230 of 300 MiB are in memory
  CHECK(out.files.value == Approx((75_MiB).value * 70 / 300));
}

TEST_CASE("What zram of RAM keeps has its room in RAM: swapping to it makes none", "[pressure]") {
  HostPools p = short_of_memory();
  MemorySettings zram = with(8_GiB, 60);
  zram.swap_on = SwapDevice::kZram;
  const Paging makes_room = taken(p, zram);  // of a group with a limit, beside which zram is
  const Paging makes_none = reclaim(p, zram);
  CHECK(makes_room.files < 256_MiB);
  CHECK(makes_none.files == 256_MiB);
  CHECK(makes_none.swapped == makes_room.swapped);  // the kernel swaps all the same
  p.room = 100_MiB;
  CHECK(reclaim(p, zram).reclaim == Reclaim::kFull);
}

TEST_CASE("Anonymous memory beyond all room leaves no file in memory", "[pressure]") {
  HostPools p = short_of_memory();
  p.room = 100_MiB;
  for (const int swappiness : {10, 60, 200}) {
    const Paging out = taken(p, with(1_GiB, swappiness));
    CHECK(out.reclaim == Reclaim::kBoth);
    CHECK(out.files == 256_MiB);
    CHECK(out.swapped_least >= 28_MiB);
    CHECK(out.swapped > out.swapped_least);
    CHECK(out.swapped_most == p.anonymous);
  }
  // A group never swaps with swappiness 0; a system does when files are next to none.
  MemorySettings group = with(1_GiB, 0);
  CHECK(taken(p, group).reclaim == Reclaim::kBoth);
  group.limit = 100_MiB;
  CHECK(taken(p, group).reclaim == Reclaim::kFull);
}

TEST_CASE("Where few files leave, little of the cache does", "[pressure]") {
  HostPools p = short_of_memory();
  p.rarely = 240_MiB;  // experts, of which a step touches a tenth
  p.touched = 40_MiB;
  const Paging out = taken(p, with(1_GiB, 60));
  CHECK(out.reclaim == Reclaim::kBoth);
  CHECK(out.files < 10_MiB);
  CHECK(out.swapped < 0.02 * p.anonymous);
  CHECK(out.swapped_most > out.swapped);
}

TEST_CASE("Weights that leave in order come back whole, or in part where swap lets them stay",
          "[pressure]") {
  HostPools p = short_of_memory();
  MemorySettings m = with(8_GiB, 60);
  m.in_order = true;
  // 54 MiB are lacking, less than there is anonymous memory.
  const Paging stays = taken(p, m);
  CHECK(stays.reclaim == Reclaim::kFiles);
  CHECK(stays.files == 128_MiB);
  CHECK(stays.files_least == 54_MiB);
  CHECK(stays.files_most == 256_MiB);
  CHECK(stays.swapped.value == 0);
  CHECK(stays.swapped_most.value > 0);
  CHECK(stays.swapped_most < 0.05 * p.anonymous);
  m.swap = {};
  CHECK(taken(p, m).files == 256_MiB);
  CHECK(taken(p, m).files_least == 256_MiB);
  m.swap = 8_GiB;
  p.room -= 100_MiB;  // more is lacking
  CHECK(taken(p, m).files == 256_MiB);
  CHECK(taken(p, m).files_least == 256_MiB);
  CHECK(taken(p, m).swapped_most.value == 0);
  p.room = 100_MiB;  // less than the anonymous memory
  CHECK(taken(p, m).reclaim == Reclaim::kBoth);
  CHECK(taken(p, m).swapped >= 28_MiB);
}
