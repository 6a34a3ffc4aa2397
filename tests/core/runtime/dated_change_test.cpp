// What changed when: dated factors on figures.
#include "core/runtime/dated_change.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

std::vector<DatedChange> changes(const std::string& text) {
  const auto document = TomlDocument::parse(text, "test");
  REQUIRE(document);
  auto read = read_changes(document->root());
  if (auto error = document->error()) FAIL(error->text());
  return read;
}

bool is_refused(const std::string& text) {
  const auto document = TomlDocument::parse(text, "test");
  if (!document) return true;
  read_changes(document->root());
  return document->error().has_value();
}

const std::string kFused = "[fused]\nfigure = \"launch\"\nsince = 2025.5\nbefore = 1.2\n";
const std::string kMoreFused = "[more]\nfigure = \"launch\"\nsince = 2026.0\nbefore = 1.5\n";
const std::string kTiles =
    "[tiles]\nfigure = \"tiles\"\nbackend = \"rocm\"\narchitectures = [\"rdna3\", \"rdna4\"]\n"
    "since = 2025.9\nbefore = 0.5\n";

constexpr auto kLaunch = ChangedFigure::kLaunch;

}  // namespace

TEST_CASE("A build has the factors of all later changes", "[runtime]") {
  const auto all = changes(kFused + kMoreFused);
  CHECK(factor_before(all, kLaunch, {}, 2025.4) == Approx(1.2 * 1.5).epsilon(1e-12));
  CHECK(factor_before(all, kLaunch, {}, 2025.5) == 1.5);  // its first build
  CHECK(factor_before(all, kLaunch, {}, 2026.0) == 1);
  CHECK(factor_before(all, kLaunch, {}, std::nullopt) == 1);  // not said: the newest
  CHECK(factor_before(all, ChangedFigure::kTiles, {}, 2020.0) == 1);
  CHECK(factor_before({}, kLaunch, {}, 2020.0) == 1);
}

TEST_CASE("A change of one backend and some GPUs is none of others", "[runtime]") {
  const auto all = changes(kTiles);
  const auto factor = [&](std::optional<Backend> backend, std::string_view architecture) {
    return factor_before(all, ChangedFigure::kTiles, {backend, architecture}, 2025.0);
  };
  CHECK(factor(Backend::kRocm, "rdna3") == 0.5);
  CHECK(factor(Backend::kRocm, "rdna4") == 0.5);
  CHECK(factor(Backend::kRocm, "rdna2") == 1);
  CHECK(factor(Backend::kVulkan, "rdna3") == 1);
  CHECK(factor(std::nullopt, "rdna3") == 1);
}

TEST_CASE("A change of some formats is asked for by format", "[runtime]") {
  const auto all = changes(kTiles +
                           "[four]\nfigure = \"tiles\"\nformats = [\"MXFP4\"]\nsince = 2025.9\n"
                           "before = 0.8\n");
  const auto factor = [&](std::optional<QuantFormat> format) {
    return factor_before(all, ChangedFigure::kTiles, {Backend::kRocm, "rdna3", format}, 2025.0);
  };
  CHECK(factor(QuantFormat::kMXFP4) == 0.8);
  CHECK(factor(QuantFormat::kQ4_0) == 1);
  CHECK(factor(std::nullopt) == 0.5);
  CHECK(is_refused(kTiles + "formats = [\"Q4_X\"]\n"));
  CHECK(is_refused(kFused + "formats = [\"MXFP4\"]\n"));
}

TEST_CASE("A change names a figure, a date and a factor", "[runtime]") {
  CHECK(changes(kTiles).front().id == "tiles");
  for (const char* broken :
       {"[a]\nsince = 2025\nbefore = 1\n", "[a]\nfigure = \"lunch\"\nsince = 2025\nbefore = 1\n",
        "[a]\nfigure = \"launch\"\nbefore = 1\n",
        "[a]\nfigure = \"launch\"\nsince = 1999\nbefore = 1\n",
        "[a]\nfigure = \"launch\"\nsince = 2025\n",
        "[a]\nfigure = \"launch\"\nsince = 2025\nbefore = 0\n"})
    CHECK(is_refused(broken));
  CHECK(is_refused(kFused + "backend = \"abacus\"\n"));
  CHECK(is_refused(kFused + "architectures = [\"voodoo\"]\n"));
  CHECK(is_refused(kFused + "unknown = 1\n"));
}
