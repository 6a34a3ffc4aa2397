#include "probe/dram_read.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace rigcast::probe {
namespace {

constexpr std::size_t kPiece = 4096;      // bytes of a stream that are read in turn
constexpr std::int64_t kShare = 2 << 20;  // bytes that a thread claims at once
constexpr int kPasses = 7;

std::size_t buffer_bytes() {
  const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t least = std::size_t(1) << 30;
  return std::max(least, 8 * std::size_t(std::max(l3, 0L)));
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
std::uint64_t
sum_words(const std::uint64_t* p, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += p[i];
  return sum;
}

std::uint64_t read_piece(const std::byte* p, bool prefetch) {
  if (prefetch)
    for (std::size_t i = 0; i < kPiece; i += 64) __builtin_prefetch(p + 2 * kPiece + i, 0, 2);
  return sum_words(reinterpret_cast<const std::uint64_t*>(p), kPiece / 8);
}

std::atomic<std::uint64_t> sink;

}  // namespace

std::span<const DramRead::ReadPattern> DramRead::read_patterns() {
  static constexpr ReadPattern kWays[] = {
      {"1 stream per thread", 1, false},
      {"1 stream per thread, asked ahead", 1, true},
      {"2 streams per thread", 2, false},
  };
  return kWays;
}

DramRead::DramRead(engine::ThreadTeam& team) : team_(team), buffer_(buffer_bytes()) {
  team_.run([&](engine::Worker& worker) {
    worker.parallel_for(std::int64_t(buffer_.size()), 2 << 20,
                        [&](std::int64_t begin, std::int64_t end) {
                          std::memset(buffer_.data() + begin, 1, std::size_t(end - begin));
                        });
  });
}

// Pieces are claimed dynamically, as in kernels: with fixed parts the slowest thread would count,
// and where others use the machine, that is half as fast.
void DramRead::read(const ReadPattern& pattern, std::span<const std::byte> memory) {
  team_.run([&](engine::Worker& worker) {
    std::uint64_t sum = 0;
    worker.parallel_for(
        std::int64_t(memory.size()), kShare, [&](std::int64_t begin, std::int64_t end) {
          const std::byte* part = memory.data() + begin;
          const std::size_t each =
              std::size_t(end - begin) / std::size_t(pattern.streams) / kPiece * kPiece;
          for (std::size_t i = 0; i < each; i += kPiece)
            for (int s = 0; s < pattern.streams; ++s)
              sum += read_piece(part + std::size_t(s) * each + i, pattern.prefetch);
        });
    sink += sum;
  });
}

Samples dram_read(engine::ThreadTeam& team) try {
  DramRead dram(team);
  const auto ways = DramRead::read_patterns();
  std::vector<std::vector<double>> rates(ways.size());
  for (int i = 0; i < kPasses; ++i)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const auto begin = std::chrono::steady_clock::now();
      dram.read(ways[w]);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      rates[w].push_back(dram.bytes() / time.count());
    }
  Samples best;
  for (auto& r : rates) {
    const Samples samples = samples_of(std::move(r));
    if (samples.median > best.median) best = samples;
  }
  return best;
} catch (const std::bad_alloc&) {
  return {};
}

