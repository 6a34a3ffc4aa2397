// The kernel's limit and counters, on machines that have them and let this process use them.
#include "validation/runs/pressure/memory_group.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "engine/memory/process_memory.hpp"
#include "tests/catch.hpp"
#include "validation/runs/pressure/other_programs.hpp"
#include "validation/runs/pressure/swap_area.hpp"

using namespace rigcast;
using namespace rigcast::validation;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFile = 96 << 20, kPiece = 2 << 20;

std::optional<MemorySettings> limited(Bytes limit, Bytes swap) {
  MemorySettings m;
  m.limit = limit;
  m.swap = swap;
  m.swappiness = 0;
  return m;
}

// Skipped with its reason where a run under pressure would be, too.
bool possible(const std::optional<MemorySettings>& run) {
  const auto error = check_pressure(run, true);
  if (error) WARN(error->text());
  return !error;
}

// A file in the build's folder, on a disk: pages of a file in memory are nobody's to read.
class MappedFile {
 public:
  MappedFile() : path_(fs::current_path() / "rigcast-memory-group-test") {
    std::ofstream out(path_, std::ios::binary);
    const std::vector<char> piece(kPiece, 'x');
    for (std::size_t at = 0; at < kFile; at += kPiece) out.write(piece.data(), kPiece);
    out.close();
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(fd_);
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    data_ = static_cast<const char*>(::mmap(nullptr, kFile, PROT_READ, MAP_SHARED, fd_, 0));
    REQUIRE(data_ != MAP_FAILED);
    ::madvise(const_cast<char*>(data_), kFile, MADV_SEQUENTIAL);
  }
  ~MappedFile() {
    ::munmap(const_cast<char*>(data_), kFile);
    ::close(fd_);
    fs::remove(path_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  void read() const {
    for (std::size_t at = 0; at < kFile; at += 4096)
      static_cast<void>(*static_cast<const volatile char*>(data_ + at));
  }

 private:
  fs::path path_;
  int fd_ = -1;
  const char* data_ = nullptr;
};

Bytes read_by_a_pass(const MappedFile& file) {
  const auto before = paged_in();
  file.read();
  const auto after = paged_in();
  REQUIRE(before);
  REQUIRE(after);
  return after->files - before->files;
}

std::string swaps() {
  std::ifstream in("/proc/swaps");
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

TEST_CASE("In a group with a limit a scan of more than it reads all of it, each time",
          "[pressure]") {
  const auto run = limited(64_MiB, {});
  if (!possible(run)) return;
  if (read_by_a_pass(MappedFile()).value <= 0) {
    WARN("the kernel does not count what is read of this file system");
    return;
  }
  const MappedFile file;
  {
    const auto group = MemoryGroup::enter(*run);
    REQUIRE(group);
    file.read();
    for (int pass = 0; pass < 3; ++pass)
      CHECK(read_by_a_pass(file).value == Approx(double(kFile)).epsilon(0.02));
  }
  file.read();
  CHECK(read_by_a_pass(file).value == 0);  // outside of it all stays
}

TEST_CASE("A swap file is there while it is needed, and gone after", "[pressure]") {
  const auto run = limited(64_MiB, 32_MiB);
  if (!possible(run)) return;
  const std::string name = "rigcast-swap-" + std::to_string(::getpid());
  SwapOfRuns swap;
  const auto error = swap.set(fs::current_path(), run);
  if (error) {
    WARN(error->text());  // file systems without swap, such as an overlay's
    return;
  }
  CHECK(swaps().find(name) != std::string::npos);
  REQUIRE_FALSE(swap.set(fs::current_path(), limited(64_MiB, {})));
  CHECK(swaps().find(name) == std::string::npos);
  CHECK_FALSE(fs::exists(fs::current_path() / name));
}

TEST_CASE("Runs under pressure are the engine's, and say so", "[pressure]") {
  CHECK_FALSE(check_pressure(std::nullopt, false));
  CHECK(check_pressure(limited(64_MiB, {}), false));
  // Of what others have over hours a run has one stream.
  auto beside = limited(64_MiB, {});
  beside->timeline.push_back({.at = {}, .other = 16_MiB, .files = {}, .stream = {}});
  CHECK(check_pressure(beside, true));
}

TEST_CASE("Swap on zram is a device of its own, and gone after", "[pressure]") {
  auto run = limited(64_MiB, 32_MiB);
  run->swap_on = SwapDevice::kZram;
  if (!possible(run)) return;
  SwapOfRuns swap;
  if (const auto error = swap.set(fs::current_path(), run)) {
    WARN(error->text());  // kernels without zram
    return;
  }
  // Tests that run beside this one swap, too: the device is told by the note that names it.
  const fs::path note = fs::current_path() / ("rigcast-zram-" + std::to_string(::getpid()));
  std::string number;
  REQUIRE(std::ifstream(note) >> number);
  CHECK(swaps().find("/dev/zram" + number + " ") != std::string::npos);
  REQUIRE_FALSE(swap.set(fs::current_path(), limited(64_MiB, {})));
  CHECK(swaps().find("/dev/zram" + number + " ") == std::string::npos);
  CHECK_FALSE(fs::exists(note));
}

TEST_CASE("Neighbours read memory of their own until they end", "[pressure]") {
  const double before = engine::peak_memory().value;
  std::optional<std::string> text;
  {
    auto others = OtherPrograms::begin(2, std::nullopt, std::nullopt);
    REQUIRE(others);
    others->start();
    // A busy machine may let them wait.
    for (int i = 0; i < 100 && (!text || text->find(" 0.0 GB/s") != std::string::npos); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      text = others->text();
    }
    CHECK(engine::peak_memory().value < before + 128e6);  // theirs is 512 MiB
  }
  REQUIRE(text);
  INFO(*text);
  CHECK(text->find("neighbours read ") != std::string::npos);
  CHECK(text->find(" 0.0 GB/s") == std::string::npos);
  CHECK(::waitpid(-1, nullptr, WNOHANG) < 0);  // no child is left
}

TEST_CASE("A stream reads its file at the rate that was asked for", "[pressure]") {
  auto run = limited(64_MiB, {});
  run->timeline.push_back({.at = {}, .other = {}, .files = {}, .stream = BytesPerSecond{50e6}});
  auto others = OtherPrograms::begin(0, run, fs::current_path() / "model.gguf");
  REQUIRE(others);
  others->start();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto text = others->text();
  REQUIRE(text);
  INFO(*text);
  const double rate = std::stod(text->substr(text->find(" at ") + 4));
  CHECK(rate < 60);  // its first piece is read at once; a busy disk may be slower
}
