#pragma once
// What Linux takes from whom when memory is short, and what every step then reads again: the rules
// of the classic LRU lists (mm/vmscan.c, mm/workingset.c of Linux 6.x) for programs that touch all
// of their memory once in every step, always in the same order.

#include "core/base/units.hpp"
#include "core/pressure/memory_settings.hpp"

namespace rigcast {

/// The pools that share a host's memory, or a control group's.
struct HostPools {
  Bytes room;       // for all of them
  Bytes locked;     // mlock, pinned memory, other programs' own: never reclaimed
  Bytes idle{};     // anonymous memory that no step touches
  Bytes anonymous;  // memory without a file: the KV cache and buffers
  Bytes files;      // mapped weights, of which every step touches `touched`
  Bytes touched;
  Bytes rarely{};           // of `files`: any part of them is as likely to be touched
  Bytes other_files{};      // that other programs read again and again
  Bytes swap{};             // that makes room: what is swapped to zram takes room of RAM itself
  Bytes readahead{};        // of the system, for files that are read once
  BytesPerSecond stream{};  // of files that other programs read once
};

enum class Reclaim {
  kNone,   // all fits
  kFiles,  // pages of files go, and are read again
  kSwap,   // there are none that may go: anonymous memory is swapped
  kBoth,   // swappiness decides how much of each
  kFull,   // neither suffices: the kernel ends a process
};
std::string_view name(Reclaim reclaim);

/// What one step reads again. The least is that of hours: threads that are a little ahead of one
/// another break the order of a scan, and the kernel comes to keep a part.
struct Paging {
  Reclaim reclaim = Reclaim::kNone;
  Bytes files, files_least;                    // from the disk
  Bytes files_most{};                          // 0: as `files`
  Bytes swapped, swapped_least, swapped_most;  // from the swap device
  Bytes lacking;  // that all pools together are too large by; 0: all fits
  /// Of kFull: there is swap enough, but a control group without files gives the kernel nothing
  /// that it may take.
  bool all_in_use = false;
  BytesPerSecond stream;  // that other programs read from the disk meanwhile
};

/// The ends of what a step may read again.
Paging lower_end(const Paging& paging);
Paging upper_end(const Paging& paging);

/// Where only one kind of memory may go, the answer is the LRU's own: a cyclic scan of more than
/// there is room for keeps nothing. Where both may, it is what was measured, with an interval: the
/// lists are bistable, and runs of one setting differ by a factor of four.
Paging reclaim(const HostPools& pools, const MemorySettings& settings);

}  // namespace rigcast
