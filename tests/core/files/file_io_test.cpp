#include "core/files/file_io.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;

TEST_CASE("A read goes up to the end of the file, and returns the number of bytes",
          "[core][file]") {
  const test::Folder folder;
  const int file = ::open(folder.write("x", "0123456789").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  std::string to(6, ' ');
  const auto bytes = std::as_writable_bytes(std::span(to));
  CHECK(read_at(file, bytes, 2) == 6);
  CHECK(to == "234567");
  CHECK(read_at(file, bytes, 7) == 3);
  CHECK(to == "789567");
  CHECK(read_at(file, bytes, 10) == 0);
  ::close(file);
  CHECK_FALSE(read_at(file, bytes, 0));
}

// A pipe holds 64 KiB: a write of more stops short whenever it is full.
TEST_CASE("A write goes on until all is written", "[core][file]") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  REQUIRE(::fcntl(ends[1], F_SETFL, 0) == 0);  // that end waits
  const std::string all(1 << 20, 'x');
  std::string got;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    char buffer[10'000];
    while (got.size() < all.size()) {
      const bool all_written = done;  // before the read, which then finds all that there is
      const ssize_t n = ::read(ends[0], buffer, sizeof buffer);
      if (n > 0) got.append(buffer, std::size_t(n));
      if (n <= 0 && all_written) break;
    }
  });
  CHECK(write_all(ends[1], std::as_bytes(std::span(all))));
  done = true;
  reader.join();
  CHECK(got.size() == all.size());
  for (const int end : ends) ::close(end);
}

TEST_CASE("Who waits for the disk is let go", "[core][file]") {
  const test::Folder folder;
  const int file = ::open(folder.write("x", std::string(1 << 20, 'x')).c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  CHECK(write_back(file, 1 << 20));
  std::atomic<bool> asked{true};
  CHECK_THROWS_AS(write_back(file, 1 << 20, StopFlag(asked)), Interrupted);
  ::close(file);
}
