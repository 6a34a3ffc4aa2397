// Parts, models and runtimes of the user's own, beside those that ship.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/catalogue/find_model.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using fixtures::contains;
namespace fs = std::filesystem;

namespace {

const fs::path kShipped = test::source_dir();

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::string gpu_toml(const char* name, int gib) {
  return fmt::format(
      "name = \"{}\"\narchitecture = \"ampere\"\nsource = \"my own bench\"\n"
      "aliases = [\"Mine of {}\"]\n[memory]\ncapacity = \"{} GiB\"\nbandwidth = \"900 GB/s\"\n",
      name, gib, gib);
}

}  // namespace

TEST_CASE("Files of the user's own are found beside those that ship, and win over them",
          "[catalogue]") {
  const test::Folder own;
  write(own / "hwprofiles/gpus/my-gpu.toml", gpu_toml("My GPU", 20));
  write(own / "hwprofiles/gpus/rtx-3090.toml", gpu_toml("RTX 3090 with 48 GB", 48));
  fs::create_directories(own / "models");
  fs::copy_file(kShipped / "models/qwen3-8b.toml", own / "models/my-model.toml");
  write(own / "runtimes/my-runtime.toml",
        "name = \"mine\"\nera = \"2026\"\nsource = \"my own bench\"\nbase = \"llama.cpp\"\n");
  const Catalogue catalogue(kShipped, own.path());

  CHECK(catalogue.gpu("my-gpu")->memory.value == 20_GiB);
  CHECK(catalogue.gpu("rtx-3090")->memory.value == 48_GiB);
  CHECK(catalogue.gpu("Mine of 20")->id == "my-gpu");
  CHECK(catalogue.gpu("rtx-4090")->memory.value == 24_GiB);
  CHECK(catalogue.model("my-model")->layers == 36);
  const auto runtime = catalogue.runtime_file("my-runtime");
  REQUIRE(runtime);
  const auto profile = catalogue.runtime(*runtime);
  if (!profile) FAIL(profile.error().text());
  CHECK(profile->base == "llama.cpp");

  const auto ids = catalogue.ids("hwprofiles/gpus");
  CHECK(std::ranges::count(ids, "my-gpu") == 1);
  CHECK(std::ranges::count(ids, "rtx-3090") == 1);
  CHECK(catalogue.is_own(catalogue.file_of("hwprofiles/gpus", "rtx-3090")));
  CHECK_FALSE(catalogue.is_own(catalogue.file_of("hwprofiles/gpus", "rtx-4090")));
  CHECK_FALSE(Catalogue(kShipped).is_own(kShipped / "models/phi-4.toml"));
}

TEST_CASE("Parts may be files of one's own, named by their path", "[catalogue]") {
  const test::Folder folder;
  const std::string gpu = folder.write("card.toml", gpu_toml("Card", 20));
  const auto s = fixtures::scenario("[rig]\ngpu = '2x" + gpu + "'\n[model]\nname = 'phi-4'\n");
  REQUIRE(s);
  REQUIRE(s->rig.gpus.size() == 2);
  CHECK(s->rig.gpus.front().id == "card");
  CHECK(s->rig.gpus.front().memory.value == 20_GiB);
  const auto copied = [&](const char* part, const char* name) {
    fs::copy_file(kShipped / part, folder / name);
    return folder / name;
  };
  const Catalogue& c = fixtures::catalogue();
  CHECK(c.cpu(copied("hwprofiles/cpus/core-i7-8700.toml", "chip.toml"))->id == "chip");
  CHECK(c.ssd(copied("hwprofiles/ssds/sata-ssd.toml", "disk.toml"))->id == "disk");
  const std::string broken = folder.write("broken.toml", "name = 3\n");
  CHECK(contains(c.gpu(broken).error().text(), "broken.toml:1:8: name"));
}

TEST_CASE("A mistake in a model of the user's own is told, not that there is no such model",
          "[catalogue]") {
  const test::Folder own;
  fs::create_directories(own / "models");
  std::ofstream(own / "models/my-model.toml") << "name = \"mine\"\nlayers = \"many\"\n";
  const auto found = find_model(Catalogue(kShipped, own.path()), "my-model", "Q4_K_M");
  REQUIRE_FALSE(found);
  CHECK(contains(found.error().text(), "my-model.toml"));
  CHECK_FALSE(contains(found.error().text(), "no model named"));
}
