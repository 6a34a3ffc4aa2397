#include "perfmodel/pressure/reclaim.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rigcast {
namespace {

// Shares of the anonymous memory that come from swap in each step, and of the files that are read
// again, by swappiness, where both kinds may go. Measured by the authors on Linux 6.18 with
// read-ahead of 8 MiB and swap on a file, in two ways, of which these are the means: a loop over
// 256 MiB of mapped and 128 MiB of anonymous memory in a control group of 330 MiB (10, 60, 100 and
// 200; medians of 7 to 9 runs), and the engine with 367 MiB of weights and 100 or 120 MiB of cache
// in 380 and 420 MiB (10, 60, 100 and 150; medians of 12 runs). At 0 a control group never swaps
// (vmscan.c).
struct Shares {
  double swappiness, swapped, files;
};
constexpr std::array<Shares, 6> kOnDisk{{{0, 0.00, 1.00},
                                         {10, 0.047, 1.00},
                                         {60, 0.08, 0.97},
                                         {100, 0.12, 0.94},
                                         {150, 0.12, 0.94},
                                         {200, 0.38, 0.73}}};
// The same with zram, a run each. At 0 as above.
constexpr std::array<Shares, 4> kOnZram{
    {{0, 0.00, 1.00}, {60, 0.17, 0.88}, {100, 0.40, 0.67}, {180, 0.34, 0.77}}};
constexpr double kMeasuredAnonymous = 0.5;  // of the files, in both
constexpr double kSpread = 2.5;             // of swapped bytes, either way

// Where pages of files leave in order, the kernel finds enough of them that it may take, and next
// to nothing is swapped: 0.00 to 0.04 of the anonymous memory in four runs.
constexpr double kMaxSwappedInOrder = 0.04;

// Where weights are locked: 93 of 184 and 120 of 204 MiB were swapped in each step, which touches
// all of them once. At least what does not fit, at most all.
constexpr double kOfAnonymousAlone = 0.55;
constexpr double kMinOfAnonymousAlone = 0.25;

template <std::size_t N>
Shares between(const std::array<Shares, N>& rows, double swappiness) {
  const auto above =
      std::ranges::find_if(rows, [&](const Shares& r) { return r.swappiness >= swappiness; });
  if (above == rows.begin()) return rows.front();
  if (above == rows.end()) return rows.back();
  const Shares& a = *(above - 1);
  const double at = (swappiness - a.swappiness) / (above->swappiness - a.swappiness);
  return {swappiness, std::lerp(a.swapped, above->swapped, at),
          std::lerp(a.files, above->files, at)};
}

// Of the files that a step touches, what is no longer there when it comes. Of those that are always
// touched nothing is, as soon as they are more than there is room for; of others, any is as likely
// to be there.
Bytes read_again(const HostPools& p, Bytes room) {
  const Bytes held = std::clamp(room, Bytes{}, p.files + p.other_files);
  const Bytes outside = p.files + p.other_files - held;
  if (outside.value <= 0) return {};
  const Bytes always = p.files - p.rarely;
  if (p.touched + p.other_files > held) return p.touched;
  const Bytes chosen = p.touched - always;
  const double share = (held - always - p.other_files) / std::max(p.rarely, Bytes{1});
  return chosen * (1 - share);
}

// Of files in order that are activated when they come back: they stay while as much comes in as
// there is room for, so each page is there the next time, and gone the time after. 183 to 198 MB of
// 385 were read again for each token, whether 85 or 105 MB did not fit.
constexpr double kReadInOrder = 0.5;

// Threads that are a little ahead of one another break the order of a scan, and the kernel comes to
// keep a part: of 384.6 MB 321 to 390 were read again in 60 runs of 96 tokens, and 0.86 to 0.99 of
// them over hours.
constexpr double kMinReadAgain = 0.8;
Bytes least_read_again(const Paging& p) {
  return std::min(p.files, std::max(p.lacking, p.files * kMinReadAgain));
}

// Whether the kernel may come to keep a part of the files: where pages count as used when they are
// touched, or where a page that comes back is taken for one in use because so much as has left
// since is no more than the anonymous memory, which swap could take in its place (workingset.c).
// Read-ahead that is on its way counts or not, as it happens.
enum class Keeps { kNothing, kEither, kPart };
Keeps keeps_part(const HostPools& p, const MemorySettings& m, Bytes lacking) {
  if (!m.in_order) return Keeps::kPart;
  const Bytes most = m.swap.value > 0 ? p.anonymous + p.idle : Bytes{};
  if (lacking > most + 2.0 * p.readahead || most.value <= 0) return Keeps::kNothing;
  return lacking > most - 2.0 * p.readahead ? Keeps::kEither : Keeps::kPart;
}

}  // namespace

std::string_view name(Reclaim reclaim) {
  switch (reclaim) {
    case Reclaim::kNone: return "fits";
    case Reclaim::kFiles: return "files";
    case Reclaim::kSwap: return "swap";
    case Reclaim::kBoth: return "both";
    case Reclaim::kFull: return "full";
  }
  return "";
}

