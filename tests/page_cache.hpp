#pragma once
// The share of a file that is in the page cache.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "tests/catch.hpp"

namespace rigcast::test {

inline std::uint64_t cached_bytes(const std::filesystem::path& path) {
  const std::size_t bytes = std::filesystem::file_size(path);
  const std::size_t page = std::size_t(::sysconf(_SC_PAGESIZE));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  REQUIRE(map != MAP_FAILED);
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  const int failed = ::mincore(map, bytes, resident.data());
  ::munmap(map, bytes);
  REQUIRE(failed == 0);
  std::uint64_t pages = 0;
  for (const unsigned char r : resident) pages += r & 1u;
  return std::min<std::uint64_t>(bytes, pages * page);
}

}  // namespace rigcast::test
