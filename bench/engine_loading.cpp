// Loading of a model: the time from the disk to the first token, relative to the disk's rate
// without the page cache; and the first decoded token after a warm start, relative to the usual
// one. Ratios of one run, medians of several alternating ones.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/quantile.hpp"
#include "core/catalogue/catalogue.hpp"
#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/load/load.hpp"
#include "engine/run/request.hpp"
#include "engine/synth/synthetic_file.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr std::size_t kRounds = 8;
constexpr TokenCount kDecoded = 12;
constexpr double kDiskBar = 0.85, kFirstTokenBar = 1.5;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Reads the whole file with direct I/O, in requests of `bytes` by `threads` threads.
double direct_read(const std::filesystem::path& path, std::size_t bytes, int threads) {
  const auto size = std::filesystem::file_size(path);
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> failed{false};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::jthread> readers;
  for (int i = 0; i < threads; ++i)
    readers.emplace_back([&] {
      const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
      void* buffer = std::aligned_alloc(4096, bytes);
      for (std::uint64_t at; fd >= 0 && (at = next.fetch_add(bytes)) < size;)
        if (::pread(fd, buffer, bytes, off_t(at)) < 0) failed = true;
      if (fd < 0) failed = true;
      std::free(buffer);
      ::close(fd);
    });
  readers.clear();
  return failed ? 0 : double(size) / seconds_since(begin);
}

struct Timed {
  double to_first_token = 0;  // seconds
  double first_step = 0, usual_step = 0;
};

// Opens, loads and computes a prompt of one token: a long prefill would hide the disk's time.
Timed start(const std::filesystem::path& path, ThreadTeam& team) {
  const auto begin = std::chrono::steady_clock::now();
  auto file = GgufFile::open(path);
  if (!file) throw MachineError(file.error().text());
  auto model = load_with_pages(*file);
  if (!model) throw MachineError(model.error().text());
  CpuExecutor executor(std::make_shared<const Model>(*std::move(model)),
                       {team.size(), {}, 128, 512});
  Sampler sampler({});
  const std::vector<std::int32_t> prompt = {1};
  const RequestTimes r = run_request(executor, prompt, kDecoded, sampler);
  const std::vector<double> gaps = token_gaps(r.tokens);
  const double after = seconds_since(begin);
  return {after - (r.tokens.at_s.back() - r.tokens.at_s.front()), gaps.front(),
          median({gaps.begin() + 1, gaps.end()})};
}

void write_file(const std::filesystem::path& path) {
  const Catalogue catalogue{RIGCAST_SOURCE_DIR};
  const auto spec = catalogue.model("llama-3.2-1b");
  const auto table = make_tensor_table(*spec, *QuantMix::from_name("Q8_0"));
  if (auto error = write_synthetic_file(*spec, *table, "Q8_0", 1, path, {}))
    throw MachineError(error->text());
}

void print(const char* what, double figure, const char* unit, double ratio, double bar,
           bool below) {
  const bool holds = below ? ratio <= bar : ratio >= bar;
  fmt::print("{:<44} {:>9.2f} {:<5} {:>6.2f} {} {:.2f}  {}\n", what, figure, unit, ratio,
             below ? "<=" : ">=", bar, holds ? "holds" : "FAILS");
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : std::filesystem::temp_directory_path();
  const std::filesystem::path path = folder / fmt::format("rigcast-loading-{}.gguf", ::getpid());
  struct Removed {
    const std::filesystem::path& path;
    ~Removed() { std::filesystem::remove(path); }
  } removed{path};
  write_file(path);
  const double bytes = double(std::filesystem::file_size(path));
  const int threads = int(std::thread::hardware_concurrency());
  ThreadTeam team(threads);
  constexpr std::pair<std::size_t, int> kWays[] = {{1 << 20, 4}, {4 << 20, 2}, {1 << 20, 1}};
  std::vector<double> direct[std::size(kWays)], cold, warm, first, usual;
  const auto start_cold = [&] {
    if (auto error = drop_from_page_cache(path)) throw MachineError(error->text());
    cold.push_back(bytes / start(path, team).to_first_token);
  };
  // A virtual disk may be faster after a pause, so every contender is the first of a round equally
  // often.
  const std::size_t ways = std::size(kWays);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i <= ways; ++i)
      if (const std::size_t which = (round + i) % (ways + 1); which < ways)
        direct[which].push_back(direct_read(path, kWays[which].first, kWays[which].second));
      else
        start_cold();
    start(path, team);  // now the whole file is in the page cache
    const Timed w = start(path, team);
    warm.push_back(bytes / w.to_first_token);
    first.push_back(w.first_step);
    usual.push_back(w.usual_step);
  }
  // The method with the best median is the disk's rate; the best single run would be chance.
  const std::vector<double>& disk = *std::ranges::max_element(
      direct, [](const auto& a, const auto& b) { return median(a) < median(b); });
  const auto spread = [](const std::vector<double>& v) {
    return 100 * (std::ranges::max(v) - std::ranges::min(v)) / median(v);
  };
  fmt::print("Llama 3.2 1B Q8_0, {:.2f} GB in {}, {} threads, n = {}\n", bytes / 1e9,
             folder.string(), threads, kRounds);
  fmt::print("O_DIRECT {:.2f} GB/s (spread {:.0f} %), warm start {:.2f} GB/s ({:.0f} %)\n\n",
             median(disk) / 1e9, spread(disk), median(warm) / 1e9, spread(warm));
  print("cold start to the first token / O_DIRECT", median(cold) / 1e9, "GB/s",
        median(cold) / median(disk), kDiskBar, false);
  print("first decoded token after a warm start", 1e3 * median(first), "ms",
        median(first) / median(usual), kFirstTokenBar, true);
}
