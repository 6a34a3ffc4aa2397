#include "probe/disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "core/files/file_io.hpp"

namespace rigcast::probe {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLarge = 1 << 20, kLargest = 4 << 20;  // bytes of a sequential request
constexpr int kSamples = 5, kMappers = 8;
constexpr double kRandomSeconds = 0.3;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, Free>;
Buffer aligned(std::size_t bytes) {
  return Buffer(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class ScratchFile {
 public:
  ScratchFile(const std::filesystem::path& folder, std::uint64_t bytes, const StopFlag& stop)
      : stop_(stop), bytes_(bytes) {
    std::string name = (folder / "rigcast-probe-XXXXXX").string();
    fd_ = ::mkstemp(name.data());
    if (fd_ < 0) return;
    direct_ = ::open(name.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    direct_errno_ = direct_ < 0 ? errno : 0;
    ::unlink(name.c_str());
  }
  ~ScratchFile() {
    if (fd_ >= 0) ::close(fd_);
    if (direct_ >= 0) ::close(direct_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  bool is_direct() const { return direct_ >= 0; }
  std::uint64_t bytes() const { return bytes_; }
  int descriptor() const { return fd_; }
  const StopFlag& stop() const { return stop_; }

  // Fills the file with bytes that no file system or drive can compress.
  bool fill() const {
    const Buffer buffer = aligned(kLarge);
    std::mt19937_64 bits(1);
    for (std::uint64_t at = 0; at < bytes_; at += kLarge) {
      stop_.throw_if_requested();
      for (std::size_t i = 0; i < kLarge; i += 8) {
        const std::uint64_t word = bits();
        std::memcpy(buffer.get() + i, &word, sizeof word);
      }
      if (!write_all(fd_, {buffer.get(), kLarge})) return false;
    }
    return write_back(fd_, bytes_, stop_);
  }
  void forget_pages() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED); }
  bool read(bool direct, std::byte* to, std::size_t count, std::uint64_t at) const {
    return read_at(direct ? direct_ : fd_, {to, count}, at) == count;
  }

 private:
  StopFlag stop_;
  std::uint64_t bytes_;
  int fd_ = -1, direct_ = -1, direct_errno_ = 0;
};

// A file mapped into memory, in huge pages where the file system supports them.
class Mapping {
 public:
  explicit Mapping(const ScratchFile& file) : bytes_(file.bytes()) {
    void* const at = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (at == MAP_FAILED) return;
    begin_ = static_cast<std::byte*>(at);
    ::madvise(at, bytes_, MADV_HUGEPAGE);
  }
  ~Mapping() {
    if (begin_) ::munmap(begin_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* begin() const { return begin_; }  // nullptr if the mapping failed

 private:
  std::uint64_t bytes_;
  std::byte* begin_ = nullptr;
};

// Bytes/s at which the cached pages of the file enter a mapping, all at once, as llama.cpp maps a
// model: by page or in larger folios, as the file system has them.
double map_cached(const ScratchFile& file) {
  const auto begin = std::chrono::steady_clock::now();
  void* const at =
      ::mmap(nullptr, file.bytes(), PROT_READ, MAP_SHARED | MAP_POPULATE, file.descriptor(), 0);
  if (at == MAP_FAILED) return 0;
  const double seconds = seconds_since(begin);
  ::munmap(at, file.bytes());
  return double(file.bytes()) / std::max(seconds, 1e-9);
}

bool bring_in(std::byte* pages, std::size_t bytes) {
#ifdef MADV_POPULATE_READ
  if (::madvise(pages, bytes, MADV_POPULATE_READ) == 0) return true;
  if (errno == EINTR) return bring_in(pages, bytes);
  if (errno != EINVAL) return false;
#endif
  for (std::size_t at = 0; at < bytes; at += kPage)
    static_cast<void>(*static_cast<volatile const std::byte*>(pages + at));
  return true;
}

// Reads with `depth` threads, each with one request in flight, until `next` has no more offsets.
template <class Next>
bool read_all(const ScratchFile& file, bool direct, std::size_t request, int depth, Next next) {
  std::atomic<bool> failed{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < depth; ++i)
    threads.emplace_back([&, i] {
      const Buffer buffer = aligned(request);
      for (std::uint64_t at; !failed && !file.stop().stop_requested() && next(i, at);)
        if (!file.read(direct, buffer.get(), request, at)) failed = true;
    });
  threads.clear();
  file.stop().throw_if_requested();
  return !failed;
}

// Sequential read of the whole file, in bytes/s; 0 if a read failed.
double sequential(const ScratchFile& file, bool direct, std::size_t request, int depth) {
  std::atomic<std::uint64_t> place{0};
  const auto begin = std::chrono::steady_clock::now();
  const bool done = read_all(file, direct, request, depth, [&](int, std::uint64_t& at) {
    at = place.fetch_add(request);
    return at + request <= file.bytes();
  });
  return done ? double(file.bytes()) / seconds_since(begin) : 0;
}

double random_reads(const ScratchFile& file, int depth) {
  std::vector<std::mt19937_64> bits;
  for (int i = 0; i < depth; ++i) bits.emplace_back(unsigned(i + 1));
  std::atomic<std::uint64_t> count{0};
  const auto begin = std::chrono::steady_clock::now();
  const bool done = read_all(file, true, kPage, depth, [&](int thread, std::uint64_t& at) {
    at = bits[std::size_t(thread)]() % (file.bytes() / kPage) * kPage;
    ++count;
    return seconds_since(begin) < kRandomSeconds;
  });
  return done ? double(count) / seconds_since(begin) : 0;
}

// Reads the pages of a mapping as a program does that starts at many places at once. Bytes/s of the
// whole file; 0 if that failed.
double mapped(const ScratchFile& file) {
  const Mapping map(file);
  if (!map.begin()) return 0;
  std::atomic<std::uint64_t> place{0};
  std::atomic<bool> failed{false};
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kMappers; ++i)
      threads.emplace_back([&] {
        for (std::uint64_t at;
             (at = place.fetch_add(kLargest)) < file.bytes() && !file.stop().stop_requested();)
          if (!bring_in(map.begin() + at, kLargest)) failed = true;
      });
  }
  file.stop().throw_if_requested();
  return failed ? 0 : double(file.bytes()) / seconds_since(begin);
}

// Sizes and queue depths to try: a drive with a head prefers one request after the other, a network
// drive as many at once as possible.
struct Requests {
  std::size_t bytes;
  int at_once;
};
constexpr Requests kInOrder[] = {{kLarge, 1}, {kLarge, 4}, {kLargest, 8}, {kLargest, 16}};

// Sequential reads, in rounds over all kinds of requests, so that other load on the disk affects
// all alike. The best kind is the one that is fastest in most rounds; the fastest of every round
// would be the disk's luckiest moments, which no file of gigabytes has.
void samples_in_order(const ScratchFile& file, DiskRates& rates) {
  std::array<std::vector<double>, std::size(kInOrder)> direct;
  std::vector<double> pages;
  for (int i = 0; i < kSamples; ++i) {
    for (std::size_t k = 0; k < direct.size(); ++k)
      direct[k].push_back(sequential(file, true, kInOrder[k].bytes, kInOrder[k].at_once));
    file.forget_pages();
    pages.push_back(mapped(file));
  }
  file.forget_pages();
  rates.sequential = {};
  for (const std::vector<double>& samples : direct)
    if (const Samples all = samples_of(samples); all.median > rates.sequential.median)
      rates.sequential = all;
  rates.mapped = samples_of(pages);
}

Error failed(const std::filesystem::path& folder, const char* what, std::string hint) {
  return {ErrorKind::kMachine, fmt::format("{}: {}", what, std::strerror(errno)), std::move(hint),
          SourceRef{folder.string()}};
}

std::uint64_t whole_requests(Bytes size) {
  return std::max<std::uint64_t>(std::uint64_t(size.value) / kLargest * kLargest, kLargest);
}

std::optional<Error> prepare(const ScratchFile& file, const std::filesystem::path& folder) {
  if (!file.is_open()) return failed(folder, "no scratch file can be made", "--scratch DIR");
  if (!file.is_direct())
    return failed(folder, "cannot be read past the page cache",
                  "--scratch DIR on the disk that models are loaded from");
  if (!file.fill()) return failed(folder, "the scratch file cannot be written", "--scratch DIR");
  file.forget_pages();
  return std::nullopt;
}

}  // namespace

std::optional<Error> measure_disk_in_order(const std::filesystem::path& folder, Bytes size,
                                           DiskRates& rates, const StopFlag& stop) {
  const ScratchFile file(folder, whole_requests(size), stop);
  if (auto error = prepare(file, folder)) return error;
  samples_in_order(file, rates);
  if (rates.sequential.median <= 0 || rates.mapped.median <= 0)
    return failed(folder, "the scratch file cannot be read", "");
  return std::nullopt;
}

namespace {

// Linux tells it of each disk, of which a partition is a folder below.
Bytes readahead_of(const std::filesystem::path& folder) {
  struct ::stat of {};
  if (::stat(folder.c_str(), &of) != 0) return {};
  const std::filesystem::path device =
      fmt::format("/sys/dev/block/{}:{}", major(of.st_dev), minor(of.st_dev));
  for (const char* queue : {"queue", "../queue"}) {
    std::ifstream in(device / queue / "read_ahead_kb");
    double kib = 0;
    if (in >> kib && kib >= 0) return Bytes{1024 * kib};
  }
  return {};
}

}  // namespace

Result<DiskRates> measure_disk(const std::filesystem::path& folder, Bytes size,
                               const StopFlag& stop) {
  const ScratchFile file(folder, whole_requests(size), stop);
  if (auto error = prepare(file, folder)) return *error;
  DiskRates rates;
  samples_in_order(file, rates);
  for (const int depth : {1, 4, 16, 32}) {
    std::vector<double> samples;
    for (int i = 0; i < 3; ++i) samples.push_back(random_reads(file, depth));
    rates.random.push_back({depth, samples_of(samples)});
  }
  std::vector<double> cached;
  for (int i = 0; i <= kSamples; ++i) cached.push_back(sequential(file, false, kLarge, 1));
  cached.erase(cached.begin());  // the first read filled the cache
  rates.page_cache = samples_of(cached);
  std::vector<double> mapped;
  for (int i = 0; i < kSamples; ++i) mapped.push_back(map_cached(file));
  rates.cached_map = samples_of(mapped);
  rates.readahead = readahead_of(folder);
  if (rates.sequential.median <= 0 || rates.mapped.median <= 0)
    return failed(folder, "the scratch file cannot be read", "");
  return rates;
}

}  // namespace rigcast::probe
