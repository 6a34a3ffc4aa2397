#include "engine/run/npy.hpp"

#include <sys/stat.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

std::optional<Error> write_rows(const std::string& target) {
  auto file = NpyWriter::create(target, 2, 3);
  if (!file) return file.error();
  for (const std::vector<float>& row : {std::vector{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}})
    if (auto error = file->write(row)) return error;
  return file->finish();
}

}  // namespace

TEST_CASE("An array goes into a file, or through a pipe that stays one", "[engine][npy]") {
  const test::Folder folder;
  REQUIRE_FALSE(write_rows(folder / "x.npy"));
  const std::string bytes = test::read(folder / "x.npy");
  CHECK(bytes.size() == 128 + 24);
  CHECK(bytes.starts_with("\x93NUMPY"));

  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  auto reader = std::async(std::launch::async, [&] { return test::read(pipe); });
  const auto error = write_rows(pipe);
  // A writer that took the pipe's place has left its reader waiting.
  if (!std::filesystem::is_fifo(pipe)) FAIL("the pipe is gone");
  CHECK_FALSE(error);
  CHECK(reader.get() == bytes);
  CHECK(folder.names().size() == 2);
}
