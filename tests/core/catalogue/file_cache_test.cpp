#include "core/catalogue/file_cache.hpp"

#include <fstream>

#include "core/catalogue/catalogue.hpp"
#include "tests/catch.hpp"
#include "tests/core/profile_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("rigcast-cache-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path write(const char* name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("A file is read once, and again when it has changed", "[cache]") {
  const Folder folder;
  const fs::path file = folder.write("a", "one");
  int reads = 0;
  const auto read = [&](const fs::path& f) -> Result<std::string> {
    ++reads;
    std::string text;
    std::ifstream(f) >> text;
    return text;
  };
  FileCache<std::string> cache;
  CHECK(*cache.get(file, read) == "one");
  CHECK(*cache.get(file, read) == "one");
  CHECK(reads == 1);
  folder.write("a", "three");
  CHECK(*cache.get(file, read) == "three");
  CHECK(reads == 2);
}

TEST_CASE("A file that appears beside it counts as a change, too", "[cache]") {
  const Folder folder;
  const fs::path file = folder.write("a", "one"), beside = file.parent_path() / "fitted";
  int reads = 0;
  const auto read = [&](const fs::path&) -> Result<int> { return ++reads; };
  const auto sources = [&](int) { return std::vector<fs::path>{beside}; };
  FileCache<int> cache;
  CHECK(*cache.get(file, read, sources) == 1);
  CHECK(*cache.get(file, read, sources) == 1);
  folder.write("fitted", "x");
  CHECK(*cache.get(file, read, sources) == 2);
}

TEST_CASE("What could not be read is tried again", "[cache]") {
  const Folder folder;
  const fs::path file = folder.write("a", "one");
  int reads = 0;
  const auto read = [&](const fs::path&) -> Result<int> {
    if (++reads == 1) return bad_input("not yet");
    return reads;
  };
  FileCache<int> cache;
  CHECK_FALSE(cache.get(file, read));
  CHECK(*cache.get(file, read) == 2);
}

TEST_CASE("A catalogue that was copied shares what was read", "[cache]") {
  const Catalogue first(test::source_dir());
  const Catalogue second = first;
  const auto file = first.runtime_file("llama.cpp");
  REQUIRE(file);
  REQUIRE(first.runtime(*file));
  CHECK(second.runtime(*file)->files == first.runtime(*file)->files);
  CHECK(first.runtime(*file)->files.size() == 2);  // the profile and its fitted figures
}