namespace {

// While it lives, this thread and those that it starts run on `cpus`, and pages that they touch
// first lie on `nodes`. System calls, because libnuma is not installed everywhere.
class Bound {
 public:
  Bound(const std::vector<int>& cpus, const std::vector<int>& nodes) {
    cpu_set_t own;
    CPU_ZERO(&own);
    for (const int cpu : cpus)
      if (cpu < CPU_SETSIZE) CPU_SET(std::size_t(cpu), &own);
    for (const int node : nodes)
      if (node >= kMaxNodes) return;
    if (::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
    if (::sched_setaffinity(0, sizeof own, &own) != 0) return;
    runs_there_ = true;
    std::array<unsigned long, kWords> mask{};
    for (const int node : nodes) mask[std::size_t(node / kBits)] |= 1ul << (node % kBits);
    placed_ = ::syscall(SYS_set_mempolicy, nodes.size() > 1 ? kInterleave : kBind, mask.data(),
                        kMaxNodes) == 0;
  }
  ~Bound() {
    if (placed_) ::syscall(SYS_set_mempolicy, kDefault, nullptr, 0);
    if (runs_there_) ::sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  bool done() const { return runs_there_ && placed_; }

 private:
  static constexpr int kMaxNodes = 1024, kBits = 8 * sizeof(unsigned long);
  static constexpr int kWords = kMaxNodes / kBits;
  static constexpr int kDefault = 0, kBind = 2, kInterleave = 3;  // linux/mempolicy.h
  cpu_set_t allowed_{};
  bool runs_there_ = false, placed_ = false;
};

NodeMatrix empty_matrix(std::size_t nodes) {
  return NodeMatrix(nodes, std::vector<Samples>(nodes));
}

// The entry in the middle.
Samples median_of(std::vector<Samples> entries) {
  if (entries.empty()) return {};
  std::ranges::sort(entries, {}, &Samples::median);
  return entries[entries.size() / 2];
}

MemoryNode joined(MemoryNode node, const MemoryNode& other) {
  node.ids.insert(node.ids.end(), other.ids.begin(), other.ids.end());
  node.cpus.insert(node.cpus.end(), other.cpus.begin(), other.cpus.end());
  node.cores += other.cores;
  return node;
}

}  // namespace

Samples dram_read(const MemoryNode& reader, const MemoryNode& memory, const StopFlag& stop) {
  const Bound bound(reader.cpus, memory.ids);
  if (!bound.done()) return {};
  engine::ThreadTeam team(std::max(1, reader.cores), engine::ThreadTeam::kSpinTime, stop);
  return dram_read(team);
}

std::vector<MemoryNode> joined_nodes(const std::vector<MemoryNode>& nodes,
                                     const NodeMatrix& matrix) {
  constexpr double kAsOwn = 0.9;
  std::vector<std::size_t> first;  // of each group, by which the others are judged
  std::vector<MemoryNode> groups;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto is_alike = [&](std::size_t other) {
      const double own = std::min(matrix[n][n].median, matrix[other][other].median);
      const double across = std::min(matrix[n][other].median, matrix[other][n].median);
      return nodes[n].socket == nodes[other].socket && own > 0 && across >= kAsOwn * own;
    };
    const auto group = std::ranges::find_if(first, is_alike);
    if (group == first.end()) {
      first.push_back(n);
      groups.push_back(nodes[n]);
    } else {
      MemoryNode& into = groups[std::size_t(group - first.begin())];
      into = joined(std::move(into), nodes[n]);
    }
  }
  return groups;
}

NodeRates measure_nodes(const std::vector<MemoryNode>& nodes, const StopFlag& stop) {
  if (nodes.size() < 2) return {nodes, {}, {}, {}};
  NodeMatrix within = empty_matrix(nodes.size());
  for (std::size_t r = 0; r < nodes.size(); ++r)
    for (std::size_t m = 0; m < nodes.size(); ++m)
      if (nodes[r].socket == nodes[m].socket) within[r][m] = dram_read(nodes[r], nodes[m], stop);
  NodeRates rates{joined_nodes(nodes, within), {}, {}, {}};
  const std::size_t groups = rates.nodes.size();
  rates.matrix = empty_matrix(groups);
  std::vector<Samples> local, remote;
  for (std::size_t r = 0; r < groups && groups > 1; ++r)
    for (std::size_t m = 0; m < groups; ++m) {
      const Samples rate = dram_read(rates.nodes[r], rates.nodes[m], stop);
      if (rate.n == 0) return {{}, {}, {}, {}};
      rates.matrix[r][m] = rate;
      (r == m ? local : remote).push_back(rate);
    }
  rates.local = median_of(std::move(local));
  rates.remote = median_of(std::move(remote));
  return rates;
}

}  // namespace rigcast::probe
