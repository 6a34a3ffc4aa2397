// Lookup of parts and models by the names that people use.

#include <cstdlib>
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::catalogue;
using fixtures::contains;

TEST_CASE("A GPU is found whatever the case and punctuation", "[catalogue]") {
  for (const char* name : {"rtx-3060-12gb", "RTX 3060 12GB", "Rtx_3060__12Gb", " rtx/3060/12gb "}) {
    INFO(name);
    const auto gpu = catalogue().gpu(name);
    REQUIRE(gpu);
    CHECK(gpu->id == "rtx-3060-12gb");
    CHECK(gpu->memory.value == 12_GiB);
  }
}

TEST_CASE("A model is found by id, by name and by the name of its files", "[catalogue]") {
  for (const char* name : {"llama-3.1-8b", "Llama 3.1 8B", "LLAMA-3.1 8b"}) {
    INFO(name);
    const auto model = catalogue().model(name);
    REQUIRE(model);
    CHECK(model->id == "llama-3.1-8b");
  }
}

TEST_CASE("A runtime is found by its alias", "[catalogue]") {
  const auto file = catalogue().runtime_file("ollama");
  REQUIRE(file);
  CHECK(file->filename() == "llama.cpp.toml");
}

TEST_CASE("An unknown name gives the nearest ones and where to see all", "[catalogue]") {
  const auto gpu = catalogue().gpu("rtx-4900");
  REQUIRE_FALSE(gpu);
  CHECK(gpu.error().message == "no GPU named \"rtx-4900\"");
  CHECK(contains(gpu.error().hint, "did you mean rtx-4090"));
  const auto count = std::to_string(catalogue().ids("hwprofiles/gpus").size());
  CHECK(contains(gpu.error().hint, "rigcast list gpus shows all " + count));
  CHECK(contains(catalogue().cpu("core-i7-8800").error().hint, "rigcast list cpus"));
  CHECK(contains(catalogue().ssd("no such").error().message, "no SSD named"));
  CHECK(contains(catalogue().model("llama-3.1-9b").error().hint, "llama-3.1-8b"));
  CHECK(contains(catalogue().rig_file("nothing").error().message, "no rig named"));
  CHECK(contains(catalogue().runtime_file("vlm").error().message, "no runtime named"));
}

TEST_CASE("Names that are no names find nothing", "[catalogue]") {
  for (const char* name : {"", " ", "-", "../gpus/rtx-4090", "../../models/phi-4", "/etc/passwd",
                           "rtx-4090.toml", "\x1b[31m", "\xff\xfe", "%s%n", "rtx-4090\nrtx-3090"}) {
    INFO(name);
    CHECK_FALSE(catalogue().gpu(name));
    CHECK_FALSE(catalogue().model(name));
  }
  CHECK_FALSE(catalogue().gpu(std::string(100'000, 'x')));
  CHECK_FALSE(catalogue().gpu(std::string("rtx-4090\0x", 10)));
}

TEST_CASE("A RAM kit takes its size after a colon", "[catalogue]") {
  const auto kit = catalogue().ram("2xddr4-2666:64GiB");
  REQUIRE(kit);
  CHECK(kit->capacity.value == 64_GiB);
  CHECK(kit->bandwidth.value.value == Approx(2 * 8 * 2666e6).epsilon(0.005));
}

TEST_CASE("A kit that no file describes follows from channels and speed", "[catalogue]") {
  const auto kit = catalogue().ram("3xddr5-7000:48 GiB");
  REQUIRE(kit);
  CHECK(kit->bandwidth.value.value == Approx(3 * 8 * 7000e6));
  CHECK(kit->capacity.value == 48_GiB);
}

TEST_CASE("A kit without sense is refused with an example", "[catalogue]") {
  for (const char* text : {"", "ddr4", "0xddr4-2666", "65xddr4-2666", "2xddr4-", "2xddr4-99",
                           "2xddr4-99999", "xddr4-2666", "2xddr4", "-2xxddr4-2666"}) {
    INFO(text);
    const auto kit = catalogue().ram(text);
    REQUIRE_FALSE(kit);
    CHECK(contains(kit.error().text(), "2xddr5-6000:64GiB"));
  }
  for (const char* text : {"2xddr4-2666:", "2xddr4-2666:32", "2xddr4-2666:-1GiB", "2xddr4-2666:1B",
                           "2xddr4-2666:1e30GiB", "2xddr4-2666:32GiB:32GiB"}) {
    INFO(text);
    CHECK_FALSE(catalogue().ram(text));
  }
}

TEST_CASE("A PCI-E link is a generation and lanes", "[catalogue]") {
  const auto link = parse_pcie("4x16");
  REQUIRE(link);
  CHECK(link->generation == 4);
  CHECK(link->lanes == 16);
  CHECK(text(*link) == "4x16");
  for (const char* bad : {"", "4", "4x", "x16", "4x3", "0x16", "7x16", "4x32", "4x16x", "4 x 16",
                          "-4x16", "4x-16", "99999999999x16", "gen4x16"}) {
    INFO(bad);
    const auto refused = parse_pcie(bad);
    REQUIRE_FALSE(refused);
    CHECK(contains(refused.error().hint, "4x16"));
  }
}

TEST_CASE("A catalogue without folders is empty, not a crash", "[catalogue]") {
  const Catalogue none("no/such/folder");
  CHECK(none.ids("models").empty());
  const auto model = none.model("llama-3.1-8b");
  REQUIRE_FALSE(model);
  CHECK(contains(model.error().hint, "shows all 0"));
}
