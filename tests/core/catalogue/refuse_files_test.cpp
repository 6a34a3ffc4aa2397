// A catalogue that refuses files: what a file could answer is unknown.

#include <filesystem>

#include "core/catalogue/catalogue.hpp"
#include "core/catalogue/find_model.hpp"
#include "core/catalogue/interconnect.hpp"
#include "core/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot(test::source_dir());

std::string file(const char* name) { return (kRoot / name).string(); }

}  // namespace

TEST_CASE("Files that a catalogue reads by name are unknown to one that refuses files",
          "[catalogue]") {
  Catalogue reads(kRoot);
  Catalogue refuses(kRoot);
  refuses.refuse_files();
  CHECK(refuses.gpu("rtx-3090"));
  CHECK(refuses.gpu("RTX 3090"));
  CHECK(refuses.rig_file("dual-rtx-3090"));
  CHECK(find_model(refuses, "meta-llama/Llama-3.1-8B-Instruct"));

  const std::string gpu = file("hwprofiles/gpus/rtx-3090.toml");
  CHECK(reads.gpu(gpu));
  CHECK_FALSE(refuses.gpu(gpu));
  const std::string cpu = file("hwprofiles/cpus/core-i7-8700.toml");
  CHECK(reads.cpu(cpu));
  CHECK_FALSE(refuses.cpu(cpu));
  const std::string rig = file("hwprofiles/rigs/dual-rtx-3090.toml");
  CHECK(reads.rig_file(rig));
  CHECK_FALSE(refuses.rig_file(rig));
  const std::string runtime = file("runtimes/llama.cpp.toml");
  CHECK(reads.runtime_file(runtime));
  CHECK_FALSE(refuses.runtime_file(runtime));
  const std::string model = file("models/llama-3.1-8b.toml");
  CHECK(find_model(reads, model));
  CHECK_FALSE(find_model(refuses, model));
  CHECK_FALSE(find_model(refuses, "llama-3.1-8b-Q4_K_M.gguf"));
  CHECK_FALSE(refuses.model_file(model));
  CHECK_FALSE(refuses.projector_file(model));
}

TEST_CASE("An error of a catalogue that refuses files is the same for files and for none",
          "[catalogue]") {
  Catalogue refuses(kRoot);
  refuses.refuse_files();
  // Nobody learns by it what files there are.
  const auto there = refuses.rig_file("/etc/passwd"), missing = refuses.rig_file("/etc/passwe");
  REQUIRE_FALSE(there);
  REQUIRE_FALSE(missing);
  CHECK(there.error().hint == missing.error().hint);
  const auto model = find_model(refuses, "/etc/passwd"), none = find_model(refuses, "/etc/nothing");
  REQUIRE_FALSE(model);
  CHECK(model.error().message == none.error().message);
}

TEST_CASE("An interconnect is an entry, never a path", "[catalogue]") {
  const Catalogue catalogue(kRoot);
  const BytesPerSecond link{32e9};
  const auto ids = catalogue.ids("hwprofiles/interconnects");
  REQUIRE(!ids.empty());
  CHECK(gpu_exchange(catalogue, ids.front(), 2, link));
  CHECK_FALSE(gpu_exchange(catalogue, "../interconnects/" + ids.front(), 2, link));
}
