#include "engine/load/load.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "engine/synth/synthetic_file.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/page_cache.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::engine;
namespace fs = std::filesystem;

TEST_CASE("A file is brought into the page cache to its last byte", "[engine][load]") {
  const test::Folder folder;
  const std::string file = folder.write("x", std::string((9 << 20) + 5, 'x'));
  REQUIRE_FALSE(drop_from_page_cache(file));
  REQUIRE_FALSE(bring_into_page_cache(file));
  CHECK(test::cached_bytes(file) == (9 << 20) + 5);
}

// 60 MB, most of it matrices, of which no page is touched.
TEST_CASE("Vectors that are asked for come without what lies around them", "[engine][load]") {
  const test::Folder folder;
  const std::string path = folder / "model.gguf";
  ModelSpec spec = *Catalogue(test::source_dir()).model("qwen3-0.6b");
  spec.layers = 7;
  spec.vocabulary = 8192;
  const QuantMix mix = *QuantMix::from_name("Q4_K_M");
  const auto table = make_tensor_table(spec, mix);
  REQUIRE(table);
  REQUIRE_FALSE(write_synthetic_file(spec, *table, mix.name(), 7, path, {}));
  const auto expected = make_synthetic_vectors(spec, *table, 7);
  REQUIRE(expected);

  REQUIRE_FALSE(drop_from_page_cache(path));
  const bool has_disk = test::cached_bytes(path) == 0;  // a file system in memory keeps all
  const auto file = GgufFile::open(path);
  REQUIRE(file);
  prefetch_vectors(*file);
  const auto model = load_model(*file);
  REQUIRE(model);
  CHECK(model->final_norm == expected->final_norm);
  CHECK(model->layers.back().k_norm == expected->layers.back().k_norm);
  if (has_disk) CHECK(double(test::cached_bytes(path)) < 0.5 * double(fs::file_size(path)));
}

TEST_CASE("What is not there is brought nowhere", "[engine][load]") {
  const test::Folder folder;
  const auto error = bring_into_page_cache(folder / "none");
  REQUIRE(error);
  CHECK(error->kind == ErrorKind::kMachine);
  CHECK(bring_into_page_cache(folder.path()));
}

TEST_CASE("All files of a model that is split go and come", "[engine][load]") {
  const test::Folder folder;
  const std::string first = folder.write("x-00001-of-00003.gguf", std::string(5 << 20, 'x'));
  const std::string second = folder.write("x-00002-of-00003.gguf", std::string(3 << 20, 'y'));
  const std::string third = folder.write("x-00003-of-00003.gguf", std::string((1 << 20) + 7, 'z'));
  const auto cached = test::cached_bytes;
  REQUIRE_FALSE(drop_from_page_cache(first));
  if (cached(first) == 0) {  // a file system in memory keeps all
    CHECK(cached(second) == 0);
    CHECK(cached(third) == 0);
  }
  REQUIRE_FALSE(bring_into_page_cache(first));
  CHECK(cached(second) == 3 << 20);
  CHECK(cached(third) == (1 << 20) + 7);
  CHECK(cached(first) == 5 << 20);
  fs::remove(second);
  const auto error = drop_from_page_cache(first);
  REQUIRE(error);
  CHECK(error->where->file == second);
}

TEST_CASE("Reading ahead and writing back end when they are asked to", "[engine][load]") {
  const test::Folder folder;
  const std::string file = folder.write("x", std::string(9 << 20, 'x'));
  const std::atomic<bool> asked{true};
  CHECK_THROWS_AS(drop_from_page_cache(file, StopFlag(asked)), Interrupted);
  CHECK_THROWS_AS(bring_into_page_cache(file, StopFlag(asked)), Interrupted);
}
