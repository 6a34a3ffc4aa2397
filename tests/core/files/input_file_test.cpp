#include "core/files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using rigcast::test::Folder;

namespace {

constexpr std::size_t kMax = 1000;

std::string error_of(const std::string& file) {
  const auto text = read_input(file, kMax);
  REQUIRE_FALSE(text);
  CHECK(text.error().kind == ErrorKind::kBadInput);
  CHECK(text.error().text().find(file) != std::string::npos);
  return text.error().text();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string fifo(const Folder& folder) {
  const std::string name = folder / "fifo";
  REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
  return name;
}

}  // namespace

TEST_CASE("A file is read whole, up to the limit", "[files]") {
  const Folder folder;
  CHECK(*read_input(folder.write("a", "text"), kMax) == "text");
  CHECK(read_input(folder.write("none", ""), kMax)->empty());
  CHECK(read_input(folder.write("full", std::string(kMax, 'x')), kMax)->size() == kMax);
  CHECK(contains(error_of(folder.write("large", std::string(kMax + 1, 'x'))), "is larger than"));
}

TEST_CASE("What is no file is named by what it is", "[files]") {
  const Folder folder;
  CHECK(contains(error_of(folder.path().string()), "is a directory"));
  CHECK(contains(error_of("/dev/null"), "is a device"));
  CHECK(contains(error_of("/dev/zero"), "is a device"));
  CHECK(contains(error_of(folder / "missing"), "no file"));
  CHECK(contains(error_of(folder.write("a", "") + "/b"), "no file"));
  CHECK(check_regular_file(folder.path())->text().find("is a directory") != std::string::npos);
  CHECK(check_regular_file(fifo(folder))->text().find("is a pipe") != std::string::npos);
  CHECK_FALSE(check_regular_file(folder / "a"));
}

TEST_CASE("A pipe is read to its end, however slowly it is written", "[files]") {
  const Folder folder;
  const std::string name = fifo(folder);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const int out = ::open(name.c_str(), O_WRONLY);
    for (const char* part : {"one ", "two ", "three"}) {
      CHECK(::write(out, part, std::string(part).size()) > 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
    ::close(out);
  });
  const auto text = read_input(name, kMax);
  writer.join();
  REQUIRE(text);
  CHECK(*text == "one two three");
}

TEST_CASE("A pipe to which nobody writes is refused after two seconds", "[files]") {
  const Folder folder;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(contains(error_of(fifo(folder)), "nobody writes to it"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() >= 2);
  CHECK(took.count() < 5);
}
