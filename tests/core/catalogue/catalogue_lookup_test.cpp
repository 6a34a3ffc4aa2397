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

TEST_CASE("A GPU is found by the names that nvidia-smi, lspci and drivers give it", "[catalogue]") {
  struct Case {
    const char* name;
    const char* id;
  };
  for (const Case& c :
       {Case{"NVIDIA GeForce RTX 3060", "rtx-3060-12gb"},
        {"NVIDIA H100 80GB HBM3", "h100-sxm"},
        {"01:00.0 VGA compatible controller: NVIDIA Corporation GA106 [GeForce RTX 3060 Lite Hash "
         "Rate] (rev a1)",
         "rtx-3060-12gb"},
        {"03:00.0 VGA compatible controller: Intel Corporation Battlemage G21 [Arc B580]",
         "arc-b580"},
        {"Intel(R) Arc(TM) B580 Graphics", "arc-b580"},
        {"AMD Radeon RX 7900 XTX", "rx-7900-xtx"},
        {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"},
        {"NVIDIA GB10", "dgx-spark"}}) {
    const auto gpu = catalogue().gpu(c.name);
    INFO(c.name << (gpu ? "" : gpu.error().text()));
    REQUIRE(gpu);
    CHECK(gpu->id == c.id);
  }
}

TEST_CASE("A name that several cards have is refused with their ids", "[catalogue]") {
  for (const char* name : {"RTX 5060 Ti", "NVIDIA GeForce RTX 5060 Ti", "rtx-5060-ti"}) {
    const auto gpu = catalogue().gpu(name);
    REQUIRE_FALSE(gpu);
    CHECK(contains(gpu.error().message,
                   "is ambiguous, it may be rtx-5060-ti-16gb or rtx-5060-ti-8gb"));
  }
  CHECK(catalogue().gpu("NVIDIA GeForce RTX 5060 Ti 16GB")->id == "rtx-5060-ti-16gb");
  const auto chip = catalogue().gpu(
      "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 "
      "[Radeon RX 7900 XT/7900 XTX/7900M] (rev c8)");
  REQUIRE_FALSE(chip);
  CHECK(contains(chip.error().message, "rx-7900-xt-20gb or rx-7900-xtx"));
}

TEST_CASE("An alias that fits other cards, too, is taken with a warning", "[catalogue]") {
  const auto warnings_of = [](const std::string& gpu) {
    const auto s = fixtures::scenario("[rig]\ngpu = '" + gpu + "'\n[model]\nname = 'phi-4'\n");
    REQUIRE(s);
    std::string all;
    for (const std::string& warning : s->warnings) all += warning + "\n";
    return all;
  };
  CHECK(contains(warnings_of("NVIDIA GeForce RTX 3060"),
                 "\"NVIDIA GeForce RTX 3060\" may be rtx-3060-8gb: assumed rtx-3060-12gb"));
  for (const char* exact : {"rtx-3060-12gb", "RTX 3060 12GB", "RTX 4090"})
    CHECK_FALSE(contains(warnings_of(exact), "may be"));
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
  const auto file = catalogue().runtime_file("llamacpp");
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
  CHECK(contains(catalogue().gpu("H100").error().hint, "h100-sxm"));
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
                           "2xddr4-99999", "xddr4-2666", "2xddr4", "-2xxddr4-2666",
                           "-2xddr5-6000:64GiB", "2xddr9-6000:64GiB", "2xddr-6000"}) {
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
