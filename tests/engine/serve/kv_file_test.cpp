#include "engine/serve/kv_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "engine/memory/large_pages.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

void fill(const LargePages& buffer, int with) {
  std::fill_n(buffer.data(), buffer.size(), std::byte(with));
}

}  // namespace

TEST_CASE("Blocks come back from a file that no folder shows") {
  const test::Folder folder;
  {
    const auto file = KvFile::create(folder.path(), Bytes{5.5 * 8192}, 5000);
    REQUIRE(file.ok());
    CHECK(folder.names().empty());
    CHECK((*file)->buffer_bytes() == 8192);
    REQUIRE((*file)->blocks() == 5);
    const LargePages buffer(8192);
    for (int block = 4; block >= 0; --block) {
      fill(buffer, block + 1);
      (*file)->write(block, {buffer.data(), buffer.size()});
    }
    fill(buffer, 77);  // over one that was written
    (*file)->write(3, {buffer.data(), buffer.size()});
    for (int block = 0; block < 5; ++block) {
      fill(buffer, 0);
      (*file)->read(block, {buffer.data(), buffer.size()});
      const auto own = std::byte(block == 3 ? 77 : block + 1);
      CHECK(std::all_of(buffer.data(), buffer.data() + buffer.size(),
                        [&](std::byte b) { return b == own; }));
    }
  }
  CHECK(folder.names().empty());
}

TEST_CASE("A cache on disk that cannot be is refused with what helps") {
  const test::Folder folder;
  const auto refused = [](const std::filesystem::path& where, Bytes size) {
    const auto file = KvFile::create(where, size, 4096);
    REQUIRE_FALSE(file.ok());
    return file.error();
  };
  CHECK(refused(folder / "nowhere", 1_GiB).kind == ErrorKind::kMachine);
  CHECK(refused(folder.write("file", "text"), 1_GiB).kind == ErrorKind::kMachine);
  const Error small = refused(folder.path(), Bytes{4095});
  CHECK(small.kind == ErrorKind::kDoesNotFit);
  CHECK(small.message.find("no room for one block of 4096 bytes") != std::string::npos);
  // More than any disk has, and than a file may have.
  const Error large = refused(folder.path(), Bytes{8e12});
  CHECK(large.kind == ErrorKind::kDoesNotFit);
  CHECK(large.message.find("are free") != std::string::npos);
  CHECK(large.hint.find("--kv-disk DIR:SIZE") != std::string::npos);
  CHECK(folder.names() == std::vector<std::string>{"file"});
}
