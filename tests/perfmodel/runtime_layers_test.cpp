// Profiles that build on others, and their fitted figures.
#include <string>

#include "core/runtime/runtime_profile.hpp"
#include "tests/catch.hpp"
#include "tests/core/profile_fixture.hpp"

using namespace rigcast;
using fixtures::kProfile;
using fixtures::part_of;
using fixtures::ProfileFolder;

namespace {

std::string based_on(const std::string& base, const std::string& more = "") {
  return "name = \"derived\"\nsource = \"derived for a test\"\nbase = \"" + base + "\"\n" + more;
}

bool names(const Error& error, const std::string& part) {
  return error.text().find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A profile has its own figures, and its base's where it has none", "[runtime]") {
  const ProfileFolder folder;
  folder.write("test",
               kProfile + "[change.graphs]\nfigure = \"launch\"\nsince = 2024\nbefore = 2\n");
  folder.write("derived", based_on("test", R"(weight_streaming = true
[gpu.default]
cycles = 0.02
[gpu.ampere]
tiles = 0.5
[cpu.int8_share]
avx512 = 0.4
[change.graphs]
before = 3
[change.own]
figure = "tiles"
since = 2026
before = 0.5
)"));
  const auto p = folder.load("derived");
  REQUIRE(p);
  CHECK(p->id == "derived");
  CHECK(p->name == "derived");
  CHECK(p->base == "test");
  CHECK(p->era == "2026");
  CHECK(p->weight_streaming);
  CHECK(p->gpu_efficiency(part_of("ada")).cycles.value == 0.02);
  CHECK(p->gpu_efficiency(part_of("ada")).read.value == 0.78);
  // An architecture's figures: its own, its base's, the default's.
  CHECK(p->gpu_efficiency(part_of("ampere")).tiles.value == 0.5);
  CHECK(p->gpu_efficiency(part_of("ampere")).read.value == 0.5);
  CHECK(p->gpu_efficiency(part_of("ampere")).read.source == "a fit");
  CHECK(p->gpu_efficiency(part_of("ampere")).cycles.value == 0.02);
  CHECK(p->cpu.int8_share.at("avx512").value == 0.4);
  CHECK(p->cpu.int8_share.at("avx2").value == 0.25);
  CHECK(p->memory.kv_padding == 32);
  // Of a change of its base: its own factor, the base's date.
  CHECK(p->factor_before(ChangedFigure::kLaunch, {}, 2023.9) == 3);
  CHECK(p->factor_before(ChangedFigure::kLaunch, {}, 2024.0) == 1);
  CHECK(p->factor_before(ChangedFigure::kTiles, {}, 2025.9) == 0.5);
  // The base itself is what it was.
  const auto base = folder.load("test");
  REQUIRE(base);
  CHECK(base->gpu_efficiency(part_of("ada")).cycles.value == 0.06);
  CHECK(base->factor_before(ChangedFigure::kLaunch, {}, 2023.9) == 2);
  CHECK(base->factor_before(ChangedFigure::kTiles, {}, 2023.9) == 1);
}

TEST_CASE("A base may have a base", "[runtime]") {
  const ProfileFolder folder;
  folder.write("test", kProfile);
  folder.write("a", based_on("test", "[batch]\npower = 0.5\ntile_half_rate_batch = 1\n"));
  folder.write("b", based_on("a", "[batch]\ntile_half_rate_batch = 2\n"));
  const auto p = folder.load("b");
  REQUIRE(p);
  CHECK(p->batch.tile_half_rate_batch.value == 2);
  CHECK(p->batch.power.value == 0.5);
  CHECK(p->batch.gemm_half_rate_batch.value == 67);
  CHECK(p->base == "a");
}

TEST_CASE("Fitted figures win over the profile's own and its base's", "[runtime]") {
  const ProfileFolder folder;
  folder.write("test", kProfile);
  folder.write("fitted/test", R"([gpu.default]
read = { value = 0.66, kind = "fitted", source = "a fit of the base" }
cycles = { value = 0.011, kind = "fitted", source = "a fit of the base", n = 12, spread = 0.1 }
[batch]
speed = { value = 2.0, kind = "fitted", source = "a fit of the base" }
[uncertainty]
decode = { value = 0.07, kind = "fitted", source = "a fit of the base" }
)");
  folder.write("derived", based_on("test", "[gpu.default]\ncycles = 0.02\ntiles = 0.9\n"));
  folder.write("fitted/derived", R"([gpu.default]
tiles = { value = 0.3, kind = "fitted", source = "a fit of the derived" }
)");

  const auto fitted = folder.load("test");
  REQUIRE(fitted);
  CHECK(fitted->gpu.at("default").read.value == 0.66);
  CHECK(fitted->gpu.at("default").read.kind == SourceKind::kFitted);
  CHECK(fitted->gpu.at("default").read.source == "a fit of the base");
  CHECK(fitted->gpu.at("default").kv_read.value == 0.6);
  CHECK(fitted->gpu.at("ampere").read.value == 0.5);  // its own table says so
  CHECK(fitted->gpu.at("ampere").cycles.value == 0.011);
  CHECK(fitted->batch.speed.value == 2);
  CHECK(fitted->uncertainty.decode.value == 0.07);
  CHECK(fitted->name == "test");
  CHECK(fitted->source == "made up for a test");
  CHECK(fitted->gpu.at("default").kv_read.source == "made up for a test");

  const auto plain = folder.load("test", false);
  REQUIRE(plain);
  CHECK(plain->gpu.at("default").read.value == 0.78);
  CHECK(plain->gpu.at("default").read.kind == SourceKind::kAssumed);
  CHECK(plain->batch.speed.value == 1);

  // Fitted over own over the base's fitted over the base's own.
  const auto derived = folder.load("derived");
  REQUIRE(derived);
  CHECK(derived->gpu.at("default").tiles.value == 0.3);
  CHECK(derived->gpu.at("default").cycles.value == 0.02);
  CHECK(derived->gpu.at("default").read.value == 0.66);
  CHECK(derived->gpu.at("default").kv_read.value == 0.6);

  const auto unfitted = folder.load("derived", false);
  REQUIRE(unfitted);
  CHECK(unfitted->gpu.at("default").tiles.value == 0.9);
  CHECK(unfitted->gpu.at("default").read.value == 0.78);
  CHECK(unfitted->uncertainty.decode.value == 0.2);
}

TEST_CASE("A figure that takes another's place takes that of its source too", "[runtime]") {
  const ProfileFolder folder;
  std::string published = kProfile;
  const std::string from = "[cpu]\nread = 0.72";
  published.replace(published.find(from), from.size(),
                    "[cpu]\nread = { value = 0.72, kind = \"published\", source = \"a paper\" }");
  folder.write("test", published);
  folder.write("derived", based_on("test", "[cpu]\nread = { value = 0.5 }\n"));
  const auto p = folder.load("derived");
  REQUIRE(p);
  CHECK(p->cpu.read.value == 0.5);
  CHECK(p->cpu.read.kind == SourceKind::kAssumed);
  CHECK(p->cpu.read.source == "derived for a test");
}

TEST_CASE("Fitted figures are held to the same ranges and keys", "[runtime]") {
  const ProfileFolder folder;
  folder.write("test", kProfile);
  folder.write("fitted/test", "[gpu.default]\nread = 1.5\n");
  const auto beyond = folder.load("test");
  REQUIRE_FALSE(beyond);
  CHECK(names(beyond.error(), "gpu.default.read"));
  CHECK(names(beyond.error(), "fitted"));  // the file that says so
  CHECK(folder.load("test", false));
  folder.write("fitted/test", "[gpu.default]\nreed = 0.5\n");
  CHECK_FALSE(folder.load("test"));
  folder.write("fitted/test", "[gpu.default\n");
  CHECK_FALSE(folder.load("test"));
}

TEST_CASE("Bases that lead back to the profile, or nowhere, are refused", "[runtime]") {
  const ProfileFolder folder;
  folder.write("test", kProfile);
  folder.write("self", based_on("self"));
  folder.write("a", based_on("b"));
  folder.write("b", based_on("a"));
  for (const char* id : {"self", "a", "b"}) {
    INFO(id);
    const auto p = folder.load(id);
    REQUIRE_FALSE(p);
    CHECK(names(p.error(), "base"));
  }
  folder.write("lost", based_on("gone"));
  const auto lost = folder.load("lost");
  REQUIRE_FALSE(lost);
  CHECK(names(lost.error(), "gone"));
  folder.write("number", "name = \"n\"\nbase = 7\n");
  CHECK_FALSE(folder.load("number"));
}

TEST_CASE("An error names the file that its line is of", "[runtime]") {
  const ProfileFolder folder;
  std::string wrong = kProfile;
  wrong.replace(wrong.find("read = 0.78"), 11, "read = 7.8\n#");
  folder.write("test", wrong);
  folder.write("derived", based_on("test"));
  const auto p = folder.load("derived");
  REQUIRE_FALSE(p);
  CHECK(names(p.error(), "gpu.default.read"));
  REQUIRE(p.error().where);
  CHECK(p.error().where->file.find("test.toml") != std::string::npos);
}