Paging lower_end(const Paging& paging) {
  Paging out = paging;
  out.files = paging.files_least;
  out.swapped = paging.swapped_least;
  return out;
}

Paging upper_end(const Paging& paging) {
  Paging out = paging;
  out.files = std::max(paging.files, paging.files_most);
  out.swapped = std::max(paging.swapped, paging.swapped_most);
  return out;
}

Paging reclaim(const HostPools& given, const MemorySettings& m) {
  HostPools p = given;
  // A reader of files that come only once has two windows of read-ahead in memory, one that it
  // reads and one that is on its way: such pages are the first to go.
  if (p.stream.value > 0) p.room -= 2.0 * p.readahead;
  // What nobody touches goes to swap once, and does not come back.
  const bool swaps = p.swap.value > 0 && m.swappiness > 0;
  const Bytes swapped_for_good = swaps ? std::min(p.idle, p.swap) : Bytes{};
  const Bytes swap = p.swap - swapped_for_good;
  const Bytes resident = p.locked + p.anonymous + (p.idle - swapped_for_good);
  const Bytes all = resident + p.files + p.other_files;
  Paging out;
  out.stream = p.stream;
  if (all <= p.room) return out;
  out.lacking = all - p.room;
  const Bytes reclaimable_files = p.files + p.other_files;
  const Bytes files_left = std::max(Bytes{}, p.room - resident);
  const Bytes must_swap = std::max(Bytes{}, resident - p.room);
  // Reclaim takes from the inactive lists, and makes an active page inactive only beside them, 32
  // at a time (shrink_lruvec in vmscan.c). In a control group that has no page of a file, memory
  // that every step touches is active throughout, and an allocation gives up after 16 tries: its
  // program is ended, however much swap is free. So it was in 8 of 8 runs with locked or copied
  // weights.
  const bool never_inactive = m.limit && reclaimable_files.value <= 0 && p.stream.value <= 0;
  // The kernel swaps to zram whether that makes room or not. With swappiness 0 a control group
  // never swaps while it has pages of files, and a system when it has next to none.
  const bool has_swap = swap.value > 0 || (m.swap.value > 0 && p.swap.value <= 0);
  const bool at_0 = reclaimable_files.value <= 0 || (!m.limit && must_swap.value > 0);
  const bool may_swap = has_swap && p.anonymous.value > 0 && (m.swappiness > 0 || at_0);
  const bool has_room = may_swap && must_swap <= std::min(swap, p.anonymous);
  if (must_swap.value > 0 && (!has_room || never_inactive)) {
    out.reclaim = Reclaim::kFull;
    out.all_in_use = has_room;
    return out;
  }
  const auto within = [&](double share) {
    return std::clamp(p.anonymous * share, must_swap,
                      std::min(p.anonymous, std::max(must_swap, swap.value > 0 ? swap : m.swap)));
  };
  if (!may_swap || (m.in_order && must_swap.value <= 0 && reclaimable_files.value > 0)) {
    out.reclaim = Reclaim::kFiles;
    out.files = out.files_least = read_again(p, files_left);
    const Keeps keeps = keeps_part(p, m, out.lacking);
    if (keeps == Keeps::kNothing) return out;
    out.files_least = least_read_again(out);
    if (!m.in_order) return out;
    out.files_least = std::min(out.files, out.lacking);
    out.files_most = out.files;
    if (keeps == Keeps::kPart) out.files = std::max(out.files_least, out.files * kReadInOrder);
    if (may_swap) out.swapped_most = within(kMaxSwappedInOrder);
    return out;
  }
  // A scan of more anonymous memory than there is room for finds little of it, and no file at all.
  if (reclaimable_files.value <= 0 || must_swap.value > 0) {
    out.reclaim = reclaimable_files.value > 0 ? Reclaim::kBoth : Reclaim::kSwap;
    out.files = out.files_least = read_again(p, files_left);
    out.swapped_least = std::max(must_swap, within(kMinOfAnonymousAlone));
    out.swapped = within(kOfAnonymousAlone);
    out.swapped_most = within(1);
    return out;
  }
  out.reclaim = Reclaim::kBoth;
  const Shares shares = m.swap_on == SwapDevice::kZram ? between(kOnZram, m.swappiness)
                                                       : between(kOnDisk, m.swappiness);
  // What is not read again has the room of what is swapped: with less to swap, or where that makes
  // no room, all is.
  const double to_swap = std::min(1.0, p.anonymous / (kMeasuredAnonymous * p.touched));
  out.files = read_again(p, files_left);
  // Of files of which little leaves, little makes the kernel look at the cache.
  const double scanned = p.touched.value > 0 ? out.files / p.touched : 1.0;
  if (swap.value > 0) out.files = out.files * std::lerp(1.0, shares.files, to_swap);
  out.files_least = least_read_again(out);
  out.swapped = within(shares.swapped * scanned);
  out.swapped_least = within(shares.swapped * scanned / kSpread);
  out.swapped_most = within(shares.swapped * kSpread);
  return out;
}

}  // namespace rigcast
